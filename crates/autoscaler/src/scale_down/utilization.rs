//! Utilization of a node: the requests of its pods divided by its allocatable resources.

use std::fmt;

use kubernetes::amounts::{Resource, ScalarResourceNames};
use kubernetes::requests::{CPU, MEMORY};
use scheduler::node::Node;

use super::super::clock::LoopClock;
use super::super::gpu_names;
use super::super::pod::Pod;
use super::drainability::is_long_terminating;

/// The utilization of a node: of its GPUs if it has any, else the higher of CPU and memory.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Utilization {
    pub cpu: f64,
    pub memory: f64,
    pub gpu: f64,
    /// The resource that is compared with the threshold.
    pub resource: &'static str,
    /// The utilization of that resource.
    pub highest: f64,
}

/// Pods that are not counted as used; their requests are subtracted from allocatable instead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IgnoredPods {
    pub daemon_set_pods: bool,
    pub mirror_pods: bool,
}

// === impl Utilization ===

impl Utilization {
    /// `None` if the node's allocatable amounts are missing.
    pub(super) fn of<'a>(
        node: &Node,
        pods: impl Iterator<Item = &'a Pod> + Clone,
        ignored: IgnoredPods,
        gpu_label: &str,
        scalars: &mut ScalarResourceNames,
        clock: &LoopClock,
    ) -> Option<Utilization> {
        let used = |name: &str, resource: Resource| {
            resource_utilization(node, name, resource, pods.clone(), ignored, clock)
        };
        if let Some(name) = gpu_resource(node, gpu_label) {
            // A GPU that is not allocatable yet must not make the node count as used.
            let gpu = used(name, scalars.resource(name)).unwrap_or(0.0);
            return Some(Utilization { cpu: 0.0, memory: 0.0, gpu, resource: name, highest: gpu });
        }
        let cpu = used(CPU, Resource::Cpu)?;
        let memory = used(MEMORY, Resource::Memory)?;
        let (resource, highest) = if cpu > memory { (CPU, cpu) } else { (MEMORY, memory) };
        Some(Utilization { cpu, memory, gpu: 0.0, resource, highest })
    }
}

impl fmt::Display for Utilization {
    /// In Go's format; the fourth number is the utilization of dynamic resources.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cpu, memory, gpu, highest] =
            [self.cpu, self.memory, self.gpu, self.highest].map(format_go_float);
        write!(f, "{{{cpu} {memory} {gpu} 0 {} {highest}}}", self.resource)
    }
}

/// The GPU resource of a node that has a GPU or the GPU label.
pub(super) fn gpu_resource(node: &Node, gpu_label: &str) -> Option<&'static str> {
    let labeled_resource = || node.label(gpu_label).map(|_| gpu_names::RESOURCES[0]);
    gpu_names::allocatable(node).map(|(name, _)| name).or_else(labeled_resource)
}

/// The utilization of one resource; `None` if the node has none of it.
fn resource_utilization<'a>(
    node: &Node,
    name: &str,
    resource: Resource,
    pods: impl Iterator<Item = &'a Pod>,
    ignored: IgnoredPods,
    clock: &LoopClock,
) -> Option<f64> {
    let allocatable = node.view.allocatable.get(name)?.milli_value();
    if allocatable == 0 {
        return None;
    }
    let (mut used, mut daemon_set_and_mirror_usage) = (0_i64, 0_i64);
    for pod in pods {
        let amount = pod.scheduler_pod.usage.requested.get(resource);
        let amount = if resource == Resource::Cpu { amount } else { amount.saturating_mul(1000) };
        if (ignored.daemon_set_pods && pod.is_daemon_set_pod()) || (ignored.mirror_pods && pod.is_mirror()) {
            daemon_set_and_mirror_usage = daemon_set_and_mirror_usage.saturating_add(amount);
        } else if !is_long_terminating(pod, clock) {
            used = used.saturating_add(amount);
        }
    }
    Some(used as f64 / allocatable.saturating_sub(daemon_set_and_mirror_usage) as f64)
}

/// A number in Go's format.
fn format_go_float(number: f64) -> String {
    let size = number.abs();
    if number.is_nan() {
        String::from("NaN")
    } else if number.is_infinite() {
        String::from(if number > 0.0 { "+Inf" } else { "-Inf" })
    } else if size != 0.0 && !(1e-4..1e21).contains(&size) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = exponent.strip_prefix('-').map_or(('+', exponent), |power| ('-', power));
        format!("{digits}e{sign}{power:0>2}")
    } else {
        format!("{number}")
    }
}

#[cfg(test)]
mod tests;
