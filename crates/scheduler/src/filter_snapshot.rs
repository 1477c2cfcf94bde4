//! A mutable snapshot of a cluster in which the filters of one profile can be run: nodes and pods are added, moved and
//! removed freely. No scoring and no preemption.

use std::sync::Arc;

use kubernetes::amounts::{ResourceAmounts, ScalarResourceNames};
use model::{Kind, Object};

use super::cache::{ClusterCache, RelatedObjectKind};
use super::cycle_state::CycleState;
use super::filter_cache::FilterCache;
use super::framework::Framework;
use super::ids::{NodeId, PodId};
use super::node::{Node, NodeUsage};
use super::nominator::Nominator;
use super::plugin::Plugin;
use super::pod::Pod;
use super::pre_filter_state::PreFilterStateCache;
use super::settings::{Settings, SpreadDefaults};
use super::status::{Code, Status};
use super::storage::StorageKind;

/// A mutable cluster snapshot with the filters of one profile, as the autoscaler uses it.
#[derive(Debug)]
pub struct FilterSnapshot {
    framework: Framework,
    cache: ClusterCache,
    pre_filter_states: PreFilterStateCache,
    filter_cache: FilterCache,
    /// Nominations do not count here.
    no_nominations: Nominator,
}

/// Pods that are assumed on nodes in addition to those of a snapshot, as sums of their requests: enough for pods that
/// [depend only on the node](FilterSnapshot::depends_only_on_node).
#[derive(Debug, Default)]
pub struct AddedUsage {
    /// By node ID.
    nodes: Vec<NodeUsageSum>,
    /// The nodes that pods were added to.
    changed: Vec<NodeId>,
}

/// The sum of a node's pods, those of the snapshot included.
#[derive(Clone, Debug, Default)]
struct NodeUsageSum {
    /// How many pods were added. The other fields are set only if there are any.
    added_count: usize,
    pod_count: usize,
    requested: ResourceAmounts,
}

/// The status of the filter that rejected a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulingError {
    /// The plugin's reasons; empty if PreFilter excluded the node.
    pub reasons: Vec<String>,
}

impl FilterSnapshot {
    /// An empty snapshot with the plugins of the first profile.
    pub fn new(settings: &Settings) -> FilterSnapshot {
        let mut cache = ClusterCache::default();
        let framework = Framework::new(settings, &settings.profiles[0], &mut cache.scalars);
        FilterSnapshot {
            framework,
            cache,
            pre_filter_states: PreFilterStateCache::default(),
            filter_cache: FilterCache::default(),
            no_nominations: Nominator::default(),
        }
    }

    /// Applies an object other than a node or a pod. Returns whether filters may have another result because of it.
    pub fn apply(&mut self, group: &str, kind: &str, object: &Object, present: bool) -> bool {
        let storage_kind = StorageKind::of(&Kind::new(group, kind));
        let related_kind = RelatedObjectKind::of(group, kind);
        if let Some(kind) = storage_kind {
            let meta = object.meta();
            if present {
                // An unreadable object is kept as such: pods that use it are rejected with its error.
                let _ = self.cache.storage.apply(kind, object);
            } else {
                self.cache.storage.remove(kind, &Arc::from(&*meta.namespace), &Arc::from(&*meta.name));
            }
        }
        let is_related_changed =
            related_kind.is_some_and(|kind| self.cache.related_objects.apply(kind, object, present));
        if is_related_changed {
            self.cache.invalidate_pre_filter_states();
            if related_kind == Some(RelatedObjectKind::DeviceClass) {
                self.filter_cache.clear();
            }
        }
        storage_kind.is_some() || is_related_changed
    }

    /// The names of scalar resources, needed to read objects.
    pub fn scalars(&mut self) -> &mut ScalarResourceNames {
        &mut self.cache.scalars
    }

    /// Adds or updates a node.
    pub fn set_node(&mut self, spec: Node) -> NodeId {
        self.cache.set_node(spec)
    }

    /// Removes a node. Its pods stay on a placeholder until they are removed or the node is added again.
    pub fn remove_node(&mut self, id: NodeId) {
        let name = self.cache.nodes.name(id).clone();
        self.cache.remove_node(&name);
    }

    /// The node of that name.
    pub fn find_node(&self, name: &str) -> Option<NodeId> {
        self.cache.nodes.by_name(name)
    }

    /// The node's object.
    pub fn spec(&self, id: NodeId) -> &Node {
        self.cache.nodes.spec(id)
    }

    /// The usage of a node by its pods.
    pub fn usage(&self, id: NodeId) -> &NodeUsage {
        self.cache.nodes.usage(id)
    }

    /// The sum of the requests of a node's pods.
    pub fn requested(&self, id: NodeId) -> &ResourceAmounts {
        &self.usage(id).requested
    }

    /// Changes with the node and with its pods.
    pub fn generation(&self, id: NodeId) -> u64 {
        self.cache.nodes.generation(id)
    }

    /// Returns the nodes whose generation changed since the last call, even if it was restored since.
    pub fn take_generation_changes(&mut self) -> Vec<NodeId> {
        self.cache.nodes.take_generation_changes()
    }

    /// Restores the generation of a node whose changes were all reverted, so that cached verdicts are valid again.
    pub fn restore_generation(&mut self, id: NodeId, generation: u64) {
        self.cache.nodes.restore_generation(id, generation);
    }

    /// Adds a pod that is on no node.
    pub fn add_pod(&mut self, mut pod: Pod) -> PodId {
        pod.node_name = None;
        self.cache.add_pod(pod)
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, id: PodId) {
        self.cache.remove_pod(id);
    }

    /// The pod of that name.
    pub fn find_pod(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.cache.find_pod(namespace, name)
    }

    /// A pod of the snapshot.
    pub fn pod(&self, id: PodId) -> &Pod {
        self.cache.pod(id)
    }

    /// Whether two pods have the same labels.
    pub fn have_same_labels(&self, a: PodId, b: PodId) -> bool {
        self.cache.have_same_labels(a, b)
    }

    /// The node of a pod, which may be a placeholder.
    pub fn node_of(&self, id: PodId) -> Option<NodeId> {
        self.cache.node_of(id)
    }

    /// Assumes a pod on a node.
    pub fn assume_pod(&mut self, pod: PodId, node: NodeId) {
        self.cache.assume_pod(pod, node);
    }

    /// Assumes a pod on the node of that name, which may not exist.
    pub fn assume_pod_by_node_name(&mut self, pod: PodId, node: &Arc<str>) {
        let node = self.cache.nodes.by_name_or_placeholder(node);
        self.cache.assume_pod(pod, node);
    }

    /// Removes a pod from its node.
    pub fn forget_pod(&mut self, pod: PodId) {
        self.cache.forget_pod(pod);
    }

    /// Runs the filters for a pod on one node.
    pub fn run_filters_on_node(&mut self, pod: PodId, node: NodeId) -> Result<(), SchedulingError> {
        self.find_passing_node(pod, None, std::iter::once(node), |_| true)
            .map(drop)
            .map_err(SchedulingError::from)
    }

    /// Returns the first acceptable node that passes the filters, or `None` if there is none. With pods added to the
    /// nodes, the pod must [depend only on the node](FilterSnapshot::depends_only_on_node).
    pub fn run_filters_until_passing_node(
        &mut self,
        pod: PodId,
        added: Option<&AddedUsage>,
        nodes: impl Iterator<Item = NodeId>,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.find_passing_node(pod, added, nodes, acceptable).ok()
    }

    /// Adds a pod to a node, or subtracts a pod that was added, without changing the snapshot.
    pub fn change_added_usage(&self, added: &mut AddedUsage, pod: PodId, node: NodeId, is_added: bool) {
        added.update(node, self.usage(node), &self.pod(pod).usage.requested, is_added);
    }

    /// Whether a hard spread constraint of the pod honors taints, so that the taints of other nodes affect its
    /// verdicts.
    pub fn spread_honors_taints(&self, id: PodId) -> bool {
        let own_constraints = &self.cache.pod(id).spec.spread_constraints;
        match &self.framework.profile.spread {
            _ if !own_constraints.is_empty() => own_constraints
                .iter()
                .any(|constraint| constraint.hard == Some(true) && constraint.honor_taints),
            SpreadDefaults::List(list) => {
                list.iter().any(|constraint| constraint.hard && constraint.honor_taints)
            }
            SpreadDefaults::System => false,
        }
    }

    /// Whether the pod's verdict on a node depends only on the node's object and its free resources: not on other pods'
    /// labels, host ports or volumes.
    pub fn depends_only_on_node(&mut self, id: PodId) -> bool {
        let pre_filter_state = self.pre_filter_states.get_or_compute(&mut self.cache, &self.framework, id);
        let (framework, cache, pod) = (&self.framework, &self.cache, self.cache.pod(id));
        let is_counted = |&(scalar, _): &(_, i64)| {
            let name = cache.scalars.name(scalar);
            !framework.fit.ignores(name) && !cache.related_objects.is_device_class_resource(name)
        };
        framework.missing_state_errors.is_empty()
            && framework.profile.filter.contains(&Plugin::NodeResourcesFit)
            && pre_filter_state.hard_constraints.is_empty()
            && pre_filter_state.affinity.is_skipped(cache)
            && pod.volumes.is_none()
            && pod.spec.host_ports.is_empty()
            && pod.spec.requests.scalars.iter().all(is_counted)
    }

    /// Whether a required anti-affinity term of another pod matches the pod, wherever that pod is. Stays the same as
    /// long as [`pre_filter_generation`](FilterSnapshot::pre_filter_generation) does.
    pub fn has_matching_anti_affinity(&mut self, id: PodId) -> bool {
        let pre_filter_state = self.pre_filter_states.get_or_compute(&mut self.cache, &self.framework, id);
        pre_filter_state.affinity.has_existing_anti_affinity()
    }

    /// Changes whenever [`depends_only_on_node`](FilterSnapshot::depends_only_on_node) may change for a
    /// reason other than a node or the assignment of a pod.
    pub fn pre_filter_generation(&self) -> (u64, u64) {
        self.cache.pre_filter_generation()
    }

    /// Whether the resources of a node, with the pods added to it, are enough for a pod.
    pub fn has_room(&self, pod: PodId, node: NodeId, added: &AddedUsage) -> bool {
        let ClusterCache { scalars, related_objects, .. } = &self.cache;
        let usage = self.usage(node);
        let used = added.get(node).unwrap_or((usage.pods.len(), &usage.requested));
        let fit = &self.framework.fit;
        fit.filter(&self.pod(pod).spec, self.spec(node), used, scalars, related_objects).is_ok()
    }

    /// Returns the first node that passes, or the status of the last one that does not; `None` if PreFilter excludes
    /// all of them, or if the last one has added pods.
    fn find_passing_node(
        &mut self,
        pod: PodId,
        added: Option<&AddedUsage>,
        nodes: impl Iterator<Item = NodeId>,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Result<NodeId, Option<Status>> {
        self.filter_cache.clear_if_full();
        let pre_filter_state = self.pre_filter_states.get_or_compute(&mut self.cache, &self.framework, pod);
        let mut cycle_state =
            CycleState::new(&self.cache, &self.framework, &self.no_nominations, pod, &pre_filter_state);
        let pre_filter_result = cycle_state.run_pre_filter_plugins().map_err(Some)?;
        let (spec_id, spec) = self.cache.node_local_spec(pod);
        let mut verdicts =
            pre_filter_result.node_names.is_none().then(|| self.filter_cache.take_verdicts(spec_id, spec));
        let mut result = Err(None);
        for node in nodes {
            let name = self.cache.nodes.name(node);
            if pre_filter_result.node_names.as_ref().is_some_and(|names| names.binary_search(name).is_err()) {
                continue;
            }
            let (verdicts, filter_cache) = (&mut verdicts.as_mut(), &mut self.filter_cache);
            let rejection = match added.and_then(|added| added.get(node)) {
                None => cycle_state.filter_node(node, verdicts, filter_cache).map(Some),
                Some(used) => {
                    let is_feasible = cycle_state.is_feasible_with_usage(node, used, verdicts, filter_cache);
                    (!is_feasible).then_some(None)
                }
            };
            match rejection {
                // Last, because few nodes get this far.
                None if !acceptable(node) => {}
                None => {
                    result = Ok(node);
                    break;
                }
                Some(status_id) => result = Err(status_id),
            }
        }
        drop(cycle_state);
        if let Some(verdicts) = verdicts {
            self.filter_cache.put_verdicts_back(spec_id, verdicts);
        }
        result.map_err(|status_id| status_id.map(|status_id| self.filter_cache.status(status_id).clone()))
    }
}

// === impl AddedUsage ===

impl AddedUsage {
    /// Whether any pod was added to a node.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.get(node.index()).is_some_and(|sum| sum.added_count > 0)
    }

    /// Removes all added pods.
    pub fn clear(&mut self) {
        for node in self.changed.drain(..) {
            self.nodes[node.index()].added_count = 0;
        }
    }

    /// The number of pods on a node and the sum of their requests; `None` if no pods were added.
    fn get(&self, node: NodeId) -> Option<(usize, &ResourceAmounts)> {
        let sum = self.nodes.get(node.index()).filter(|sum| sum.added_count > 0)?;
        Some((sum.pod_count, &sum.requested))
    }

    fn update(&mut self, node: NodeId, before: &NodeUsage, amounts: &ResourceAmounts, is_added: bool) {
        if self.nodes.len() <= node.index() {
            self.nodes.resize_with(node.index() + 1, NodeUsageSum::default);
        }
        let sum = &mut self.nodes[node.index()];
        if sum.added_count == 0 {
            (sum.pod_count, sum.requested) = (before.pods.len(), before.requested.clone());
            self.changed.push(node);
        }
        if is_added {
            (sum.added_count, sum.pod_count) = (sum.added_count + 1, sum.pod_count + 1);
            sum.requested.add(amounts);
        } else {
            (sum.added_count, sum.pod_count) = (sum.added_count - 1, sum.pod_count - 1);
            sum.requested.subtract(amounts);
        }
    }
}

// === impl SchedulingError ===

impl From<Option<Status>> for SchedulingError {
    fn from(status: Option<Status>) -> SchedulingError {
        let Some(status) = status else { return SchedulingError { reasons: Vec::new() } };
        match status.code {
            Code::Error => SchedulingError { reasons: vec![status.message()] },
            _ => {
                SchedulingError { reasons: status.reasons.iter().map(|reason| reason.to_string()).collect() }
            }
        }
    }
}
