//! Scenarios with the victims of some nodes: the fewest nodes that may be enough, then more and more.

use std::collections::{BTreeMap, BTreeSet};

use super::scenario::Scenario;
use crate::cluster::ids::{NodeId, PodInfoId};
use crate::cluster::node_set::NodeSet;
use crate::session::Session;

/// Scenarios with the victims of some nodes. Pods that are evicted together stay together, wherever they are.
#[derive(Debug)]
pub(super) struct SubScenarios {
    /// The nodes with victims, by what would be free on them.
    nodes: Vec<NodeId>,
    /// For each node the batches with victims on it.
    node_batches: BTreeMap<NodeId, Vec<usize>>,
    /// Pods that are evicted together.
    batches: Vec<Vec<PodInfoId>>,
    /// How many nodes are next; more than there are at the end.
    next_count: usize,
    step: usize,
}

impl SubScenarios {
    pub(super) fn new(session: &Session, base: &Scenario, feasible: &NodeSet) -> SubScenarios {
        let cluster = &session.cluster;
        let requests = || base.pending.iter().map(|info| cluster.pod_of(*info).gpu.quota());
        let demand: f64 = requests().sum();
        let least = requests().reduce(f64::min).unwrap_or(-1.0);
        let mut recorded_gpus: BTreeMap<NodeId, f64> = BTreeMap::new();
        for info in base.recorded_infos.iter().map(|info| cluster.info(*info)) {
            if let Some(node) = info.node.known() {
                *recorded_gpus.entry(node).or_default() += info.accepted_gpu.quota();
            }
        }
        let (batches, node_batches, first_seen) = victim_batches(session, base);
        let recorded = |node: NodeId| recorded_gpus.get(&node).copied().unwrap_or_default();
        let capacities: BTreeMap<NodeId, f64> = node_batches
            .iter()
            .map(|(node, indexes)| {
                let mut capacity = recorded(*node) + cluster.node(*node).idle_or_releasing_gpus();
                for info in indexes.iter().flat_map(|index| &batches[*index]) {
                    let info = cluster.info(*info);
                    if info.node.known() == Some(*node) {
                        capacity += info.accepted_gpu.quota();
                    }
                }
                (*node, capacity)
            })
            .collect();
        let mut nodes: Vec<NodeId> =
            node_batches.keys().copied().filter(|node| least <= 0.0 || capacities[node] >= least).collect();
        nodes.sort_by(|a, b| {
            capacities[a].total_cmp(&capacities[b]).then_with(|| first_seen[a].cmp(&first_seen[b]))
        });
        let mut baseline = 0.0;
        for node in feasible.iter().filter(|node| !node_batches.contains_key(node)) {
            baseline += cluster.node(node).idle_or_releasing_gpus();
            baseline += recorded(node);
        }
        let next_count = least_covering(&nodes, &capacities, demand - baseline);
        SubScenarios { nodes, node_batches, batches, next_count, step: 1 }
    }

    /// The next scenario.
    pub(super) fn next(&mut self, session: &mut Session, base: &Scenario) -> Option<Scenario> {
        let count = self.next_count;
        if count > self.nodes.len() {
            return None;
        }
        let picked: BTreeSet<usize> =
            self.nodes[..count].iter().flat_map(|node| self.node_batches[node].iter().copied()).collect();
        if count == self.nodes.len() {
            self.next_count = count + 1;
        } else {
            self.next_count = count.saturating_add(self.step).min(self.nodes.len());
            self.step = self.step.saturating_mul(2);
        }
        let mut scenario =
            Scenario::new(session, base.preemptor, base.pending.clone(), base.recorded.clone());
        for batch in picked {
            scenario.add_potential(session, &self.batches[batch]);
        }
        Some(scenario)
    }
}

type Batches = (Vec<Vec<PodInfoId>>, BTreeMap<NodeId, Vec<usize>>, BTreeMap<NodeId, usize>);

/// The batches of victims, those of each node, and where each node was seen first.
fn victim_batches(session: &Session, base: &Scenario) -> Batches {
    let mut batches: Vec<Vec<PodInfoId>> = Vec::new();
    let mut node_batches: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
    let mut first_seen = BTreeMap::new();
    let mut known = Vec::new();
    for (index, info) in base.potential.iter().enumerate() {
        let Some(group) = base.group_of(session, *info) else { continue };
        let batch = match known.iter().position(|other| std::rc::Rc::ptr_eq(other, group)) {
            Some(batch) => batch,
            None => {
                known.push(group.clone());
                batches.push(Vec::new());
                batches.len() - 1
            }
        };
        batches[batch].push(*info);
        let Some(node) = session.cluster.info(*info).node.known() else { continue };
        first_seen.entry(node).or_insert(index);
        let of_node = node_batches.entry(node).or_default();
        if !of_node.contains(&batch) {
            of_node.push(batch);
        }
    }
    (batches, node_batches, first_seen)
}

/// How many of the first nodes cover a demand; one more than there are if all do not.
fn least_covering(nodes: &[NodeId], capacities: &BTreeMap<NodeId, f64>, demand: f64) -> usize {
    if demand <= 0.0 {
        return 0;
    }
    let mut sum = 0.0;
    for (index, node) in nodes.iter().enumerate() {
        sum += capacities[node];
        if sum >= demand {
            return index + 1;
        }
    }
    nodes.len() + 1
}
