//! A pod as parsed for scheduling.

mod json;

use std::sync::Arc;

use kubernetes::amounts::{ResourceAmounts, ScalarResourceNames};
use kubernetes::labels::Labels;
use kubernetes::selector::{NodeSelectorTerm, RequiredNodeAffinity, Selector};
use kubernetes::taints::Toleration;
use model::{NamespacedName, Object};

use super::storage::PodVolumes;

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Pod {
    /// Its name.
    pub name: NamespacedName,
    /// Its uid.
    pub uid: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// The part that it shares with other pods of its template.
    pub spec: Arc<SchedulingSpec>,
    /// Its volumes, if any are relevant to scheduling.
    pub volumes: Option<Arc<PodVolumes>>,
    /// Its share of a node's usage.
    pub usage: PodUsage,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// The node it is nominated to, as the scheduler knows.
    pub nominated_node: Option<Arc<str>>,
    /// `status.nominatedNodeName`, which may lag behind.
    pub status_nominated_node: Option<Arc<str>>,
    /// `spec.schedulingGates`.
    pub scheduling_gates: Vec<Arc<str>>,
    /// Its controller, if that is of a kind whose selector is used for default spreading.
    pub controller: Option<Controller>,
    /// It is being deleted.
    pub terminating: bool,
    /// It is being deleted by preemption.
    pub preempted: bool,
    /// Its phase is Succeeded or Failed.
    pub finished: bool,
    /// `status.startTime` in nanoseconds since 1970.
    pub start_time: Option<i64>,
    /// The error, if the object is unreadable. Such a pod is not scheduled.
    pub read_error: Option<Arc<str>>,
}

/// The part of a pod's spec that scheduling depends on, shared by the pods of a template. Labels, volumes and the
/// controller, on which filters depend too, are in [`Pod`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct SchedulingSpec {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// `spec.schedulerName`.
    pub scheduler_name: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Requests, as NodeResourcesFit filters by them.
    pub requests: ResourceAmounts,
    /// Requests as NodeResourcesFit scores by them: with default values for containers without requests.
    pub non_zero_requests: ResourceAmounts,
    /// Requests as NodeResourcesBalancedAllocation scores by them.
    pub balanced_requests: ResourceAmounts,
    /// Its tolerations.
    pub tolerations: Vec<Toleration>,
    /// `nodeSelector` and required node affinity.
    pub required_node_affinity: RequiredNodeAffinity,
    /// Whether it has preferred node affinity, even if only of weight zero.
    pub has_preferred_node_affinity: bool,
    /// Preferred node affinity terms with their weights.
    pub preferred_node_affinity: Vec<(i64, NodeSelectorTerm)>,
    /// Its host ports.
    pub host_ports: Vec<HostPort>,
    /// Images of init containers, containers and image volumes, with a tag.
    pub images: Vec<Arc<str>>,
    /// The number of containers and init containers: the first images, without those of image volumes.
    pub container_count: usize,
    /// Required pod affinity.
    pub required_affinity: Vec<PodAffinityTerm>,
    /// Required pod anti-affinity.
    pub required_anti_affinity: Vec<PodAffinityTerm>,
    /// Preferred pod affinity with weights; those of anti-affinity are negative.
    pub preferred_affinity: Vec<(i64, PodAffinityTerm)>,
    /// Its topology spread constraints.
    pub spread_constraints: Vec<SpreadConstraint>,
    /// Node features that it requires.
    pub required_features: Vec<&'static str>,
    /// Whether it has `spec.resourceClaims`.
    pub has_resource_claims: bool,
}

/// A host port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` for all addresses.
    pub ip: Arc<str>,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Arc<str>,
    /// The number.
    pub port: i32,
}

/// An affinity or anti-affinity term between pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodAffinityTerm {
    /// The namespaces it names, sorted.
    pub namespaces: Vec<Arc<str>>,
    /// Further namespaces, by their labels.
    pub namespace_selector: Selector,
    /// Selects pods by their labels.
    pub selector: Selector,
    /// The node label whose values are the topology domains.
    pub topology_key: Arc<str>,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// `maxSkew`.
    pub max_skew: i32,
    /// The node label whose values are the topology domains.
    pub topology_key: Arc<str>,
    /// Whether `whenUnsatisfiable` is `DoNotSchedule`; `None` for an unknown value.
    pub hard: Option<bool>,
    /// Selects the pods that are counted.
    pub selector: Selector,
    /// Label keys for which counted pods must have the pod's own value.
    pub match_label_keys: Vec<Arc<str>>,
    /// With fewer domains than this the global minimum is taken as zero.
    pub min_domains: i32,
    /// `nodeAffinityPolicy: Honor`: only nodes that match the pod's node affinity are counted.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`: only nodes whose taints the pod tolerates are counted.
    pub honor_taints: bool,
}

/// A pod's contribution to the usage of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// Its requests.
    pub requested: ResourceAmounts,
    /// CPU with a default for containers without a request, as used for scoring.
    pub non_zero_cpu: i64,
    /// The same for memory.
    pub non_zero_memory: i64,
}

/// The controller of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Controller {
    /// Its kind.
    pub kind: ControllerKind,
    /// Its name.
    pub name: Arc<str>,
}

/// The kinds of controllers whose selectors are used for default spreading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ControllerKind {
    /// A ReplicationController.
    ReplicationController,
    /// A ReplicaSet.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
}

// === impl Pod ===

impl Pod {
    /// Parses a pod. An unreadable one has `read_error` set, and little else.
    pub fn read(object: &Object, scalars: &mut ScalarResourceNames) -> Pod {
        json::read(object, scalars).unwrap_or_else(|error| {
            let meta = object.meta();
            let namespace: Arc<str> = meta.namespace.as_ref().into();
            let partial = json::read_partial(object);
            Pod {
                name: NamespacedName { namespace: namespace.clone(), name: meta.name.as_ref().into() },
                uid: meta.uid.as_deref().unwrap_or_default().into(),
                labels: partial.labels,
                spec: Arc::new(SchedulingSpec {
                    namespace,
                    scheduler_name: partial.scheduler_name,
                    ..SchedulingSpec::default()
                }),
                volumes: None,
                usage: PodUsage::default(),
                node_name: partial.node_name,
                nominated_node: None,
                status_nominated_node: None,
                scheduling_gates: Vec::new(),
                controller: None,
                terminating: partial.terminating,
                preempted: false,
                finished: partial.finished,
                start_time: None,
                read_error: Some(error.into()),
            }
        })
    }

    /// Whether it is assigned or nominated to a node.
    pub(crate) fn is_assigned_or_nominated(&self) -> bool {
        self.node_name.is_some() || self.nominated_node.is_some()
    }

    pub(crate) fn priority(&self) -> i32 {
        self.spec.priority
    }
}

// === impl SchedulingSpec ===

impl SchedulingSpec {
    /// Whether it has pod affinity or anti-affinity terms.
    pub fn has_affinity(&self) -> bool {
        !(self.required_affinity.is_empty()
            && self.required_anti_affinity.is_empty()
            && self.preferred_affinity.is_empty())
    }

    /// The part that node-local filters and scores read: the key of the filter cache. It must have every field that they
    /// read, and no other, since each distinct value is cached separately.
    pub(crate) fn node_local(&self) -> SchedulingSpec {
        SchedulingSpec {
            scheduler_name: self.scheduler_name.clone(),
            requests: self.requests.clone(),
            non_zero_requests: self.non_zero_requests.clone(),
            balanced_requests: self.balanced_requests.clone(),
            tolerations: self.tolerations.clone(),
            required_node_affinity: self.required_node_affinity.clone(),
            preferred_node_affinity: self.preferred_node_affinity.clone(),
            host_ports: self.host_ports.clone(),
            required_features: self.required_features.clone(),
            ..SchedulingSpec::default()
        }
    }
}

// === impl PodAffinityTerm ===

impl PodAffinityTerm {
    /// Whether it matches a pod of that namespace, which has the labels `namespace_labels`.
    pub(crate) fn matches(&self, namespace: &str, labels: &Labels, namespace_labels: &Labels) -> bool {
        self.matches_namespace(namespace, namespace_labels) && self.selector.matches(|key| labels.get(key))
    }

    /// Whether it applies to pods of that namespace.
    pub(crate) fn matches_namespace(&self, namespace: &str, namespace_labels: &Labels) -> bool {
        self.namespaces.iter().any(|other| **other == *namespace)
            || self.namespace_selector.matches(|key| namespace_labels.get(key))
    }
}

// === impl HostPort ===

impl HostPort {
    pub(crate) const ALL_ADDRESSES: &str = "0.0.0.0";

    /// Whether both cannot be used on one node.
    pub(crate) fn conflicts(&self, other: &HostPort) -> bool {
        let everywhere = |port: &HostPort| *port.ip == *HostPort::ALL_ADDRESSES;
        self.port == other.port
            && self.protocol == other.protocol
            && (everywhere(self) || everywhere(other) || self.ip == other.ip)
    }
}
