//! The removal simulation: whether the pods of a node fit on other nodes.

use std::sync::Arc;

use kubernetes::taints::{NO_SCHEDULE, Taint};
use kubernetes::well_known::TO_BE_DELETED;
use model::Moment;
use scheduler::ids::{NodeId, PodId};
use scheduler::node::Node;

use super::super::AutoscalingContext;
use super::super::decision::{BlockingPodReason, UnremovableReason};
use super::super::hinting_simulator::{HintingSimulator, SchedulingTarget};
use super::super::pod_list_processor::clear_tpu_requests;
use super::super::settings::Version;
use super::super::snapshot::ClusterSnapshot;
use super::candidate::ScaleDownCandidate;
use super::counted_removals::{CountedRemovals, CountedScheduling};
use super::drain_cache::{DrainCache, PlannedDrain, PlannedMove, PlannedMoves};
use super::drainability::PodsToMove;
use super::pdb_tracker::RemainingPdbTracker;
use super::unneeded::NodeToBeRemoved;

/// Why a node is unremovable, and the pod that blocks it.
pub(super) type RemovalFailure = (UnremovableReason, Option<(PodId, BlockingPodReason)>);

/// Simulates the removal of one node after the other.
#[derive(Debug, Default)]
pub(super) struct RemovalSimulator {
    /// By node ID, whether pods may move to the node.
    destinations: Vec<bool>,
    disruptions: RemainingPdbTracker,
    counted_removals: CountedRemovals,
    drains: DrainCache,
    /// Nothing is counted: every removal is carried out in the snapshot, which is the reference.
    #[cfg(test)]
    pub carries_out_all: bool,
}

// === impl RemovalSimulator ===

impl RemovalSimulator {
    /// Begins a simulation in which pods may move to these nodes, by node ID.
    pub(super) fn begin(&mut self, context: &AutoscalingContext<'_>, destinations: &[bool]) {
        self.destinations.clear();
        self.destinations.extend_from_slice(destinations);
        self.disruptions.reset(context.cluster);
    }

    pub(super) fn is_destination(&self, node: NodeId) -> bool {
        self.destinations.get(node.index()).is_some_and(|destination| *destination)
    }

    /// Makes a node no destination any more.
    pub(super) fn exclude_destination(&mut self, node: NodeId) {
        if let Some(destination) = self.destinations.get_mut(node.index()) {
            *destination = false;
        }
    }

    /// Ends the simulation: forgets everything that is not in the snapshot.
    pub(super) fn end(&mut self) {
        self.counted_removals.clear();
    }

    /// Moves a node's pods to other nodes and removes it; on failure nothing is changed.
    pub(super) fn simulate_node_removal(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        hinting_simulator: &mut HintingSimulator,
        candidate: ScaleDownCandidate,
    ) -> Result<NodeToBeRemoved, RemovalFailure> {
        let node = candidate.node;
        let moved_here = self.counted_removals.pods_moved_to(node);
        if !moved_here.is_empty() {
            let pods = [context.cluster.snapshot.pods_on(node), moved_here].concat();
            let mut drain = PlannedDrain::of(context, &self.disruptions, &pods);
            return self.simulate_drain(context, hinting_simulator, &mut drain, candidate);
        }
        let generation = context.cluster.snapshot.filter_snapshot.generation(node);
        let mut drain = self.drains.take(context, &self.disruptions, node);
        let result = self.simulate_drain(context, hinting_simulator, &mut drain, candidate);
        self.drains.put_back(node, generation, drain);
        result
    }

    fn simulate_drain(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        hinting_simulator: &mut HintingSimulator,
        drain: &mut PlannedDrain,
        candidate: ScaleDownCandidate,
    ) -> Result<NodeToBeRemoved, RemovalFailure> {
        let mut planned_moves = drain.moves.take();
        let PodsToMove { pods, has_on_completion_pods } = drain
            .pods_to_move(context, &self.disruptions)
            .map_err(|blocking| (UnremovableReason::BlockedByPod, Some(blocking)))?;
        if !self.move_pods(context, hinting_simulator, pods, &mut planned_moves, candidate.node) {
            return Err((UnremovableReason::NoPlaceToMovePods, None));
        }
        let node_to_be_removed = NodeToBeRemoved {
            candidate,
            needs_drain: !pods.is_empty(),
            has_on_completion_pods: *has_on_completion_pods,
            is_risky: !drain.remove_pods(context, &mut self.disruptions),
        };
        drain.moves = planned_moves;
        self.exclude_destination(candidate.node);
        Ok(node_to_be_removed)
    }

    /// Moves pods and removes their node, if all of them fit elsewhere. Returns whether they do.
    fn move_pods(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        hinting_simulator: &mut HintingSimulator,
        pods: &[PodId],
        planned_moves: &mut Option<PlannedMoves>,
        node: NodeId,
    ) -> bool {
        let snapshot = &mut context.cluster.snapshot;
        if let Some(planned_moves) = planned_moves
            && self.repeat_moves(snapshot, hinting_simulator, planned_moves, node)
        {
            return true;
        }
        *planned_moves = None;
        if !self.can_count(snapshot, pods) {
            self.counted_removals.carry_out(snapshot);
            return self.carry_out_removal(context, hinting_simulator, pods, node);
        }
        let version = context.settings.version;
        let is_moved = self.count_removal(snapshot, hinting_simulator, version, pods, node);
        if is_moved {
            *planned_moves = PlannedMoves::of(snapshot, hinting_simulator, version, pods);
        }
        is_moved
    }

    /// Counts a removal whose pods move to the same nodes as last time. Returns whether they do: if not, nothing is
    /// changed.
    ///
    /// That is the result of trying all of them: a pod is tried on its hinted node first, and the filters accept it
    /// there if they accepted it on the same generation of that node and its resources are still not used up.
    fn repeat_moves(
        &mut self,
        snapshot: &mut ClusterSnapshot,
        hinting_simulator: &mut HintingSimulator,
        planned_moves: &mut PlannedMoves,
        node: NodeId,
    ) -> bool {
        if planned_moves.pre_filter_generation != snapshot.filter_snapshot.pre_filter_generation() {
            return false;
        }
        for planned_move in &mut planned_moves.moves {
            let PlannedMove { pod, hint, destination, generation } = planned_move;
            let is_acceptable = *destination != node && self.is_destination(*destination);
            let removals = &mut self.counted_removals;
            let mut scheduling = CountedScheduling { snapshot, removals };
            let current_generation = scheduling.snapshot.filter_snapshot.generation(*destination);
            let is_scheduled = is_acceptable
                && hinting_simulator.is_hint(*hint, *destination)
                && if current_generation == *generation {
                    scheduling.schedule_if_room(*pod, *destination)
                } else {
                    hinting_simulator.resolve_hint(*hint, scheduling.snapshot) == Some(*destination)
                        && scheduling.try_schedule(*pod, *destination)
                };
            if !is_scheduled {
                self.counted_removals.undo_moves(snapshot);
                return false;
            }
            *generation = current_generation;
        }
        for planned_move in &planned_moves.moves {
            hinting_simulator.keep_hint(planned_move.hint);
        }
        self.counted_removals.remove_node(node);
        true
    }

    /// Whether a removal that moves these pods can be counted.
    fn can_count(&self, snapshot: &mut ClusterSnapshot, pods: &[PodId]) -> bool {
        #[cfg(test)]
        if self.carries_out_all {
            return false;
        }
        CountedRemovals::can_count(snapshot, pods)
    }

    /// Counts a removal, if all pods to move fit elsewhere. Returns whether they do.
    fn count_removal(
        &mut self,
        snapshot: &mut ClusterSnapshot,
        hinting_simulator: &mut HintingSimulator,
        version: Version,
        pods: &[PodId],
        node: NodeId,
    ) -> bool {
        let RemovalSimulator { destinations, counted_removals, .. } = self;
        let scheduled = hinting_simulator.try_schedule_pods(
            &mut CountedScheduling { snapshot, removals: counted_removals },
            version,
            pods,
            true,
            &|id| id != node && destinations.get(id.index()).is_some_and(|destination| *destination),
        );
        if scheduled.len() != pods.len() {
            counted_removals.undo_moves(snapshot);
            return false;
        }
        counted_removals.remove_node(node);
        true
    }

    /// Carries out a removal in the snapshot, if all pods to move fit elsewhere. Returns whether they do.
    fn carry_out_removal(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        hinting_simulator: &mut HintingSimulator,
        pods: &[PodId],
        node: NodeId,
    ) -> bool {
        let snapshot = &mut context.cluster.snapshot;
        let fork = snapshot.fork();
        for pod in snapshot.pods_on(node) {
            snapshot.unschedule(pod);
        }
        if !pods.is_empty() {
            // The node stays in the snapshot, tainted, while its pods are moved: it still counts as a topology domain.
            let pods: Vec<PodId> = pods.iter().map(|pod| clear_tpu_requests(snapshot, *pod)).collect();
            if pods.iter().any(|pod| snapshot.filter_snapshot.spread_honors_taints(*pod)) {
                let tainted_node = with_to_be_deleted_taint(snapshot.node(node), context.clock.now());
                snapshot.replace_node(node, Arc::new(tainted_node));
            }
            let scheduled =
                hinting_simulator.try_schedule_pods(snapshot, context.settings.version, &pods, true, &|id| {
                    id != node && self.is_destination(id)
                });
            if scheduled.len() != pods.len() {
                snapshot.revert(fork);
                return false;
            }
        }
        snapshot.remove_node(node);
        snapshot.commit(fork);
        true
    }
}

#[cfg(test)]
impl RemovalSimulator {
    pub(super) fn clear_cache(&mut self) {
        self.drains = DrainCache::default();
    }
}

/// A copy of a node with the `ToBeDeleted` taint.
fn with_to_be_deleted_taint(node: &Node, now: Moment) -> Node {
    let mut tainted_node = node.clone();
    Arc::make_mut(&mut tainted_node.view).taints.push(Taint {
        key: TO_BE_DELETED.into(),
        value: super::taints::taint_value(now).into(),
        effect: NO_SCHEDULE.into(),
        time_added: None,
    });
    tainted_node
}
