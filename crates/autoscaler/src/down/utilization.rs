//! How much of a node is used.

use std::fmt;

use kubernetes::amounts::{Resource, ScalarNames};
use kubernetes::requests::{CPU, MEMORY};

use super::super::clock::Clock;
use super::super::gpu_names;
use super::super::node::Node;
use super::super::pod::Pod;
use super::drainability::is_long_terminating;

/// How much of a node is used: of its GPUs if it has any, else of processor and memory, whichever is more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Utilization {
    pub cpu: f64,
    pub memory: f64,
    pub gpu: f64,
    /// The resource that counts.
    pub resource: &'static str,
    /// How much of it is used.
    pub highest: f64,
}

/// Pods that are not counted, and make the node smaller instead.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ignored {
    pub daemon_sets: bool,
    pub mirrors: bool,
}

// === impl Utilization ===

impl Utilization {
    /// `None` for a node that does not say how much it has.
    pub(super) fn of<'a>(
        node: &Node,
        pods: impl Iterator<Item = &'a Pod> + Clone,
        ignored: Ignored,
        gpu_label: &str,
        scalars: &mut ScalarNames,
        clock: &Clock,
    ) -> Option<Utilization> {
        let used = |name: &str, resource: Resource| share(node, name, resource, pods.clone(), ignored, clock);
        if let Some(name) = gpu_of(node, gpu_label) {
            // A GPU that is not ready yet must not keep the node.
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
    /// As Go prints it; the fourth number is that of dynamic resources.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [cpu, memory, gpu, highest] = [self.cpu, self.memory, self.gpu, self.highest].map(in_go);
        write!(f, "{{{cpu} {memory} {gpu} 0 {} {highest}}}", self.resource)
    }
}

/// The GPU resource of a node that has a GPU, or whose label promises one.
pub(super) fn gpu_of(node: &Node, gpu_label: &str) -> Option<&'static str> {
    let promised = || node.label(gpu_label).map(|_| gpu_names::RESOURCES[0]);
    gpu_names::allocatable(node).map(|(name, _)| name).or_else(promised)
}

/// How much of one resource is used; `None` if the node has none of it.
fn share<'a>(
    node: &Node,
    name: &str,
    resource: Resource,
    pods: impl Iterator<Item = &'a Pod>,
    ignored: Ignored,
    clock: &Clock,
) -> Option<f64> {
    let allocatable = node.allocatable.get(name)?.milli_value();
    if allocatable == 0 {
        return None;
    }
    let (mut used, mut taken) = (0_i64, 0_i64);
    for pod in pods {
        let amount = pod.spec.usage.requested.get(resource);
        let amount = if resource == Resource::Cpu { amount } else { amount.saturating_mul(1000) };
        if (ignored.daemon_sets && pod.is_of_daemon_set()) || (ignored.mirrors && pod.is_mirror()) {
            taken = taken.saturating_add(amount);
        } else if !is_long_terminating(pod, clock) {
            used = used.saturating_add(amount);
        }
    }
    Some(used as f64 / allocatable.saturating_sub(taken) as f64)
}

/// A number as Go prints it.
fn in_go(number: f64) -> String {
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
