//! The removal simulation: whether the pods of a node fit on other nodes.

use kubernetes::well_known::TO_BE_DELETED;
use std::sync::Arc;

use model::Moment;
use scheduler::ids::{NodeId, PodId};

use super::super::AutoscalingContext;
use super::super::decision::{BlockingPodReason, UnremovableReason};
use super::super::hinting_simulator::HintingSimulator;
use super::super::pod_list_processor::clear_tpu_requests;
use super::drainability::{DrainabilityRules, PodsToMove};
use super::pdb_tracker::RemainingPdbTracker;
use kubernetes::taints::{NO_SCHEDULE, Taint};
use scheduler::node::Node;

/// Why a node is unremovable, and the pod that blocks it.
pub(super) type RemovalFailure = (UnremovableReason, Option<(PodId, BlockingPodReason)>);

/// Moves a node's pods to other nodes and removes it from the snapshot; on failure the snapshot is unchanged.
pub(super) fn simulate_node_removal(
    context: &mut AutoscalingContext<'_>,
    hinting_simulator: &mut HintingSimulator,
    disruptions: &RemainingPdbTracker,
    destinations: &[bool],
    node: NodeId,
) -> Result<PodsToMove, RemovalFailure> {
    let pods = context.cluster.snapshot.pods_on(node);
    let rules = DrainabilityRules {
        settings: context.settings,
        clock: context.clock,
        controllers: Some(&*context.cluster),
        disruptions: Some(disruptions),
    };
    let drain = rules
        .pods_to_move(&context.cluster.snapshot, &pods)
        .map_err(|blocking| (UnremovableReason::BlockedByPod, Some(blocking)))?;
    let snapshot = &mut context.cluster.snapshot;
    let fork = snapshot.fork();
    for pod in &pods {
        snapshot.unschedule(*pod);
    }
    if !drain.pods.is_empty() {
        // The node stays in the snapshot, tainted, while its pods are moved: it still counts as a topology domain.
        let acceptable =
            |id: NodeId| id != node && destinations.get(id.index()).is_some_and(|destination| *destination);
        let pods_to_move: Vec<PodId> =
            drain.pods.iter().map(|pod| clear_tpu_requests(snapshot, *pod)).collect();
        if pods_to_move.iter().any(|pod| snapshot.filter_snapshot.spread_honors_taints(*pod)) {
            let tainted_node = with_to_be_deleted_taint(snapshot.node(node), context.clock.now());
            snapshot.replace_node(node, Arc::new(tainted_node));
        }
        let scheduled = hinting_simulator.try_schedule_pods(
            snapshot,
            context.settings.version,
            &pods_to_move,
            true,
            &acceptable,
        );
        if scheduled.len() != pods_to_move.len() {
            snapshot.revert(fork);
            return Err((UnremovableReason::NoPlaceToMovePods, None));
        }
    }
    snapshot.remove_node(node);
    snapshot.commit(fork);
    Ok(drain)
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
