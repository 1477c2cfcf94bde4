//! The ReplicaSet controller.

mod deletion_order;
mod pod_counts;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Moment;

use super::api::{ReplicaSetSpec, ReplicaSetStatus};
use super::informer_cache::{InformerCache, OwnershipKind};
use super::object_table::CachedObject;
use super::pod::Pod;
use super::{BURST_REPLICAS, Controller, SyncContext};

pub(super) use deletion_order::{AgeComparison, RankedPod, sort_for_deletion};
pub(super) use pod_counts::ReplicaSetPods;

pub(super) fn sync(
    context: &mut SyncContext<'_>,
    set: &Arc<CachedObject<ReplicaSetSpec>>,
    set_pods: &mut ReplicaSetPods,
) {
    let counts = set_pods.count(context.cache, set);
    if !set.is_deleting() && counts.active != set.spec.replicas().max(0) {
        manage_replicas(context, set);
        return;
    }
    let min_ready = set.spec.min_ready_seconds;
    // Without a minimum, ready pods are available at once.
    let available_times: Vec<Moment> = match min_ready {
        0 => Vec::new(),
        _ => active_pods(context.cache, set).iter().filter_map(|pod| pod.available_at(min_ready)).collect(),
    };
    let conditions = set.status.conditions.iter().filter(|condition| condition.kind != "ReplicaFailure");
    let status = ReplicaSetStatus {
        replicas: counts.active,
        fully_labeled_replicas: counts.fully_labeled,
        ready_replicas: counts.ready,
        available_replicas: match min_ready {
            0 => counts.ready,
            _ => available_times.iter().filter(|at| **at <= context.now).count() as i64,
        },
        terminating_replicas: Some(counts.terminating),
        observed_generation: set.meta.generation,
        conditions: conditions.cloned().collect(),
    };
    if status != set.status {
        context.update(set.with_status(&status));
    }
    if let Some(at) = available_times.into_iter().filter(|at| *at > context.now).min() {
        context.enqueue_at(at, Controller::ReplicaSet, set.name.clone());
    }
}

/// The pods of a ReplicaSet that are neither finished nor terminating.
fn active_pods(cache: &InformerCache, set: &CachedObject<ReplicaSetSpec>) -> Vec<Arc<Pod>> {
    cache.pods_of(&set.uid).into_iter().filter(|pod| pod.is_active()).collect()
}

/// Creates missing pods or deletes surplus ones.
fn manage_replicas(context: &mut SyncContext<'_>, set: &Arc<CachedObject<ReplicaSetSpec>>) {
    let active = active_pods(context.cache, set);
    let desired_replicas = usize::try_from(set.spec.replicas()).unwrap_or(0);
    for _ in 0..desired_replicas.saturating_sub(active.len()).min(BURST_REPLICAS) {
        context.create_pod_of(set, set.spec.template.new_pod(&**set));
    }
    let surplus = active.len().saturating_sub(desired_replicas).min(BURST_REPLICAS);
    for pod in pods_to_delete(context, set, &active, surplus) {
        context.delete_pod_of(set, &pod);
    }
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
