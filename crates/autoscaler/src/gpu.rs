//! GPUs as cluster-autoscaler knows them.

use std::sync::Arc;

use kubernetes::quantity::Quantity;
use serde::Deserialize;

use super::cloud::{Cloud, GroupId};
use super::node::Node;

/// The resources that are GPUs, in the order in which they are looked for.
pub const RESOURCES: [&str; 5] =
    ["nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx"];

/// The first GPU resource that a node has any of, and how many.
pub(crate) fn allocatable(node: &Node) -> Option<(&'static str, i64)> {
    let amounts = RESOURCES.iter().map(|resource| (*resource, node.allocatable.value(resource)));
    amounts.into_iter().find(|(_, amount)| *amount > 0)
}

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
