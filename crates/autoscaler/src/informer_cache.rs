//! The informer cache: the objects that the autoscaler watches, with the snapshot that simulations run in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::amounts::Resource;
use kubernetes::labels::Labels;
use kubernetes::objects::{NodeEvent, PodEvent};
use kubernetes::read::{nullable, view};
use kubernetes::selector::{LabelSelector, Selector};
use model::{Moment, NamespacedName, Object, What};
use rustc_hash::FxHashMap;
use scheduler::ids::{NodeId, PodId};
use scheduler::node::Node;
use serde::Deserialize;

use super::cloud::{CloudProvider, GroupId};
use super::gpu_names;
use super::pod::Pod;
use super::settings::Settings;
use super::snapshot::ClusterSnapshot;

/// The kinds that an autoscaler's decisions depend on besides those that a scheduler's do, by group and kind.
pub const KINDS: &[(&str, &str)] = &[("apps", "DaemonSet"), ("batch", "Job"), ("", "ConfigMap")];

/// The ConfigMap of the expander `priority`.
pub(crate) const PRIORITY_CONFIG_MAP: &str = "cluster-autoscaler-priority-expander";

/// All watched objects.
#[derive(Debug)]
pub(crate) struct InformerCache {
    pub snapshot: ClusterSnapshot,
    /// By name: the order in which nodes are listed.
    nodes: BTreeMap<Arc<str>, NodeId>,
    /// The same as a list; `None` if nodes were added or removed since.
    node_order: Option<Vec<NodeId>>,
    /// Increases when a node is added, removed, or gets another instance ID.
    revision: u64,
    /// Nodes that changed since the last call of `take_changed_nodes`.
    changed_nodes: Vec<NodeId>,
    /// The number of nodes by instance ID.
    instance_counts: FxHashMap<Arc<str>, usize>,
    /// How often the last node of an instance ID was removed.
    deregistration_count: u64,
    /// Unscheduled pods, by age and then by name: the order in which pods are listed.
    unscheduled_pods: BTreeSet<(Moment, NamespacedName, PodId)>,
    pub daemon_sets: BTreeMap<NamespacedName, Arc<DaemonSet>>,
    controllers: BTreeMap<(ControllerKind, NamespacedName), Controller>,
    /// Increases when a controller is added or removed, or scaled across `--min-replica-count`.
    controller_revision: u64,
    min_replica_count: i64,
    pod_disruption_budgets: BTreeMap<NamespacedName, Arc<PodDisruptionBudget>>,
    config_maps: BTreeMap<NamespacedName, Arc<BTreeMap<String, String>>>,
    expendable_pods_priority_cutoff: i64,
    allowed_schedulers: Vec<Arc<str>>,
    counts_nominated_pods: bool,
    /// The resources that are GPUs.
    gpu_resources: Vec<Resource>,
}

/// The effect of an applied change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ApplyOutcome {
    /// Whether a loop may have another result because of it.
    pub is_relevant: bool,
    /// Since when the pod is unschedulable, if it is.
    pub unschedulable_since: Option<Moment>,
}

/// A DaemonSet.
#[derive(Clone, Debug)]
pub(crate) struct DaemonSet {
    pub name: NamespacedName,
    pub uid: Arc<str>,
    /// The object, for its pod template.
    pub object: Object,
}

/// The kinds of controllers that are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ControllerKind {
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    Job,
    DaemonSet,
}

/// A controller of pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Controller {
    /// Whether `spec.replicas`, or `spec.parallelism` of a Job, is below `--min-replica-count`. The number itself changes
    /// often and has no other effect.
    pub is_below_min_replica_count: bool,
}

/// A PodDisruptionBudget.
#[derive(Clone, Debug)]
pub(crate) struct PodDisruptionBudget {
    pub name: NamespacedName,
    pub selector: Option<Selector>,
    /// `status.disruptionsAllowed`.
    pub disruptions_allowed: i64,
}

#[derive(Deserialize)]
struct ControllerJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: ControllerSpecJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ControllerSpecJson {
    replicas: Option<i64>,
    parallelism: Option<i64>,
}

#[derive(Deserialize)]
struct BudgetJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: BudgetSpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: BudgetStatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct BudgetSpecJson {
    selector: Option<LabelSelector>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct BudgetStatusJson {
    #[serde(deserialize_with = "nullable")]
    disruptions_allowed: i64,
}

#[derive(Deserialize)]
struct ConfigMapJson {
    #[serde(default, deserialize_with = "nullable")]
    data: BTreeMap<String, String>,
}

impl InformerCache {
    pub(crate) fn new(settings: &Settings) -> InformerCache {
        let mut snapshot = ClusterSnapshot::new(&settings.scheduler);
        let gpus = gpu_names::RESOURCES
            .iter()
            .map(|name| snapshot.filter_snapshot.scalars().resource(name))
            .collect();
        InformerCache {
            snapshot,
            gpu_resources: gpus,
            nodes: BTreeMap::new(),
            node_order: None,
            revision: 0,
            changed_nodes: Vec::new(),
            instance_counts: FxHashMap::default(),
            deregistration_count: 0,
            unscheduled_pods: BTreeSet::new(),
            daemon_sets: BTreeMap::new(),
            controllers: BTreeMap::new(),
            controller_revision: 0,
            min_replica_count: settings.min_replica_count,
            pod_disruption_budgets: BTreeMap::new(),
            config_maps: BTreeMap::new(),
            expendable_pods_priority_cutoff: settings.expendable_pods_priority_cutoff,
            allowed_schedulers: settings.allowed_scheduler_names.clone(),
            counts_nominated_pods: settings.version >= super::settings::Version::V1_36,
        }
    }

    /// Applies an informer event. Kinds that the autoscaler does not watch are ignored.
    pub(crate) fn apply(&mut self, event: &What) -> ApplyOutcome {
        let object = event.object();
        let meta = object.meta();
        let relevant = ApplyOutcome { is_relevant: true, unschedulable_since: None };
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let present = matches!(event, What::Added(_) | What::Modified(_));
        let name = || NamespacedName { namespace: (&*meta.namespace).into(), name: (&*meta.name).into() };
        match (group, &*meta.kind) {
            (_, "Event") => return ApplyOutcome { is_relevant: false, ..relevant },
            ("", "Pod") => return self.apply_pod(&PodEvent::of_pod(event)),
            ("", "Node") => return self.apply_node(&NodeEvent::of_node(event)),
            ("policy", "PodDisruptionBudget") => {
                set_or_remove(
                    &mut self.pod_disruption_budgets,
                    name(),
                    present.then(|| Arc::new(PodDisruptionBudget::read(object))),
                );
            }
            ("", "ConfigMap") if meta.name != PRIORITY_CONFIG_MAP => {
                return ApplyOutcome { is_relevant: false, ..relevant };
            }
            ("", "ConfigMap") => {
                let data = present.then(|| {
                    view::<ConfigMapJson>(object).map_or_else(|_| BTreeMap::new(), |json| json.data)
                });
                set_or_remove(&mut self.config_maps, name(), data.map(Arc::new));
            }
            (group, kind) => {
                let mut is_controller_changed = false;
                if let Some(controller_kind) = ControllerKind::of(group, kind) {
                    let key = (controller_kind, name());
                    let new = present.then(|| Controller::read(object, self.min_replica_count));
                    is_controller_changed = self.controllers.get(&key) != new.as_ref();
                    self.controller_revision += u64::from(is_controller_changed);
                    set_or_remove(&mut self.controllers, key, new);
                }
                let is_daemon_set = (group, kind) == ("apps", "DaemonSet");
                if is_daemon_set {
                    let daemon_set = DaemonSet {
                        name: name(),
                        uid: meta.uid.as_deref().unwrap_or_default().into(),
                        object: object.clone(),
                    };
                    set_or_remove(&mut self.daemon_sets, name(), present.then(|| Arc::new(daemon_set)));
                }
                let is_filter_relevant = self.snapshot.filter_snapshot.apply(group, kind, object, present);
                let is_relevant = is_filter_relevant || is_controller_changed || is_daemon_set;
                return ApplyOutcome { is_relevant, ..relevant };
            }
        }
        relevant
    }

    // Nodes.

    /// All nodes, by name.
    pub(crate) fn nodes(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.nodes.values().copied()
    }

    /// All nodes, by name.
    pub(crate) fn node_order(&mut self) -> &[NodeId] {
        self.node_order.get_or_insert_with(|| self.nodes.values().copied().collect())
    }

    /// Nodes that changed since the last call; some may be deleted by now.
    pub(crate) fn take_changed_nodes(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.changed_nodes)
    }

    /// Whether a node of that name exists.
    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Changes whenever a node is added, removed, or gets another instance ID.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// The node group of a node.
    pub(crate) fn group_for_node(&self, id: NodeId, cloud: &dyn CloudProvider) -> Option<GroupId> {
        cloud.group_for_node(self.snapshot.node(id))
    }

    /// Whether an instance is registered as a node.
    pub(crate) fn is_registered(&self, instance: &str) -> bool {
        self.instance_counts.contains_key(instance)
    }

    /// How often an instance stopped being registered as a node.
    pub(crate) fn deregistration_count(&self) -> u64 {
        self.deregistration_count
    }

    /// Applies an informer event of a node.
    pub(crate) fn apply_node(&mut self, event: &NodeEvent) -> ApplyOutcome {
        ApplyOutcome { is_relevant: self.set_node(event), unschedulable_since: None }
    }

    /// Returns whether anything changed.
    fn set_node(&mut self, event: &NodeEvent) -> bool {
        let scalars = self.snapshot.filter_snapshot.scalars();
        let node = event.state().map(|view| Arc::new(Node::new(view.clone(), scalars)));
        let existing_id = self.nodes.get(&event.object().name).copied();
        let before = existing_id.map(|id| self.snapshot.node(id).clone());
        if node == before {
            return false;
        }
        let instance = |node: &Option<Arc<Node>>| node.as_ref().map(|node| node.instance_id().clone());
        let (old, new) = (instance(&before), instance(&node));
        if old != new {
            self.node_order = None;
            self.revision += 1;
            self.update_instance_counts(old, new);
        }
        let id = match (node, existing_id) {
            (Some(node), _) => {
                let name = node.name.clone();
                let id = self.snapshot.set_node(node);
                self.nodes.insert(name, id);
                id
            }
            (None, Some(id)) => {
                self.nodes.remove(&event.object().name);
                self.snapshot.forget_node(id);
                id
            }
            (None, None) => return false,
        };
        self.changed_nodes.push(id);
        true
    }

    fn update_instance_counts(&mut self, old: Option<Arc<str>>, new: Option<Arc<str>>) {
        if let Some(count) = old.as_ref().and_then(|old| self.instance_counts.get_mut(old)) {
            *count -= 1;
        }
        if let Some(old) = old.filter(|old| self.instance_counts.get(old) == Some(&0)) {
            self.instance_counts.remove(&old);
            self.deregistration_count += 1;
        }
        if let Some(new) = new {
            *self.instance_counts.entry(new).or_default() += 1;
        }
    }

    // Pods.

    /// Unscheduled pods, by age and then by name.
    pub(crate) fn unscheduled_pods(&self) -> impl ExactSizeIterator<Item = PodId> + '_ {
        self.unscheduled_pods.iter().map(|(.., id)| *id)
    }

    pub(crate) fn find_pod(&self, name: &NamespacedName) -> Option<PodId> {
        self.snapshot.filter_snapshot.find_pod(&name.namespace, &name.name)
    }

    /// Applies an informer event of a pod.
    pub(crate) fn apply_pod(&mut self, event: &PodEvent) -> ApplyOutcome {
        let existing_id = self.find_pod(&event.object().name);
        let pod = event.state().map(|view| match existing_id {
            Some(id) => {
                let existing_pod = self.snapshot.pod(id).clone();
                existing_pod.updated(view.clone(), self.snapshot.filter_snapshot.scalars())
            }
            None => Pod::new(view.clone(), self.snapshot.filter_snapshot.scalars()),
        });
        self.set_pod(existing_id, pod)
    }

    fn set_pod(&mut self, existing_id: Option<PodId>, pod: Option<Pod>) -> ApplyOutcome {
        let unschedulable_since = pod.as_ref().and_then(Pod::unschedulable_since);
        if let Some((id, pod)) = existing_id.zip(pod.as_ref())
            && pod.has_same_relevant_fields(self.snapshot.pod(id))
        {
            self.snapshot.replace_pod(id, Arc::new(pod.clone()));
            return ApplyOutcome { is_relevant: false, unschedulable_since };
        }
        let removed_outcome = ApplyOutcome { is_relevant: existing_id.is_some(), unschedulable_since: None };
        if let Some(id) = existing_id {
            let old = self.snapshot.pod(id).clone();
            self.unscheduled_pods.remove(&(old.created(), old.name.clone(), id));
            self.snapshot.forget_pod(id);
        }
        // Finished pods are not listed, nor are pods of schedulers that `--allowed-scheduler-names` does not name.
        let Some(pod) = pod.filter(|pod| !pod.is_finished() && self.has_allowed_scheduler(pod)) else {
            return removed_outcome;
        };
        let pod = Arc::new(pod);
        let id = self.snapshot.add_pod(pod.clone());
        let node = match (&pod.node_name, &pod.status.nominated_node_name) {
            (Some(node), _) => Some(node),
            (None, Some(node)) if self.counts_nominated_pods && pod.deletion_timestamp.is_none() => {
                Some(node)
            }
            _ => None,
        };
        match node {
            None => drop(self.unscheduled_pods.insert((pod.created(), pod.name.clone(), id))),
            Some(_) if self.is_expendable(pod.spec.priority) => {}
            Some(node) => self.snapshot.filter_snapshot.assume_pod_by_node_name(id, node),
        }
        ApplyOutcome { is_relevant: true, unschedulable_since }
    }

    /// Whether a pod names a GPU resource in its requests, even with the amount zero.
    pub(crate) fn requests_gpu(&self, pod: &Pod) -> bool {
        let requested = pod.scheduler_pod.spec.requests.scalars.iter();
        requested
            .map(|(id, _)| Resource::Scalar(*id))
            .any(|requested| self.gpu_resources.contains(&requested))
    }

    fn has_allowed_scheduler(&self, pod: &Pod) -> bool {
        self.allowed_schedulers.is_empty()
            || self.allowed_schedulers.iter().any(|name| **name == *pod.spec.scheduler_name())
    }

    /// Whether a pod of that priority is expendable: its priority is below the cutoff, and it is ignored.
    pub(crate) fn is_expendable(&self, priority: Option<i32>) -> bool {
        priority.is_some_and(|priority| i64::from(priority) < self.expendable_pods_priority_cutoff)
    }

    // Other objects.

    /// A controller, if it exists.
    pub(crate) fn controller(&self, kind: ControllerKind, name: &NamespacedName) -> Option<&Controller> {
        self.controllers.get(&(kind, name.clone()))
    }

    /// Changes whenever a controller is added or removed, or scaled across `--min-replica-count`.
    pub(crate) fn controller_revision(&self) -> u64 {
        self.controller_revision
    }

    /// All PodDisruptionBudgets, by name.
    pub(crate) fn pod_disruption_budgets(&self) -> impl Iterator<Item = &Arc<PodDisruptionBudget>> {
        self.pod_disruption_budgets.values()
    }

    /// The `data` of a ConfigMap.
    pub(crate) fn config_map(&self, namespace: &str, name: &str) -> Option<&Arc<BTreeMap<String, String>>> {
        self.config_maps.get(&NamespacedName { namespace: namespace.into(), name: name.into() })
    }
}

// === impl ControllerKind ===

impl ControllerKind {
    pub(crate) fn of(group: &str, kind: &str) -> Option<ControllerKind> {
        Some(match (group, kind) {
            ("", "ReplicationController") => ControllerKind::ReplicationController,
            ("apps", "ReplicaSet") => ControllerKind::ReplicaSet,
            ("apps", "StatefulSet") => ControllerKind::StatefulSet,
            ("batch", "Job") => ControllerKind::Job,
            ("apps", "DaemonSet") => ControllerKind::DaemonSet,
            _ => return None,
        })
    }
}

// === impl Controller ===

impl Controller {
    /// An object that cannot be parsed has no replica count.
    fn read(object: &Object, min_replica_count: i64) -> Controller {
        let spec =
            view::<ControllerJson>(object).map_or_else(|_| ControllerSpecJson::default(), |json| json.spec);
        let replicas = spec.replicas.or(spec.parallelism);
        Controller { is_below_min_replica_count: replicas.is_some_and(|count| count < min_replica_count) }
    }
}

// === impl PodDisruptionBudget ===

impl PodDisruptionBudget {
    /// An object that cannot be parsed matches no pods.
    fn read(object: &Object) -> PodDisruptionBudget {
        let meta = object.meta();
        let name = NamespacedName { namespace: (&*meta.namespace).into(), name: (&*meta.name).into() };
        match view::<BudgetJson>(object) {
            Ok(json) => PodDisruptionBudget {
                name,
                selector: Selector::of(json.spec.selector.as_ref()).ok(),
                disruptions_allowed: json.status.disruptions_allowed,
            },
            Err(_) => PodDisruptionBudget { name, selector: None, disruptions_allowed: 0 },
        }
    }

    /// Whether another one matches exactly the same pods.
    pub(crate) fn matches_same_pods(&self, other: &PodDisruptionBudget) -> bool {
        self.name == other.name && self.selector == other.selector
    }

    /// Whether its selector matches a pod.
    pub(crate) fn matches(&self, namespace: &str, labels: &Labels) -> bool {
        *self.name.namespace == *namespace
            && self.selector.as_ref().is_some_and(|selector| selector.matches(|key| labels.get(key)))
    }
}

fn set_or_remove<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key, value)),
        None => drop(map.remove(&key)),
    }
}
