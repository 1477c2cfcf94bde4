//! NodeAffinity: `nodeSelector`, node affinity, and the affinity that a profile adds to every pod.

use std::sync::Arc;

use super::registration::{FilterTraits, Registration};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::node::Node;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::SchedulingSpec;
use crate::settings::AddedAffinity;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration = Registration::new("NodeAffinity", |_| {
    &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
})
.filter(FilterTraits::NODE_ONLY)
.weight(2)
.events(&[ClusterEvent::NodeAdd, ClusterEvent::UpdateNodeLabel])
.queueing_hint(queueing_hint);

/// The only nodes that can match, by name, sorted; `None` for any.
pub(crate) fn pre_filter(spec: &SchedulingSpec) -> Result<Option<Vec<Arc<str>>>, Status> {
    let Some(names) = spec.required_node_affinity.affinity.as_ref().and_then(|nodes| nodes.names()) else {
        return Ok(None);
    };
    if names.is_empty() {
        return Err(Status::unresolvable(Plugin::NodeAffinity, "pod affinity terms conflict"));
    }
    Ok(Some(names.into_iter().map(Arc::from).collect()))
}

pub(crate) fn filter(
    spec: &SchedulingSpec,
    added_affinity: &AddedAffinity,
    node: &Node,
) -> Result<(), Status> {
    if !matches_added_affinity(added_affinity, node) {
        let reason = "node(s) didn't match scheduler-enforced node affinity";
        return Err(Status::unresolvable(Plugin::NodeAffinity, reason));
    }
    if !spec.required_node_affinity.selects(&node.name, &node.labels) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return Err(Status::unresolvable(Plugin::NodeAffinity, reason));
    }
    Ok(())
}

/// Whether neither pod nor profile has preferred node affinity.
pub(crate) fn is_score_skipped(spec: &SchedulingSpec, added_affinity: &AddedAffinity) -> bool {
    !spec.has_preferred_node_affinity && added_affinity.preferred.is_empty()
}

/// The sum of the weights of matching preferred terms.
pub(crate) fn score(spec: &SchedulingSpec, added_affinity: &AddedAffinity, node: &Node) -> i64 {
    let label = |key: &str| node.labels.get(key);
    let preferred = added_affinity.preferred.iter().chain(&spec.preferred_node_affinity);
    let matching_terms = preferred.filter(|(_, term)| term.matches(&node.name, label).unwrap_or(false));
    matching_terms.map(|(weight, _)| weight).sum()
}

/// A node matches the pod's node affinity and did not before. A pod with invalid terms is always requeued.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let EventObjects::Node { old, new: Some(new) } = hint.event.objects else { return true };
    if !matches_added_affinity(&hint.profile.added_affinity, new) {
        return false;
    }
    let selects = |node: &Node| hint.pod.spec.required_node_affinity.matches(&node.name, &node.labels);
    match (selects(new), old.map(selects)) {
        (Ok(false), _) | (Ok(true), Some(Ok(true))) => false,
        (Ok(true), _) | (Err(_), _) => true,
    }
}

/// Whether the node matches the profile's required `addedAffinity`.
fn matches_added_affinity(added_affinity: &AddedAffinity, node: &Node) -> bool {
    let label = |key: &str| node.labels.get(key);
    added_affinity.required.as_ref().is_none_or(|nodes| nodes.matches(&node.name, label).unwrap_or(false))
}
