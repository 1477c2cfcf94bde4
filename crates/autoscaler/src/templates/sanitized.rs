//! Sanitized copies of nodes and pods for templates, without transient taints and with new names.

use std::sync::Arc;

use kubernetes::labels::Labels;

use crate::node::Node;
use crate::pod::Pod;
use crate::readiness::{is_startup_taint, is_status_taint};
use crate::settings::Settings;
use crate::{DELETION_CANDIDATE_TAINT, TO_BE_DELETED_TAINT};

const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";
const TEMPLATE_NODE_LABEL: &str = "cluster-autoscaler.kubernetes.io/template-node";

/// Labels and their deprecated names. Templates of cloud providers get both.
const DEPRECATED_LABELS: [(&str, &str); 3] = [
    ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
];

/// Taints that describe a transient state of a node.
const TRANSIENT_TAINTS: [&str; 13] = [
    TO_BE_DELETED_TAINT,
    DELETION_CANDIDATE_TAINT,
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/pid-pressure",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
];

/// A copy of a node without taints that a new node does not have.
pub(super) fn node(example: &Node, settings: &Settings) -> Node {
    let mut node = example.clone();
    if settings.scale_from_unschedulable {
        node.unschedulable = false;
        node.spec.unschedulable = false;
    }
    let mut taints = std::mem::take(&mut node.taints);
    taints.retain(|taint| {
        let key = &*taint.key;
        !TRANSIENT_TAINTS.contains(&key)
            && !is_startup_taint(key, settings)
            && !is_status_taint(key, settings)
    });
    node.set_taints(taints);
    node
}

/// Renames a node, including its hostname label.
pub(super) fn rename(node: &mut Node, name: Arc<str>) {
    set_labels(node, [(HOSTNAME_LABEL.into(), name.clone())]);
    node.set_name(name);
}

/// Adds the template label and, if requested, labels by their deprecated names.
pub(super) fn add_labels(node: &mut Node, old_names: bool) {
    let repeated = DEPRECATED_LABELS
        .iter()
        .filter(|_| old_names)
        .filter_map(|(name, old_name)| Some(((*old_name).into(), node.labels.get_shared(name)?.clone())));
    let labels: Vec<(Arc<str>, Arc<str>)> =
        repeated.chain([(TEMPLATE_NODE_LABEL.into(), "true".into())]).collect();
    set_labels(node, labels);
}

/// A copy of a pod with a unique name, on that node.
pub(super) fn pod(example: &Pod, suffix: &str, node: &Arc<str>) -> Arc<Pod> {
    let mut pod = example.clone();
    // No real pod has such a name, so the copy cannot be mistaken for one.
    pod.name.name = format!("{}/{suffix}", pod.name.name).into();
    pod.uid = format!("{}/{suffix}", pod.uid).into();
    pod.node_name = Some(node.clone());
    let spec = Arc::make_mut(&mut pod.scheduler_pod);
    spec.name = pod.name.clone();
    spec.uid = pod.uid.clone();
    Arc::new(pod)
}

fn set_labels(node: &mut Node, new: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) {
    let old = node.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    node.set_labels(old.chain(new).collect::<Labels>());
}
