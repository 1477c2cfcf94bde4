//! What is remembered of Jobs between two looks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Moment, NamespacedName};

use super::{JobSpec, SECOND, ended_at, index_of, is_tracked, release};
use crate::pod::{Phase, Pod};
use crate::queue::Queue;
use crate::table::{Held, Owner};
use crate::world::World;
use crate::{Context, Controller};

/// How long the original waits for further news before it looks at a Job again.
const BATCH: i64 = SECOND;
const FIRST_BACKOFF: i64 = 10 * SECOND;
const LONGEST_BACKOFF: i64 = 600 * SECOND;

/// What is remembered of Jobs, by their uid.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    pub(super) backoffs: BTreeMap<Arc<str>, Backoff>,
    /// Pods that went before they were counted.
    pub(super) vanished: BTreeMap<Arc<str>, Vec<Ended>>,
    /// Pods of Jobs that are gone.
    orphans: BTreeSet<NamespacedName>,
}

/// How long no pod is made because pods failed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    /// Since a pod last succeeded.
    failures: u32,
    last: Option<Moment>,
}

/// A pod that has ended and was not counted before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) at: Moment,
    pub(super) has_succeeded: bool,
    pub(super) index: Option<i64>,
}

// === impl Jobs ===

impl Jobs {
    /// A Job came, changed or went.
    pub(crate) fn job_changed(
        &mut self,
        now: Moment,
        world: &World,
        queue: &mut Queue,
        before: Option<&Held<JobSpec>>,
        after: Option<&Held<JobSpec>>,
    ) {
        let Some(name) = after.or(before).map(|held| held.name.clone()) else { return };
        if !queue.works(Controller::Job) {
            return;
        }
        if let Some(before) = before.filter(|before| after.is_none_or(|after| after.uid != before.uid)) {
            self.backoffs.remove(&before.uid);
            self.vanished.remove(&before.uid);
            let pods = world.pods_of(&before.uid);
            self.orphans.extend(pods.iter().filter(|pod| is_tracked(pod)).map(|pod| pod.name.clone()));
        }
        let is_same = |before: &Held<JobSpec>| {
            after.is_some_and(|after| {
                before.uid == after.uid && before.meta.generation == after.meta.generation
            })
        };
        if before.is_some_and(is_same) {
            queue.add_at(now.plus_nanos(BATCH), Controller::Job, name);
        } else {
            queue.add(Controller::Job, name);
        }
    }

    /// A pod of a Job changed or came, or is gone.
    pub(crate) fn pod_changed(
        &mut self,
        now: Moment,
        world: &World,
        queue: &mut Queue,
        owner: &Owner,
        pod: &Pod,
        is_gone: bool,
    ) {
        if !queue.works(Controller::Job) {
            return;
        }
        let is_missed = || world.jobs.owner(&pod.name.namespace, owner).is_some();
        if is_gone && is_tracked(pod) && is_missed() {
            self.vanished.entry(owner.uid.clone()).or_default().push(Ended::of(pod));
        }
        let name = NamespacedName { namespace: pod.name.namespace.clone(), name: owner.name.clone() };
        queue.add_at(now.plus_nanos(BATCH), Controller::Job, name);
    }

    /// Lets pods go whose Job is gone.
    pub(super) fn release_orphans(&mut self, context: &mut Context<'_>) {
        let orphans = std::mem::take(&mut self.orphans);
        let pods: Vec<_> = orphans.iter().filter_map(|name| context.world.pods.get(name).cloned()).collect();
        release(context, &pods);
    }
}

// === impl Ended ===

impl Ended {
    pub(super) fn of(pod: &Pod) -> Ended {
        Ended { at: ended_at(pod), has_succeeded: pod.phase == Phase::Succeeded, index: index_of(pod) }
    }
}

// === impl Backoff ===

impl Backoff {
    /// After more pods have ended.
    pub(super) fn after(self, ended: &[Ended]) -> Backoff {
        let last_success = ended.iter().filter(|pod| pod.has_succeeded).map(|pod| pod.at).max();
        let failed = ended.iter().filter(|pod| !pod.has_succeeded);
        let failed: Vec<Moment> =
            failed.map(|pod| pod.at).filter(|at| last_success.is_none_or(|success| *at > success)).collect();
        let before = if last_success.is_some() { Backoff::default() } else { self };
        let failures = before.failures.saturating_add(u32::try_from(failed.len()).unwrap_or(u32::MAX));
        Backoff { failures, last: failed.into_iter().max().or(before.last) }
    }

    /// When pods may be made again; `None` if now.
    pub(super) fn until(self, now: Moment) -> Option<Moment> {
        let last = self.last.filter(|_| self.failures > 0)?;
        let doubled = FIRST_BACKOFF.checked_shl(self.failures - 1).filter(|_| self.failures < 8);
        let until = last.plus_nanos(doubled.unwrap_or(LONGEST_BACKOFF).min(LONGEST_BACKOFF));
        // News would not be looked at sooner than this either.
        (until > now).then(|| until.max(now.plus_nanos(BATCH)))
    }
}
