//! One look at a Job.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::indexes::Indexes;
use super::memory::{Backoff, Ended};
use super::{INDEX, JobSpec, TRACKING, index_of, is_tracked, release};
use crate::api::{JobStatus, Uncounted};
use crate::pod::{Phase, Pod};
use crate::replica_set::{Ages, Ranked, sort};
use crate::stamp::{Condition, Stamp};
use crate::table::Held;
use crate::template::{NewName, NewPod};
use crate::{BURST, Context, Controller};

const LONGEST_PREFIX: usize = 58;

/// A Job being looked at.
pub(super) struct Work<'a> {
    held: &'a Held<JobSpec>,
    status: JobStatus,
    pods: Vec<Arc<Pod>>,
    active: Vec<Arc<Pod>>,
    /// The indexes that have succeeded.
    indexes: Indexes,
    backoff: Backoff,
    /// Pods that were counted in this look, or earlier.
    counted: Vec<Arc<Pod>>,
}

impl<'a> Work<'a> {
    /// Counts the pods that have ended.
    pub(super) fn new(
        context: &Context<'_>,
        held: &'a Held<JobSpec>,
        vanished: Vec<Ended>,
        backoff: Backoff,
    ) -> Work<'a> {
        let (spec, mut status) = (&held.spec, held.status.clone());
        let pods = context.world.pods_of(&held.uid);
        let uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        status.succeeded += uncounted.succeeded.len() as i64;
        status.failed += uncounted.failed.len() as i64;
        let is_known =
            |pod: &Pod| uncounted.succeeded.iter().chain(&uncounted.failed).any(|uid| **uid == *pod.uid);
        let below = spec.completions().unwrap_or(i64::MAX);
        let is_valid = |index: Option<i64>| !spec.is_indexed() || index.is_some_and(|index| index < below);
        let has_ended =
            |pod: &&Arc<Pod>| is_tracked(pod) && (pod.phase == Phase::Succeeded || spec.has_failed(pod));
        let counted: Vec<Arc<Pod>> = pods.iter().filter(has_ended).cloned().collect();
        let mut ended: Vec<Ended> =
            counted.iter().filter(|pod| !is_known(pod)).map(|pod| Ended::of(pod)).collect();
        ended.extend(vanished);
        ended.retain(|pod| is_valid(pod.index));
        let succeeded = || ended.iter().filter(|pod| pod.has_succeeded);
        let new: BTreeSet<i64> =
            succeeded().filter_map(|pod| pod.index).filter(|_| spec.is_indexed()).collect();
        let indexes = Indexes::parse(&status.completed_indexes, below).with(&new);
        status.failed += (ended.len() - succeeded().count()) as i64;
        if spec.is_indexed() {
            status.succeeded = indexes.count();
            status.completed_indexes = indexes.to_string();
        } else {
            status.succeeded += succeeded().count() as i64;
        }
        if status.start_time.is_none() && !spec.suspend {
            status.start_time = Some(Stamp::at(context.now));
        }
        status.uncounted_terminated_pods = Some(Uncounted::default());
        let active = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        Work { held, status, backoff: backoff.after(&ended), pods, active, indexes, counted }
    }

    /// Does what is next, and says what came of it. Gives back how long pods are not made again.
    pub(super) fn carry_out(mut self, context: &mut Context<'_>) -> Backoff {
        let terminating = self.pods.iter().filter(|pod| pod.is_terminating()).count() as i64;
        self.status.terminating = Some(terminating);
        self.status.ready = Some(self.active.iter().filter(|pod| pod.ready).count() as i64);
        self.status.active = self.active.len() as i64;
        let end = self.failure(context).or_else(|| self.success());
        let end = match end {
            Some(end) => {
                self.give_up(&end);
                self.stop(context);
                Some(end)
            }
            None => {
                let is_managed = !self.held.is_deleted();
                if is_managed {
                    self.manage(context);
                }
                let is_complete = match self.held.spec.completions() {
                    None => self.status.succeeded > 0 && self.status.active == 0,
                    Some(wanted) => self.status.succeeded >= wanted && self.status.active == 0,
                };
                if is_managed && !is_complete {
                    self.note_suspension(context);
                }
                is_complete.then(|| End {
                    is_success: true,
                    reason: "CompletionsReached".to_owned(),
                    message: "Reached expected number of succeeded pods".to_owned(),
                })
            }
        };
        if self.held.is_deleted() {
            self.counted = self.pods.clone();
        }
        release(context, &self.counted);
        if let Some(end) = end {
            self.end(context, &end);
        }
        if self.status != self.held.status {
            context.update(self.held.with_status(&self.status));
        }
        self.backoff
    }

    /// Why it fails, if it does.
    fn failure(&self, context: &mut Context<'_>) -> Option<End> {
        let failed = |reason: &str, message: &str| {
            Some(End { is_success: false, reason: reason.to_owned(), message: message.to_owned() })
        };
        let spec = &self.held.spec;
        let known = Condition::find(&self.status.conditions, "FailureTarget");
        if let Some(known) = known.filter(|known| known.status == "True") {
            return failed(known.reason(), known.message.as_deref().unwrap_or_default());
        }
        if Condition::is_true(&self.status.conditions, "SuccessCriteriaMet") {
            return None;
        }
        if self.status.failed > spec.backoff_limit() || self.restarts_too_often() {
            return failed("BackoffLimitExceeded", "Job has reached the specified backoff limit");
        }
        let (seconds, start) = (spec.active_deadline_seconds?, self.status.start_time?);
        if spec.suspend {
            return None;
        }
        let deadline = start.plus_seconds(seconds);
        if deadline <= context.now {
            return failed("DeadlineExceeded", "Job was active longer than specified deadline");
        }
        context.look_again(deadline, Controller::Job, self.held.name.clone());
        None
    }

    /// Why it succeeds, where that was said before.
    fn success(&self) -> Option<End> {
        let known = Condition::find(&self.status.conditions, "SuccessCriteriaMet")?;
        (known.status == "True").then(|| End {
            is_success: true,
            reason: known.reason().to_owned(),
            message: known.message.clone().unwrap_or_default(),
        })
    }

    /// Whether containers that are started again in their pod have been so too often.
    fn restarts_too_often(&self) -> bool {
        let spec = &self.held.spec;
        if spec.template.value.pointer("/spec/restartPolicy") != Some(&json!("OnFailure")) {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
        let restarts = running.map(|pod| pod.all_restarts).fold(0, i64::saturating_add);
        restarts >= spec.backoff_limit().max(1)
    }

    /// Counts pods of a Job that is over and that are being deleted: they have failed, unless the Job has succeeded.
    fn give_up(&mut self, end: &End) {
        let is_counted = |pod: &Arc<Pod>| self.counted.iter().any(|counted| Arc::ptr_eq(counted, pod));
        let leaving = self.pods.iter().filter(|pod| is_tracked(pod) && pod.is_deleted() && !is_counted(pod));
        let leaving: Vec<_> = leaving.cloned().collect();
        self.status.failed += if end.is_success { 0 } else { leaving.len() as i64 };
        self.counted.extend(leaving);
    }

    /// Deletes the pods of a Job that is over. They are counted when they are seen to be deleted.
    fn stop(&mut self, context: &mut Context<'_>) {
        for pod in &self.active {
            context.delete_pod(pod);
        }
        let stopped = self.active.len() as i64;
        self.status.terminating = self.status.terminating.map(|known| known + stopped);
        (self.status.active, self.status.ready) = (0, Some(0));
    }

    /// Makes pods that are missing, or deletes those that are too many.
    fn manage(&mut self, context: &mut Context<'_>) {
        let spec = &self.held.spec;
        let active = self.active.len() as i64;
        let wanted = match spec.completions() {
            _ if spec.suspend => 0,
            None if self.status.succeeded > 0 => active,
            None => spec.parallelism(),
            Some(completions) => (completions - self.status.succeeded).min(spec.parallelism()).max(0),
        };
        let surplus = self.surplus(usize::try_from(active - wanted).unwrap_or(0));
        if !surplus.is_empty() {
            // Without its finalizer first: such a pod has not failed.
            release(context, &surplus);
            for pod in &surplus {
                context.delete_pod(pod);
            }
            let ready = surplus.iter().filter(|pod| pod.ready).count() as i64;
            let count = surplus.len() as i64;
            self.status.active -= count;
            self.status.ready = self.status.ready.map(|known| known - ready);
            self.status.terminating = self.status.terminating.map(|known| known + count);
            return;
        }
        let leaving = if spec.replaces_late() { self.status.terminating.unwrap_or(0) } else { 0 };
        let missing = usize::try_from(wanted - leaving - active).unwrap_or(0).min(BURST);
        if missing == 0 || spec.suspend {
            return;
        }
        if let Some(until) = self.backoff.until(context.now) {
            context.look_again(until, Controller::Job, self.held.name.clone());
            return;
        }
        let new: Vec<Option<i64>> = if spec.is_indexed() {
            let is_taken = |pod: &&Arc<Pod>| pod.is_active() || spec.replaces_late() && pod.is_terminating();
            let taken: BTreeSet<i64> =
                self.pods.iter().filter(is_taken).filter_map(|pod| index_of(pod)).collect();
            let below = spec.completions().unwrap_or(0);
            self.indexes.with(&taken).missing(missing, below).into_iter().map(Some).collect()
        } else {
            vec![None; missing]
        };
        self.status.active += new.len() as i64;
        for index in new {
            context.create_pod(self.pod(index));
        }
    }

    /// The pods that are too many: of an Indexed Job first those whose index is another's or none at all.
    fn surplus(&self, least: usize) -> Vec<Arc<Pod>> {
        let mut left: Vec<Ranked> =
            self.active.iter().map(|pod| Ranked { pod: pod.clone(), neighbours: 0 }).collect();
        sort(&mut left, Ages::Exact);
        let mut surplus = Vec::new();
        if self.held.spec.is_indexed() {
            let below = self.held.spec.completions().unwrap_or(0);
            let mut taken = BTreeSet::new();
            // Of those with the same index the last in order stays.
            let (keep, away): (Vec<Ranked>, Vec<Ranked>) = left.into_iter().rev().partition(|one| {
                index_of(&one.pod).is_some_and(|index| index < below && taken.insert(index))
            });
            surplus.extend(away.into_iter().rev().map(|one| one.pod));
            left = keep.into_iter().rev().collect();
        }
        let more = least.saturating_sub(surplus.len());
        surplus.extend(left.into_iter().take(more).map(|one| one.pod));
        surplus.truncate(BURST);
        surplus
    }

    fn pod(&self, index: Option<i64>) -> NewPod {
        let held = self.held;
        let mut pod = held.spec.template.pod(held);
        let finalizers = pod.metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|own| own == TRACKING)
        {
            finalizers.push(TRACKING.into());
        }
        let Some(index) = index else { return pod };
        let number = index.to_string();
        pod.label(INDEX, &number);
        pod.annotate(INDEX, &number);
        pod.spec.insert("hostname".to_owned(), format!("{}-{index}", held.name.name).into());
        let suffix = format!("-{index}-");
        let base: String = held.name.name.chars().take(LONGEST_PREFIX.saturating_sub(suffix.len())).collect();
        pod.name = NewName::Prefix(base + &suffix);
        for list in ["initContainers", "containers"] {
            for container in pod.spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                tell_index(container);
            }
        }
        pod
    }

    fn note_suspension(&mut self, context: &Context<'_>) {
        let now = context.now;
        if self.held.spec.suspend {
            if self.status.set(now, "Suspended", true, "JobSuspended", "Job suspended") {
                self.status.start_time = None;
            }
        } else if self.status.set(now, "Suspended", false, "JobResumed", "Job resumed") {
            self.status.start_time = Some(Stamp::at(now));
        }
    }

    /// Says that it is over, once no pod is on its way out any more.
    fn end(&mut self, context: &Context<'_>, end: &End) {
        let now = context.now;
        let (first, last) =
            if end.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        if Condition::find(&self.status.conditions, first).is_none() {
            self.status.set(now, first, true, &end.reason, &end.message);
        }
        if self.status.terminating == Some(0) {
            self.status.set(now, last, true, &end.reason, &end.message);
            if end.is_success {
                self.status.completion_time = Some(Stamp::at(now));
            }
        }
    }
}

/// How a Job ends.
struct End {
    is_success: bool,
    reason: String,
    message: String,
}

/// Gives a container the index of its pod.
fn tell_index(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let Some(container) = container.as_object_mut() else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    let Some(variables) = variables.as_array_mut() else { return };
    if !variables.iter().any(|variable| variable["name"] == NAME) {
        let path = format!("metadata.labels['{INDEX}']");
        variables.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    }
}
