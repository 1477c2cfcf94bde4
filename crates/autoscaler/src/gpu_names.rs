//! The resource names that cluster-autoscaler knows as GPUs.

use scheduler::node::Node;

/// The GPU resources, in the order in which they are looked up.
pub const RESOURCES: [&str; 5] =
    ["nvidia.com/gpu", "habana.ai/gaudi", "gpu.intel.com/xe", "amd.com/gpu", "microsoft.com/directx"];

/// The first GPU resource with a positive allocatable amount, and that amount.
pub(crate) fn allocatable(node: &Node) -> Option<(&'static str, i64)> {
    let amounts = RESOURCES.iter().map(|resource| (*resource, node.view.allocatable.value(resource)));
    amounts.into_iter().find(|(_, amount)| *amount > 0)
}
