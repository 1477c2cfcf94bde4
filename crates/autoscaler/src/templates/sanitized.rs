//! Sanitized copies of nodes and pods for templates, without transient taints and with new names.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::well_known::{
    BETA_INSTANCE_TYPE, BETA_REGION, BETA_ZONE, DELETION_CANDIDATE, HOSTNAME, INSTANCE_TYPE,
    NODE_DISK_PRESSURE, NODE_MEMORY_PRESSURE, NODE_NETWORK_UNAVAILABLE, NODE_NOT_READY, NODE_PID_PRESSURE,
    NODE_UNINITIALIZED, NODE_UNREACHABLE, NODE_UNSCHEDULABLE, REGION, TO_BE_DELETED, ZONE,
};
use scheduler::node::Node;

use crate::pod::Pod;
use crate::readiness::{is_startup_taint, is_status_taint};
use crate::settings::Settings;

const TEMPLATE_NODE_LABEL: &str = "cluster-autoscaler.kubernetes.io/template-node";

/// Labels and their deprecated names. Templates of cloud providers get both.
const DEPRECATED_LABELS: [(&str, &str); 3] =
    [(INSTANCE_TYPE, BETA_INSTANCE_TYPE), (REGION, BETA_REGION), (ZONE, BETA_ZONE)];

/// Taints that describe a transient state of a node.
const TRANSIENT_TAINTS: [&str; 13] = [
    TO_BE_DELETED,
    DELETION_CANDIDATE,
    NODE_NOT_READY,
    NODE_UNREACHABLE,
    NODE_UNSCHEDULABLE,
    NODE_MEMORY_PRESSURE,
    NODE_DISK_PRESSURE,
    NODE_NETWORK_UNAVAILABLE,
    NODE_PID_PRESSURE,
    NODE_UNINITIALIZED,
    "node.cloudprovider.kubernetes.io/shutdown",
    "cloud.google.com/impending-node-termination",
    "NodeWithImpairedVolumes",
];

/// A copy of a node without taints that a new node does not have.
pub(super) fn node(example: &Node, settings: &Settings) -> Node {
    let mut node = example.clone();
    let view = Arc::make_mut(&mut node.view);
    if settings.scale_from_unschedulable {
        view.unschedulable = false;
    }
    view.taints.retain(|taint| {
        let key = &*taint.key;
        !TRANSIENT_TAINTS.contains(&key)
            && !is_startup_taint(key, settings)
            && !is_status_taint(key, settings)
    });
    node
}

/// Renames a node, including its hostname label.
pub(super) fn rename(node: &mut Node, name: Arc<str>) {
    set_labels(node, [(HOSTNAME.into(), name.clone())]);
    Arc::make_mut(&mut node.view).name = name;
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
    let view = Arc::make_mut(&mut pod.view);
    // No real pod has such a name, so the copy cannot be mistaken for one.
    view.name.name = format!("{}/{suffix}", view.name.name).into();
    view.uid = format!("{}/{suffix}", view.uid).into();
    view.node_name = Some(node.clone());
    let scheduler_pod = Arc::make_mut(&mut pod.scheduler_pod);
    (scheduler_pod.name, scheduler_pod.uid) = (view.name.clone(), view.uid.clone());
    Arc::new(pod)
}

fn set_labels(node: &mut Node, new: impl IntoIterator<Item = (Arc<str>, Arc<str>)>) {
    let old = node.labels.iter().map(|(key, value)| (key.clone(), value.clone()));
    let labels = old.chain(new).collect::<Labels>();
    Arc::make_mut(&mut node.view).labels = labels;
}
