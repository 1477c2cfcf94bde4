//! The sync of a Job.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::objects::Phase;
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
use crate::pod::Pod;
use crate::pod_template::{NewPod, NewPodName};
use crate::replica_set::{AgeComparison, RankedPod, sort_for_deletion};
use crate::{BURST_REPLICAS, Controller, EventText, SyncContext};

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
        job: &'a CachedObject<JobSpec>,
        removed_pods: Vec<FinishedPod>,
        backoff: BackoffRecord,
    ) -> JobSync<'a> {
        let (spec, mut status) = (&job.spec, job.status.clone());
        let pods = context.cache.pods_of(&job.uid);
        let uncounted = status.uncounted_terminated_pods.take().unwrap_or_default();
        status.succeeded += uncounted.succeeded.len() as i64;
        status.failed += uncounted.failed.len() as i64;
        let is_uncounted =
            |pod: &Pod| uncounted.succeeded.iter().chain(&uncounted.failed).any(|uid| **uid == *pod.uid);
        let completions = spec.completions().unwrap_or(i64::MAX);
        let is_valid =
            |index: Option<i64>| !spec.is_indexed() || index.is_some_and(|index| index < completions);
        let has_finished = |pod: &&Arc<Pod>| {
            has_tracking_finalizer(pod) && (pod.status.phase == Phase::Succeeded || spec.is_pod_failed(pod))
        };
        let counted: Vec<Arc<Pod>> = pods.iter().filter(has_finished).cloned().collect();
        let mut finished_pods: Vec<FinishedPod> =
            counted.iter().filter(|pod| !is_uncounted(pod)).map(|pod| FinishedPod::of(pod)).collect();
        finished_pods.extend(removed_pods);
        finished_pods.retain(|pod| is_valid(pod.index));
        let succeeded = || finished_pods.iter().filter(|pod| pod.has_succeeded);
        let succeeded_indexes: BTreeSet<i64> =
            succeeded().filter_map(|pod| pod.index).filter(|_| spec.is_indexed()).collect();
        let indexes =
            OrderedIntervals::parse(&status.completed_indexes, completions).with(&succeeded_indexes);
        status.failed += (finished_pods.len() - succeeded().count()) as i64;
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
            job,
            status,
            backoff: backoff.with_finished_pods(&finished_pods),
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
        let outcome = self.failure_outcome(context).or_else(|| self.success_outcome());
        let outcome = match outcome {
            Some(outcome) => {
                self.count_terminating_pods(&outcome);
                self.delete_active_pods(context);
                Some(outcome)
            }
            None => {
                let is_managed = !self.job.is_deleting();
                if is_managed {
                    self.manage_pods(context);
                }
                let is_complete = match self.job.spec.completions() {
                    None => self.status.succeeded > 0 && self.status.active == 0,
                    Some(completions) => self.status.succeeded >= completions && self.status.active == 0,
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
        let is_finished =
            outcome.as_ref().is_some_and(|outcome| self.set_finished_conditions(context, outcome));
        if self.status != self.job.status {
            context.update(self.job.with_status(&self.status));
        }
        if let Some(outcome) = outcome.filter(|_| is_finished) {
            self.report_finish(context, outcome);
        }
        self.backoff
    }

    /// The outcome if the Job fails.
    fn failure_outcome(&self, context: &mut SyncContext<'_>) -> Option<JobOutcome> {
        let failed = |reason: &str, message: &str| {
            Some(JobOutcome { is_success: false, reason: reason.to_owned(), message: message.to_owned() })
        };
        let spec = &self.job.spec;
        let condition = Condition::find(&self.status.conditions, "FailureTarget");
        if let Some(condition) = condition.filter(|condition| condition.status == "True") {
            return failed(condition.reason(), condition.message.as_deref().unwrap_or_default());
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
        let condition = Condition::find(&self.status.conditions, "SuccessCriteriaMet")?;
        (condition.status == "True").then(|| JobOutcome {
            is_success: true,
            reason: condition.reason().to_owned(),
            message: condition.message.clone().unwrap_or_default(),
        })
    }

    /// Whether restarts in place (`restartPolicy: OnFailure`) exceed the backoff limit.
    fn is_past_backoff_limit_on_failure(&self) -> bool {
        let spec = &self.job.spec;
        if spec.template.value.pointer("/spec/restartPolicy") != Some(&json!("OnFailure")) {
            return false;
        }
        let running =
            self.pods.iter().filter(|pod| matches!(pod.status.phase, Phase::Running | Phase::Pending));
        let restarts = running.map(|pod| pod.total_restarts).fold(0, i64::saturating_add);
        restarts >= spec.backoff_limit().max(1)
    }

    /// Counts the terminating pods of a finished Job: they have failed, unless the Job has succeeded.
    fn count_terminating_pods(&mut self, outcome: &JobOutcome) {
        let is_counted = |pod: &Arc<Pod>| self.counted.iter().any(|counted| Arc::ptr_eq(counted, pod));
        let leaving = self
            .pods
            .iter()
            .filter(|pod| has_tracking_finalizer(pod) && pod.is_deleting() && !is_counted(pod));
        let leaving: Vec<_> = leaving.cloned().collect();
        self.status.failed += if outcome.is_success { 0 } else { leaving.len() as i64 };
        self.counted.extend(leaving);
    }

    /// Deletes the active pods of a finished Job. They are counted once they are terminating.
    fn delete_active_pods(&mut self, context: &mut SyncContext<'_>) {
        for pod in &self.active {
            context.delete_pod_of(self.job, pod);
        }
        let stopped = self.active.len() as i64;
        self.status.terminating = self.status.terminating.map(|terminating| terminating + stopped);
        (self.status.active, self.status.ready) = (0, Some(0));
    }

    /// Creates missing pods or deletes surplus ones.
    fn manage_pods(&mut self, context: &mut SyncContext<'_>) {
        let spec = &self.job.spec;
        let active = self.active.len() as i64;
        let wanted_active = match spec.completions() {
            _ if spec.suspend => 0,
            None if self.status.succeeded > 0 => active,
            None => spec.parallelism(),
            Some(completions) => (completions - self.status.succeeded).min(spec.parallelism()).max(0),
        };
        let surplus = self.pods_to_remove(usize::try_from(active - wanted_active).unwrap_or(0));
        if !surplus.is_empty() {
            // The finalizer is removed first, so that the pod does not count as failed.
            remove_tracking_finalizers(context, &surplus);
            for pod in &surplus {
                context.delete_pod_of(self.job, pod);
            }
            let ready = surplus.iter().filter(|pod| pod.ready).count() as i64;
            let count = surplus.len() as i64;
            self.status.active -= count;
            self.status.ready = self.status.ready.map(|current| current - ready);
            self.status.terminating = self.status.terminating.map(|current| current + count);
            return;
        }
        let terminating_pods =
            if spec.only_replaces_failed_pods() { self.status.terminating.unwrap_or(0) } else { 0 };
        let missing_count =
            usize::try_from(wanted_active - terminating_pods - active).unwrap_or(0).min(BURST_REPLICAS);
        if missing_count == 0 || spec.suspend {
            return;
        }
        if let Some(until) = self.backoff.backoff_until(context.now) {
            context.enqueue_at(until, Controller::Job, self.job.name.clone());
            return;
        }
        let new_indexes: Vec<Option<i64>> = if spec.is_indexed() {
            let uses_index =
                |pod: &&Arc<Pod>| pod.is_active() || spec.only_replaces_failed_pods() && pod.is_terminating();
            let used_indexes: BTreeSet<i64> =
                self.pods.iter().filter(uses_index).filter_map(|pod| completion_index(pod)).collect();
            let index_limit = spec.completions().unwrap_or(0);
            self.succeeded_indexes
                .with(&used_indexes)
                .first_missing(missing_count, index_limit)
                .into_iter()
                .map(Some)
                .collect()
        } else {
            vec![None; missing_count]
        };
        self.status.active += new_indexes.len() as i64;
        for index in new_indexes {
            context.create_pod_of(self.job, self.new_pod(index));
        }
    }

    /// The surplus pods: of an Indexed Job first those with a duplicate or invalid index.
    fn pods_to_remove(&self, min_count: usize) -> Vec<Arc<Pod>> {
        let mut ranked_pods: Vec<RankedPod> =
            self.active.iter().map(|pod| RankedPod { pod: pod.clone(), rank: 0 }).collect();
        sort_for_deletion(&mut ranked_pods, AgeComparison::Exact);
        let mut surplus = Vec::new();
        if self.job.spec.is_indexed() {
            let completions = self.job.spec.completions().unwrap_or(0);
            let mut used_indexes = BTreeSet::new();
            // Of pods with the same index the last in order is kept.
            let (kept_pods, surplus_pods): (Vec<RankedPod>, Vec<RankedPod>) =
                ranked_pods.into_iter().rev().partition(|ranked_pod| {
                    completion_index(&ranked_pod.pod)
                        .is_some_and(|index| index < completions && used_indexes.insert(index))
                });
            surplus.extend(surplus_pods.into_iter().rev().map(|ranked_pod| ranked_pod.pod));
            ranked_pods = kept_pods.into_iter().rev().collect();
        }
        let missing_count = min_count.saturating_sub(surplus.len());
        surplus.extend(ranked_pods.into_iter().take(missing_count).map(|ranked_pod| ranked_pod.pod));
        surplus.truncate(BURST_REPLICAS);
        surplus
    }

    fn new_pod(&self, index: Option<i64>) -> NewPod {
        let job = self.job;
        let mut pod = job.spec.template.new_pod(job);
        let finalizers = pod.metadata.entry("finalizers").or_insert_with(|| json!([]));
        if let Some(finalizers) = finalizers.as_array_mut()
            && !finalizers.iter().any(|finalizer| finalizer == TRACKING_FINALIZER)
        {
            finalizers.push(TRACKING_FINALIZER.into());
        }
        let Some(index) = index else { return pod };
        let completion_index_text = index.to_string();
        pod.set_label(COMPLETION_INDEX, &completion_index_text);
        pod.set_annotation(COMPLETION_INDEX, &completion_index_text);
        pod.spec.insert("hostname".to_owned(), format!("{}-{index}", job.name.name).into());
        let suffix = format!("-{index}-");
        let base: String =
            job.name.name.chars().take(MAX_GENERATED_PREFIX.saturating_sub(suffix.len())).collect();
        pod.name = NewPodName::Generated(base + &suffix);
        for list in ["initContainers", "containers"] {
            for container in pod.spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
                add_completion_index_env(container);
            }
        }
        pod
    }

    fn update_suspended_condition(&mut self, context: &mut SyncContext<'_>) {
        let now = context.now;
        if self.job.spec.suspend {
            if self.status.ensure_condition(now, "Suspended", true, "JobSuspended", "Job suspended") {
                self.status.start_time = None;
                context.report(self.job, EventText::normal("Suspended", "Job suspended"));
            }
        } else if self.status.ensure_condition(now, "Suspended", false, "JobResumed", "Job resumed") {
            self.status.start_time = Some(K8sTime::at(now));
            context.report(self.job, EventText::normal("Resumed", "Job resumed"));
        }
    }

    /// Sets the conditions of a finished Job; the final one only when no pod is terminating. Returns whether it was set.
    fn set_finished_conditions(&mut self, context: &SyncContext<'_>, outcome: &JobOutcome) -> bool {
        let now = context.now;
        let (first, last) =
            if outcome.is_success { ("SuccessCriteriaMet", "Complete") } else { ("FailureTarget", "Failed") };
        if Condition::find(&self.status.conditions, first).is_none() {
            self.status.ensure_condition(now, first, true, &outcome.reason, &outcome.message);
        }
        if self.status.terminating != Some(0) {
            return false;
        }
        self.status.ensure_condition(now, last, true, &outcome.reason, &outcome.message);
        if outcome.is_success {
            self.status.completion_time = Some(K8sTime::at(now));
        }
        true
    }

    /// Reports the end of the Job, if its status was updated.
    fn report_finish(&self, context: &mut SyncContext<'_>, outcome: JobOutcome) {
        if !outcome.is_success {
            context.report_call(self.job, EventText::warning(outcome.reason, outcome.message), None);
            return;
        }
        if self.job.spec.completions().is_some_and(|completions| self.status.succeeded > completions) {
            let message = "Too many succeeded pods running after completion count reached";
            context.report_call(self.job, EventText::warning("TooManySucceededPods", message), None);
        }
        context.report_call(self.job, EventText::normal("Completed", "Job completed"), None);
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
