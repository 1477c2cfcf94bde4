//! The taints by which nodes that go, or might go, are marked.

use std::sync::Arc;

use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::decision::{About, Action, Event};
use super::super::node::Node;
use super::super::standing::Standing;
use super::super::{AutoscalingContext, CANDIDATE, TO_BE_DELETED};
use super::marks::marked_at;
use super::unneeded::Unneeded;

/// Marks a node that goes. One that is marked stays as it is.
pub(super) fn mark(context: &mut AutoscalingContext<'_>, id: NodeId) {
    let node = context.cluster.snapshot.node(id).clone();
    if node.taint(TO_BE_DELETED).is_none() {
        context.actions.push(Action::Taint {
            node: node.name.clone(),
            key: TO_BE_DELETED,
            value: seconds_of(context.clock.now()),
            effect: "NoSchedule",
        });
        if context.settings.cordon_node_before_terminating {
            context.actions.push(Action::Cordon { node: node.name.clone(), unschedulable: true });
        }
    }
    context.events.push(Event {
        about: About::Node(node.name.clone()),
        warning: false,
        reason: "ScaleDown",
        message: String::from("marked the node as toBeDeleted/unschedulable"),
    });
}

/// What takes the mark off a node that does not go after all.
pub(super) fn unmark(context: &AutoscalingContext<'_>, name: &str, actions: &mut Vec<Action>) {
    let Some(id) = context.cluster.snapshot.find(name) else { return };
    let node = &context.cluster.snapshot.node(id).name;
    actions.push(Action::Untaint { node: node.clone(), key: TO_BE_DELETED });
    if context.settings.cordon_node_before_terminating {
        actions.push(Action::Cordon { node: node.clone(), unschedulable: false });
    }
}

/// Marks nodes that might go, and takes the mark off others, which comes first: so many changes a loop.
pub(super) fn mark_candidates(context: &mut AutoscalingContext<'_>, nodes: &[NodeId], unneeded: &Unneeded) {
    let most = usize::try_from(context.settings.max_bulk_soft_taint_count).unwrap_or(0);
    let snapshot = &context.cluster.snapshot;
    let standing = |name: &Arc<str>| context.standing(snapshot.find(name)?);
    let needless = || unneeded.iter().map(|(name, _)| name);
    // If only nodes that could go are marked, no other is.
    let marked = needless().filter_map(standing).filter(|standing| standing.is_marked()).count();
    let nodes = if marked == context.standings.marked { &[] } else { nodes };
    let is_marked = |id: &&NodeId| context.standing(**id).is_some_and(Standing::is_marked);
    let needed = nodes.iter().filter(is_marked).map(|id| &snapshot.node(*id).name);
    let unmarked = needed.filter(|name| !unneeded.contains(name));
    let mut changes: Vec<Action> =
        unmarked.take(most).map(|node| Action::Untaint { node: node.clone(), key: CANDIDATE }).collect();
    let value = seconds_of(context.clock.now());
    let is_new = |name: &&Arc<str>| standing(name).is_some_and(|it| it.is_ours() && !it.candidate);
    let left = most - changes.len();
    changes.extend(needless().filter(is_new).take(left).map(|node| Action::Taint {
        node: node.clone(),
        key: CANDIDATE,
        value: value.clone(),
        effect: "PreferNoSchedule",
    }));
    context.actions.append(&mut changes);
}

/// Takes off what another autoscaler left behind: before the first loop.
pub(crate) fn clean_up(context: &mut AutoscalingContext<'_>) {
    let nodes: Vec<NodeId> = context.cluster.nodes().collect();
    let (ttl, softly) =
        (context.settings.node_deletion_candidate_ttl, context.settings.max_bulk_soft_taint_count);
    for id in &nodes {
        let node = context.cluster.snapshot.node(*id).clone();
        if node.taint(TO_BE_DELETED).is_none() || context.cluster.group_of(*id, &*context.cloud).is_none() {
            continue;
        }
        let mut actions = Vec::new();
        unmark(context, &node.name, &mut actions);
        context.actions.append(&mut actions);
        tell_cleaned(context, &node, TO_BE_DELETED);
    }
    for id in nodes.iter().filter(|_| softly == 0) {
        let node = context.cluster.snapshot.node(*id).clone();
        let fresh = |marked: Moment| !ttl.is_zero() && !context.clock.has_come(after(marked, ttl));
        if node.taint(CANDIDATE).is_none() || marked_at(&node, CANDIDATE).is_some_and(fresh) {
            continue;
        }
        context.actions.push(Action::Untaint { node: node.name.clone(), key: CANDIDATE });
        tell_cleaned(context, &node, CANDIDATE);
    }
}

fn tell_cleaned(context: &mut AutoscalingContext<'_>, node: &Node, key: &str) {
    context.events.push(Event {
        about: About::Node(node.name.clone()),
        warning: false,
        reason: "ClusterAutoscalerCleanup",
        message: format!("removed {key} taint from node {}", node.name),
    });
}

/// A moment as the value of a taint.
pub(super) fn seconds_of(moment: Moment) -> String {
    moment.nanos().div_euclid(1_000_000_000).to_string()
}
