//! What a node's taints and annotations say of its removal.

use kubernetes::time::seconds;
use model::Moment;

use super::super::clock::Clock;
use super::super::node::Node;

/// The annotation of nodes that are to be left alone.
pub(super) const DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// A node that was marked longer ago is taken for one that could not be deleted, in seconds.
const DELETION: i64 = 5 * 60;

/// Whether a node asks to be left alone.
pub(super) fn is_disabled(node: &Node) -> bool {
    node.annotations.get(DISABLED) == Some("true")
}

/// Up to when a node that was marked at that moment is taken for one that is being deleted, if it is.
pub(super) fn is_taken_for_going(marked: Moment, clock: &Clock) -> Option<Moment> {
    let end = marked.plus_nanos(seconds(DELETION));
    (!clock.has_come(end)).then(|| end.plus_nanos(-1))
}

/// When a node was marked, as the taint's value says.
pub(super) fn marked_at(node: &Node, key: &str) -> Option<Moment> {
    let marked: i64 = node.taint(key)?.value.parse().ok()?;
    Some(Moment::from_nanos(seconds(marked)))
}
