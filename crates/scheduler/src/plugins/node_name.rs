//! NodeName: `spec.nodeName` of a pod.

use super::registration::{FilterTraits, Registration};
use crate::events::ClusterEvent;
use crate::node::Node;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Pod;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration = Registration::new("NodeName", |_| &[ExtensionPoint::Filter])
    .filter(FilterTraits::NODE_ONLY)
    .events(&[ClusterEvent::NodeAdd]);

/// Rejects all nodes but the one that the pod names.
pub(crate) fn filter(pod: &Pod, node: &Node) -> Result<(), Status> {
    match &pod.node_name {
        Some(name) if *name != node.name => {
            Err(Status::unresolvable(Plugin::NodeName, "node(s) didn't match the requested node name"))
        }
        _ => Ok(()),
    }
}
