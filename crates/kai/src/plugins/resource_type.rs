//! Plugin resourcetype: nodes without GPUs first for pods without GPUs.

use super::scores::RESOURCE_TYPE;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;

pub(crate) fn score(pod: &Pod, node: &Node) -> f64 {
    if !pod.requires_gpu() && node.is_cpu_only() { RESOURCE_TYPE } else { 0.0 }
}
