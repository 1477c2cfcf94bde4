//! ReplicaSets: so many pods of one template.

mod rank;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::api::{ReplicaSetSpec, ReplicaSetStatus};
use super::pod::Pod;
use super::table::Held;
use super::world::{Thing, World};
use super::{BURST, Context, Controller};

pub(super) use rank::{Ages, Ranked, sort};

pub(super) fn sync(context: &mut Context<'_>, set: &Arc<Held<ReplicaSetSpec>>) {
    let pods = context.world.pods_of(&set.uid);
    let (active, others): (Vec<_>, Vec<_>) = pods.into_iter().partition(|pod| pod.is_active());
    if !set.is_deleted() && manage(context, set, &active) {
        return;
    }
    let min_ready = set.spec.min_ready_seconds;
    let labels = set.spec.template.labels();
    let is_labelled = |pod: &&Arc<Pod>| labels.iter().all(|(key, value)| pod.label(key) == value.as_str());
    let count = |is: &dyn Fn(&&Arc<Pod>) -> bool| active.iter().filter(is).count() as i64;
    let conditions = set.status.conditions.iter().filter(|condition| condition.kind != "ReplicaFailure");
    let status = ReplicaSetStatus {
        replicas: active.len() as i64,
        fully_labeled_replicas: count(&is_labelled),
        ready_replicas: count(&|pod| pod.ready),
        available_replicas: count(&|pod| pod.is_available(min_ready, context.now)),
        terminating_replicas: Some(others.iter().filter(|pod| pod.is_terminating()).count() as i64),
        observed_generation: set.meta.generation,
        conditions: conditions.cloned().collect(),
    };
    if status != set.status {
        context.update(set.with_status(&status));
    }
    let later = active.iter().filter_map(|pod| pod.available_at(min_ready)).filter(|at| *at > context.now);
    if let Some(at) = later.min() {
        context.look_again(at, Controller::ReplicaSet, set.name.clone());
    }
}

/// Makes pods that are missing, or deletes those that are too many. False if there is nothing to do.
fn manage(context: &mut Context<'_>, set: &Arc<Held<ReplicaSetSpec>>, active: &[Arc<Pod>]) -> bool {
    let wanted = usize::try_from(set.spec.replicas()).unwrap_or(0);
    if active.len() == wanted {
        return false;
    }
    for _ in 0..wanted.saturating_sub(active.len()).min(BURST) {
        context.create_pod(set.spec.template.pod(&**set));
    }
    let surplus = active.len().saturating_sub(wanted).min(BURST);
    for pod in to_delete(context, set, active, surplus) {
        context.delete_pod(&pod);
    }
    true
}

/// The pods that go first. How many pods of the same Deployment are on its node counts against a pod.
fn to_delete(
    context: &Context<'_>,
    set: &Arc<Held<ReplicaSetSpec>>,
    active: &[Arc<Pod>],
    surplus: usize,
) -> Vec<Arc<Pod>> {
    if surplus == active.len() || surplus == 0 {
        return active[..surplus].to_vec();
    }
    let mut neighbours: BTreeMap<Option<Arc<str>>, usize> = BTreeMap::new();
    for pod in related(context.world, set) {
        *neighbours.entry(pod.node.clone()).or_default() += 1;
    }
    let ranked = active.iter().map(|pod| {
        let neighbours = neighbours.get(&pod.node).copied().unwrap_or(0);
        Ranked { pod: pod.clone(), neighbours }
    });
    let mut ranked: Vec<_> = ranked.collect();
    sort(&mut ranked, Ages::Magnitude(context.now));
    ranked.into_iter().take(surplus).map(|ranked| ranked.pod).collect()
}

/// The active pods of all ReplicaSets that the same owner has.
fn related(world: &World, set: &Held<ReplicaSetSpec>) -> Vec<Arc<Pod>> {
    // One that nobody manages has no relatives, not even itself.
    let Some(owner) = set.controller() else { return Vec::new() };
    let sets = world.owned(&owner.uid).filter(|(thing, _)| *thing == Thing::ReplicaSet);
    let sets = sets.filter_map(|(_, name)| world.replica_sets.get(name));
    let pods = sets.flat_map(|set| world.pods_of(&set.uid));
    pods.filter(|pod| pod.is_active()).collect()
}
