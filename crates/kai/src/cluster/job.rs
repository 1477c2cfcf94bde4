//! A job: a pod group with its pods, or a copy of one with some of its pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::go::duration;
use kubernetes::time::whole_second;
use model::Moment;

use super::fit_errors::{JobFitError, PodFitErrors};
use super::ids::{JobId, PodId, PodInfoId, QueueId};
use super::pod::Pod;
use super::pod_info::PodInfos;
use super::resources::{ResourceNames, ResourceVector};
use super::status::PodStatus;
use super::sub_group::SubGroupTree;

/// A job, or a copy of one with some of its pods.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    /// The job of the snapshot.
    pub id: JobId,
    pub group: Arc<JobGroup>,
    pub tree: SubGroupTree,
    statuses: BTreeSet<(PodStatus, PodId)>,
    /// How many pods there are of each status.
    status_counts: [u32; PodStatus::COUNT],
    /// As counted by the original, which miscounts where a pod is evicted twice.
    active_allocated_count: i64,
    /// The requests of its allocated pods.
    pub allocated: ResourceVector,
    /// The next pods to place; computed when needed.
    pub tasks_to_allocate: Option<Arc<[PodInfoId]>>,
    /// Their requests.
    pub tasks_to_allocate_resources: Option<ResourceVector>,
    /// Pods that name a subgroup that does not exist.
    pub invalid_pods: Vec<PodId>,
    pub fit_errors: Vec<JobFitError>,
    pub pod_fit_errors: BTreeMap<PodId, PodFitErrors>,
    pub last_start: Option<Moment>,
    pub last_eviction: Option<Moment>,
    pub stale_since: Option<Moment>,
}

/// The part of a job that does not change.
#[derive(Clone, Debug)]
pub(crate) struct JobGroup {
    pub name: Arc<str>,
    pub namespace: Arc<str>,
    /// The queue's name as in the pod group.
    pub queue_name: Arc<str>,
    /// `None` if it does not exist.
    pub queue: Option<QueueId>,
    pub priority: i32,
    pub is_preemptible: bool,
    pub created: Option<Moment>,
    /// In nanoseconds.
    pub preemption_delay: Option<i64>,
    /// In nanoseconds.
    pub staleness_grace_period: Option<i64>,
    /// Equal for jobs whose pending pods have equal constraints.
    pub signature: u32,
}

/// A pod is not in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotInJob;

impl Job {
    /// A job without pods.
    pub(crate) fn new(id: JobId, group: Arc<JobGroup>, tree: SubGroupTree, names: &ResourceNames) -> Job {
        Job {
            id,
            group,
            tree,
            statuses: BTreeSet::new(),
            status_counts: [0; PodStatus::COUNT],
            active_allocated_count: 0,
            allocated: ResourceVector::zero(names),
            tasks_to_allocate: None,
            tasks_to_allocate_resources: None,
            invalid_pods: Vec::new(),
            fit_errors: Vec::new(),
            pod_fit_errors: BTreeMap::new(),
            last_start: None,
            last_eviction: None,
            stale_since: None,
        }
    }

    /// A copy with copies of some pods.
    pub(crate) fn copy_with(
        &self,
        copied: &[PodInfoId],
        infos: &mut PodInfos,
        pods: &[Pod],
        names: &ResourceNames,
    ) -> Job {
        let mut job = Job::new(self.id, self.group.clone(), self.tree.without_pods(), names);
        for &info in copied {
            let copy = infos.copy(info);
            job.add_pod(copy, infos, pods);
        }
        job
    }

    /// Adds a pod, or sets its state after a change of its status.
    pub(crate) fn add_pod(&mut self, id: PodInfoId, infos: &PodInfos, pods: &[Pod]) {
        let info = &infos[id];
        let pod = &pods[info.pod.index()];
        let Some(pod_set) = pod.pod_set else {
            self.add_invalid_pod(info.pod, pod);
            return;
        };
        self.tree.pod_sets[pod_set as usize].assign(info.pod, id, info.status);
        if self.statuses.insert((info.status, info.pod)) {
            self.status_counts[info.status as usize] += 1;
        }
        self.active_allocated_count += i64::from(info.status.is_active_allocated());
        self.forget_tasks_to_allocate();
        if info.status.is_allocated() {
            self.allocated.add(&pod.request);
        }
    }

    /// Changes the status of a pod; `id` becomes its state in the job.
    pub(crate) fn update_status(
        &mut self,
        id: PodInfoId,
        status: PodStatus,
        infos: &mut PodInfos,
        pods: &[Pod],
    ) -> Result<(), NotInJob> {
        let pod = infos[id].pod;
        let current = self.info_of(pod, pods).ok_or(NotInJob)?;
        if infos[current].status.is_allocated() {
            self.allocated.subtract(&pods[pod.index()].request);
        }
        // The copy's own status counts, which may differ from that of the one it takes the place of.
        let before = infos[id].status;
        if self.has_status(before) {
            if self.statuses.remove(&(before, pod)) {
                self.status_counts[before as usize] -= 1;
            }
            self.active_allocated_count -= i64::from(before.is_active_allocated());
            self.forget_tasks_to_allocate();
        }
        infos[id].status = status;
        self.add_pod(id, infos, pods);
        Ok(())
    }

    /// The state of a pod.
    pub(crate) fn info_of(&self, pod: PodId, pods: &[Pod]) -> Option<PodInfoId> {
        let pod_set = pods[pod.index()].pod_set?;
        self.tree.pod_sets[pod_set as usize].get(pod)
    }

    /// The states of all pods with a valid subgroup.
    pub(crate) fn infos(&self) -> impl Iterator<Item = PodInfoId> {
        self.tree.pod_sets.iter().flat_map(|pod_set| pod_set.infos())
    }

    /// Whether any pod has a status.
    pub(crate) fn has_status(&self, status: PodStatus) -> bool {
        self.status_counts[status as usize] > 0
    }

    /// The statuses of its pods.
    pub(crate) fn statuses(&self) -> impl Iterator<Item = PodStatus> {
        self.statuses.iter().map(|(status, _)| *status)
    }

    pub(crate) fn active_allocated_count(&self) -> i64 {
        self.active_allocated_count
    }

    /// The number of pods that occupy resources.
    pub(crate) fn active_used_count(&self, infos: &PodInfos) -> usize {
        self.infos().filter(|info| infos[*info].status.is_active_used()).count()
    }

    /// Whether enough pods exist.
    pub(crate) fn is_ready(&self) -> bool {
        self.tree.is_ready(0)
    }

    /// Whether any pod set has more pods than it needs.
    pub(crate) fn is_elastic(&self) -> bool {
        self.tree.pod_sets.iter().any(|pod_set| pod_set.is_elastic())
    }

    /// Whether every pod set has the pods that it needs.
    pub(crate) fn is_gang_satisfied(&self) -> bool {
        self.tree.pod_sets.iter().all(|pod_set| pod_set.is_gang_satisfied())
    }

    /// Whether it runs with fewer pods than it needs.
    pub(crate) fn is_stale(&self, infos: &PodInfos) -> bool {
        !self.has_status(PodStatus::Succeeded)
            && self.active_used_count(infos) > 0
            && !self.is_gang_satisfied()
    }

    /// Whether a pod set has a pipelined pod and, without those, fewer pods than it needs.
    pub(crate) fn should_pipeline(&self, infos: &PodInfos) -> bool {
        self.tree.pod_sets.iter().any(|pod_set| {
            let statuses = || pod_set.infos().map(|info| infos[info].status);
            let is_placed =
                |status: &PodStatus| status.is_active_allocated() && *status != PodStatus::Pipelined;
            statuses().any(|status| status == PodStatus::Pipelined)
                && (statuses().filter(is_placed).count() as i64) < i64::from(pod_set.min_available)
        })
    }

    /// The end of the time in which it may not cause evictions.
    pub(crate) fn preemption_delay_end(&self) -> Option<Moment> {
        let delay = self.group.preemption_delay.filter(|delay| *delay > 0)?;
        let anchor = self.last_eviction.max(self.group.created).unwrap_or_default();
        Some(anchor.plus_nanos(delay))
    }

    /// Reports, once, that it may not cause evictions before a moment.
    pub(crate) fn report_preemption_delay(&mut self, end: Moment) {
        const REASON: &str = "PreemptionDelayNotElapsed";
        if self.fit_errors.iter().any(|error| error.reason == REASON) {
            return;
        }
        let delay = duration::format(self.group.preemption_delay.unwrap_or_default());
        let end = whole_second(end);
        let message = format!(
            "Workload is within its preemption delay window ({delay}) and may not trigger evictions before {end}"
        );
        self.add_fit_error(JobFitError::new(REASON, message));
    }

    /// Adds the fit errors of a pod to those it has.
    pub(crate) fn add_pod_fit_errors(&mut self, pod: PodId, errors: PodFitErrors) {
        match self.pod_fit_errors.get_mut(&pod) {
            Some(existing) => {
                for (reason, count) in errors.reasons {
                    let sum = existing.reasons.entry(reason).or_default();
                    *sum = sum.saturating_add(count);
                }
            }
            None => drop(self.pod_fit_errors.insert(pod, errors)),
        }
    }

    /// Adds an error.
    pub(crate) fn add_fit_error(&mut self, error: JobFitError) {
        error.add_to(&mut self.fit_errors);
    }

    fn add_invalid_pod(&mut self, id: PodId, pod: &Pod) {
        self.invalid_pods.push(id);
        let sub_group = pod.sub_group().unwrap_or(super::sub_group::DEFAULT_SUB_GROUP);
        let JobGroup { name, namespace, .. } = &*self.group;
        let error = format!(
            "Pod references subgroup {sub_group:?}, which does not exist in PodGroup {namespace}/{name}"
        );
        self.add_pod_fit_errors(id, PodFitErrors::of_error(error));
    }

    fn forget_tasks_to_allocate(&mut self) {
        self.tasks_to_allocate = None;
        self.tasks_to_allocate_resources = None;
    }
}
