//! The removal simulation: whether the pods of a node fit on other nodes.

use std::sync::Arc;

use model::Moment;
use scheduler::ids::{NodeId, PodId};

use super::super::decision::{BlockingPodReason, UnremovableReason};
use super::super::hinting_simulator::HintingSimulator;
use super::super::node::{Node, NodeTaint};
use super::super::pod_list_processor::clear_tpu_requests;
use super::super::snapshot::ClusterSnapshot;
use super::super::{AutoscalingContext, TO_BE_DELETED_TAINT};
use super::counted_removals::{CountedRemovals, CountedScheduling};
use super::drainability::{DrainabilityRules, PodsToMove};
use super::pdb_tracker::RemainingPdbTracker;

/// Why a node is unremovable, and the pod that blocks it.
pub(super) type RemovalFailure = (UnremovableReason, Option<(PodId, BlockingPodReason)>);

/// Simulates the removal of one node after the other.
#[derive(Debug, Default)]
pub(super) struct RemovalSimulator {
    /// By node ID, whether pods may move to the node.
    destinations: Vec<bool>,
    counted_removals: CountedRemovals,
    /// Nothing is counted: every removal is carried out in the snapshot, which is the reference.
    #[cfg(test)]
    pub carries_out_all: bool,
}

// === impl RemovalSimulator ===

impl RemovalSimulator {
    /// Begins a simulation in which pods may move to these nodes, by node ID.
    pub(super) fn begin(&mut self, destinations: &[bool]) {
        self.destinations.clear();
        self.destinations.extend_from_slice(destinations);
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
        disruptions: &RemainingPdbTracker,
        node: NodeId,
    ) -> Result<PodsToMove, RemovalFailure> {
        let pods = self.counted_removals.pods_on(&context.cluster.snapshot, node);
        let rules = DrainabilityRules {
            settings: context.settings,
            clock: context.clock,
            controllers: Some(&*context.cluster),
            disruptions: Some(disruptions),
        };
        let drain = rules
            .pods_to_move(&context.cluster.snapshot, &pods)
            .map_err(|blocking| (UnremovableReason::BlockedByPod, Some(blocking)))?;
        let is_moved = if self.can_count(&mut context.cluster.snapshot, &drain.pods) {
            self.count_removal(context, hinting_simulator, &drain.pods, node)
        } else {
            self.counted_removals.carry_out(&mut context.cluster.snapshot);
            self.carry_out_removal(context, hinting_simulator, &pods, &drain.pods, node)
        };
        if !is_moved {
            return Err((UnremovableReason::NoPlaceToMovePods, None));
        }
        self.exclude_destination(node);
        Ok(drain)
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
        context: &mut AutoscalingContext<'_>,
        hinting_simulator: &mut HintingSimulator,
        pods_to_move: &[PodId],
        node: NodeId,
    ) -> bool {
        let RemovalSimulator { destinations, counted_removals, .. } = self;
        let snapshot = &mut context.cluster.snapshot;
        let scheduled = hinting_simulator.try_schedule_pods(
            &mut CountedScheduling { snapshot, removals: counted_removals },
            context.settings.version,
            pods_to_move,
            true,
            &|id| id != node && destinations.get(id.index()).is_some_and(|destination| *destination),
        );
        if scheduled.len() != pods_to_move.len() {
            counted_removals.undo_moves(&context.cluster.snapshot);
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
        pods_to_move: &[PodId],
        node: NodeId,
    ) -> bool {
        let snapshot = &mut context.cluster.snapshot;
        let fork = snapshot.fork();
        for pod in pods {
            snapshot.unschedule(*pod);
        }
        if !pods_to_move.is_empty() {
            // The node stays in the snapshot, tainted, while its pods are moved: it still counts as a topology domain.
            let pods_to_move: Vec<PodId> =
                pods_to_move.iter().map(|pod| clear_tpu_requests(snapshot, *pod)).collect();
            if pods_to_move.iter().any(|pod| snapshot.filter_snapshot.spread_honors_taints(*pod)) {
                let tainted_node = with_to_be_deleted_taint(snapshot.node(node), context.clock.now());
                snapshot.replace_node(node, Arc::new(tainted_node));
            }
            let scheduled = hinting_simulator.try_schedule_pods(
                snapshot,
                context.settings.version,
                &pods_to_move,
                true,
                &|id| id != node && self.is_destination(id),
            );
            if scheduled.len() != pods_to_move.len() {
                snapshot.revert(fork);
                return false;
            }
        }
        snapshot.remove_node(node);
        snapshot.commit(fork);
        true
    }
}

/// A copy of a node with the `ToBeDeleted` taint.
fn with_to_be_deleted_taint(node: &Node, now: Moment) -> Node {
    let mut tainted_node = node.clone();
    let mut taints = tainted_node.taints.clone();
    taints.push(NodeTaint {
        key: TO_BE_DELETED_TAINT.into(),
        value: super::taints::taint_value(now).into(),
        effect: "NoSchedule".into(),
        time_added: None,
    });
    tainted_node.set_taints(taints);
    tainted_node
}
