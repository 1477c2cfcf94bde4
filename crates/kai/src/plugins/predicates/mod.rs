//! Plugin predicates: the checks of a pod before nodes are looked at, and on each node.

mod config_maps;
mod max_node_resources;
mod node_filters;
mod pod_affinity_filter;

use rustc_hash::FxHashMap;

pub(crate) use node_filters::{check_conditions, check_gpu_memory, check_resource_type, check_worker_labels};
use pod_affinity_filter::AffinityState;

use crate::cluster::Cluster;
use crate::cluster::fit_errors::{Predicate, Rejection};
use crate::cluster::ids::{NodeId, PodId};
use config_maps::missing_config_maps;
use max_node_resources::{MaxNodeResources, max_node_resources};

/// The state of the checks in a cycle.
#[derive(Debug)]
pub(crate) struct Predicates {
    max_resources: MaxNodeResources,
    /// The affinity of each pod that was tried, as of its last try.
    affinity: FxHashMap<PodId, PodAffinityState>,
    /// Results that do not change in a cycle.
    invariant: FxHashMap<PodId, Vec<PrePredicateError>>,
}

/// A check that failed before any node was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrePredicateError {
    pub predicate: &'static str,
    pub message: String,
}

/// The affinity of a pod to other pods, as of its last try.
#[derive(Debug, Default)]
struct PodAffinityState {
    state: AffinityState,
    /// Once there was nothing to check, the filter is left out for the rest of the cycle.
    is_skipped: bool,
}

impl Predicates {
    pub(crate) fn new(cluster: &Cluster, node_pool: &str) -> Predicates {
        Predicates {
            max_resources: max_node_resources(cluster, node_pool),
            affinity: FxHashMap::default(),
            invariant: FxHashMap::default(),
        }
    }

    /// The checks of a pod before nodes are looked at.
    pub(crate) fn pre_filter(&mut self, cluster: &Cluster, pod: PodId) -> Vec<PrePredicateError> {
        let mut errors = Vec::new();
        let required = &cluster.pod(pod).spec.required_node_affinity;
        let names = required.affinity.as_ref().and_then(|affinity| affinity.names());
        if names.is_some_and(|names| names.is_empty()) {
            let message = "pod affinity terms conflict".to_owned();
            errors.push(PrePredicateError { predicate: Predicate::NodeAffinity.name(), message });
        }
        let state = AffinityState::new(cluster, pod);
        let entry = self.affinity.entry(pod).or_default();
        entry.is_skipped |= state.is_empty();
        // A state that is skipped is not written; an older one stays.
        if !state.is_empty() {
            entry.state = state;
        }
        errors.extend_from_slice(self.invariant_errors(cluster, pod));
        errors
    }

    /// The first check of a pod that fails whatever is evicted.
    pub(crate) fn invariant_failure(&mut self, cluster: &Cluster, pod: PodId) -> Option<&PrePredicateError> {
        self.invariant_errors(cluster, pod).first()
    }

    /// The filters of kube-scheduler.
    pub(crate) fn filter(&self, cluster: &Cluster, pod: PodId, node: NodeId) -> Result<(), Rejection> {
        node_filters::filter(cluster.pod(pod), cluster.node(node))?;
        match self.affinity.get(&pod) {
            Some(entry) if !entry.is_skipped => entry.state.filter(cluster.node(node)),
            Some(_) | None => Ok(()),
        }
    }

    fn invariant_errors(&mut self, cluster: &Cluster, pod: PodId) -> &[PrePredicateError] {
        let max_resources = &self.max_resources;
        self.invariant.entry(pod).or_insert_with(|| {
            let config_maps = missing_config_maps(cluster.pod(pod), &cluster.config_maps);
            let too_large = max_resources.check(cluster.pod(pod), &cluster.names);
            let error = |predicate, message| PrePredicateError { predicate, message };
            let config_maps = config_maps.map(|message| error("ConfigMap", message));
            let too_large = too_large.map(|message| error("MaxNodePoolResources", message));
            config_maps.into_iter().chain(too_large).collect()
        })
    }
}
