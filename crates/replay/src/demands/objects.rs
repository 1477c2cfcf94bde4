//! Signs of scale-down and preemption in nodes and Events.

use std::sync::Arc;

use kubernetes::objects::{EventView, NodeView};
use kubernetes::well_known::TO_BE_DELETED;

/// Whether an autoscaler is removing a node.
pub(crate) fn is_being_removed(node: &NodeView) -> bool {
    node.taint(TO_BE_DELETED).is_some()
}

/// The uid of the pod that an Event says was preempted.
pub(super) fn preempted_pod_uid(event: &EventView) -> Option<Arc<str>> {
    let uid = &event.regarding.uid;
    (*event.reason == *"Preempted" && !uid.is_empty()).then(|| uid.clone())
}
