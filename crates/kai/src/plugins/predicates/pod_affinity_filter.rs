//! Required affinity and anti-affinity between pods.

use std::sync::Arc;

use kubernetes::labels::Labels;
use rustc_hash::FxHashMap;
use scheduler::pod::AffinityTerm;

use crate::cluster::Cluster;
use crate::cluster::fit_errors::{Predicate, Rejection};
use crate::cluster::ids::PodId;
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::plugins::matchable_pods::MatchablePods;

/// Pods that match, by topology key and domain.
type DomainCounts = FxHashMap<(Arc<str>, Arc<str>), i64>;

/// The pods that matter for the affinity of one pod.
#[derive(Debug, Default)]
pub(super) struct AffinityState {
    /// The topology keys of required affinity.
    affinity_keys: Vec<Arc<str>>,
    /// Pods that match all of its terms.
    affinity: DomainCounts,
    /// Whether the pod matches all of them itself.
    matches_itself: bool,
    /// The topology keys of required anti-affinity.
    anti_affinity_keys: Vec<Arc<str>>,
    /// Pods that match one of its terms.
    anti_affinity: DomainCounts,
    /// Pods one of whose terms of required anti-affinity matches the pod.
    existing_anti_affinity: DomainCounts,
}

impl AffinityState {
    /// Counts the pods on all nodes. A pod that is moved in a simulation is on two of them.
    pub(super) fn new(cluster: &Cluster, id: PodId) -> AffinityState {
        let pod = cluster.pod(id);
        let (affinity, anti_affinity) = (&pod.spec.required_affinity, &pod.spec.required_anti_affinity);
        let keys = |terms: &[AffinityTerm]| terms.iter().map(|term| term.topology_key.clone()).collect();
        let mut state = AffinityState {
            affinity_keys: keys(affinity),
            matches_itself: matches_all(affinity, pod),
            anti_affinity_keys: keys(anti_affinity),
            ..AffinityState::default()
        };
        for node in cluster.nodes_with_affinity() {
            for other in node.pods_with_affinity().iter().map(|other| cluster.pod(*other)) {
                for term in other.spec.required_anti_affinity.iter().filter(|term| matches(term, pod)) {
                    count(&mut state.existing_anti_affinity, term, node);
                }
            }
        }
        if affinity.is_empty() && anti_affinity.is_empty() {
            return state;
        }
        let matchable = MatchablePods::new(cluster, affinity.iter().chain(anti_affinity));
        for node in &cluster.nodes {
            for other in matchable.of(node.affinity_pods()).map(|other| cluster.pod(other)) {
                if matches_all(affinity, other) {
                    affinity.iter().for_each(|term| count(&mut state.affinity, term, node));
                }
                for term in anti_affinity.iter().filter(|term| matches(term, other)) {
                    count(&mut state.anti_affinity, term, node);
                }
            }
        }
        state
    }

    /// Whether there is nothing to check.
    pub(super) fn is_empty(&self) -> bool {
        self.affinity_keys.is_empty()
            && self.anti_affinity_keys.is_empty()
            && self.existing_anti_affinity.is_empty()
    }

    pub(super) fn filter(&self, node: &Node) -> Result<(), Rejection> {
        let reject = |reason: &'static str| Err(Rejection::new(Predicate::PodAffinity, reason));
        if !self.is_affinity_satisfied(node) {
            return reject("node(s) didn't match pod affinity rules");
        }
        if self.anti_affinity_keys.iter().any(|key| self.count_in_domain(&self.anti_affinity, key, node) > 0)
        {
            return reject("node(s) didn't match pod anti-affinity rules");
        }
        let of_existing = |(key, value): (&Arc<str>, &Arc<str>)| {
            self.existing_anti_affinity.get(&(key.clone(), value.clone())).is_some_and(|count| *count > 0)
        };
        if !self.existing_anti_affinity.is_empty() && node.view.labels.iter().any(of_existing) {
            return reject("node(s) didn't satisfy existing pods anti-affinity rules");
        }
        Ok(())
    }

    fn is_affinity_satisfied(&self, node: &Node) -> bool {
        let mut is_matched = true;
        for key in &self.affinity_keys {
            if node.view.label(key).is_none() {
                return false;
            }
            is_matched &= self.count_in_domain(&self.affinity, key, node) > 0;
        }
        // The first pod of a series that is only to be with its own kind.
        is_matched || (self.affinity.is_empty() && self.matches_itself)
    }

    fn count_in_domain(&self, counts: &DomainCounts, key: &Arc<str>, node: &Node) -> i64 {
        let Some(value) = node.view.labels.get_shared(key) else { return 0 };
        counts.get(&(key.clone(), value.clone())).copied().unwrap_or_default()
    }
}

fn count(counts: &mut DomainCounts, term: &AffinityTerm, node: &Node) {
    if let Some(value) = node.view.labels.get_shared(&term.topology_key) {
        *counts.entry((term.topology_key.clone(), value.clone())).or_default() += 1;
    }
}

/// Whether a term matches a pod. Snapshots have no namespaces, so none has labels.
fn matches(term: &AffinityTerm, pod: &Pod) -> bool {
    term.matches(&pod.view.name.namespace, &pod.view.labels, Labels::none())
}

fn matches_all(terms: &[AffinityTerm], pod: &Pod) -> bool {
    !terms.is_empty() && terms.iter().all(|term| matches(term, pod))
}
