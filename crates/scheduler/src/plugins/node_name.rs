//! `spec.nodeName`.

use super::registration::{Filter, Registration};
use crate::events::Sort;
use crate::node::NodeSpec;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Pod;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodeName",
    points: |_| &[ExtensionPoint::Filter],
    filter: Some(Filter::OF_NODE),
    events: &[Sort::NodeAdded],
    ..Registration::EMPTY
};

/// A pod that names a node goes to no other.
pub(crate) fn filter(pod: &Pod, node: &NodeSpec) -> Result<(), Refusal> {
    match &pod.node_name {
        Some(name) if *name != node.name => {
            Err(Refusal::unresolvable(Plugin::NodeName, "node(s) didn't match the requested node name"))
        }
        _ => Ok(()),
    }
}
