//! `nodeSelector`, node affinity, and the affinity that a profile adds to every pod.

use std::sync::Arc;

use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::settings::AddedAffinity;
use super::super::verdict::Refusal;

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
    let label = |key: &str| node.labels.get(key);
    let enforced =
        added.required.as_ref().is_none_or(|nodes| nodes.matches(&node.name, label).unwrap_or(false));
    if !enforced {
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
