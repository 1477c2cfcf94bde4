//! Features of the kubelet that a pod needs.

use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::verdict::Refusal;

pub(crate) fn filter(shape: &Shape, node: &NodeSpec) -> Result<(), Refusal> {
    let declared = |feature: &str| node.declared_features.iter().any(|other| **other == *feature);
    if shape.features.iter().all(|feature| declared(feature)) {
        return Ok(());
    }
    Err(Refusal::unresolvable(Plugin::NodeDeclaredFeatures, "node(s) didn't match Pod's required features"))
}
