//! Ports of the node itself.

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::node::Load;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Shape;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodePorts",
    points: |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
    filter: Some(
        Filter::OF_NODE_AND_PODS.unprepared(r#"reading "PreFilterNodePorts" from cycleState: not found"#),
    ),
    events: &[Sort::NodeAdded, Sort::PodDeleted],
    queueing_hint,
    ..Registration::EMPTY
};

/// No two pods of a node have the same port.
pub(crate) fn filter(shape: &Shape, load: &Load) -> Result<(), Refusal> {
    if shape.ports.iter().any(|wanted| load.ports.iter().any(|used| wanted.conflicts(used))) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(Refusal::unschedulable(Plugin::NodePorts, reason));
    }
    Ok(())
}

/// A pod left that had one of the ports.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let About::Pod { old: Some(gone), new: None, .. } = hint.event.about else { return true };
    let conflicts = |port| hint.pod.shape.ports.iter().any(|own| own.conflicts(port));
    gone.is_held() && gone.shape.ports.iter().any(conflicts)
}
