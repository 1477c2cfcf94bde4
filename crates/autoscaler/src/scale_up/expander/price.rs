//! The expander `price`: the ratio of node price to pod price, times the nodes' unfitness for a cluster of this size.

use scheduler::node::Node;

use super::super::super::groups::PodPricing;
use super::super::super::{AutoscalingContext, gpu_names};
use super::super::equivalence_groups::PodEquivalenceGroup;
use super::ExpansionOption;

const GIB: f64 = (1_u64 << 30) as f64;
/// The stabilization pod, whose price is added to both sides so that cheap pods do not dominate: half a core, 500 MiB.
const STABILIZATION_POD_CPU_MILLI: i64 = 500;
const STABILIZATION_POD_MEMORY: i64 = 500 << 20;
/// The unfitness of nodes with GPUs, which are meant for pods that need them.
const GPU_UNFITNESS: f64 = 1000.0;

/// The scores by option index, for groups with a price. Without prices all scores are equal; cluster-autoscaler would
/// not start.
pub(super) fn scores(
    context: &AutoscalingContext<'_>,
    groups: &[PodEquivalenceGroup],
    candidates: &[ExpansionOption],
    remaining: &[usize],
) -> Vec<(usize, f64)> {
    let Some(pricing) = context.cloud.pricing() else {
        return remaining.iter().map(|index| (*index, 0.0)).collect();
    };
    let preferred = preferred_cpu_milli(context.cluster.nodes().count());
    super::scores(remaining, |index| {
        let candidate = &candidates[index];
        let node = &context.templates.get(candidate.group)?.node;
        let price = context.cloud.groups()[candidate.group.index()].price?;
        let mut pods = 0.0;
        candidate.for_each_request(&context.cluster.snapshot, groups, |requests, count| {
            let price = pod_price(pricing, requests.cpu, requests.memory);
            // Added one by one: a product would differ in the last bits.
            (0..count).for_each(|_| pods += price);
        });
        let stabilization_price = pod_price(pricing, STABILIZATION_POD_CPU_MILLI, STABILIZATION_POD_MEMORY);
        let price_sub_score =
            (price * candidate.nodes as f64 + stabilization_price) / (pods + stabilization_price);
        Some(unfitness(node, preferred, candidate.nodes, context.cloud.gpu_label()) * price_sub_score)
    })
}

fn pod_price(pricing: &PodPricing, cpu: i64, memory: i64) -> f64 {
    cpu as f64 / 1000.0 * pricing.cpu + memory as f64 / GIB * pricing.memory_gib
}

/// The CPU of the preferred node, in milli-cores.
fn preferred_cpu_milli(nodes: usize) -> f64 {
    match nodes {
        0..=2 => 1000.0,
        3..=6 => 2000.0,
        7..=20 => 4000.0,
        21..=60 => 8000.0,
        61..=200 => 16000.0,
        _ => 32000.0,
    }
}

/// The distance from the preferred node size, which matters less with more nodes.
fn unfitness(node: &Node, preferred: f64, nodes: i64, gpu_label: &str) -> f64 {
    let has_gpu = node.label(gpu_label).is_some() || gpu_names::allocatable(node).is_some();
    if has_gpu {
        return GPU_UNFITNESS;
    }
    let cpu = node.capacity.milli("cpu") as f64;
    let unfitness = go_max(preferred / cpu, cpu / preferred);
    (unfitness - 1.0) * (1.0 - ((nodes - 1) as f64 / 15.0).tanh()) + 1.0
}

/// Go's `math.Max`: a NaN wins.
fn go_max(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
