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
        for memory in self.sets.values_mut() {
            memory.dirty_nodes.insert(node.clone());
        }
    }

    /// A pod was added, modified or deleted.
    pub(super) fn pod_changed(&mut self, owner: &str, pod: &Pod, is_there: bool) {
        let (Some(memory), Some(node)) = (self.sets.get_mut(owner), &pod.target_node) else { return };
        memory.dirty_nodes.insert(node.clone());
        let place = memory.node_states.entry(node.clone()).or_default();
        if is_there {
            place.pods.insert(pod.name.clone());
        } else {
            place.pods.remove(&pod.name);
        }
    }

    pub(super) fn sync(&mut self, context: &mut SyncContext<'_>, held: &Arc<CachedObject<DaemonSetSpec>>) {
        if held.is_deleting() {
            return;
        }
        let memory = self.sets.entry(held.uid.clone()).or_default();
        let generation = held.meta.annotations.get(TEMPLATE_GENERATION_ANNOTATION);
        let known = hash_of_current_pods(context.cache, held, generation);
        let (own, old) = revision_history::get_or_create_current(context, held, &held.spec.template, known);
        if memory.all_dirty || memory.hash != own.hash {
            memory.reset(context.cache, held, &own.hash);
        }
        let set = CurrentDaemonSet { daemon_set: held, hash: &own.hash, generation };
        let mut plan = memory.manage(context, &set);
        if plan.is_empty() && held.spec.is_rolling_update() && memory.totals.outdated > 0 {
            plan = memory.rolling_update(context, &set);
        }
        let is_done = plan.is_empty();
        plan.carry_out(context, &set);
        let pods = || context.cache.pods_of(&held.uid);
        if old.len() as i64 > held.spec.revision_history_limit.unwrap_or(10) {
            let live: BTreeSet<String> = pods()
                .iter()
                .filter_map(|pod| pod.label(CONTROLLER_REVISION_HASH_LABEL).map(str::to_owned))
                .collect();
            let limit = held.spec.revision_history_limit.unwrap_or(10);
            revision_history::truncate_history(context, &old, limit, |revision| {
                live.contains(&*revision.hash)
            });
        }
        if is_done {
            memory.update_status(context, held);
        }
    }
}

/// The revision hash of the pods of the current template, where their revision is not in the cache.
fn hash_of_current_pods(
    world: &InformerCache,
    held: &CachedObject<DaemonSetSpec>,
    generation: Option<&str>,
) -> Option<String> {
    if world.dependents_of(&held.uid).any(|(thing, _)| *thing == OwnershipKind::ControllerRevision) {
        return None;
    }
    let pods = world.pods_of(&held.uid);
    let is_current =
        |pod: &&Arc<Pod>| generation.is_some() && pod.label(TEMPLATE_GENERATION_LABEL) == generation;
    pods.iter().find(is_current).and_then(|pod| pod.label(CONTROLLER_REVISION_HASH_LABEL)).map(str::to_owned)
}

// === impl DaemonSetState ===

impl DaemonSetState {
    /// Discards the evaluation of all nodes.
    fn reset(&mut self, world: &InformerCache, held: &CachedObject<DaemonSetSpec>, hash: &Arc<str>) {
        let pod = held.spec.template.new_pod(held);
        let mut spec = pod.spec;
        self.node_name =
            spec.get("nodeName").and_then(Value::as_str).filter(|name| !name.is_empty()).map(Arc::from);
        add_daemon_pod_tolerations(&mut spec);
        self.node_rules = DaemonNodeSelector::read(&spec).ok();
        self.hash = hash.clone();
        self.totals = StatusCounts::default();
        let places = std::mem::take(&mut self.node_states);
        for (node, place) in places {
            let place = NodeState { backoff: place.backoff, ..NodeState::default() };
            self.node_states.insert(node, place);
        }
        for pod in world.pods_of(&held.uid) {
            if let Some(node) = &pod.target_node {
                self.node_states.entry(node.clone()).or_default().pods.insert(pod.name.clone());
            }
        }
        for node in world.nodes.keys() {
            self.node_states.entry(node.clone()).or_default();
        }
        self.dirty_nodes = self.node_states.keys().cloned().collect();
        self.all_dirty = false;
    }

    /// Evaluates the nodes that changed: which need a pod, and which pods are surplus.
    fn manage(&mut self, context: &mut SyncContext<'_>, set: &CurrentDaemonSet<'_>) -> PodChanges {
        let mut plan = PodChanges::default();
        let (mut later, mut is_full) = (BTreeSet::new(), false);
        for node in std::mem::take(&mut self.dirty_nodes) {
            if plan.nodes_needing_pods.len() >= BURST_REPLICAS || plan.pods_to_delete.len() >= BURST_REPLICAS
            {
                later.insert(node);
                is_full = true;
                continue;
            }
            let place = self.node_states.entry(node.clone()).or_default();
            place.wants = match (context.cache.nodes.get(&node), &self.node_rules) {
                (Some(there), Some(nodes)) if self.node_name.as_ref().is_none_or(|only| *only == node) => {
                    nodes.node_should_run_daemon_pod(&node, &there.labels, &there.taints)
                }
                _ => DaemonPodPlacement::default(),
            };
            let pods = place.pods(context.cache);
            if context.cache.nodes.contains_key(&node) {
                if place.pods_should_be_on_node(context, set, &node, &pods, &mut plan) {
                    later.insert(node.clone());
                }
            } else {
                // No other controller deletes a pending pod whose target node is gone.
                plan.pods_to_delete
                    .extend(pods.iter().filter(|pod| pod.node.is_none() && !pod.is_deleting()).cloned());
            }
            let mut counts = place.status_counts(set, &pods, context.now);
            if !context.cache.nodes.contains_key(&node) {
                // A pod on a deleted node is not misscheduled.
                counts.misscheduled = 0;
            }
            self.totals.replace(&place.counts, &counts);
            place.counts = counts;
            if pods.is_empty() && !context.cache.nodes.contains_key(&node) {
                self.node_states.remove(&node);
            }
        }
        if is_full {
            context.queue.add(Controller::DaemonSet, set.daemon_set.name.clone());
        }
        self.dirty_nodes = later;
        plan
    }

    /// Updates the status.
    fn update_status(&mut self, context: &mut SyncContext<'_>, held: &CachedObject<DaemonSetSpec>) {
        let totals = &self.totals;
        let status = DaemonSetStatus {
            current_number_scheduled: totals.current,
            number_misscheduled: totals.misscheduled,
            desired_number_scheduled: totals.desired,
            number_ready: totals.ready,
            observed_generation: held.meta.generation,
            updated_number_scheduled: totals.updated,
            number_available: totals.available,
            number_unavailable: totals.desired - totals.available,
            collision_count: held.status.collision_count,
        };
        if status != held.status {
            context.update(held.with_status(&status));
        }
        if held.spec.min_ready_seconds > 0 && totals.ready != totals.available {
            let soonest = |at: Option<Moment>, place: &NodeState| match (at, place.counts.available_at) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if let Some(at) = self.node_states.values().fold(None, soonest) {
                self.dirty_nodes.extend(self.node_states.keys().cloned());
                context.enqueue_at(at, Controller::DaemonSet, held.name.clone());
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
            context.create_pod(set.new_pod(node));
        }
        for pod in self.pods_to_delete.iter().take(BURST_REPLICAS) {
            context.delete_pod(pod);
        }
    }
}
