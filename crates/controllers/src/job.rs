//! The Job controller, and the TTL-after-finished controller.
//!
//! A pod keeps its tracking finalizer until it is counted. Pods that the caller removes in spite of it are counted as
//! they were last seen. Pod failure policies, success policies and backoff limits per index are not simulated.

mod controller;
mod indexes;
mod status;
mod sync;

use std::sync::Arc;

use model::{Moment, NamespacedName};

use self::sync::JobSync;
use super::api::JobSpec;
use super::informer_cache::OwnershipKind;
use super::k8s_time::Condition;
use super::object_table::CachedObject;
use super::pod::Pod;
use super::{Controller, SyncContext};

pub(super) use self::controller::JobController;

pub(super) const TRACKING_FINALIZER: &str = "batch.kubernetes.io/job-tracking";
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";
const SECOND: i64 = 1_000_000_000;

// === impl JobController ===

impl JobController {
    pub(super) fn sync(&mut self, context: &mut SyncContext<'_>, name: &NamespacedName) {
        self.release_orphans(context);
        let Some(job) = context.cache.jobs.get(name) else { return };
        if job
            .spec
            .managed_by
            .as_deref()
            .is_some_and(|managed_by| managed_by != "kubernetes.io/job-controller")
        {
            context.unsupported.add("Job ignored: managedBy another controller".to_owned());
            return;
        }
        let is_true = |kind: &str| Condition::is_true(&job.status.conditions, kind);
        if is_true("Complete") || is_true("Failed") {
            self.backoffs.remove(&job.uid);
            self.removed_uncounted.remove(&job.uid);
            remove_tracking_finalizers(context, &context.cache.pods_of(&job.uid));
            delete_if_ttl_expired(context, job);
            return;
        }
        let spec = &job.spec;
        let mut report_unsupported = |is_set: bool, field: &str| {
            if is_set {
                context.unsupported.add(format!("{field} of a Job ignored"));
            }
        };
        report_unsupported(spec.pod_failure_policy.is_some(), "podFailurePolicy");
        report_unsupported(spec.success_policy.is_some(), "successPolicy");
        report_unsupported(spec.backoff_limit_per_index.is_some(), "backoffLimitPerIndex");
        let removed_pods = self.removed_uncounted.remove(&job.uid).unwrap_or_default();
        let backoff = self.backoffs.get(&job.uid).copied().unwrap_or_default();
        let backoff = JobSync::new(context, job, removed_pods, backoff).run(context);
        self.backoffs.insert(job.uid.clone(), backoff);
    }
}

/// Removes the tracking finalizer from pods.
fn remove_tracking_finalizers(context: &mut SyncContext<'_>, pods: &[Arc<Pod>]) {
    for pod in pods.iter().filter(|pod| has_tracking_finalizer(pod)) {
        if context.cache.pods.contains(&pod.name) {
            context.remove_finalizer(pod, TRACKING_FINALIZER);
        }
    }
}

/// Deletes a finished Job whose TTL has expired.
fn delete_if_ttl_expired(context: &mut SyncContext<'_>, job: &CachedObject<JobSpec>) {
    let mut finished_conditions =
        job.status.conditions.iter().filter(|condition| {
            matches!(&*condition.kind, "Complete" | "Failed") && condition.status == "True"
        });
    let finished_at = finished_conditions.find_map(|condition| condition.last_transition_time);
    let (Some(seconds), Some(finished_at)) = (job.spec.ttl_seconds_after_finished, finished_at) else {
        return;
    };
    let at = finished_at.plus_seconds(seconds);
    if job.is_deleting() {
        return;
    }
    if at <= context.now {
        context.delete(OwnershipKind::Job, &job.name, &job.uid);
    } else {
        context.enqueue_at(at, Controller::Job, job.name.clone());
    }
}

fn has_tracking_finalizer(pod: &Pod) -> bool {
    pod.finalizers.iter().any(|finalizer| **finalizer == *TRACKING_FINALIZER)
}

/// The completion index of a pod; `None` if it has no valid one.
fn completion_index(pod: &Pod) -> Option<i64> {
    pod.annotations.get(COMPLETION_INDEX)?.parse().ok().filter(|index| *index >= 0)
}

/// When a pod finished: when its containers terminated, or the best estimate.
fn finish_time(pod: &Pod) -> Moment {
    let unready = || pod.ready_transition.filter(|_| !pod.ready);
    let deleted = || {
        let grace = pod.deletion_grace_period_seconds.unwrap_or(0);
        pod.deletion_timestamp.map(|at| at.plus_nanos(grace.saturating_mul(-SECOND)))
    };
    let created = || pod.creation_timestamp;
    pod.containers_finished_at.or_else(unready).or_else(deleted).or_else(created).unwrap_or(Moment::MIN)
}
