//! The filters of the default profile, in order.

use scheduler::{Code, Plugin, Status};

use super::cluster::Cluster;
use super::objects::{Node, Pod, Taint, amount};
use super::{affinity, spread};

/// The first rejecting status, if any: a node must pass both with the pods nominated to it and without.
pub(crate) fn filter(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<Status> {
    // InterPodAffinity is skipped based on the cluster without nominated pods.
    let affinity_matters = affinity::is_not_skipped(cluster, pod);
    let with = cluster.with_nominated_pods(&node.metadata.name, pod);
    with.and_then(|with| filter_as_is(&with, pod, node, affinity_matters))
        .or_else(|| filter_as_is(cluster, pod, node, affinity_matters))
}

fn filter_as_is(cluster: &Cluster, pod: &Pod, node: &Node, affinity_matters: bool) -> Option<Status> {
    unschedulable(pod, node)
        .or_else(|| taints(pod, node))
        .or_else(|| node_affinity(pod, node))
        .or_else(|| ports(cluster, pod, node))
        .or_else(|| fit(cluster, pod, node))
        .or_else(|| spread::filter(cluster, pod, node))
        .or_else(|| affinity::filter(cluster, pod, node).filter(|_| affinity_matters))
}

/// The only nodes to consider, by name, or why there is none; `None` for all.
pub(crate) fn only_nodes(pod: &Pod) -> Result<Option<Vec<String>>, Status> {
    let required = &pod.spec.affinity.node_affinity.required;
    match required.as_ref().and_then(|terms| terms.names()) {
        None => Ok(None),
        Some(names) if names.is_empty() => {
            Err(Status::unresolvable(Plugin::NodeAffinity, "pod affinity terms conflict"))
        }
        Some(names) => Ok(Some(names.into_iter().map(str::to_owned).collect())),
    }
}

fn unschedulable(pod: &Pod, node: &Node) -> Option<Status> {
    let cordon = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
    };
    (node.spec.unschedulable && !pod.tolerates(&cordon))
        .then(|| Status::unresolvable(Plugin::NodeUnschedulable, "node(s) were unschedulable"))
}

fn taints(pod: &Pod, node: &Node) -> Option<Status> {
    node.has_untolerated_taint(pod)
        .then(|| Status::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)"))
}

fn node_affinity(pod: &Pod, node: &Node) -> Option<Status> {
    let reason = "node(s) didn't match Pod's node affinity/selector";
    (!pod.selects(node)).then(|| Status::unresolvable(Plugin::NodeAffinity, reason))
}

fn ports(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<Status> {
    let everywhere = "0.0.0.0";
    let taken: Vec<_> = cluster.pods_on(&node.metadata.name).flat_map(Pod::ports).collect();
    let conflict = pod.ports().iter().any(|requested| {
        taken.iter().any(|taken| {
            (requested.1, requested.2) == (taken.1, taken.2)
                && (requested.0 == everywhere || taken.0 == everywhere || requested.0 == taken.0)
        })
    });
    let reason = "node(s) didn't have free ports for the requested pod ports";
    conflict.then(|| Status::unschedulable(Plugin::NodePorts, reason))
}

fn fit(cluster: &Cluster, pod: &Pod, node: &Node) -> Option<Status> {
    let has = node.allocatable();
    let has = |name: &str| amount(&has, name);
    let mut reasons = Vec::new();
    let mut unresolvable = false;
    if cluster.pods_on(&node.metadata.name).count() as i64 + 1 > has("pods") {
        reasons.push("Too many pods".to_owned());
    }
    for (name, &requested) in &pod.requests {
        if requested > 0 && counts(name) && requested > has(name) - used(cluster, node, name) {
            reasons.push(format!("Insufficient {name}"));
            unresolvable |= requested > has(name);
        }
    }
    let code = if unresolvable { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
    (!reasons.is_empty()).then(|| Status {
        plugin: Plugin::NodeResourcesFit,
        code,
        reasons: reasons.into_iter().map(Into::into).collect(),
    })
}

/// The requests of a node's pods of one resource.
pub(crate) fn used(cluster: &Cluster, node: &Node, resource: &str) -> i64 {
    cluster.pods_on(&node.metadata.name).map(|pod| amount(&pod.usage, resource)).sum()
}

/// Whether NodeResourcesFit considers a resource, among those that the test uses.
fn counts(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory" | "ephemeral-storage")
        || resource.starts_with("hugepages-")
        || resource.contains('/')
}
