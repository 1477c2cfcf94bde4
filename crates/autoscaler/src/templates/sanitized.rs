//! Nodes and pods made after others, without what was only true of those.

use std::sync::Arc;

use kubernetes::labels::Labels;

use crate::node::Node;
use crate::pod::Pod;
use crate::readiness::{is_startup, is_status};
use crate::settings::Settings;
use crate::{CANDIDATE, TO_BE_DELETED};

const HOSTNAME: &str = "kubernetes.io/hostname";
const TEMPLATE: &str = "cluster-autoscaler.kubernetes.io/template-node";

/// What labels were once called. Clouds' templates get both.
const OLD_NAMES: [(&str, &str); 3] = [
    ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type"),
    ("topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"),
];

/// Taints that say how a node is at the moment.
const PASSING_TAINTS: [&str; 13] = [
    TO_BE_DELETED,
    CANDIDATE,
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

/// A node like it, without taints that a new one would not have.
pub(super) fn node(example: &Node, settings: &Settings) -> Node {
    let mut node = example.clone();
    if settings.scale_from_unschedulable {
        node.unschedulable = false;
        node.spec.unschedulable = false;
    }
    let mut taints = std::mem::take(&mut node.taints);
    taints.retain(|taint| {
        let key = &*taint.key;
        !PASSING_TAINTS.contains(&key) && !is_startup(key, settings) && !is_status(key, settings)
    });
    node.set_taints(taints);
    node
}

/// Gives a node another name, in its label too.
pub(super) fn rename(node: &mut Node, name: Arc<str>) {
    set_labels(node, [(HOSTNAME.into(), name.clone())]);
    node.set_name(name);
}

/// Says in its labels that a node is a template; and repeats labels by their old names.
pub(super) fn add_labels(node: &mut Node, old_names: bool) {
    let repeated = OLD_NAMES
        .iter()
        .filter(|_| old_names)
        .filter_map(|(name, old_name)| Some(((*old_name).into(), node.labels.get_shared(name)?.clone())));
    let labels: Vec<(Arc<str>, Arc<str>)> = repeated.chain([(TEMPLATE.into(), "true".into())]).collect();
    set_labels(node, labels);
}

/// A pod like it with a name of its own, on that node.
pub(super) fn pod(example: &Pod, suffix: &str, node: &Arc<str>) -> Arc<Pod> {
    let mut pod = example.clone();
    // No pod of a cluster is called so: this one must not be taken for any.
    pod.name.name = format!("{}/{suffix}", pod.name.name).into();
    pod.uid = format!("{}/{suffix}", pod.uid).into();
    pod.node = Some(node.clone());
    let spec = Arc::make_mut(&mut pod.spec);
    spec.name = pod.name.clone();
    spec.uid = pod.uid.clone();
    Arc::new(pod)
}

fn set_labels(node: &mut Node, new: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) {
    let old = node.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    node.set_labels(old.chain(new).collect::<Labels>());
}
