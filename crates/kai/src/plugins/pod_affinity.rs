//! Plugin podaffinity: nodes by preferred affinity between pods; the weights are summed up, not normalized.

use std::sync::Arc;

use kubernetes::labels::Labels;
use rustc_hash::{FxHashMap, FxHashSet};
use scheduler::pod::AffinityTerm;

use super::matchable_pods::MatchablePods;
use super::scores::K8S_PLUGINS;
use crate::cluster::Cluster;
use crate::cluster::ids::PodId;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;

/// The state of the plugin in a cycle.
#[derive(Debug, Default)]
pub(crate) struct PodAffinity {
    /// Pods for which nothing mattered once: they are not scored again.
    skipped: FxHashSet<PodId>,
    /// The weights of the pod that is scored, by topology key and domain.
    weights: FxHashMap<Arc<str>, FxHashMap<Arc<str>, i64>>,
}

/// The weight of the required affinity of a pod that is on a node.
const HARD_AFFINITY_WEIGHT: i64 = 1;

impl PodAffinity {
    /// Sums up the weights of all domains, before nodes are scored for a pod.
    pub(crate) fn pre_score(&mut self, cluster: &Cluster, id: PodId) {
        self.weights.clear();
        let pod = cluster.pod(id);
        for node in cluster.nodes_with_affinity() {
            for other in node.pods_with_affinity().iter().map(|other| cluster.pod(*other)) {
                for term in &other.spec.required_affinity {
                    self.add(term, pod, node, HARD_AFFINITY_WEIGHT);
                }
                for (weight, term) in &other.spec.preferred_affinity {
                    self.add(term, pod, node, *weight);
                }
            }
        }
        let preferred = &pod.spec.preferred_affinity;
        if !preferred.is_empty() {
            let matchable = MatchablePods::new(cluster, preferred.iter().map(|(_, term)| term));
            for node in &cluster.nodes {
                for other in matchable.of(node.affinity_pods()).map(|other| cluster.pod(other)) {
                    for (weight, term) in preferred {
                        self.add(term, other, node, *weight);
                    }
                }
            }
        }
        if self.weights.is_empty() {
            self.skipped.insert(id);
        }
    }

    pub(crate) fn score(&self, pod: PodId, node: &Node) -> f64 {
        if self.skipped.contains(&pod) {
            return 0.0;
        }
        let of_key = |(key, values): (&Arc<str>, &FxHashMap<Arc<str>, i64>)| {
            node.view.label(key).and_then(|value| values.get(value)).copied().unwrap_or_default()
        };
        // A sum of integers does not depend on the order.
        let weight: i64 = self.weights.iter().map(of_key).fold(0, i64::wrapping_add);
        K8S_PLUGINS * weight as f64
    }

    fn add(&mut self, term: &AffinityTerm, pod: &Pod, node: &Node, weight: i64) {
        let Some(value) = node.view.labels.get_shared(&term.topology_key) else { return };
        if term.matches(&pod.view.name.namespace, &pod.view.labels, Labels::none()) {
            let values = self.weights.entry(term.topology_key.clone()).or_default();
            let sum = values.entry(value.clone()).or_default();
            *sum = sum.wrapping_add(weight);
        }
    }
}
