//! Plugin nominatednode: the nominated node first.

use super::scores::NOMINATED_NODE;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;

pub(crate) fn score(pod: &Pod, node: &Node) -> f64 {
    let nominated = pod.view.status.nominated_node_name.as_deref();
    if nominated == Some(&**node.name()) { NOMINATED_NODE } else { 0.0 }
}
