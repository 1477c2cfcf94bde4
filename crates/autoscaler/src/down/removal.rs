//! Trying whether a node's pods find room elsewhere.

use std::sync::Arc;

use model::Moment;
use scheduler::ids::{NodeId, PodId};

use super::super::decision::{BlockingReason, UnremovableReason};
use super::super::node::{Node, NodeTaint};
use super::super::packing::Packing;
use super::super::pending::without_tpu;
use super::super::{AutoscalingContext, TO_BE_DELETED};
use super::disruptions::Disruptions;
use super::drainability::{Drain, Rules};

/// Why a node cannot go, and the pod that stands in the way.
pub(super) type Refusal = (UnremovableReason, Option<(PodId, BlockingReason)>);

/// Moves a node's pods to other nodes and removes it from the snapshot; leaves everything as it was if that cannot be.
pub(super) fn remove(
    context: &mut AutoscalingContext<'_>,
    packing: &mut Packing,
    disruptions: &Disruptions,
    destinations: &[bool],
    node: NodeId,
) -> Result<Drain, Refusal> {
    let pods = context.cluster.snapshot.pods_on(node);
    let rules = Rules {
        settings: context.settings,
        clock: context.clock,
        controllers: Some(&*context.cluster),
        disruptions: Some(disruptions),
    };
    let drain = rules
        .drain(&context.cluster.snapshot, &pods)
        .map_err(|blocking| (UnremovableReason::BlockedByPod, Some(blocking)))?;
    let snapshot = &mut context.cluster.snapshot;
    let fork = snapshot.fork();
    for pod in &pods {
        snapshot.take_off(*pod);
    }
    if !drain.pods.is_empty() {
        // The node stays where it is while its pods look for another, tainted: as a domain of topology it still counts.
        let acceptable =
            |id: NodeId| id != node && destinations.get(id.index()).is_some_and(|destination| *destination);
        let moving: Vec<PodId> = drain.pods.iter().map(|pod| without_tpu(snapshot, *pod)).collect();
        if moving.iter().any(|pod| snapshot.trial.minds_taints_elsewhere(*pod)) {
            let ghost = tainted(snapshot.node(node), context.clock.now());
            snapshot.change_node(node, Arc::new(ghost));
        }
        let placed = packing.place(snapshot, context.settings.version, &moving, true, &acceptable);
        if placed.len() != moving.len() {
            snapshot.revert(fork);
            return Err((UnremovableReason::NoPlaceToMovePods, None));
        }
    }
    snapshot.remove_node(node);
    snapshot.commit(fork);
    Ok(drain)
}

/// A node as it is when it goes.
fn tainted(node: &Node, now: Moment) -> Node {
    let mut ghost = node.clone();
    let mut taints = ghost.taints.clone();
    taints.push(NodeTaint {
        key: TO_BE_DELETED.into(),
        value: super::taints::seconds_of(now).into(),
        effect: "NoSchedule".into(),
        added: None,
    });
    ghost.set_taints(taints);
    ghost
}
