//! Filters of a pod on a single node.

use kubernetes::taints::first_untolerated;
use smallvec::SmallVec;

use crate::cluster::fit_errors::{Predicate, Rejection};
use crate::cluster::node::{MigMode, Node};
use crate::cluster::pod::Pod;

/// Whether the node has the form of GPUs that the pod requests.
pub(crate) fn check_resource_type(pod: &Pod, node: &Node) -> Result<(), Rejection> {
    let reject = |reason: String| Err(Rejection::new(Predicate::ResourceType, reason));
    let is_regular = !pod.is_shared_gpu_request() && !pod.is_mig_request();
    if pod.is_legacy_mig {
        return reject(format!("Legacy MIG jobs cannot be scheduled on node {}", node.name()));
    }
    if !pod.requires_gpu() {
        return Ok(());
    }
    match node.mig {
        MigMode::Off if pod.is_mig_request() => {
            reject("MIG job cannot be scheduled on non-MIG node".to_owned())
        }
        MigMode::Off => Ok(()),
        _ if pod.is_mig_request() && node.has_legacy_mig_pods() => {
            reject("MIG job cannot be scheduled on node with legacy MIG jobs".to_owned())
        }
        MigMode::Single if !is_regular => {
            reject("only whole gpu jobs can run on a node with MigStrategy='single'".to_owned())
        }
        MigMode::Mixed if !pod.is_mig_request() => {
            reject("non MIG jobs cant run on a node with MigStrategy='mixed'".to_owned())
        }
        MigMode::None | MigMode::Single | MigMode::Mixed => Ok(()),
    }
}

/// Whether the memory of the node's GPUs is known, for a pod that requests memory.
pub(crate) fn check_gpu_memory(pod: &Pod, node: &Node) -> Result<(), Rejection> {
    if pod.gpu.memory > 0 && !node.is_gpu_memory_known {
        let name = pod.full_name();
        let reason = format!(
            "node is not a gpu node or the gpu memory count on the node was not synced yet, task: <{name}>, node: <{}>",
            node.name()
        );
        return Err(Rejection::new(Predicate::GpuMemory, reason));
    }
    Ok(())
}

/// Whether the node's conditions allow pods.
pub(crate) fn check_conditions(node: &Node) -> Result<(), Rejection> {
    if node.is_ready() {
        return Ok(());
    }
    let reasons: SmallVec<_> = node.condition_failures.iter().cloned().collect();
    Err(Rejection { predicate: Predicate::NodeCondition, reasons })
}

/// Whether the node is for pods with, or without, GPUs where nodes are restricted to either.
pub(crate) fn check_worker_labels(pod: &Pod, node: &Node) -> Result<(), Rejection> {
    let (kind, has_label) =
        if pod.requires_gpu() { ("gpu", node.is_gpu_worker) } else { ("cpu", node.is_cpu_worker) };
    if has_label {
        return Ok(());
    }
    let reason =
        format!("{kind} task: <{}> can't run on non {kind} nodes, node: <{}>", pod.full_name(), node.name());
    Err(Rejection::new(Predicate::RestrictedNodes, reason))
}

/// The filters that kube-scheduler has too: host ports, taints, node affinity.
pub(super) fn filter(pod: &Pod, node: &Node) -> Result<(), Rejection> {
    let spec = &pod.spec;
    if spec.host_ports.iter().any(|wanted| node.used_ports.iter().any(|used| wanted.conflicts(used))) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(Rejection::new(Predicate::PodFitsHostPorts, reason));
    }
    if first_untolerated(&node.view.taints, &spec.tolerations).is_some() {
        let reason = "node(s) had untolerated taint(s)";
        return Err(Rejection::new(Predicate::PodToleratesNodeTaints, reason));
    }
    if !spec.required_node_affinity.selects(node.name(), &node.view.labels) {
        let reason = "node(s) didn't match Pod's node affinity/selector";
        return Err(Rejection::new(Predicate::NodeAffinity, reason));
    }
    Ok(())
}
