//! Node removals that are counted beside the snapshot instead of carried out in it, which costs a fraction.
//!
//! The result is the same for pods that depend only on the node (`FilterSnapshot::depends_only_on_node`): the filters
//! accept such a pod on a node if they accept the node's object and its resources are not used up. A simulated removal
//! changes neither the objects of the remaining nodes nor their pods, it only adds pods. So of a destination only the
//! sum of the added pods is kept, and the filters' verdicts on the unchanged snapshot stay cached from loop to loop.
//! Other pods may depend on any of the moved pods: before they are moved, everything counted is carried out.

use scheduler::filter_snapshot::AddedUsage;
use scheduler::ids::{NodeId, PodId};

use super::super::hinting_simulator::SchedulingTarget;
use super::super::pod_list_processor::has_tpu_request;
use super::super::snapshot::ClusterSnapshot;

/// Removals that the snapshot does not contain.
#[derive(Debug, Default)]
pub(super) struct CountedRemovals {
    added: AddedUsage,
    /// All moved pods with their new nodes, in this order.
    moves: Vec<(PodId, NodeId)>,
    removed: Vec<CountedRemoval>,
    /// By node ID, whether the node is removed.
    is_removed: Vec<bool>,
    /// The snapshot's order of nodes without the removed ones, as of the last search.
    order: Vec<NodeId>,
    /// How many of the removed nodes were taken out of that order; `None` before the first search.
    order_removed_count: Option<usize>,
}

/// A removed node.
#[derive(Clone, Copy, Debug)]
struct CountedRemoval {
    node: NodeId,
    /// The number of moves up to its removal.
    moves_end: usize,
}

/// A snapshot with counted removals, in which pods that depend only on the node are scheduled.
pub(super) struct CountedScheduling<'a> {
    pub snapshot: &'a mut ClusterSnapshot,
    pub removals: &'a mut CountedRemovals,
}

// === impl CountedRemovals ===

impl CountedRemovals {
    /// The pods that were moved to a node, in this order. In the snapshot they would come after all others.
    pub(super) fn pods_moved_to(&self, node: NodeId) -> Vec<PodId> {
        if !self.added.contains(node) {
            return Vec::new();
        }
        self.moves.iter().filter(|(_, to)| *to == node).map(|(pod, _)| *pod).collect()
    }

    /// Whether moves of these pods can be counted.
    pub(super) fn can_count(snapshot: &mut ClusterSnapshot, pods: &[PodId]) -> bool {
        // A pod that requests TPUs is replaced by a copy without them.
        pods.iter().all(|pod| {
            snapshot.filter_snapshot.depends_only_on_node(*pod) && !has_tpu_request(snapshot, *pod)
        })
    }

    /// Removes a node whose pods were moved away.
    pub(super) fn remove_node(&mut self, node: NodeId) {
        if self.is_removed.len() <= node.index() {
            self.is_removed.resize(node.index() + 1, false);
        }
        self.is_removed[node.index()] = true;
        self.removed.push(CountedRemoval { node, moves_end: self.moves.len() });
    }

    /// Undoes the moves since the last removal.
    pub(super) fn undo_moves(&mut self, snapshot: &ClusterSnapshot) {
        let start = self.removed.last().map_or(0, |removal| removal.moves_end);
        for (pod, node) in self.moves.drain(start..) {
            snapshot.filter_snapshot.change_added_usage(&mut self.added, pod, node, false);
        }
    }

    /// Carries out all removals in the snapshot, which then has the same state as if nothing had been counted.
    pub(super) fn carry_out(&mut self, snapshot: &mut ClusterSnapshot) {
        let mut start = 0;
        for CountedRemoval { node, moves_end } in std::mem::take(&mut self.removed) {
            for pod in snapshot.pods_on(node) {
                snapshot.unschedule(pod);
            }
            for (pod, destination) in &self.moves[start..moves_end] {
                snapshot.force_schedule(*pod, *destination);
            }
            snapshot.remove_node(node);
            self.is_removed[node.index()] = false;
            start = moves_end;
        }
        self.clear();
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.added.clear();
        self.moves.clear();
        for removal in self.removed.drain(..) {
            self.is_removed[removal.node.index()] = false;
        }
        self.order_removed_count = None;
    }

    /// Updates the order of the remaining nodes.
    fn update_order(&mut self, snapshot: &ClusterSnapshot) {
        if self.order_removed_count.is_none() {
            self.order.clear();
            self.order.extend_from_slice(snapshot.order());
        }
        if self.order_removed_count.unwrap_or(0) != self.removed.len() {
            let is_removed = &self.is_removed;
            self.order.retain(|id| !is_removed.get(id.index()).is_some_and(|removed| *removed));
        }
        self.order_removed_count = Some(self.removed.len());
    }
}

// === impl CountedScheduling ===

impl CountedScheduling<'_> {
    /// Puts a pod on a node whose object the filters accept, if the node's resources are not used up. Returns whether
    /// they are not.
    pub(super) fn schedule_if_room(&mut self, pod: PodId, node: NodeId) -> bool {
        let has_room = self.snapshot.filter_snapshot.has_room(pod, node, &self.removals.added);
        if has_room {
            self.force_schedule(pod, node);
        }
        has_room
    }

    fn force_schedule(&mut self, pod: PodId, node: NodeId) {
        self.snapshot.filter_snapshot.change_added_usage(&mut self.removals.added, pod, node, true);
        self.removals.moves.push((pod, node));
    }
}

impl SchedulingTarget for CountedScheduling<'_> {
    fn snapshot(&self) -> &ClusterSnapshot {
        self.snapshot
    }

    fn try_schedule(&mut self, pod: PodId, node: NodeId) -> bool {
        let (filter_snapshot, added) = (&mut self.snapshot.filter_snapshot, Some(&self.removals.added));
        let node_ids = std::iter::once(node);
        let is_passing =
            filter_snapshot.run_filters_until_passing_node(pod, added, node_ids, |_| true).is_some();
        if is_passing {
            self.force_schedule(pod, node);
        }
        is_passing
    }

    fn schedule_on_any_node_matching(
        &mut self,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        self.removals.update_order(self.snapshot);
        let CountedRemovals { order, added, .. } = &*self.removals;
        let matching_node = self.snapshot.find_node_matching(pod, Some((order, added)), acceptable)?;
        self.force_schedule(pod, matching_node);
        Some(matching_node)
    }
}
