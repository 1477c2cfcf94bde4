//! The GPUs of nodes, also of those that have yet to say how many they have.

use std::sync::Arc;

use kubernetes::quantity::Quantity;
use serde::Deserialize;

use super::cloud::{Cloud, GroupId};
use super::gpu_names::{RESOURCES, allocatable};
use super::node::Node;

/// The kind of GPU that a node's label names, and how many it has; while they are not there yet, as many as its group's
/// cloud says that new nodes have.
pub(crate) fn of_node(
    node: &Node,
    group: Option<GroupId>,
    cloud: &dyn Cloud,
) -> Result<Option<(Arc<str>, i64)>, String> {
    let Some(kind) = node.labels.get_shared(cloud.gpu_label()) else { return Ok(None) };
    if let Some((_, count)) = allocatable(node) {
        return Ok(Some((kind.clone(), count)));
    }
    let Some(group) = group else {
        return Err(
            "node without with gpu label, without capacity not belonging to autoscaled node group".to_owned()
        );
    };
    let template = cloud.groups()[group.index()].template.value().unwrap_or_default();
    let capacity = &template["status"]["capacity"];
    let named = RESOURCES.iter().find_map(|resource| Quantity::deserialize(&capacity[*resource]).ok());
    let count = named.map(|quantity| quantity.value());
    Ok(count.map(|count| (kind.clone(), count)))
}
