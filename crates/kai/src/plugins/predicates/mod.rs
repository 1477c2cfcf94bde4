//! Plugin predicates: the checks of a pod before nodes are looked at, and on each node.

mod config_maps;
mod max_node_resources;
mod node_filters;
mod pod_affinity_filter;

use model::Object;
use rustc_hash::FxHashMap;
use scheduler::{Code, PodClaims, VolumeFilter};

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
    volumes: VolumeFilter,
    /// Results that do not change in a cycle.
    invariant: FxHashMap<PodId, InvariantResult>,
}

/// A check that failed before any node was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PrePredicateError {
    pub predicate: &'static str,
    pub message: String,
    /// Whether evictions cannot help.
    is_unresolvable: bool,
}

/// The results of checks before any node that do not change in a cycle.
#[derive(Debug, Default)]
struct InvariantResult {
    /// The pod's claims, for the filter of volumes; `None` if it has none.
    claims: Option<PodClaims>,
    errors: Vec<PrePredicateError>,
}

/// The affinity of a pod to other pods, as of its last try.
#[derive(Debug, Default)]
struct PodAffinityState {
    state: AffinityState,
    /// Once there was nothing to check, the filter is left out for the rest of the cycle.
    is_skipped: bool,
}

impl Predicates {
    /// The checks with these volumes, claims, storage classes and CSI objects.
    pub(crate) fn new(cluster: &Cluster, node_pool: &str, storage: &[Object]) -> Predicates {
        let mut volumes = VolumeFilter::default();
        storage.iter().for_each(|object| volumes.add(object));
        Predicates {
            max_resources: max_node_resources(cluster, node_pool),
            affinity: FxHashMap::default(),
            volumes,
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
            let predicate = Predicate::NodeAffinity.name();
            errors.push(PrePredicateError { predicate, message, is_unresolvable: true });
        }
        let state = AffinityState::new(cluster, pod);
        let entry = self.affinity.entry(pod).or_default();
        entry.is_skipped |= state.is_empty();
        // A state that is skipped is not written; an older one stays.
        if !state.is_empty() {
            entry.state = state;
        }
        errors.extend_from_slice(&self.invariant_result(cluster, pod).errors);
        errors
    }

    /// The first check of a pod that fails whatever is evicted.
    pub(crate) fn invariant_failure(&mut self, cluster: &Cluster, pod: PodId) -> Option<&PrePredicateError> {
        self.invariant_result(cluster, pod).errors.iter().find(|error| error.is_unresolvable)
    }

    /// The filters of kube-scheduler.
    pub(crate) fn filter(&self, cluster: &Cluster, pod: PodId, node: NodeId) -> Result<(), Rejection> {
        node_filters::filter(cluster.pod(pod), cluster.node(node))?;
        if let Some(entry) = self.affinity.get(&pod).filter(|entry| !entry.is_skipped) {
            entry.state.filter(cluster.node(node))?;
        }
        let Some(claims) = self.invariant.get(&pod).and_then(|result| result.claims.as_ref()) else {
            return Ok(());
        };
        let node = cluster.node(node);
        self.volumes
            .filter(claims, node.name(), &node.view.labels)
            .map_err(|status| Rejection::new(Predicate::VolumeBinding, status.message()))
    }

    fn invariant_result(&mut self, cluster: &Cluster, id: PodId) -> &InvariantResult {
        let (volumes, max_resources) = (&self.volumes, &self.max_resources);
        self.invariant.entry(id).or_insert_with(|| {
            let pod = cluster.pod(id);
            let mut result = InvariantResult::default();
            let mut add = |predicate, message, is_unresolvable| {
                result.errors.push(PrePredicateError { predicate, message, is_unresolvable });
            };
            match volumes.pre_filter(&pod.view) {
                Ok(claims) => result.claims = claims,
                Err(status) => {
                    let is_unresolvable = status.code == Code::UnschedulableAndUnresolvable;
                    add(Predicate::VolumeBinding.name(), status.message(), is_unresolvable);
                }
            }
            if let Some(message) = missing_config_maps(pod, &cluster.config_maps) {
                add("ConfigMap", message, true);
            }
            if let Some(message) = max_resources.check(pod, &cluster.names) {
                add("MaxNodePoolResources", message, true);
            }
            result
        })
    }
}
