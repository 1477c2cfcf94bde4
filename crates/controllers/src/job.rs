//! Jobs: pods that are run until enough of them have succeeded.
//!
//! A pod has a finalizer until it is counted, so that none goes uncounted. Where a caller lets pods go with it, they are
//! counted as they were last seen. Rules on how pods may fail, and limits per index, are left out.

mod indexes;
mod memory;
mod status;
mod work;

use std::sync::Arc;

use model::{Moment, NamespacedName};

use self::work::Work;
use super::api::JobSpec;
use super::garbage::without_finalizer;
use super::pod::Pod;
use super::stamp::Condition;
use super::table::Held;
use super::world::Thing;
use super::{Context, Controller};

pub(super) use self::memory::Jobs;

pub(super) const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const SECOND: i64 = 1_000_000_000;

// === impl Jobs ===

impl Jobs {
    pub(super) fn sync(&mut self, context: &mut Context<'_>, name: &NamespacedName) {
        self.release_orphans(context);
        let Some(held) = context.world.jobs.get(name) else { return };
        if held.spec.managed_by.as_deref().is_some_and(|who| who != "kubernetes.io/job-controller") {
            context.left_out.add("a Job is managed by somebody else".to_owned());
            return;
        }
        let is_true = |kind: &str| Condition::is_true(&held.status.conditions, kind);
        if is_true("Complete") || is_true("Failed") {
            self.backoffs.remove(&held.uid);
            self.vanished.remove(&held.uid);
            release(context, &context.world.pods_of(&held.uid));
            expire(context, held);
            return;
        }
        let spec = &held.spec;
        let mut leave = |is: bool, what: &str| {
            if is {
                context.left_out.add(format!("a Job has {what}, which is not looked at"));
            }
        };
        leave(spec.pod_failure_policy.is_some(), "a podFailurePolicy");
        leave(spec.success_policy.is_some(), "a successPolicy");
        leave(spec.backoff_limit_per_index.is_some(), "a backoffLimitPerIndex");
        let vanished = self.vanished.remove(&held.uid).unwrap_or_default();
        let backoff = self.backoffs.get(&held.uid).copied().unwrap_or_default();
        let backoff = Work::new(context, held, vanished, backoff).carry_out(context);
        self.backoffs.insert(held.uid.clone(), backoff);
    }
}

/// Takes the finalizer from pods that need not be counted any more.
fn release(context: &mut Context<'_>, pods: &[Arc<Pod>]) {
    for pod in pods.iter().filter(|pod| is_tracked(pod)) {
        if let Some(entry) = context.world.pods.entry(&pod.name) {
            context.update(without_finalizer(&entry.object, TRACKING));
        }
    }
}

/// Deletes a Job that has been over for long enough.
fn expire(context: &mut Context<'_>, held: &Held<JobSpec>) {
    let mut ends =
        held.status.conditions.iter().filter(|condition| {
            matches!(&*condition.kind, "Complete" | "Failed") && condition.status == "True"
        });
    let ended = ends.find_map(|condition| condition.last_transition_time);
    let (Some(seconds), Some(ended)) = (held.spec.ttl_seconds_after_finished, ended) else { return };
    let at = ended.plus_seconds(seconds);
    if held.is_deleted() {
        return;
    }
    if at <= context.now {
        context.delete(Thing::Job, &held.name, &held.uid);
    } else {
        context.look_again(at, Controller::Job, held.name.clone());
    }
}

fn is_tracked(pod: &Pod) -> bool {
    pod.meta.finalizers.iter().any(|finalizer| **finalizer == *TRACKING)
}

/// The index of a pod; `None` if it has none that makes sense.
fn index_of(pod: &Pod) -> Option<i64> {
    pod.meta.annotations.get(INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// When a pod ended: its containers, or as good as can be told.
fn ended_at(pod: &Pod) -> Moment {
    let unready = || pod.ready_changed.filter(|_| !pod.ready);
    let deleted = || {
        let grace = pod.meta.deletion_grace_period_seconds.unwrap_or(0);
        pod.meta.deletion_timestamp.map(|at| at.plus_nanos(grace.saturating_mul(-SECOND)))
    };
    let created = || pod.meta.creation_timestamp;
    pod.containers_ended.or_else(unready).or_else(deleted).or_else(created).unwrap_or(Moment::MIN)
}
