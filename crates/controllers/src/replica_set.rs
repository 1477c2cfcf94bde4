//! The ReplicaSet controller.

mod deletion_order;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::api::{ReplicaSetSpec, ReplicaSetStatus};
use super::informer_cache::{InformerCache, OwnershipKind};
use super::object_table::CachedObject;
use super::pod::Pod;
use super::{BURST_REPLICAS, Controller, SyncContext};

pub(super) use deletion_order::{AgeComparison, RankedPod, sort_for_deletion};

pub(super) fn sync(context: &mut SyncContext<'_>, set: &Arc<CachedObject<ReplicaSetSpec>>) {
    let pods = context.cache.pods_of(&set.uid);
    let (active, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod.is_active());
    if !set.is_deleting() && manage_replicas(context, set, &active) {
        return;
    }
    let min_ready = set.spec.min_ready_seconds;
    let labels = set.spec.template.labels();
    let is_labeled = |pod: &&Arc<Pod>| labels.iter().all(|(key, value)| pod.label(key) == value.as_str());
    let count = |matches: &dyn Fn(&&Arc<Pod>) -> bool| active.iter().filter(matches).count() as i64;
    let conditions = set.status.conditions.iter().filter(|condition| condition.kind != "ReplicaFailure");
    let status = ReplicaSetStatus {
        replicas: active.len() as i64,
        fully_labeled_replicas: count(&is_labeled),
        ready_replicas: count(&|pod| pod.ready),
        available_replicas: count(&|pod| pod.is_available(min_ready, context.now)),
        terminating_replicas: Some(others.iter().filter(|pod| pod.is_terminating()).count() as i64),
        observed_generation: set.meta.generation,
        conditions: conditions.cloned().collect(),
    };
    if status != set.status {
        context.update(set.with_status(&status));
    }
    let available_times =
        active.iter().filter_map(|pod| pod.available_at(min_ready)).filter(|at| *at > context.now);
    if let Some(at) = available_times.min() {
        context.enqueue_at(at, Controller::ReplicaSet, set.name.clone());
    }
}

/// Creates missing pods or deletes surplus ones. Returns false if there is nothing to do.
fn manage_replicas(
    context: &mut SyncContext<'_>,
    set: &Arc<CachedObject<ReplicaSetSpec>>,
    active: &[Arc<Pod>],
) -> bool {
    let desired_replicas = usize::try_from(set.spec.replicas()).unwrap_or(0);
    if active.len() == desired_replicas {
        return false;
    }
    for _ in 0..desired_replicas.saturating_sub(active.len()).min(BURST_REPLICAS) {
        context.create_pod(set.spec.template.new_pod(&**set));
    }
    let surplus = active.len().saturating_sub(desired_replicas).min(BURST_REPLICAS);
    for pod in pods_to_delete(context, set, active, surplus) {
        context.delete_pod(&pod);
    }
    true
}

/// The pods to delete first. Pods on nodes with more pods of the same Deployment rank higher.
fn pods_to_delete(
    context: &SyncContext<'_>,
    set: &Arc<CachedObject<ReplicaSetSpec>>,
    active: &[Arc<Pod>],
    surplus: usize,
) -> Vec<Arc<Pod>> {
    if surplus == active.len() || surplus == 0 {
        return active[..surplus].to_vec();
    }
    let mut pods_on_node: BTreeMap<Option<Arc<str>>, usize> = BTreeMap::new();
    for pod in indirectly_related_pods(context.cache, set) {
        *pods_on_node.entry(pod.node_name.clone()).or_default() += 1;
    }
    let ranked = active.iter().map(|pod| {
        let pods_on_node = pods_on_node.get(&pod.node_name).copied().unwrap_or(0);
        RankedPod { pod: pod.clone(), rank: pods_on_node }
    });
    let mut ranked: Vec<_> = ranked.collect();
    sort_for_deletion(&mut ranked, AgeComparison::Logarithmic(context.now));
    ranked.into_iter().take(surplus).map(|ranked| ranked.pod).collect()
}

/// The active pods of all ReplicaSets with the same controller.
fn indirectly_related_pods(cache: &InformerCache, set: &CachedObject<ReplicaSetSpec>) -> Vec<Arc<Pod>> {
    // A ReplicaSet without a controller has no related pods, not even its own.
    let Some(owner) = set.controller() else { return Vec::new() };
    let sets = cache.dependents_of(&owner.uid).filter(|(kind, _)| *kind == OwnershipKind::ReplicaSet);
    let sets = sets.filter_map(|(_, name)| cache.replica_sets.get(name));
    let pods = sets.flat_map(|set| cache.pods_of(&set.uid));
    pods.filter(|pod| pod.is_active()).collect()
}
