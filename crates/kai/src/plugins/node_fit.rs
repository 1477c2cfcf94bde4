//! Whether a node has enough for a pod, idle or being released.

use crate::cluster::gpu::RequestType;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::cluster::resources::{GPU, ResourceVector};
use crate::cluster::shared_gpus::GroupMemory;

/// Whether enough is idle.
pub(crate) fn is_allocatable(pod: &Pod, node: &Node) -> bool {
    let is_whole = matches!(pod.request_type, RequestType::Regular | RequestType::MigInstance);
    if is_whole {
        return has_valid_portion(pod, node) && pod.request.is_at_most(&node.idle);
    }
    is_at_most_without_gpus(&pod.request, |index| node.idle.get(index))
        && has_devices(pod, node, node.idle.get(GPU))
}

/// Whether enough is idle or being released.
pub(crate) fn is_allocatable_on_releasing_or_idle(pod: &Pod, node: &Node) -> bool {
    let is_whole = matches!(pod.request_type, RequestType::Regular | RequestType::MigInstance);
    if is_whole {
        return has_valid_portion(pod, node) && pod.request.is_at_most_sum(&node.idle, &node.releasing);
    }
    let free = |index: usize| node.idle.get(index) + node.releasing.get(index);
    is_at_most_without_gpus(&pod.request, free) && has_devices(pod, node, free(GPU))
}

/// Whether a shared GPU has room for a pod.
pub(crate) fn fits_gpu_group(pod: &Pod, node: &Node, memory: &GroupMemory) -> bool {
    let requested = node.requested_gpu_memory(&pod.gpu);
    memory.used != 0
        && node.gpu_memory - memory.allocated + memory.releasing - requested >= 0
        && memory.allocated != memory.releasing
}

/// Whether a shared GPU has idle memory for a pod.
pub(crate) fn has_idle_memory(pod: &Pod, node: &Node, memory: &GroupMemory) -> bool {
    memory.was_allocated && node.gpu_memory - memory.allocated - node.requested_gpu_memory(&pod.gpu) >= 0
}

/// Whether the share of a GPU that a pod requests is at most one, or whole.
pub(crate) fn has_valid_portion(pod: &Pod, node: &Node) -> bool {
    let portion = node.requested_gpu_portion(&pod.gpu);
    portion <= 1.0 || portion == portion.trunc()
}

fn is_at_most_without_gpus(request: &ResourceVector, free: impl Fn(usize) -> f64) -> bool {
    let mut amounts = request.amounts().iter().enumerate();
    !amounts.any(|(index, amount)| index != GPU && *amount > free(index))
}

/// Whether there are enough whole and shared GPUs.
fn has_devices(pod: &Pod, node: &Node, free_gpus: f64) -> bool {
    if !has_valid_portion(pod, node) {
        return false;
    }
    let whole = free_gpus.floor() as i64;
    let fitting = node.shared_gpus.iter().filter(|(_, memory)| fits_gpu_group(pod, node, memory));
    let shared = (fitting.count() as i64).min(pod.gpu.count.max(1));
    whole.saturating_add(shared) >= pod.gpu.count
}
