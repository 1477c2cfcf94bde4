//! Plugin ray: heads of Ray clusters first.

use crate::cluster::pod::Pod;

const NODE_TYPE_LABEL: &str = "ray.io/node-type";

/// Whether a pod is a head.
pub(crate) fn is_head(pod: &Pod) -> bool {
    pod.view.label(NODE_TYPE_LABEL) == Some("head")
}
