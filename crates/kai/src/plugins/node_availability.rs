//! Plugin nodeavailability: nodes with enough idle resources first.

use super::scores::AVAILABILITY;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::plugins::node_fit::is_allocatable;

pub(crate) fn score(pod: &Pod, node: &Node) -> f64 {
    if is_allocatable(pod, node) { AVAILABILITY } else { 0.0 }
}
