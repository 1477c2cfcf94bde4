//! Ports of the node itself.

use super::super::node::Load;
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::verdict::Refusal;

/// No two pods of a node have the same port.
pub(crate) fn filter(shape: &Shape, load: &Load) -> Result<(), Refusal> {
    if shape.ports.iter().any(|wanted| load.ports.iter().any(|used| wanted.conflicts(used))) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(Refusal::unschedulable(Plugin::NodePorts, reason));
    }
    Ok(())
}
