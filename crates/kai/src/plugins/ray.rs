//! Plugin ray: heads of Ray clusters first.

use std::cmp::Ordering;

use crate::cluster::pod::Pod;

const NODE_TYPE_LABEL: &str = "ray.io/node-type";

pub(crate) fn compare_pods(left: &Pod, right: &Pod) -> Ordering {
    let is_head = |pod: &Pod| pod.view.label(NODE_TYPE_LABEL) == Some("head");
    is_head(right).cmp(&is_head(left))
}
