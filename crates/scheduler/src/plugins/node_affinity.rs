//! `nodeSelector`, node affinity, and the affinity that a profile adds to every pod.

use std::sync::Arc;

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::node::NodeSpec;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Shape;
use crate::settings::AddedAffinity;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodeAffinity",
    points: |_| {
        &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
    },
    filter: Some(Filter::OF_NODE),
    weight: 2,
    events: &[Sort::NodeAdded, Sort::NodeLabels],
    queueing_hint,
    ..Registration::EMPTY
};

/// The only nodes that can match, by name, sorted; `None` for any.
pub(crate) fn pre_filter(shape: &Shape) -> Result<Option<Vec<Arc<str>>>, Refusal> {
    let Some(names) = shape.required_nodes.affinity.as_ref().and_then(|nodes| nodes.names()) else {
        return Ok(None);
    };
    if names.is_empty() {
        return Err(Refusal::unresolvable(Plugin::NodeAffinity, "pod affinity terms conflict"));
    }
    Ok(Some(names.into_iter().map(Arc::from).collect()))
}

pub(crate) fn filter(shape: &Shape, added: &AddedAffinity, node: &NodeSpec) -> Result<(), Refusal> {
    if !is_enforced(added, node) {
        let reason = "node(s) didn't match scheduler-enforced node affinity";
        return Err(Refusal::unresolvable(Plugin::NodeAffinity, reason));
    }
    if !shape.required_nodes.selects(&node.name, &node.labels) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return Err(Refusal::unresolvable(Plugin::NodeAffinity, reason));
    }
    Ok(())
}

/// Whether nobody prefers any node.
pub(crate) fn is_indifferent(shape: &Shape, added: &AddedAffinity) -> bool {
    !shape.prefers_nodes && added.preferred.is_empty()
}

/// The weights of the preferences that the node meets.
pub(crate) fn score(shape: &Shape, added: &AddedAffinity, node: &NodeSpec) -> i64 {
    let label = |key: &str| node.labels.get(key);
    let preferred = added.preferred.iter().chain(&shape.preferred_nodes);
    let met = preferred.filter(|(_, term)| term.matches(&node.name, label).unwrap_or(false));
    met.map(|(weight, _)| weight).sum()
}

/// A node that the pod selects, and did not before. One whose terms make no sense is always tried again.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let About::Node { old, new: Some(new) } = hint.event.about else { return true };
    if !is_enforced(&hint.profile.added_affinity, new) {
        return false;
    }
    let selects = |node: &NodeSpec| hint.pod.shape.required_nodes.matches(&node.name, &node.labels);
    match (selects(new), old.map(selects)) {
        (Ok(false), _) | (Ok(true), Some(Ok(true))) => false,
        (Ok(true), _) | (Err(_), _) => true,
    }
}

/// Whether the node is one that the profile lets pods go to.
fn is_enforced(added: &AddedAffinity, node: &NodeSpec) -> bool {
    let label = |key: &str| node.labels.get(key);
    added.required.as_ref().is_none_or(|nodes| nodes.matches(&node.name, label).unwrap_or(false))
}
