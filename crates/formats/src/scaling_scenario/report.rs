//! The report's content: a cluster snapshot and the result of a simulation.

use std::collections::{BTreeMap, BTreeSet};

use model::Moment;

use super::cluster::ClusterSnapshot;
use crate::scaling_history::info::{NodeInfo, PodInfo, Resources};

/// A report: a cluster snapshot and the result of a simulation that began with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// The cluster's name.
    pub name: String,
    /// The number of the report, from 1.
    pub number: u64,
    /// When the simulation began.
    pub begin: Moment,
    /// The cluster at that time.
    pub cluster: ClusterSnapshot,
    /// The simulation's result.
    pub result: ScalingResult,
}

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingResult {
    /// How many nodes were added to each group.
    pub scaled_up_node_groups: BTreeMap<String, u64>,
    /// Those nodes.
    pub scaled_up_nodes: Vec<NodeInfo>,
    /// Pods that have no node.
    pub pending_unscheduled_pods: Vec<PodInfo>,
    /// The sum of the pods' requests per node, without empty nodes.
    pub nodes_utilization: BTreeMap<String, Resources>,
    /// The names of nodes without pods.
    pub empty_node_names: Vec<String>,
    /// Pods that have a node.
    pub scheduled_pods: Vec<PodInfo>,
}

// === impl Scenario ===

impl Scenario {
    /// The name of the file that Gardener's replayer would write.
    pub fn file_name(&self) -> String {
        format!("{}_ca-replay-{}.json", self.name, self.number)
    }
}

// === impl ScalingResult ===

impl ScalingResult {
    /// The result from the snapshots before and after: new nodes of groups, and the pods' nodes.
    pub fn between(
        before: &ClusterSnapshot,
        after: &ClusterSnapshot,
        group_of: impl Fn(&NodeInfo) -> Option<String>,
    ) -> ScalingResult {
        let names_before: BTreeSet<&str> = before.nodes.iter().map(|node| node.meta.name.as_str()).collect();
        let is_new = |node: &&NodeInfo| !names_before.contains(node.meta.name.as_str());
        let mut result = ScalingResult {
            pending_unscheduled_pods: after
                .unscheduled_pods
                .iter()
                .chain(&after.nominated_pods)
                .cloned()
                .collect(),
            scheduled_pods: after.scheduled_pods.clone(),
            ..ScalingResult::default()
        };
        for node in after.nodes.iter().filter(is_new) {
            if let Some(group) = group_of(node) {
                *result.scaled_up_node_groups.entry(group).or_default() += 1;
                result.scaled_up_nodes.push(node.clone());
            }
        }
        for pod in &after.scheduled_pods {
            let sum = result.nodes_utilization.entry(pod.node_name().to_owned()).or_default();
            for (name, amount) in &pod.requests {
                match sum.get_mut(name) {
                    Some(sum) => *sum += amount,
                    None => drop(sum.insert(name.clone(), amount.clone())),
                }
            }
        }
        let is_empty = |node: &&NodeInfo| !result.nodes_utilization.contains_key(&node.meta.name);
        result.empty_node_names =
            after.nodes.iter().filter(is_empty).map(|node| node.meta.name.clone()).collect();
        result
    }
}
