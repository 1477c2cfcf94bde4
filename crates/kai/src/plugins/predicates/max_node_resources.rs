//! Pods that are larger than any node.

use crate::cluster::Cluster;
use crate::cluster::pod::Pod;
use crate::cluster::resources::{CPU, GPU, MEMORY, ResourceNames, ResourceVector, is_storage_resource};
use crate::cluster::text::{GIGA, MILLI, detailed_request, with_digits};

/// The largest amount of each resource that a node has.
#[derive(Clone, Debug)]
pub(super) struct MaxNodeResources {
    amounts: ResourceVector,
    node_pool: String,
}

/// The largest amount of each resource that a node of the cluster has.
pub(super) fn max_node_resources(cluster: &Cluster, node_pool: &str) -> MaxNodeResources {
    let mut nodes = cluster.nodes.iter();
    let mut amounts = match nodes.next() {
        Some(node) => node.allocatable.clone(),
        None => ResourceVector::zero(&cluster.names),
    };
    nodes.for_each(|node| amounts.raise_to(&node.allocatable));
    MaxNodeResources { amounts, node_pool: node_pool.to_owned() }
}

impl MaxNodeResources {
    /// A message if a pod requests more of a resource than any node has.
    pub(super) fn check(&self, pod: &Pod, names: &ResourceNames) -> Option<String> {
        let exceeds = |index: usize| pod.request.get(index) > self.amounts.get(index);
        let max = |index: usize| self.amounts.get(index);
        if exceeds(GPU) {
            return Some(self.message(pod, names, "GPU", max(GPU), ""));
        }
        if exceeds(CPU) {
            return Some(self.message(pod, names, "CPU", max(CPU) / MILLI, " cores"));
        }
        if exceeds(MEMORY) {
            return Some(self.message(pod, names, "memory", max(MEMORY) / GIGA, " GB"));
        }
        let others =
            names.names().iter().enumerate().filter(|(index, _)| !matches!(*index, CPU | MEMORY | GPU));
        for (index, name) in others {
            if pod.request.get(index) > 0.0 && exceeds(index) {
                let (shown, unit) =
                    if is_storage_resource(name) { (max(index) / GIGA, " GB") } else { (0.0, "") };
                return Some(self.message(pod, names, name, shown, unit));
            }
        }
        None
    }

    fn message(&self, pod: &Pod, names: &ResourceNames, resource: &str, max: f64, unit: &str) -> String {
        let request = detailed_request(&pod.request, &pod.gpu, names);
        let start = format!("The pod {} requires {request}. ", pod.full_name());
        let pool = &self.node_pool;
        if max == 0.0 {
            return format!("{start}No node in the {pool} node-pool has {resource} resources");
        }
        format!(
            "{start}Max {resource} resources available in a single node in the {pool} node-pool is topped at {}{unit}",
            with_digits(max)
        )
    }
}
