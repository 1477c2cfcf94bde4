//! The state of Jobs between syncs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::objects::{OwnerReference, Phase};
use model::{Moment, NamespacedName};

use super::{
    JobSpec, SECOND, completion_index, finish_time, has_tracking_finalizer, remove_tracking_finalizers,
};
use crate::informer_cache::InformerCache;
use crate::object_table::CachedObject;
use crate::pod::Pod;
use crate::workqueue::WorkQueue;
use crate::{Controller, SyncContext};

/// The time for which the original batches pod updates before it syncs a Job.
const SYNC_BATCH_PERIOD: i64 = SECOND;
const DEFAULT_BACKOFF: i64 = 10 * SECOND;
const MAX_BACKOFF: i64 = 600 * SECOND;

/// The state of Jobs, by uid.
#[derive(Debug, Default)]
pub(crate) struct JobController {
    pub(super) backoffs: BTreeMap<Arc<str>, BackoffRecord>,
    /// Pods that were removed before they were counted.
    pub(super) removed_uncounted: BTreeMap<Arc<str>, Vec<FinishedPod>>,
    /// Orphans: pods of deleted Jobs that have the tracking finalizer.
    orphans: BTreeSet<NamespacedName>,
}

/// The backoff of pod creation after failures.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BackoffRecord {
    /// The number of failures since the last success.
    failures: u32,
    last_failure: Option<Moment>,
}

/// A finished pod that was not counted before.
#[derive(Clone, Copy, Debug)]
pub(super) struct FinishedPod {
    pub(super) finished_at: Moment,
    pub(super) has_succeeded: bool,
    pub(super) index: Option<i64>,
}

// === impl JobController ===

impl JobController {
    /// A Job was added, modified or deleted.
    pub(crate) fn job_changed(
        &mut self,
        now: Moment,
        cache: &InformerCache,
        queue: &mut WorkQueue,
        before: Option<&CachedObject<JobSpec>>,
        after: Option<&CachedObject<JobSpec>>,
    ) {
        let Some(name) = after.or(before).map(|job| job.name.clone()) else { return };
        if !queue.is_enabled(Controller::Job) {
            return;
        }
        if let Some(before) = before.filter(|before| after.is_none_or(|after| after.uid != before.uid)) {
            self.backoffs.remove(&before.uid);
            self.removed_uncounted.remove(&before.uid);
            let pods = cache.pods_of(&before.uid);
            self.orphans
                .extend(pods.iter().filter(|pod| has_tracking_finalizer(pod)).map(|pod| pod.name.clone()));
        }
        let is_same = |before: &CachedObject<JobSpec>| {
            after.is_some_and(|after| {
                before.uid == after.uid && before.meta.generation == after.meta.generation
            })
        };
        if before.is_some_and(is_same) {
            queue.add_at(now.plus_nanos(SYNC_BATCH_PERIOD), Controller::Job, name);
        } else {
            queue.add(Controller::Job, name);
        }
    }

    /// A pod of a Job was added, modified or deleted.
    pub(crate) fn pod_changed(
        &mut self,
        now: Moment,
        cache: &InformerCache,
        queue: &mut WorkQueue,
        owner: &OwnerReference,
        pod: &Pod,
        is_gone: bool,
    ) {
        if !queue.is_enabled(Controller::Job) {
            return;
        }
        let job_exists = || cache.jobs.resolve_owner(&pod.name.namespace, owner).is_some();
        if is_gone && has_tracking_finalizer(pod) && job_exists() {
            self.removed_uncounted.entry(owner.uid.clone()).or_default().push(FinishedPod::of(pod));
        }
        let name = NamespacedName { namespace: pod.name.namespace.clone(), name: owner.name.clone() };
        queue.add_at(now.plus_nanos(SYNC_BATCH_PERIOD), Controller::Job, name);
    }

    /// Removes the tracking finalizer from orphans.
    pub(super) fn release_orphans(&mut self, context: &mut SyncContext<'_>) {
        let orphans = std::mem::take(&mut self.orphans);
        let pods: Vec<_> = orphans.iter().filter_map(|name| context.cache.pods.get(name).cloned()).collect();
        remove_tracking_finalizers(context, &pods);
    }
}

// === impl FinishedPod ===

impl FinishedPod {
    pub(super) fn of(pod: &Pod) -> FinishedPod {
        FinishedPod {
            finished_at: finish_time(pod),
            has_succeeded: pod.status.phase == Phase::Succeeded,
            index: completion_index(pod),
        }
    }
}

// === impl BackoffRecord ===

impl BackoffRecord {
    /// The backoff after more pods have finished.
    pub(super) fn with_finished_pods(self, finished_pods: &[FinishedPod]) -> BackoffRecord {
        let last_success =
            finished_pods.iter().filter(|pod| pod.has_succeeded).map(|pod| pod.finished_at).max();
        let failed = finished_pods.iter().filter(|pod| !pod.has_succeeded);
        let failed: Vec<Moment> = failed
            .map(|pod| pod.finished_at)
            .filter(|at| last_success.is_none_or(|success| *at > success))
            .collect();
        let before = if last_success.is_some() { BackoffRecord::default() } else { self };
        let failures = before.failures.saturating_add(u32::try_from(failed.len()).unwrap_or(u32::MAX));
        BackoffRecord { failures, last_failure: failed.into_iter().max().or(before.last_failure) }
    }

    /// When pods may be created again; `None` if now.
    pub(super) fn backoff_until(self, now: Moment) -> Option<Moment> {
        let last = self.last_failure.filter(|_| self.failures > 0)?;
        let backoff_nanos = DEFAULT_BACKOFF.checked_shl(self.failures - 1).filter(|_| self.failures < 8);
        let until = last.plus_nanos(backoff_nanos.unwrap_or(MAX_BACKOFF).min(MAX_BACKOFF));
        // Updates would not be synced sooner either.
        (until > now).then(|| until.max(now.plus_nanos(SYNC_BATCH_PERIOD)))
    }
}
