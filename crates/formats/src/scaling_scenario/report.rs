//! A report: a cluster at one moment, and what a simulation made of it.

use std::collections::{BTreeMap, BTreeSet};

use model::Moment;

use super::cluster::ClusterSnapshot;
use crate::scaling_history::info::{NodeInfo, PodInfo, Resources};

/// A report: a cluster at one moment, and what a simulation made of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// What the cluster is called.
    pub name: String,
    /// Which report of the cluster it is, from 1.
    pub number: u64,
    /// When it began.
    pub begin: Moment,
    /// The cluster then.
    pub cluster: ClusterSnapshot,
    /// What came of it.
    pub result: ScalingResult,
}

/// What a simulation made of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScalingResult {
    /// How many nodes each group got.
    pub scaled_up_node_groups: BTreeMap<String, u64>,
    /// Those nodes.
    pub scaled_up_nodes: Vec<NodeInfo>,
    /// Pods that still have no node.
    pub pending_unscheduled_pods: Vec<PodInfo>,
    /// What the pods of each node ask for; nodes without pods are not there.
    pub nodes_utilization: BTreeMap<String, Resources>,
    /// Nodes without pods, by name.
    pub empty_node_names: Vec<String>,
    /// Pods that have a node.
    pub scheduled_pods: Vec<PodInfo>,
}

// === impl Scenario ===

impl Scenario {
    /// The name of the file that their replayer would write it to.
    pub fn file_name(&self) -> String {
        format!("{}_ca-replay-{}.json", self.name, self.number)
    }
}

// === impl ScalingResult ===

impl ScalingResult {
    /// What has become of a cluster: nodes of groups that are new since then, and where all pods are.
    pub fn between(
        before: &ClusterSnapshot,
        after: &ClusterSnapshot,
        group_of: impl Fn(&NodeInfo) -> Option<String>,
    ) -> ScalingResult {
        let known: BTreeSet<&str> = before.nodes.iter().map(|node| node.meta.name.as_str()).collect();
        let is_new = |node: &&NodeInfo| !known.contains(node.meta.name.as_str());
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
