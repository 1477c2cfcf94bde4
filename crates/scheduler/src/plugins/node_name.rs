//! `spec.nodeName`.

use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Pod;
use super::super::verdict::Refusal;

/// A pod that names a node goes to no other.
pub(crate) fn filter(pod: &Pod, node: &NodeSpec) -> Result<(), Refusal> {
    match &pod.node_name {
        Some(name) if *name != node.name => {
            Err(Refusal::unresolvable(Plugin::NodeName, "node(s) didn't match the requested node name"))
        }
        _ => Ok(()),
    }
}
