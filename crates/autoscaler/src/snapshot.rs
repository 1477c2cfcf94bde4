//! The cluster snapshot of a loop: simulations change it, and forks of it are committed or reverted.

use std::cell::Cell;
use std::sync::Arc;

use kubernetes::amounts::ResourceAmounts;
use scheduler::Settings as SchedulerSettings;
use scheduler::filter_snapshot::{AddedUsage, FilterSnapshot, SchedulingError};
use scheduler::ids::{NodeId, PodId};
use scheduler::node::Node;

use super::pod::Pod;
use super::pod_summary::{ControllerNumbers, PodSummary};

/// The nodes and pods of a loop.
#[derive(Debug)]
pub(crate) struct ClusterSnapshot {
    pub filter_snapshot: FilterSnapshot,
    /// By node ID.
    nodes: Vec<Option<Arc<Node>>>,
    /// By pod ID.
    pods: Vec<Option<Arc<Pod>>>,
    /// By pod ID.
    pod_summaries: Vec<Option<PodSummary>>,
    controllers: ControllerNumbers,
    /// By pod ID, the number of the pod's last move in this loop; zero for pods that were not moved.
    last_move: Vec<u32>,
    move_count: u32,
    /// The nodes in the order in which they are searched.
    order: Vec<NodeId>,
    /// The index in that order at which the last search ended.
    last_match_index: usize,
    undo_log: Vec<UndoEntry>,
    /// The number of undo entries that are about nodes.
    node_change_count: usize,
}

/// A position in the undo log to revert to.
#[derive(Debug)]
#[must_use = "a fork is reverted or committed"]
pub(crate) struct Fork(usize);

/// A change with the information needed to undo it.
#[derive(Debug)]
enum UndoEntry {
    NodeAdded(NodeId),
    NodeRemoved { node: Arc<Node>, was: NodeGeneration, place: usize },
    NodeChanged { was: NodeGeneration, before: Arc<Node> },
    PodAdded { pod: PodId, on: Option<NodeGeneration> },
    PodMoved { pod: PodId, from: Option<NodeGeneration>, to: Option<NodeGeneration>, moved: u32 },
}

/// A node and its generation before a change.
#[derive(Clone, Copy, Debug)]
struct NodeGeneration {
    id: NodeId,
    generation: u64,
}

impl ClusterSnapshot {
    pub(crate) fn new(settings: &SchedulerSettings) -> ClusterSnapshot {
        ClusterSnapshot {
            filter_snapshot: FilterSnapshot::new(settings),
            nodes: Vec::new(),
            pods: Vec::new(),
            pod_summaries: Vec::new(),
            controllers: ControllerNumbers::default(),
            last_move: Vec::new(),
            move_count: 0,
            order: Vec::new(),
            last_match_index: 0,
            undo_log: Vec::new(),
            node_change_count: 0,
        }
    }

    // Content.

    /// The nodes in the order in which they are searched.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    pub(crate) fn node(&self, id: NodeId) -> &Arc<Node> {
        self.nodes[id.index()].as_ref().expect("a node ID is valid while the node is in the snapshot")
    }

    /// The node of an ID, if it exists.
    pub(crate) fn get_node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// The node of that name.
    pub(crate) fn find_node(&self, name: &str) -> Option<NodeId> {
        self.filter_snapshot.find_node(name)
    }

    pub(crate) fn pod(&self, id: PodId) -> &Arc<Pod> {
        self.pods[id.index()].as_ref().expect("a pod ID is valid while the pod is in the snapshot")
    }

    pub(crate) fn pod_summary(&self, id: PodId) -> &PodSummary {
        self.pod_summaries[id.index()].as_ref().expect("a pod ID is valid while the pod is in the snapshot")
    }

    /// The sum of the requests of the pods on a node.
    pub(crate) fn requested(&self, id: NodeId) -> &ResourceAmounts {
        self.filter_snapshot.requested(id)
    }

    /// The pods on a node: bound pods in list order (by age, then by name), nominated pods, then pods that this loop
    /// moved there.
    pub(crate) fn pods_on(&self, id: NodeId) -> Vec<PodId> {
        self.pods_on_where(id, |_| true)
    }

    /// Some of the pods on a node, in the same order.
    pub(crate) fn pods_on_where(&self, id: NodeId, is_wanted: impl Fn(&Pod) -> bool) -> Vec<PodId> {
        let pods = self.filter_snapshot.usage(id).pods.iter().copied();
        let mut pods: Vec<PodId> = pods.filter(|id| is_wanted(self.pod(*id))).collect();
        let position = |id: &PodId| {
            let summary = self.pod_summary(*id);
            (self.last_move[id.index()], !summary.is_bound, summary.created, &self.pod(*id).name)
        };
        pods.sort_by_cached_key(position);
        pods
    }

    // Changes from informers. Only between loops, when the undo log is empty.

    /// Adds or updates a node.
    pub(crate) fn set_node(&mut self, node: Arc<Node>) -> NodeId {
        let id = self.filter_snapshot.set_node((*node).clone());
        set_at(&mut self.nodes, id.index(), node);
        id
    }

    /// Removes a deleted node.
    pub(crate) fn forget_node(&mut self, id: NodeId) {
        self.filter_snapshot.remove_node(id);
        self.nodes[id.index()] = None;
    }

    /// Adds a pod, unscheduled.
    pub(crate) fn add_pod(&mut self, pod: Arc<Pod>) -> PodId {
        let id = self.filter_snapshot.add_pod((*pod.scheduler_pod).clone());
        set_at(&mut self.pod_summaries, id.index(), PodSummary::of(&pod, &mut self.controllers));
        set_at(&mut self.pods, id.index(), pod);
        if self.last_move.len() < self.pods.len() {
            self.last_move.resize(self.pods.len(), 0);
        }
        self.last_move[id.index()] = 0;
        id
    }

    /// Replaces a pod of which only irrelevant fields changed.
    pub(crate) fn replace_pod(&mut self, id: PodId, pod: Arc<Pod>) {
        // The summary has relevant fields only.
        set_at(&mut self.pods, id.index(), pod);
    }

    /// Removes a pod.
    pub(crate) fn forget_pod(&mut self, id: PodId) {
        self.filter_snapshot.remove_pod(id);
        if let Some(pod) = self.pods[id.index()].take() {
            self.controllers.release(&pod);
        }
        self.pod_summaries[id.index()] = None;
    }

    /// Begins a loop with these nodes.
    pub(crate) fn begin_loop(&mut self, order: Vec<NodeId>) {
        debug_assert!(self.undo_log.is_empty(), "the last loop undid all its changes");
        self.order = order;
    }

    /// Ends a loop: reverts all changes.
    pub(crate) fn end_loop(&mut self) {
        self.revert(Fork(0));
        self.move_count = 0;
    }

    /// Whether nodes were added, removed or changed in this loop.
    pub(crate) fn has_node_changes(&self) -> bool {
        self.node_change_count > 0
    }

    // Simulated changes.

    /// Begins a fork: changes from here on can be reverted.
    pub(crate) fn fork(&self) -> Fork {
        Fork(self.undo_log.len())
    }

    /// Keeps the changes since the fork.
    pub(crate) fn commit(&self, _fork: Fork) {}

    /// Reverts the changes since the fork.
    pub(crate) fn revert(&mut self, fork: Fork) {
        while self.undo_log.len() > fork.0 {
            let undo_entry = self.undo_log.pop().expect("the undo log is longer than at the fork");
            let is_about_node =
                !matches!(undo_entry, UndoEntry::PodAdded { .. } | UndoEntry::PodMoved { .. });
            self.node_change_count -= usize::from(is_about_node);
            match undo_entry {
                UndoEntry::NodeAdded(id) => {
                    self.filter_snapshot.remove_node(id);
                    self.nodes[id.index()] = None;
                    let last = self.order.pop();
                    debug_assert_eq!(last, Some(id), "nodes are removed in reverse order of their addition");
                }
                UndoEntry::NodeRemoved { node, was: node_generation, place: position } => {
                    let restored_id = self.filter_snapshot.set_node((*node).clone());
                    debug_assert_eq!(restored_id, node_generation.id, "changes are undone in reverse order");
                    set_at(&mut self.nodes, restored_id.index(), node);
                    self.order.insert(position, restored_id);
                    self.restore_generation(node_generation);
                }
                UndoEntry::NodeChanged { was: node_generation, before } => {
                    self.filter_snapshot.set_node((*before).clone());
                    self.nodes[node_generation.id.index()] = Some(before);
                    self.restore_generation(node_generation);
                }
                UndoEntry::PodAdded { pod, on } => {
                    self.forget_pod(pod);
                    on.into_iter().for_each(|node_generation| self.restore_generation(node_generation));
                }
                UndoEntry::PodMoved { pod, from, to, moved } => {
                    match from {
                        Some(node_generation) => self.filter_snapshot.assume_pod(pod, node_generation.id),
                        None => self.filter_snapshot.forget_pod(pod),
                    }
                    self.last_move[pod.index()] = moved;
                    from.into_iter()
                        .chain(to)
                        .for_each(|node_generation| self.restore_generation(node_generation));
                }
            }
        }
    }

    fn generation_before(&self, id: NodeId) -> NodeGeneration {
        NodeGeneration { id, generation: self.filter_snapshot.generation(id) }
    }

    /// Restores the generation of a node after a change was undone.
    fn restore_generation(&mut self, node_generation: NodeGeneration) {
        self.filter_snapshot.restore_generation(node_generation.id, node_generation.generation);
    }

    /// Adds a node with pods on it, at the end of the order.
    pub(crate) fn add_node(&mut self, node: Arc<Node>, pods: &[Arc<Pod>]) -> NodeId {
        let id = self.set_node(node);
        self.order.push(id);
        self.log_node_change(UndoEntry::NodeAdded(id));
        for pod in pods {
            self.add_pod_on(pod.clone(), id);
        }
        id
    }

    /// Removes a node, and with it the pods on it.
    pub(crate) fn remove_node(&mut self, id: NodeId) {
        let position =
            self.order.iter().position(|other| *other == id).expect("a removed node is in the snapshot");
        self.order.remove(position);
        let node_generation = self.generation_before(id);
        self.filter_snapshot.remove_node(id);
        let node = self.nodes[id.index()].take().expect("a removed node is in the snapshot");
        self.log_node_change(UndoEntry::NodeRemoved { node, was: node_generation, place: position });
    }

    /// Replaces a node by another of the same name.
    pub(crate) fn replace_node(&mut self, id: NodeId, node: Arc<Node>) {
        let node_generation = self.generation_before(id);
        self.filter_snapshot.set_node((*node).clone());
        let before = self.nodes[id.index()].replace(node).expect("a changed node is in the snapshot");
        self.log_node_change(UndoEntry::NodeChanged { was: node_generation, before });
    }

    /// Adds a pod on a node.
    pub(crate) fn add_pod_on(&mut self, pod: Arc<Pod>, node: NodeId) -> PodId {
        let id = self.add_pod(pod);
        self.undo_log.push(UndoEntry::PodAdded { pod: id, on: Some(self.generation_before(node)) });
        self.filter_snapshot.assume_pod(id, node);
        id
    }

    /// Adds an unscheduled pod.
    pub(crate) fn add_unscheduled_pod(&mut self, pod: Arc<Pod>) -> PodId {
        let id = self.add_pod(pod);
        self.undo_log.push(UndoEntry::PodAdded { pod: id, on: None });
        id
    }

    /// Puts a pod on a node without running the filters.
    pub(crate) fn force_schedule(&mut self, pod: PodId, node: NodeId) {
        let (from, to) = (
            self.filter_snapshot.node_of(pod).map(|from| self.generation_before(from)),
            self.generation_before(node),
        );
        self.filter_snapshot.assume_pod(pod, node);
        self.log_pod_move(pod, from, Some(to));
    }

    /// Removes a pod from its node; it stays in the snapshot, unscheduled.
    pub(crate) fn unschedule(&mut self, pod: PodId) {
        let from = self.filter_snapshot.node_of(pod).map(|from| self.generation_before(from));
        self.filter_snapshot.forget_pod(pod);
        self.log_pod_move(pod, from, None);
    }

    fn log_node_change(&mut self, undo_entry: UndoEntry) {
        self.node_change_count += 1;
        self.undo_log.push(undo_entry);
    }

    fn log_pod_move(&mut self, pod: PodId, from: Option<NodeGeneration>, to: Option<NodeGeneration>) {
        self.move_count += 1;
        let moved = std::mem::replace(&mut self.last_move[pod.index()], self.move_count);
        self.undo_log.push(UndoEntry::PodMoved { pod, from, to, moved });
    }

    // Filters.

    /// Whether a pod passes the filters of a node.
    pub(crate) fn check_predicates(&mut self, pod: PodId, node: NodeId) -> Result<(), SchedulingError> {
        self.filter_snapshot.run_filters_on_node(pod, node)
    }

    /// Puts a pod on a node if it passes the filters.
    pub(crate) fn schedule(&mut self, pod: PodId, node: NodeId) -> Result<(), SchedulingError> {
        self.check_predicates(pod, node)?;
        self.force_schedule(pod, node);
        Ok(())
    }

    /// The index in the node order at which the last search ended. A revert does not change it.
    pub(crate) fn last_match_index(&self) -> usize {
        self.last_match_index
    }

    /// Sets the index at which the last search ended.
    pub(crate) fn set_last_match_index(&mut self, place: usize) {
        self.last_match_index = place;
    }

    /// Puts a pod on the first acceptable node after the last match that passes the filters. Returns that node.
    pub(crate) fn schedule_on_any_node_matching(
        &mut self,
        pod: PodId,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let matching_node = self.find_node_matching(pod, None, acceptable)?;
        self.force_schedule(pod, matching_node);
        Some(matching_node)
    }

    /// The first acceptable node after the last match that passes the filters. The search can be given another order of
    /// nodes, and pods that were added to them.
    pub(crate) fn find_node_matching(
        &mut self,
        pod: PodId,
        order_and_usage: Option<(&[NodeId], &AddedUsage)>,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let ClusterSnapshot { filter_snapshot: trial, nodes, order: own_order, .. } = self;
        let (order, added) =
            order_and_usage.map_or((&**own_order, None), |(order, added)| (order, Some(added)));
        let count = order.len();
        let start = (self.last_match_index + 1) % count.max(1);
        let is_acceptable = |id: NodeId| {
            let node = nodes[id.index()].as_ref().expect("an ordered node is in the snapshot");
            !node.unschedulable && acceptable(id)
        };
        let position = Cell::new(0);
        let node_ids = (start..count).chain(0..start).map(|next| {
            position.set(next);
            order[next]
        });
        let matching_node = trial.run_filters_until_passing_node(pod, added, node_ids, is_acceptable)?;
        // The iterator was not advanced beyond the node that was found.
        self.last_match_index = position.get();
        Some(matching_node)
    }
}

/// Sets an entry of a table, which grows if needed.
fn set_at<T>(table: &mut Vec<Option<T>>, place: usize, value: T) {
    if table.len() <= place {
        table.resize_with(place + 1, || None);
    }
    table[place] = Some(value);
}

#[cfg(test)]
mod tests {
    use kubernetes::objects::{NodeView, PodView};
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use serde_json::json;

    use super::*;

    const ROUNDS: usize = 40;
    const STEPS: usize = 30;

    /// All observable state of a snapshot: pods by node, requests, and the filters' result for every unscheduled pod on
    /// every node.
    fn fingerprint(snapshot: &mut ClusterSnapshot, waiting: &[PodId]) -> String {
        let order = snapshot.order().to_vec();
        let mut lines = Vec::new();
        for node in &order {
            let names: Vec<String> =
                snapshot.pods_on(*node).iter().map(|pod| snapshot.pod(*pod).name.name.to_string()).collect();
            let (name, requested) = (snapshot.node(*node).name.clone(), snapshot.requested(*node).clone());
            lines.push(format!("{name} {requested:?} {names:?}"));
            for pod in waiting {
                lines.push(format!("  {:?}", snapshot.check_predicates(*pod, *node)));
            }
        }
        lines.join("\n")
    }

    fn node(snapshot: &mut ClusterSnapshot, name: &str, zone: usize, taint: bool) -> Arc<Node> {
        let node = testobjects::node(name)
            .label("zone", &format!("z{zone}"))
            .allocatable("cpu", "4")
            .allocatable("memory", "8Gi")
            .allocatable("pods", "10");
        let node = if taint { node.taint("t:NoSchedule") } else { node };
        Arc::new(Node::new(Arc::new(NodeView::parse(&node.object())), snapshot.filter_snapshot.scalars()))
    }

    /// Pods of three kinds: with a topology spread constraint over zones, with anti-affinity, with a host port.
    fn pod(snapshot: &mut ClusterSnapshot, name: &str, kind: usize) -> Arc<Pod> {
        let app = format!("app-{kind}");
        let selector = json!({"matchLabels": {"app": app}});
        let pod = testobjects::pod(name).label("app", &app).request("cpu", "500m").request("memory", "1Gi");
        let pod = match kind {
            0 => {
                let constraint = json!({"maxSkew": 1, "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
                pod.set("spec.topologySpreadConstraints", json!([constraint]))
            }
            1 => {
                let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
                let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
                pod.set("spec.affinity.podAntiAffinity", required)
            }
            _ => pod.host_port(80),
        };
        Arc::new(Pod::new(Arc::new(PodView::parse(&pod.object())), snapshot.filter_snapshot.scalars()))
    }

    /// Makes a random change.
    fn random_change(snapshot: &mut ClusterSnapshot, waiting: &[PodId], number: usize, rng: &mut Pcg64) {
        let order = snapshot.order().to_vec();
        let mut random_below = |limit: usize| rng.random_range(0..limit);
        match random_below(6) {
            0 => {
                let new = node(snapshot, &format!("new-{number}"), random_below(3), false);
                let daemon = pod(snapshot, &format!("daemon-{number}"), random_below(3));
                snapshot.add_node(new, &[daemon]);
            }
            1 if order.len() > 2 => snapshot.remove_node(order[random_below(order.len())]),
            2 if !order.is_empty() => {
                let id = order[random_below(order.len())];
                let name = snapshot.node(id).name.clone();
                let changed = node(snapshot, &name, random_below(3), true);
                snapshot.replace_node(id, changed);
            }
            3 if !order.is_empty() => {
                if let Some(pod) = snapshot.pods_on(order[random_below(order.len())]).first() {
                    snapshot.unschedule(*pod);
                }
            }
            _ => {
                let pod = waiting[random_below(waiting.len())];
                if snapshot.filter_snapshot.node_of(pod).is_none() {
                    snapshot.schedule_on_any_node_matching(pod, |_| true);
                }
            }
        }
    }

    #[test]
    fn a_revert_restores_the_exact_state() {
        for seed in 0..ROUNDS as u64 {
            let mut rng = Pcg64::seed_from_u64(seed);
            let mut snapshot = ClusterSnapshot::new(&SchedulerSettings::default());
            let mut order = Vec::new();
            for number in 0..5 {
                let new = node(&mut snapshot, &format!("node-{number}"), number % 3, false);
                order.push(snapshot.set_node(new));
            }
            let mut waiting = Vec::new();
            for number in 0..12 {
                let new = pod(&mut snapshot, &format!("pod-{number}"), number % 3);
                let id = snapshot.add_pod(new);
                match number % 4 {
                    0 => snapshot.filter_snapshot.assume_pod(id, order[number % 5]),
                    _ => waiting.push(id),
                }
            }
            snapshot.begin_loop(order);
            let first = fingerprint(&mut snapshot, &waiting);
            let outer = snapshot.fork();
            (0..STEPS).for_each(|number| random_change(&mut snapshot, &waiting, number, &mut rng));
            let second = fingerprint(&mut snapshot, &waiting);
            let inner = snapshot.fork();
            (STEPS..2 * STEPS).for_each(|number| random_change(&mut snapshot, &waiting, number, &mut rng));
            snapshot.revert(inner);
            assert_eq!(fingerprint(&mut snapshot, &waiting), second, "seed {seed}, the inner one");
            snapshot.revert(outer);
            assert_eq!(fingerprint(&mut snapshot, &waiting), first, "seed {seed}, the outer one");
        }
    }
}
