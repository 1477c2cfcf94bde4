//! `price`: what the nodes cost against what the pods are worth, and how far the nodes are from what suits a cluster of
//! this size.

use super::super::super::groups::Pricing;
use super::super::super::node::Node;
use super::super::super::{AutoscalingContext, gpu_names};
use super::super::pods::PodGroup;
use super::Candidate;

const GIB: f64 = (1_u64 << 30) as f64;
/// Added to both sides, so that cheap pods do not decide: what a pod of half a core and 500 MiB costs.
const STEADY_CPU: i64 = 500;
const STEADY_MEMORY: i64 = 500 << 20;
/// Nodes with GPUs are for those who cannot do without.
const GPU_UNFITNESS: f64 = 1000.0;

/// By the place of a candidate, for those whose price is known. Without prices cluster-autoscaler does not start; then
/// all are worth the same.
pub(super) fn scores(
    context: &AutoscalingContext<'_>,
    groups: &[PodGroup],
    candidates: &[Candidate],
    left: &[usize],
) -> Vec<(usize, f64)> {
    let Some(pricing) = context.cloud.pricing() else {
        return left.iter().map(|place| (*place, 0.0)).collect();
    };
    let preferred = preferred_cpu(context.cluster.nodes().count());
    super::scores(left, |place| {
        let candidate = &candidates[place];
        let node = &context.templates.get(candidate.group)?.node;
        let price = context.cloud.groups()[candidate.group.index()].price?;
        let mut pods = 0.0;
        candidate.each_kind(&context.cluster.snapshot, groups, |asked, count| {
            let price = pod_price(pricing, asked.cpu, asked.memory);
            // One by one: a product is another number in the last bits.
            (0..count).for_each(|_| pods += price);
        });
        let steady = pod_price(pricing, STEADY_CPU, STEADY_MEMORY);
        let worth = (price * candidate.nodes as f64 + steady) / (pods + steady);
        Some(unfitness(node, preferred, candidate.nodes, context.cloud.gpu_label()) * worth)
    })
}

fn pod_price(pricing: &Pricing, cpu: i64, memory: i64) -> f64 {
    cpu as f64 / 1000.0 * pricing.cpu + memory as f64 / GIB * pricing.memory_gib
}

/// In thousandths.
fn preferred_cpu(nodes: usize) -> f64 {
    match nodes {
        0..=2 => 1000.0,
        3..=6 => 2000.0,
        7..=20 => 4000.0,
        21..=60 => 8000.0,
        61..=200 => 16000.0,
        _ => 32000.0,
    }
}

/// How far from what is preferred, which matters less the more nodes there are.
fn unfitness(node: &Node, preferred: f64, nodes: i64, gpu_label: &str) -> f64 {
    let has_gpu = node.label(gpu_label).is_some() || gpu_names::allocatable(node).is_some();
    if has_gpu {
        return GPU_UNFITNESS;
    }
    let cpu = node.capacity.milli("cpu") as f64;
    let unfitness = go_max(preferred / cpu, cpu / preferred);
    (unfitness - 1.0) * (1.0 - ((nodes - 1) as f64 / 15.0).tanh()) + 1.0
}

/// As Go has it: what is no number wins.
fn go_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
