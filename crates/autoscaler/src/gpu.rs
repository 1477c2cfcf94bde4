//! GPU type and count of a node, also while its GPUs are not allocatable yet.

use std::sync::Arc;

use kubernetes::quantity::Quantity;
use scheduler::node::Node;
use serde::Deserialize;

use super::cloud::{CloudProvider, GroupId};
use super::gpu_names::{RESOURCES, allocatable};

/// The GPU type by the node's label, and the count; while no GPU is allocatable, the count of the group's template.
pub(crate) fn of_node(
    node: &Node,
    group: Option<GroupId>,
    cloud: &dyn CloudProvider,
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
