//! The binpacking estimator: the number of new nodes that pods need, by first-fit packing, largest first.

mod counted_nodes;
mod fastpath;
mod simulated_nodes;
#[cfg(test)]
mod tests;

use super::super::settings::Version;
use super::super::snapshot::ClusterSnapshot;
use super::super::templates::TemplateNodeInfo;
use super::equivalence_groups::PodEquivalenceGroup;
use counted_nodes::CountedNodes;
use scheduler::node::Node;
use simulated_nodes::SimulatedNodes;

/// The number of new nodes needed, and the pods scheduled on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Estimate {
    /// The number of new nodes with pods.
    pub nodes: i64,
    /// Equivalence groups, with the number of pods of each that are scheduled: always the first ones.
    pub helped: Vec<(usize, usize)>,
}

/// Limits the number of nodes that an estimation may add.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EstimationLimiter {
    /// Zero for no limit; negative for no nodes.
    max_nodes: i64,
    added: i64,
}

/// Settings of the estimator.
#[derive(Clone, Copy, Debug)]
pub(super) struct EstimatorOptions {
    pub version: Version,
    /// The last equivalence group fills one node, and the number of further nodes is computed from that.
    pub fastpath: bool,
}

/// New nodes that pods are scheduled on. The two implementations have the same result: one tries each pod in the
/// snapshot, the other calculates, where only resource amounts matter.
trait NewNodes {
    /// Schedules pods of a group on the new nodes in round-robin order, until one does not fit. Returns how many
    /// fitted.
    fn schedule_on_existing(&mut self, group: usize) -> usize;

    /// Adds a node, which becomes the last one.
    fn add_node(&mut self);

    /// Whether the last node has a pod; `None` if there is no node yet.
    fn last_has_pods(&self) -> Option<bool>;

    /// Schedules pods of a group, beginning with `from`, on the last node until one does not fit. Returns how many
    /// fitted.
    fn schedule_on_last(&mut self, group: usize, from: usize) -> usize;

    /// Schedules a pod on any other node, if it failed on the last one because of a topology spread constraint.
    fn schedule_on_other(&mut self, group: usize, pod: usize) -> bool;

    /// The number of nodes with pods.
    fn nodes_with_pods(&self) -> i64;
}

/// Estimates the nodes for the equivalence groups with these `indices`.
pub(super) fn estimate(
    snapshot: &mut ClusterSnapshot,
    template: &TemplateNodeInfo,
    groups: &[PodEquivalenceGroup],
    indices: &[usize],
    limit: EstimationLimiter,
    options: EstimatorOptions,
) -> Estimate {
    let (order, fast) = packing_order(snapshot, &template.node, groups, indices, options);
    match CountedNodes::new(snapshot, template, groups, &order) {
        Some(mut nodes) => {
            let estimate = pack(&mut nodes, groups, &order, limit, fast);
            snapshot.set_last_match_index(nodes.last_match_index());
            estimate
        }
        None => estimate_by_simulation(snapshot, template, groups, (&order, fast), limit, options),
    }
}

/// The same by trying each pod in the snapshot, which is the reference.
fn estimate_by_simulation(
    snapshot: &mut ClusterSnapshot,
    template: &TemplateNodeInfo,
    groups: &[PodEquivalenceGroup],
    (order, fast): (&[usize], bool),
    limit: EstimationLimiter,
    options: EstimatorOptions,
) -> Estimate {
    let fork = snapshot.fork();
    let mut nodes = SimulatedNodes::new(snapshot, template, groups, options.version);
    let estimate = pack(&mut nodes, groups, order, limit, fast);
    snapshot.revert(fork);
    estimate
}

/// The equivalence groups in packing order, and whether the last one takes the fastpath.
fn packing_order(
    snapshot: &ClusterSnapshot,
    node: &Node,
    groups: &[PodEquivalenceGroup],
    indices: &[usize],
    options: EstimatorOptions,
) -> (Vec<usize>, bool) {
    let (cpu, memory) = (node.view.allocatable.milli("cpu"), node.view.allocatable.value("memory"));
    let score = |group: &usize| {
        let requests = &snapshot.filter_snapshot.pod(groups[*group].pods[0]).spec.requests;
        let ratio = |requests: i64, has: i64| if has > 0 { requests as f64 / has as f64 } else { 0.0 };
        ratio(requests.cpu, cpu) + ratio(requests.memory, memory)
    };
    let mut scored: Vec<(f64, usize)> = indices.iter().map(|group| (score(group), *group)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut order: Vec<usize> = scored.into_iter().map(|(_, group)| group).collect();
    let fast = (options.fastpath && options.version >= Version::V1_36)
        .then(|| fastpath::best_group(snapshot, node, groups, &order))
        .flatten();
    if let Some(position) = fast {
        order[position..].rotate_left(1);
    }
    (order, fast.is_some())
}

fn pack(
    nodes: &mut dyn NewNodes,
    groups: &[PodEquivalenceGroup],
    order: &[usize],
    mut limit: EstimationLimiter,
    fast: bool,
) -> Estimate {
    let mut estimate = Estimate::default();
    let mut may_add_nodes = true;
    // Nodes that the fastpath counts without adding them.
    let mut extra_nodes = 0;
    for (position, &group) in order.iter().enumerate() {
        let count = groups[group].pods.len();
        let mut helped = nodes.schedule_on_existing(group);
        if may_add_nodes && fast && position + 1 == order.len() {
            extra_nodes = schedule_on_new_nodes_fastpath(nodes, group, count, &mut helped, &mut limit);
        } else if may_add_nodes {
            may_add_nodes = schedule_on_new_nodes(nodes, group, count, &mut helped, &mut limit);
        }
        if helped > 0 {
            estimate.helped.push((group, helped));
        }
    }
    estimate.nodes = nodes.nodes_with_pods() + extra_nodes;
    estimate
}

/// Schedules the pods from index `helped` on new nodes. Returns whether the limiter allows more nodes.
fn schedule_on_new_nodes(
    nodes: &mut dyn NewNodes,
    group: usize,
    count: usize,
    helped: &mut usize,
    limit: &mut EstimationLimiter,
) -> bool {
    while *helped < count {
        if let Some(last_is_used) = nodes.last_has_pods() {
            let scheduled_count = nodes.schedule_on_last(group, *helped);
            *helped += scheduled_count;
            if *helped == count {
                break;
            }
            if nodes.schedule_on_other(group, *helped) {
                *helped += 1;
                continue;
            }
            // A pod that does not fit on an empty node does not fit on another one.
            if !last_is_used && scheduled_count == 0 {
                return true;
            }
        }
        if !limit.permission_to_add_node() {
            return false;
        }
        nodes.add_node();
        let scheduled_count = nodes.schedule_on_last(group, *helped);
        if scheduled_count == 0 {
            return true;
        }
        *helped += scheduled_count;
    }
    true
}

/// Schedules the pods from index `helped` on one new node, and computes how many others the rest would fill. Returns
/// their number.
fn schedule_on_new_nodes_fastpath(
    nodes: &mut dyn NewNodes,
    group: usize,
    count: usize,
    helped: &mut usize,
    limit: &mut EstimationLimiter,
) -> i64 {
    if *helped == count || !limit.permission_to_add_node() {
        return 0;
    }
    nodes.add_node();
    let per_node = nodes.schedule_on_last(group, *helped);
    let mut extra_nodes = 0;
    *helped += per_node;
    while per_node > 0 && *helped < count && limit.permission_to_add_node() {
        *helped += per_node.min(count - *helped);
        extra_nodes += 1;
    }
    extra_nodes
}

// === impl EstimationLimiter ===

impl EstimationLimiter {
    /// The smallest of several limits; zero means no limit, a negative one no nodes.
    pub(super) fn from_thresholds(limits: &[i64]) -> EstimationLimiter {
        let max_nodes = limits.iter().fold(0, |smallest: i64, &limit| {
            if smallest < 0 || limit < 0 {
                -1
            } else if limit > 0 && (smallest == 0 || smallest > limit) {
                limit
            } else {
                smallest
            }
        });
        EstimationLimiter { max_nodes, added: 0 }
    }

    fn permission_to_add_node(&mut self) -> bool {
        if self.max_nodes < 0 || (self.max_nodes > 0 && self.added >= self.max_nodes) {
            return false;
        }
        self.added += 1;
        true
    }
}
