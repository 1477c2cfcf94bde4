//! The sync of a Job.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::controller::{BackoffRecord, FinishedPod};
use super::indexes::OrderedIntervals;
use super::{
    COMPLETION_INDEX, JobSpec, TRACKING_FINALIZER, completion_index, has_tracking_finalizer,
    remove_tracking_finalizers,
};
use crate::api::{JobStatus, UncountedTerminatedPods};
use crate::k8s_time::{Condition, K8sTime};
use crate::object_table::CachedObject;
use crate::pod::{Phase, Pod};
use crate::pod_template::{NewPod, NewPodName};
use crate::replica_set::{AgeComparison, RankedPod, sort_for_deletion};
use crate::{BURST_REPLICAS, Controller, SyncContext};

const MAX_GENERATED_PREFIX: usize = 58;

/// The sync of a Job.
pub(super) struct JobSync<'a> {
    job: &'a CachedObject<JobSpec>,
    status: JobStatus,
    pods: Vec<Arc<Pod>>,
    active: Vec<Arc<Pod>>,
    /// The succeeded indexes.
    succeeded_indexes: OrderedIntervals,
    backoff: BackoffRecord,
    /// Pods that were counted in this sync or earlier.
    counted: Vec<Arc<Pod>>,
}

impl<'a> JobSync<'a> {
    /// Begins a sync: counts the pods that have finished.
    pub(super) fn new(
        context: &SyncContext<'_>,
        held: &'a CachedObject<JobSpec>,
        vanished: Vec<FinishedPod>,
        backoff: BackoffRecord,
    ) -> JobSync<'a> {
        let (spec, mut status) = (&held.spec, held.status.clone());
        let pods = context.cache.pods_of(&held.uid);
        let uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        status.succeeded += uncounted.succeeded.len() as i64;
        status.failed += uncounted.failed.len() as i64;
        let is_known =
            |pod: &Pod| uncounted.succeeded.iter().chain(&uncounted.failed).any(|uid| **uid == *pod.uid);
        let below = spec.completions().unwrap_or(i64::MAX);
        let is_valid = |index: Option<i64>| !spec.is_indexed() || index.is_some_and(|index| index < below);
        let has_ended = |pod: &&Arc<Pod>| {
            has_tracking_finalizer(pod) && (pod.phase == Phase::Succeeded || spec.is_pod_failed(pod))
        };
        let counted: Vec<Arc<Pod>> = pods.iter().filter(has_ended).cloned().collect();
        let mut ended: Vec<FinishedPod> =
            counted.iter().filter(|pod| !is_known(pod)).map(|pod| FinishedPod::of(pod)).collect();
        ended.extend(vanished);
        ended.retain(|pod| is_valid(pod.index));
        let succeeded = || ended.iter().filter(|pod| pod.has_succeeded);
        let new: BTreeSet<i64> =
            succeeded().filter_map(|pod| pod.index).filter(|_| spec.is_indexed()).collect();
        let indexes = OrderedIntervals::parse(&status.completed_indexes, below).with(&new);
        status.failed += (ended.len() - succeeded().count()) as i64;
        if spec.is_indexed() {
            status.succeeded = indexes.count();
            status.completed_indexes = indexes.to_string();
        } else {
            status.succeeded += succeeded().count() as i64;
        }
        if status.start_time.is_none() && !spec.suspend {
            status.start_time = Some(K8sTime::at(context.now));
        }
        status.uncounted_terminated_pods = Some(UncountedTerminatedPods::default());
        let active = pods.iter().filter(|pod| pod.is_active()).cloned().collect();
        JobSync {
            job: held,
            status,
            backoff: backoff.with_finished_pods(&ended),
            pods,
            active,
            succeeded_indexes: indexes,
            counted,
        }
    }

    /// Manages the pods and updates the status. Returns the backoff.
    pub(super) fn run(mut self, context: &mut SyncContext<'_>) -> BackoffRecord {
        let terminating = self.pods.iter().filter(|pod| pod.is_terminating()).count() as i64;
        self.status.terminating = Some(terminating);
        self.status.ready = Some(self.active.iter().filter(|pod| pod.ready).count() as i64);
        self.status.active = self.active.len() as i64;
        let end = self.failure_outcome(context).or_else(|| self.success_outcome());
        let end = match end {
            Some(end) => {
                self.count_terminating_pods(&end);
                self.delete_active_pods(context);
                Some(end)
            }
            None => {
                let is_managed = !self.job.is_deleting();
                if is_managed {
                    self.manage_pods(context);
                }
                let is_complete = match self.job.spec.completions() {
                    None => self.status.succeeded > 0 && self.status.active == 0,
                    Some(wanted) => self.status.succeeded >= wanted && self.status.active == 0,
                };
                if is_managed && !is_complete {
                    self.update_suspended_condition(context);
                }
                is_complete.then(|| JobOutcome {
                    is_success: true,
                    reason: "CompletionsReached".to_owned(),
                    message: "Reached expected number of succeeded pods".to_owned(),
                })
            }
        };
        if self.job.is_deleting() {
            self.counted = self.pods.clone();
        }
        remove_tracking_finalizers(context, &self.counted);
        if let Some(end) = end {
            self.set_finished_conditions(context, &end);
        }
        if self.status != self.job.status {
            context.update(self.job.with_status(&self.status));
        }
        self.backoff
    }

    /// The outcome if the Job fails.
    fn failure_outcome(&self, context: &mut SyncContext<'_>) -> Option<JobOutcome> {
        let failed = |reason: &str, message: &str| {
            Some(JobOutcome { is_success: false, reason: reason.to_owned(), message: message.to_owned() })
        };
        let spec = &self.job.spec;
        let known = Condition::find(&self.status.conditions, "FailureTarget");
        if let Some(known) = known.filter(|known| known.status == "True") {
            return failed(known.reason(), known.message.as_deref().unwrap_or_default());
        }
        if Condition::is_true(&self.status.conditions, "SuccessCriteriaMet") {
            return None;
        }
        if self.status.failed > spec.backoff_limit() || self.is_past_backoff_limit_on_failure() {
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
        context.enqueue_at(deadline, Controller::Job, self.job.name.clone());
        None
    }

    /// The outcome if the Job has met its success criteria before.
    fn success_outcome(&self) -> Option<JobOutcome> {
        let known = Condition::find(&self.status.conditions, "SuccessCriteriaMet")?;
        (known.status == "True").then(|| JobOutcome {
            is_success: true,
            reason: known.reason().to_owned(),
            message: known.message.clone().unwrap_or_default(),
        })
    }

    /// Whether restarts in place (`restartPolicy: OnFailure`) exceed the backoff limit.
    fn is_past_backoff_limit_on_failure(&self) -> bool {
        let spec = &self.job.spec;
        if spec.template.value.pointer("/spec/restartPolicy") != Some(&json!("OnFailure")) {
            return false;
        }
        let running = self.pods.iter().filter(|pod| matches!(pod.phase, Phase::Running | Phase::Pending));
        let restarts = running.map(|pod| pod.total_restarts).fold(0, i64::saturating_add);
        restarts >= spec.backoff_limit().max(1)
    }

    /// Counts the terminating pods of a finished Job: they have failed, unless the Job has succeeded.
    fn count_terminating_pods(&mut self, end: &JobOutcome) {
        let is_counted = |pod: &Arc<Pod>| self.counted.iter().any(|counted| Arc::ptr_eq(counted, pod));
        let leaving = self
            .pods
            .iter()
            .filter(|pod| has_tracking_finalizer(pod) && pod.is_deleting() && !is_counted(pod));
        let leaving: Vec<_> = leaving.cloned().collect();
        self.status.failed += if end.is_success { 0 } else { leaving.len() as i64 };
        self.counted.extend(leaving);
    }

    /// Deletes the active pods of a finished Job. They are counted once they are terminating.
    fn delete_active_pods(&mut self, context: &mut SyncContext<'_>) {
        for pod in &self.active {
            context.delete_pod(pod);
        }
        let stopped = self.active.len() as i64;
        self.status.terminating = self.status.terminating.map(|known| known + stopped);
        (self.status.active, self.status.ready) = (0, Some(0));
    }

    /// Creates missing pods or deletes surplus ones.
    fn manage_pods(&mut self, context: &mut SyncContext<'_>) {
        let spec = &self.job.spec;
        let active = self.active.len() as i64;
        let wanted = match spec.completions() {
            _ if spec.suspend => 0,
            None if self.status.succeeded > 0 => active,
            None => spec.parallelism(),
            Some(completions) => (completions - self.status.succeeded).min(spec.parallelism()).max(0),
        };
        let surplus = self.pods_to_remove(usize::try_from(active - wanted).unwrap_or(0));
        if !surplus.is_empty() {
            // The finalizer is removed first, so that the pod does not count as failed.
            remove_tracking_finalizers(context, &surplus);
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
        let leaving = if spec.only_replaces_failed_pods() { self.status.terminating.unwrap_or(0) } else { 0 };
        let missing = usize::try_from(wanted - leaving - active).unwrap_or(0).min(BURST_REPLICAS);
        if missing == 0 || spec.suspend {
            return;
        }
        if let Some(until) = self.backoff.backoff_until(context.now) {
            context.enqueue_at(until, Controller::Job, self.job.name.clone());
            return;
        }
        let new: Vec<Option<i64>> = if spec.is_indexed() {
            let is_taken =
                |pod: &&Arc<Pod>| pod.is_active() || spec.only_replaces_failed_pods() && pod.is_terminating();
            let taken: BTreeSet<i64> =
                self.pods.iter().filter(is_taken).filter_map(|pod| completion_index(pod)).collect();
            let below = spec.completions().unwrap_or(0);
            self.succeeded_indexes.with(&taken).first_missing(missing, below).into_iter().map(Some).collect()
        } else {
            vec![None; missing]
        };
        self.status.active += new.len() as i64;
        for index in new {
            context.create_pod(self.new_pod(index));
        }
    }

    /// The surplus pods: of an Indexed Job first those with a duplicate or invalid index.
    fn pods_to_remove(&self, least: usize) -> Vec<Arc<Pod>> {
        let mut left: Vec<RankedPod> =
            self.active.iter().map(|pod| RankedPod { pod: pod.clone(), rank: 0 }).collect();
        sort_for_deletion(&mut left, AgeComparison::Exact);
        let mut surplus = Vec::new();
        if self.job.spec.is_indexed() {
            let below = self.job.spec.completions().unwrap_or(0);
            let mut taken = BTreeSet::new();
            // Of pods with the same index the last in order is kept.
            let (keep, away): (Vec<RankedPod>, Vec<RankedPod>) = left.into_iter().rev().partition(|one| {
                completion_index(&one.pod).is_some_and(|index| index < below && taken.insert(index))
            });
            surplus.extend(away.into_iter().rev().map(|one| one.pod));
            left = keep.into_iter().rev().collect();
        }
        let more = least.saturating_sub(surplus.len());
        surplus.extend(left.into_iter().take(more).map(|one| one.pod));
        surplus.truncate(BURST_REPLICAS);
        surplus
    }

    fn new_pod(&self, index: Option<i64>) -> NewPod {
        let held = self.job;
        let mut pod = held.spec.template.new_pod(held);
        let finalizers = pod.metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|own| own == TRACKING_FINALIZER)
        {
            finalizers.push(TRACKING_FINALIZER.into());
        }
        let Some(index) = index else { return pod };
        let number = index.to_string();
        pod.set_label(COMPLETION_INDEX, &number);
        pod.set_annotation(COMPLETION_INDEX, &number);
        pod.spec.insert("hostname".to_owned(), format!("{}-{index}", held.name.name).into());
        let suffix = format!("-{index}-");
        let base: String =
            held.name.name.chars().take(MAX_GENERATED_PREFIX.saturating_sub(suffix.len())).collect();
        pod.name = NewPodName::Generated(base + &suffix);
        for list in ["initContainers", "containers"] {
            for container in pod.spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                add_completion_index_env(container);
            }
        }
        pod
    }

    fn update_suspended_condition(&mut self, context: &SyncContext<'_>) {
        let now = context.now;
        if self.job.spec.suspend {
            if self.status.ensure_condition(now, "Suspended", true, "JobSuspended", "Job suspended") {
                self.status.start_time = None;
            }
        } else if self.status.ensure_condition(now, "Suspended", false, "JobResumed", "Job resumed") {
            self.status.start_time = Some(K8sTime::at(now));
        }
    }

    /// Sets the conditions of a finished Job; the final one only when no pod is terminating.
    fn set_finished_conditions(&mut self, context: &SyncContext<'_>, end: &JobOutcome) {
        let now = context.now;
        let (first, last) =
            if end.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        if Condition::find(&self.status.conditions, first).is_none() {
            self.status.ensure_condition(now, first, true, &end.reason, &end.message);
        }
        if self.status.terminating == Some(0) {
            self.status.ensure_condition(now, last, true, &end.reason, &end.message);
            if end.is_success {
                self.status.completion_time = Some(K8sTime::at(now));
            }
        }
    }
}

/// The outcome of a Job.
struct JobOutcome {
    is_success: bool,
    reason: String,
    message: String,
}

/// Adds the completion index to a container's environment.
fn add_completion_index_env(container: &mut Value) {
    const NAME: &str = "JOB_COMPLETION_INDEX";
    let Some(container) = container.as_object_mut() else { return };
    let variables = container.entry("env").or_insert_with(|| json!([]));
    let Some(variables) = variables.as_array_mut() else { return };
    if !variables.iter().any(|variable| variable["name"] == NAME) {
        let path = format!("metadata.labels['{COMPLETION_INDEX}']");
        variables.push(json!({"name": NAME, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    }
}
