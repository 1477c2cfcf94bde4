//! A pod as the scheduler sees it.

mod conversion;

use std::sync::{Arc, Weak};

use kubernetes::amounts::{ResourceAmounts, ScalarResourceNames};
use kubernetes::labels::Labels;
use kubernetes::objects::{PodSpec, PodView};
use kubernetes::selector::{NodeSelectorTerm, RequiredNodeAffinity, Selector};
use kubernetes::taints::Toleration;
use model::NamespacedName;

use super::storage::PodVolumes;

/// A pod.
#[derive(Clone, Debug)]
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
    /// Whether its resources depend on its status.
    has_status_resources: bool,
    /// The spec that it was made from. Later versions of the pod that have the same one are not converted anew.
    source: Weak<PodSpec>,
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
    pub required_affinity: Vec<AffinityTerm>,
    /// Required pod anti-affinity.
    pub required_anti_affinity: Vec<AffinityTerm>,
    /// Preferred pod affinity with weights; those of anti-affinity are negative.
    pub preferred_affinity: Vec<(i64, AffinityTerm)>,
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
pub struct AffinityTerm {
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
    /// The pod that a view shows. An unreadable one has `read_error` set, and little else.
    pub fn new(view: &PodView, scalars: &mut ScalarResourceNames) -> Pod {
        conversion::convert(view, None, scalars)
    }

    /// A later version of the pod.
    #[must_use]
    pub fn updated(&self, view: &PodView, scalars: &mut ScalarResourceNames) -> Pod {
        conversion::convert(view, Some(self), scalars)
    }

    /// Whether everything is equal that a decision depends on.
    pub fn is_same(&self, other: &Pod) -> bool {
        let Pod {
            name,
            uid,
            labels,
            spec,
            volumes,
            usage,
            node_name,
            nominated_node,
            status_nominated_node,
            scheduling_gates,
            controller,
            terminating,
            preempted,
            finished,
            start_time: _,
            has_status_resources: _,
            source: _,
            read_error,
        } = self;
        (name, uid, node_name, nominated_node)
            == (&other.name, &other.uid, &other.node_name, &other.nominated_node)
            && (status_nominated_node, scheduling_gates)
                == (&other.status_nominated_node, &other.scheduling_gates)
            && (terminating, preempted, finished) == (&other.terminating, &other.preempted, &other.finished)
            && (controller, read_error, usage) == (&other.controller, &other.read_error, &other.usage)
            && (labels, spec, volumes) == (&other.labels, &other.spec, &other.volumes)
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

// === impl AffinityTerm ===

impl AffinityTerm {
    /// Whether it matches a pod of that namespace, which has the labels `namespace_labels`.
    pub fn matches(&self, namespace: &str, labels: &Labels, namespace_labels: &Labels) -> bool {
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
    pub fn conflicts(&self, other: &HostPort) -> bool {
        let everywhere = |port: &HostPort| *port.ip == *HostPort::ALL_ADDRESSES;
        self.port == other.port
            && self.protocol == other.protocol
            && (everywhere(self) || everywhere(other) || self.ip == other.ip)
    }
}
