//! The DaemonSet controller.
//!
//! The state of a node is kept until the node or a pod on it changes, so that the cost of a change does not depend on
//! the number of nodes.

mod node_state;
mod update;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::daemon_sets::{DaemonNodeSelector, DaemonPodPlacement, add_daemon_pod_tolerations};
use model::Moment;
use serde_json::{Value, json};

use self::node_state::{NodeState, StatusCounts};
use super::api::{DaemonSetSpec, DaemonSetStatus};
use super::informer_cache::{InformerCache, OwnershipKind};
use super::object_table::CachedObject;
use super::pod::Pod;
use super::pod_template::{CONTROLLER_REVISION_HASH_LABEL, NewPod};
use super::{Controller, SyncContext, revision_history};

/// The most pods that are created, or deleted, in one sync.
const BURST_REPLICAS: usize = 250;
/// The label with the generation of a pod's template.
const TEMPLATE_GENERATION_LABEL: &str = "pod-template-generation";
const TEMPLATE_GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";

/// The state of the DaemonSets, by uid.
#[derive(Debug, Default)]
pub(super) struct DaemonSetController {
    sets: BTreeMap<Arc<str>, DaemonSetState>,
}

/// The state of a DaemonSet between syncs.
#[derive(Debug, Default)]
struct DaemonSetState {
    /// By node, for existing nodes and for those that pods are targeted at.
    node_states: BTreeMap<Arc<str>, NodeState>,
    /// The nodes to evaluate again.
    dirty_nodes: BTreeSet<Arc<str>>,
    /// Whether all nodes are to be evaluated again.
    all_dirty: bool,
    totals: StatusCounts,
    /// The revision hash at the last evaluation.
    hash: Arc<str>,
    /// The node selection of its template; `None` if it cannot be parsed.
    node_rules: Option<DaemonNodeSelector>,
    /// The `nodeName` of its template.
    node_name: Option<Arc<str>>,
}

/// A DaemonSet with the hash and generation of its current template.
struct CurrentDaemonSet<'a> {
    daemon_set: &'a CachedObject<DaemonSetSpec>,
    hash: &'a str,
    generation: Option<&'a str>,
}

/// The pods to create and delete.
#[derive(Debug, Default)]
struct PodChanges {
    /// The nodes that need a pod.
    nodes_needing_pods: Vec<Arc<str>>,
    pods_to_delete: Vec<Arc<Pod>>,
}

// === impl DaemonSetController ===

impl DaemonSetController {
    /// A DaemonSet was added, modified or deleted.
    pub(super) fn set_changed(&mut self, uid: &Arc<str>, is_there: bool, is_new_spec: bool) {
        if !is_there {
            self.sets.remove(uid);
        } else if is_new_spec {
            self.sets.entry(uid.clone()).or_default().all_dirty = true;
        }
    }

    /// A node was added or deleted, or its labels or taints changed.
    pub(super) fn node_changed(&mut self, node: &Arc<str>) {
        for state in self.sets.values_mut() {
            state.dirty_nodes.insert(node.clone());
        }
    }

    /// A pod was added, modified or deleted.
    pub(super) fn pod_changed(&mut self, owner: &str, pod: &Pod, is_there: bool) {
        let (Some(state), Some(node)) = (self.sets.get_mut(owner), pod.target_node()) else { return };
        state.dirty_nodes.insert(node.clone());
        let node_state = state.node_states.entry(node.clone()).or_default();
        if is_there {
            node_state.pods.insert(pod.name.clone());
        } else {
            node_state.pods.remove(&pod.name);
        }
    }

    pub(super) fn sync(
        &mut self,
        context: &mut SyncContext<'_>,
        daemon_set: &Arc<CachedObject<DaemonSetSpec>>,
    ) {
        if daemon_set.is_deleting() {
            return;
        }
        let state = self.sets.entry(daemon_set.uid.clone()).or_default();
        let generation = daemon_set.meta.annotations.get(TEMPLATE_GENERATION_ANNOTATION);
        let recorded_hash = hash_of_current_pods(context.cache, daemon_set, generation);
        let (current_revision, old_revisions) = revision_history::get_or_create_current(
            context,
            daemon_set,
            &daemon_set.spec.template,
            recorded_hash,
        );
        if state.all_dirty || state.hash != current_revision.hash {
            state.reset(context.cache, daemon_set, &current_revision.hash);
        }
        let set = CurrentDaemonSet { daemon_set, hash: &current_revision.hash, generation };
        let mut pod_changes = state.manage(context, &set);
        if pod_changes.is_empty() && daemon_set.spec.is_rolling_update() && state.totals.outdated > 0 {
            pod_changes = state.rolling_update(context, &set);
        }
        let is_done = pod_changes.is_empty();
        pod_changes.carry_out(context, &set);
        let pods = || context.cache.pods_of(&daemon_set.uid);
        if old_revisions.len() as i64 > daemon_set.spec.revision_history_limit.unwrap_or(10) {
            let live_hashes: BTreeSet<String> = pods()
                .iter()
                .filter_map(|pod| pod.label(CONTROLLER_REVISION_HASH_LABEL).map(str::to_owned))
                .collect();
            let limit = daemon_set.spec.revision_history_limit.unwrap_or(10);
            revision_history::truncate_history(context, &old_revisions, limit, |revision| {
                live_hashes.contains(&*revision.hash)
            });
        }
        if is_done {
            state.update_status(context, daemon_set);
        }
    }
}

/// The revision hash of the pods of the current template, where their revision is not in the cache.
fn hash_of_current_pods(
    cache: &InformerCache,
    daemon_set: &CachedObject<DaemonSetSpec>,
    generation: Option<&str>,
) -> Option<String> {
    if cache.dependents_of(&daemon_set.uid).any(|(kind, _)| *kind == OwnershipKind::ControllerRevision) {
        return None;
    }
    let pods = cache.pods_of(&daemon_set.uid);
    let is_current =
        |pod: &&Arc<Pod>| generation.is_some() && pod.label(TEMPLATE_GENERATION_LABEL) == generation;
    pods.iter().find(is_current).and_then(|pod| pod.label(CONTROLLER_REVISION_HASH_LABEL)).map(str::to_owned)
}

// === impl DaemonSetState ===

impl DaemonSetState {
    /// Discards the evaluation of all nodes.
    fn reset(&mut self, cache: &InformerCache, daemon_set: &CachedObject<DaemonSetSpec>, hash: &Arc<str>) {
        let pod = daemon_set.spec.template.new_pod(daemon_set);
        let mut spec = pod.spec;
        self.node_name =
            spec.get("nodeName").and_then(Value::as_str).filter(|name| !name.is_empty()).map(Arc::from);
        add_daemon_pod_tolerations(&mut spec);
        self.node_rules = DaemonNodeSelector::read(&spec).ok();
        self.hash = hash.clone();
        self.totals = StatusCounts::default();
        let node_states = std::mem::take(&mut self.node_states);
        for (node, node_state) in node_states {
            let node_state = NodeState { backoff: node_state.backoff, ..NodeState::default() };
            self.node_states.insert(node, node_state);
        }
        for pod in cache.pods_of(&daemon_set.uid) {
            if let Some(node) = pod.target_node() {
                self.node_states.entry(node.clone()).or_default().pods.insert(pod.name.clone());
            }
        }
        for node in cache.nodes.keys() {
            self.node_states.entry(node.clone()).or_default();
        }
        self.dirty_nodes = self.node_states.keys().cloned().collect();
        self.all_dirty = false;
    }

    /// Evaluates the nodes that changed: which need a pod, and which pods are surplus.
    fn manage(&mut self, context: &mut SyncContext<'_>, set: &CurrentDaemonSet<'_>) -> PodChanges {
        let mut pod_changes = PodChanges::default();
        let (mut requeued_nodes, mut is_burst_reached) = (BTreeSet::new(), false);
        for node in std::mem::take(&mut self.dirty_nodes) {
            if pod_changes.nodes_needing_pods.len() >= BURST_REPLICAS
                || pod_changes.pods_to_delete.len() >= BURST_REPLICAS
            {
                requeued_nodes.insert(node);
                is_burst_reached = true;
                continue;
            }
            let node_state = self.node_states.entry(node.clone()).or_default();
            node_state.wants = match (context.cache.nodes.get(&node), &self.node_rules) {
                (Some(cached_node), Some(node_selector))
                    if self.node_name.as_ref().is_none_or(|required_node| *required_node == node) =>
                {
                    node_selector.node_should_run_daemon_pod(&node, &cached_node.labels, &cached_node.taints)
                }
                _ => DaemonPodPlacement::default(),
            };
            let pods = node_state.pods(context.cache);
            if context.cache.nodes.contains_key(&node) {
                if node_state.pods_should_be_on_node(context, set, &node, &pods, &mut pod_changes) {
                    requeued_nodes.insert(node.clone());
                }
            } else {
                // No other controller deletes a pending pod whose target node is gone.
                pod_changes
                    .pods_to_delete
                    .extend(pods.iter().filter(|pod| pod.node_name.is_none() && !pod.is_deleting()).cloned());
            }
            let mut counts = node_state.status_counts(set, &pods, context.now);
            if !context.cache.nodes.contains_key(&node) {
                // A pod on a deleted node is not misscheduled.
                counts.misscheduled = 0;
            }
            self.totals.replace(&node_state.counts, &counts);
            node_state.counts = counts;
            if pods.is_empty() && !context.cache.nodes.contains_key(&node) {
                self.node_states.remove(&node);
            }
        }
        if is_burst_reached {
            context.queue.add(Controller::DaemonSet, set.daemon_set.name.clone());
        }
        self.dirty_nodes = requeued_nodes;
        pod_changes
    }

    /// Updates the status.
    fn update_status(&mut self, context: &mut SyncContext<'_>, daemon_set: &CachedObject<DaemonSetSpec>) {
        let totals = &self.totals;
        let status = DaemonSetStatus {
            current_number_scheduled: totals.current,
            number_misscheduled: totals.misscheduled,
            desired_number_scheduled: totals.desired,
            number_ready: totals.ready,
            observed_generation: daemon_set.meta.generation,
            updated_number_scheduled: totals.updated,
            number_available: totals.available,
            number_unavailable: totals.desired - totals.available,
            collision_count: daemon_set.status.collision_count,
        };
        if status != daemon_set.status {
            context.update(daemon_set.with_status(&status));
        }
        if daemon_set.spec.min_ready_seconds > 0 && totals.ready != totals.available {
            let earliest_available =
                |at: Option<Moment>, node_state: &NodeState| match (at, node_state.counts.available_at) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            if let Some(at) = self.node_states.values().fold(None, earliest_available) {
                self.dirty_nodes.extend(self.node_states.keys().cloned());
                context.enqueue_at(at, Controller::DaemonSet, daemon_set.name.clone());
            }
        }
    }
}

// === impl CurrentDaemonSet ===

impl CurrentDaemonSet<'_> {
    fn is_updated(&self, pod: &Pod) -> bool {
        pod.label(CONTROLLER_REVISION_HASH_LABEL) == Some(self.hash)
            || self.generation.is_some() && pod.label(TEMPLATE_GENERATION_LABEL) == self.generation
    }

    /// The pod for a node. Its node affinity selects the node; the scheduler binds it.
    fn new_pod(&self, node: &str) -> NewPod {
        let mut pod = self.daemon_set.spec.template.new_pod(self.daemon_set);
        add_daemon_pod_tolerations(&mut pod.spec);
        if let Some(generation) = self.generation {
            pod.set_label(TEMPLATE_GENERATION_LABEL, generation);
        }
        pod.set_label(CONTROLLER_REVISION_HASH_LABEL, self.hash);
        let affinity = pod.spec.entry("affinity").or_insert_with(|| json!({}));
        if !affinity.is_object() {
            *affinity = json!({});
        }
        if !affinity["nodeAffinity"].is_object() {
            affinity["nodeAffinity"] = json!({});
        }
        affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
        });
        pod
    }
}

// === impl PodChanges ===

impl PodChanges {
    fn is_empty(&self) -> bool {
        self.nodes_needing_pods.is_empty() && self.pods_to_delete.is_empty()
    }

    fn carry_out(self, context: &mut SyncContext<'_>, set: &CurrentDaemonSet<'_>) {
        for node in self.nodes_needing_pods.iter().take(BURST_REPLICAS) {
            context.create_pod_of(set.daemon_set, set.new_pod(node));
        }
        for pod in self.pods_to_delete.iter().take(BURST_REPLICAS) {
            context.delete_pod_of(set.daemon_set, pod);
        }
    }
}
