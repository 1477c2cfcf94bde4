//! A scheduler written to be read: it follows kube-scheduler's rules one by one, counts everything anew for every
//! question, and shares no code with the one it is compared with.
//!
//! It knows the default profile, and no volumes and no preemption.

mod affinity;
mod cluster;
mod filters;
mod go;
mod objects;
mod scores;
mod spread;

use std::collections::{BTreeMap, BTreeSet};

use model::What;
use scheduler::{NodeVerdict, PluginScore, Refusal};

use cluster::Cluster;
use objects::{Node, Pod};

/// The plain scheduler.
#[derive(Default)]
pub(crate) struct Plain {
    cluster: Cluster,
    /// Where in the order of nodes the next search begins.
    next_start: usize,
}

/// What it says of a pod.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    /// Why the pod as such is refused.
    pub(crate) pre_filter: Option<Refusal>,
    /// Node by node in the scheduler's order, reasons sorted.
    pub(crate) nodes: Vec<(String, NodeVerdict)>,
    pub(crate) choice: Choice,
}

/// What it does with a pod.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Choice {
    Placed { node: String, looked_at: usize, fitting: usize },
    Refused { message: String, plugins: BTreeSet<String> },
}

impl Plain {
    pub(crate) fn apply(&mut self, what: &What) {
        self.cluster.apply(what);
    }

    /// Every node's verdict, and what would be done.
    pub(crate) fn explain(&mut self, namespace: &str, name: &str) -> Answer {
        self.cluster.look();
        let pod = self.cluster.pod(namespace, name).expect("the test asks for pods that are there");
        let all = self.cluster.in_order();
        let (pre_filter, nodes) = match filters::only_nodes(pod) {
            Err(refusal) => (Some(refusal), Vec::new()),
            Ok(only) => {
                let is_considered =
                    |node: &&Node| only.as_ref().is_none_or(|only| only.contains(&node.metadata.name));
                (None, self.verdicts(pod, &all.iter().copied().filter(is_considered).collect::<Vec<_>>()))
            }
        };
        Answer { pre_filter, nodes, choice: self.choose(pod, &all).0 }
    }

    /// Decides, and takes the pod to be where it is placed.
    pub(crate) fn attempt(&mut self, namespace: &str, name: &str) -> Choice {
        self.cluster.look();
        let pod = self.cluster.pod(namespace, name).expect("the test asks for pods that are there");
        let (choice, next_start) = self.choose(pod, &self.cluster.in_order());
        self.next_start = next_start;
        if let Choice::Placed { node, .. } = &choice {
            self.cluster.assume(namespace, name, node);
        }
        choice
    }

    fn verdicts(&self, pod: &Pod, nodes: &[&Node]) -> Vec<(String, NodeVerdict)> {
        let refusals: Vec<_> = nodes.iter().map(|node| filters::filter(&self.cluster, pod, node)).collect();
        let fitting = nodes.iter().zip(&refusals).filter(|(_, refusal)| refusal.is_none());
        let fitting: Vec<&Node> = fitting.map(|(node, _)| *node).collect();
        let mut scores = scores::score(&self.cluster, pod, &fitting).into_iter();
        let verdict = |refusal: Option<Refusal>| match refusal {
            Some(refusal) => NodeVerdict::Refused(sorted(refusal)),
            None => {
                let scores = scores.next().expect("each that fits has a score");
                NodeVerdict::Fits { total: total(&scores), scores }
            }
        };
        let verdicts = refusals.into_iter().map(verdict);
        nodes.iter().map(|node| node.metadata.name.clone()).zip(verdicts).collect()
    }

    /// What is done with a pod, and where the next search begins.
    fn choose(&self, pod: &Pod, all: &[&Node]) -> (Choice, usize) {
        let count = all.len();
        let mut plugins = BTreeSet::new();
        let mut considered = all.to_vec();
        match filters::only_nodes(pod) {
            _ if all.is_empty() => {
                let message = "no nodes available to schedule pods".to_owned();
                return (Choice::Refused { message, plugins }, self.next_start);
            }
            Err(refusal) => {
                let message = format!("0/{count} nodes are available: {}.", refusal.message());
                plugins.insert(refusal.plugin.to_string());
                return (Choice::Refused { message, plugins }, self.next_start);
            }
            Ok(None) => {}
            Ok(Some(names)) => {
                plugins.insert("NodeAffinity".to_owned());
                considered = names.iter().filter_map(|name| self.cluster.node(name)).collect();
            }
        }
        let narrowed = !plugins.is_empty();
        let enough = enough(considered.len());
        let (mut fitting, mut refusals) = (Vec::new(), BTreeMap::new());
        if let Some(promised) = self.cluster.node(&pod.status.nominated_node_name) {
            let name = promised.metadata.name.clone();
            match filters::filter(&self.cluster, pod, promised) {
                None => return (Choice::Placed { node: name, looked_at: 0, fitting: 1 }, self.next_start),
                Some(refusal) => refusals.insert(name, refusal),
            };
        }
        for index in 0..considered.len() {
            let node = considered[(self.next_start + index) % considered.len()];
            match filters::filter(&self.cluster, pod, node) {
                Some(refusal) => drop(refusals.insert(node.metadata.name.clone(), refusal)),
                None if fitting.len() == enough => break,
                None => fitting.push(node),
            }
        }
        let refusals: Vec<Refusal> = refusals.into_values().collect();
        let looked_at = fitting.len() + refusals.len();
        let next_start = (self.next_start + looked_at) % count;
        if fitting.is_empty() {
            plugins.extend(refusals.iter().map(|refusal| refusal.plugin.to_string()));
            let message = message(count, &refusals, narrowed.then_some(count - refusals.len()));
            return (Choice::Refused { message, plugins }, next_start);
        }
        let totals: Vec<i64> =
            scores::score(&self.cluster, pod, &fitting).iter().map(|scores| total(scores)).collect();
        let node = fitting[go::top(&totals)].metadata.name.clone();
        (Choice::Placed { node, looked_at, fitting: fitting.len() }, next_start)
    }
}

/// A refusal with its reasons in order: which of several extended resources is named first is not decided.
pub(crate) fn sorted(mut refusal: Refusal) -> Refusal {
    refusal.reasons.sort();
    refusal
}

fn total(scores: &[PluginScore]) -> i64 {
    scores.iter().map(|score| score.weighted).sum()
}

/// How many nodes that fit are enough, of so many.
fn enough(nodes: usize) -> usize {
    if nodes < 100 {
        return nodes;
    }
    let percentage = (50 - nodes as i64 / 125).max(5);
    ((nodes as i64 * percentage / 100) as usize).max(100)
}

fn message(nodes: usize, refusals: &[Refusal], left_out: Option<usize>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in refusals.iter().flat_map(|refusal| &refusal.reasons) {
        *counts.entry(reason).or_default() += 1;
    }
    if let Some(count) = left_out.filter(|count| *count > 0) {
        counts.insert("node(s) didn't satisfy plugin(s) [NodeAffinity]", count);
    }
    let mut reasons: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort();
    let end = if reasons.is_empty() { String::new() } else { format!(" {}.", reasons.join(", ")) };
    format!("0/{nodes} nodes are available:{end}")
}
