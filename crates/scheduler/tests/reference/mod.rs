//! A reference scheduler, written for clarity: it follows kube-scheduler's rules one by one, recomputes everything, and
//! shares no code with the one it is compared with.
//!
//! It supports the default profile, without volumes and preemption.

mod affinity;
mod cluster;
mod filters;
mod go;
mod objects;
mod scores;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use model::What;
use scheduler::{NodeVerdict, PluginScore, Status};

use cluster::Cluster;
use objects::{Node, Pod};

/// The reference scheduler.
#[derive(Default)]
pub(crate) struct ReferenceScheduler {
    cluster: Cluster,
    /// The index in the node order at which the next search begins.
    next_start_node_index: usize,
}

/// Its explanation of a pod.
#[derive(Debug, PartialEq)]
pub(crate) struct ReferenceExplanation {
    /// Set if PreFilter rejects the pod.
    pub(crate) pre_filter: Option<Status>,
    /// Verdicts in the scheduler's node order, reasons sorted.
    pub(crate) nodes: Vec<(String, NodeVerdict)>,
    pub(crate) decision: ReferenceDecision,
}

/// Its decision about a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ReferenceDecision {
    Scheduled { node: String, evaluated_nodes: usize, feasible_nodes: usize },
    Unschedulable { message: String, plugins: BTreeSet<String> },
}

impl ReferenceScheduler {
    pub(crate) fn apply(&mut self, change: &What) {
        self.cluster.apply(change);
    }

    /// Every node's verdict, and the decision.
    pub(crate) fn explain(&mut self, namespace: &str, name: &str) -> ReferenceExplanation {
        self.cluster.update_snapshot();
        let pod = self.cluster.pod(namespace, name).expect("the pod exists");
        let all_nodes = self.cluster.in_order();
        let (pre_filter, nodes) = match filters::only_nodes(pod) {
            Err(status) => (Some(status), Vec::new()),
            Ok(only) => {
                let is_considered =
                    |node: &&Node| only.as_ref().is_none_or(|only| only.contains(&node.metadata.name));
                (
                    None,
                    self.verdicts(pod, &all_nodes.iter().copied().filter(is_considered).collect::<Vec<_>>()),
                )
            }
        };
        ReferenceExplanation { pre_filter, nodes, decision: self.decide(pod, &all_nodes).0 }
    }

    /// Decides, and assumes the pod on its node.
    pub(crate) fn attempt(&mut self, namespace: &str, name: &str) -> ReferenceDecision {
        self.cluster.update_snapshot();
        let pod = self.cluster.pod(namespace, name).expect("the pod exists");
        let (decision, next_start) = self.decide(pod, &self.cluster.in_order());
        self.next_start_node_index = next_start;
        if let ReferenceDecision::Scheduled { node, .. } = &decision {
            self.cluster.assume(namespace, name, node);
        }
        decision
    }

    fn verdicts(&self, pod: &Pod, nodes: &[&Node]) -> Vec<(String, NodeVerdict)> {
        let statuses: Vec<_> = nodes.iter().map(|node| filters::filter(&self.cluster, pod, node)).collect();
        let feasible = nodes.iter().zip(&statuses).filter(|(_, status)| status.is_none());
        let feasible: Vec<&Node> = feasible.map(|(node, _)| *node).collect();
        let mut scores = scores::score(&self.cluster, pod, &feasible).into_iter();
        let verdict = |status: Option<Status>| match status {
            Some(status) => NodeVerdict::Rejected(sorted(status)),
            None => {
                let scores = scores.next().expect("every feasible node has a score");
                NodeVerdict::Feasible { total: total(&scores), scores }
            }
        };
        let verdicts = statuses.into_iter().map(verdict);
        nodes.iter().map(|node| node.metadata.name.clone()).zip(verdicts).collect()
    }

    /// The decision about a pod, and the next start index.
    fn decide(&self, pod: &Pod, all_nodes: &[&Node]) -> (ReferenceDecision, usize) {
        let count = all_nodes.len();
        let mut plugins = BTreeSet::new();
        let mut considered = all_nodes.to_vec();
        match filters::only_nodes(pod) {
            _ if all_nodes.is_empty() => {
                let message = "no nodes available to schedule pods".to_owned();
                return (ReferenceDecision::Unschedulable { message, plugins }, self.next_start_node_index);
            }
            Err(status) => {
                let message = format!("0/{count} nodes are available: {}.", status.message());
                plugins.insert(status.plugin.to_string());
                return (ReferenceDecision::Unschedulable { message, plugins }, self.next_start_node_index);
            }
            Ok(None) => {}
            Ok(Some(names)) => {
                plugins.insert("NodeAffinity".to_owned());
                considered = names.iter().filter_map(|name| self.cluster.node(name)).collect();
            }
        }
        let narrowed = !plugins.is_empty();
        let num_to_find = num_feasible_nodes_to_find(considered.len());
        let (mut feasible, mut statuses) = (Vec::new(), BTreeMap::new());
        if let Some(nominated) = self.cluster.node(&pod.status.nominated_node_name) {
            let name = nominated.metadata.name.clone();
            match filters::filter(&self.cluster, pod, nominated) {
                None => {
                    return (
                        ReferenceDecision::Scheduled { node: name, evaluated_nodes: 0, feasible_nodes: 1 },
                        self.next_start_node_index,
                    );
                }
                Some(status) => statuses.insert(name, status),
            };
        }
        for index in 0..considered.len() {
            let node = considered[(self.next_start_node_index + index) % considered.len()];
            match filters::filter(&self.cluster, pod, node) {
                Some(status) => drop(statuses.insert(node.metadata.name.clone(), status)),
                None if feasible.len() == num_to_find => break,
                None => feasible.push(node),
            }
        }
        let statuses: Vec<Status> = statuses.into_values().collect();
        let evaluated = feasible.len() + statuses.len();
        let next_start = (self.next_start_node_index + evaluated) % count;
        if feasible.is_empty() {
            plugins.extend(statuses.iter().map(|status| status.plugin.to_string()));
            let message = message(count, &statuses, narrowed.then_some(count - statuses.len()));
            return (ReferenceDecision::Unschedulable { message, plugins }, next_start);
        }
        let totals: Vec<i64> =
            scores::score(&self.cluster, pod, &feasible).iter().map(|scores| total(scores)).collect();
        let node = feasible[go::top(&totals)].metadata.name.clone();
        (
            ReferenceDecision::Scheduled { node, evaluated_nodes: evaluated, feasible_nodes: feasible.len() },
            next_start,
        )
    }
}

/// A status with its reasons sorted, as the order of extended resources is undefined.
pub(crate) fn sorted(mut status: Status) -> Status {
    status.reasons.sort();
    status
}

fn total(scores: &[PluginScore]) -> i64 {
    scores.iter().map(|score| score.weighted).sum()
}

/// The number of feasible nodes after which the search ends.
fn num_feasible_nodes_to_find(nodes: usize) -> usize {
    if nodes < 100 {
        return nodes;
    }
    let percentage = (50 - nodes as i64 / 125).max(5);
    ((nodes as i64 * percentage / 100) as usize).max(100)
}

fn message(nodes: usize, statuses: &[Status], excluded_count: Option<usize>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in statuses.iter().flat_map(|status| &status.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    if let Some(count) = excluded_count.filter(|count| *count > 0) {
        counts.insert("node(s) didn't satisfy plugin(s) [NodeAffinity]", count);
    }
    let mut reasons: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    let end = if reasons.is_empty() { String::new() } else { format!(" {}.", reasons.join(", ")) };
    format!("0/{nodes} nodes are available:{end}")
}
