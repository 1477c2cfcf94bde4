//! Taints and annotations of a node that concern its removal.

use kubernetes::time::seconds;
use model::Moment;
use scheduler::node::Node;

use super::super::clock::LoopClock;

/// The annotation that disables the scale-down of a node.
pub(super) const SCALE_DOWN_DISABLED_ANNOTATION: &str =
    "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// In seconds: a node with an older `ToBeDeleted` taint counts as one whose deletion failed.
const MAX_DELETION_SECONDS: i64 = 5 * 60;

/// Whether a node's annotation disables its scale-down.
pub(super) fn is_scale_down_disabled(node: &Node) -> bool {
    node.annotations.get(SCALE_DOWN_DISABLED_ANNOTATION) == Some("true")
}

/// Until when a node that was tainted at that moment counts as being deleted; `None` if it does not any more.
pub(super) fn being_deleted_until(tainted_at: Moment, clock: &LoopClock) -> Option<Moment> {
    let end = tainted_at.plus_nanos(seconds(MAX_DELETION_SECONDS));
    (!clock.has_reached(end)).then(|| end.plus_nanos(-1))
}

/// When a node was tainted, by the taint's value.
pub(super) fn taint_time(node: &Node, key: &str) -> Option<Moment> {
    let tainted_at: i64 = node.taint(key)?.value.parse().ok()?;
    Some(Moment::from_nanos(seconds(tainted_at)))
}
