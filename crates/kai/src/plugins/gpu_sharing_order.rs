//! Plugin gpusharingorder: nodes with a shared GPU that has room for the pod first. A pod without GPUs always has room.

use super::node_fit::fits_gpu_group;
use super::scores::GPU_SHARING;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;

pub(crate) fn score(pod: &Pod, node: &Node) -> f64 {
    let has_room = node.shared_gpus.iter().any(|(_, memory)| fits_gpu_group(pod, node, memory));
    if has_room { GPU_SHARING } else { 0.0 }
}
