//! The taints of nodes that are being deleted, and of deletion candidates.

use std::sync::Arc;

use kubernetes::time::after;
use kubernetes::well_known::{DELETION_CANDIDATE, TO_BE_DELETED};
use model::Moment;
use scheduler::ids::NodeId;
use scheduler::node::Node;

use super::super::AutoscalingContext;
use super::super::decision::{Action, Event, InvolvedObject};
use super::super::node_eligibility::NodeEligibility;
use super::node_markers::taint_time;
use super::unneeded::UnneededNodes;

/// Adds the `ToBeDeleted` taint to a node that does not have it.
pub(super) fn add_to_be_deleted_taint(context: &mut AutoscalingContext<'_>, id: NodeId) {
    let node = context.cluster.snapshot.node(id).clone();
    if node.taint(TO_BE_DELETED).is_none() {
        context.actions.push(Action::Taint {
            node: node.name.clone(),
            key: TO_BE_DELETED,
            value: taint_value(context.clock.now()),
            effect: "NoSchedule",
        });
        if context.settings.cordon_node_before_terminating {
            context.actions.push(Action::Cordon { node: node.name.clone(), unschedulable: true });
        }
    }
    context.events.push(Event {
        involved_object: InvolvedObject::Node(node.name.clone()),
        is_warning: false,
        reason: "ScaleDown",
        message: String::from("marked the node as toBeDeleted/unschedulable"),
    });
}

/// Removes the `ToBeDeleted` taint from a node whose deletion failed.
pub(super) fn remove_to_be_deleted_taint(
    context: &AutoscalingContext<'_>,
    name: &str,
    actions: &mut Vec<Action>,
) {
    let Some(id) = context.cluster.snapshot.find_node(name) else { return };
    let node = &context.cluster.snapshot.node(id).name;
    actions.push(Action::Untaint { node: node.clone(), key: TO_BE_DELETED });
    if context.settings.cordon_node_before_terminating {
        actions.push(Action::Cordon { node: node.clone(), unschedulable: false });
    }
}

/// Removes soft taints from needed nodes, then adds them to unneeded ones, up to the maximum of changes per loop.
pub(super) fn update_soft_deletion_taints(
    context: &mut AutoscalingContext<'_>,
    nodes: &[NodeId],
    unneeded: &UnneededNodes,
) {
    let max_changes = usize::try_from(context.settings.max_bulk_soft_taint_count).unwrap_or(0);
    let snapshot = &context.cluster.snapshot;
    let eligibility = |name: &Arc<str>| context.node_eligibility(snapshot.find_node(name)?);
    let unneeded_names = || unneeded.iter().map(|(name, _)| name);
    // If all soft-tainted nodes are unneeded, no taint has to be removed.
    let tainted_count =
        unneeded_names().filter_map(eligibility).filter(|eligibility| eligibility.is_soft_tainted()).count();
    let nodes = if tainted_count == context.node_eligibilities.soft_tainted_count { &[] } else { nodes };
    let is_tainted =
        |id: &&NodeId| context.node_eligibility(**id).is_some_and(NodeEligibility::is_soft_tainted);
    let needed = nodes.iter().filter(is_tainted).map(|id| &snapshot.node(*id).name);
    let unmarked = needed.filter(|name| !unneeded.contains(name));
    let mut changes: Vec<Action> = unmarked
        .take(max_changes)
        .map(|node| Action::Untaint { node: node.clone(), key: DELETION_CANDIDATE })
        .collect();
    let value = taint_value(context.clock.now());
    let is_new = |name: &&Arc<str>| {
        eligibility(name).is_some_and(|node_eligibility| {
            node_eligibility.is_soft_taintable() && !node_eligibility.is_deletion_candidate
        })
    };
    let remaining = max_changes - changes.len();
    changes.extend(unneeded_names().filter(is_new).take(remaining).map(|node| Action::Taint {
        node: node.clone(),
        key: DELETION_CANDIDATE,
        value: value.clone(),
        effect: "PreferNoSchedule",
    }));
    context.actions.append(&mut changes);
}

/// Removes the taints that an earlier autoscaler left, before the first loop.
pub(crate) fn clean_up(context: &mut AutoscalingContext<'_>) {
    let nodes: Vec<NodeId> = context.cluster.nodes().collect();
    let (ttl, soft_taint_limit) =
        (context.settings.node_deletion_candidate_ttl, context.settings.max_bulk_soft_taint_count);
    for id in &nodes {
        let node = context.cluster.snapshot.node(*id).clone();
        if node.taint(TO_BE_DELETED).is_none()
            || context.cluster.group_for_node(*id, &*context.cloud).is_none()
        {
            continue;
        }
        let mut actions = Vec::new();
        remove_to_be_deleted_taint(context, &node.name, &mut actions);
        context.actions.append(&mut actions);
        emit_cleanup_event(context, &node, TO_BE_DELETED);
    }
    for id in nodes.iter().filter(|_| soft_taint_limit == 0) {
        let node = context.cluster.snapshot.node(*id).clone();
        let is_recent =
            |tainted_count: Moment| !ttl.is_zero() && !context.clock.has_reached(after(tainted_count, ttl));
        if node.taint(DELETION_CANDIDATE).is_none()
            || taint_time(&node, DELETION_CANDIDATE).is_some_and(is_recent)
        {
            continue;
        }
        context.actions.push(Action::Untaint { node: node.name.clone(), key: DELETION_CANDIDATE });
        emit_cleanup_event(context, &node, DELETION_CANDIDATE);
    }
}

fn emit_cleanup_event(context: &mut AutoscalingContext<'_>, node: &Node, key: &str) {
    context.events.push(Event {
        involved_object: InvolvedObject::Node(node.name.clone()),
        is_warning: false,
        reason: "ClusterAutoscalerCleanup",
        message: format!("removed {key} taint from node {}", node.name),
    });
}

/// A moment as the value of a taint.
pub(super) fn taint_value(moment: Moment) -> String {
    moment.nanos().div_euclid(1_000_000_000).to_string()
}
