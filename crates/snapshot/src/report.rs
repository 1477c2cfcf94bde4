//! The report of a run, as plain data: decisions, queues, borrowing, and the pods that wait.

use std::collections::BTreeMap;

use kai::{ActionDecisions, Eviction, JobReport, PendingReason, Placement, PodStatus, Report};
use model::NamespacedName;
use serde::Serialize;

use crate::borrowing::{Borrowing, find_borrowing};
use crate::input::SchedulerSnapshot;
use crate::next_cycle::GpuGroupNames;
use crate::queue_report::{QuantityReport, QueueReport, queues_of};

/// The report of a run. Cpu is in millicores, memory in bytes, GPUs in devices; -1 stands for any amount.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RunReport {
    /// What was run.
    pub snapshot: InputReport,
    /// The cycles, in order.
    pub cycles: Vec<CycleReport>,
    /// Whether the last cycle changed nothing.
    pub is_settled: bool,
}

/// What was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InputReport {
    /// The file or the history.
    pub name: String,
    /// The scheduler's clock in the first cycle.
    pub now: String,
    /// The origin of that time.
    pub now_from: &'static str,
    /// The settings that were changed.
    pub overrides: Vec<String>,
    /// What is noteworthy.
    pub warnings: Vec<String>,
}

/// A cycle.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CycleReport {
    /// Its number, from 1.
    pub number: u32,
    /// The scheduler's clock.
    pub now: String,
    /// What the top queues share.
    pub total: QuantityReport,
    /// The actions, in order.
    pub actions: Vec<ActionReport>,
    /// The queues, each before those below it.
    pub queues: Vec<QueueReport>,
    /// The queues above their quota, and whose quota is unused.
    pub borrowing: Vec<Borrowing>,
    /// The pods that wait, by pod group and reason.
    pub pending: Vec<PendingReport>,
}

/// The decisions of an action.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ActionReport {
    /// The action.
    pub action: &'static str,
    /// Pods that are bound, sorted by name.
    pub bound: Vec<PlacementReport>,
    /// Pods that wait for resources that are being released, sorted by name.
    pub pipelined: Vec<PlacementReport>,
    /// Pods that are evicted, sorted by name.
    pub evicted: Vec<EvictionReport>,
}

/// A pod that is given a node.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementReport {
    /// The pod, as namespace/name.
    pub pod: String,
    /// Its pod group.
    pub pod_group: String,
    /// Its queue.
    pub queue: String,
    /// The node.
    pub node: String,
    /// The number of GPUs.
    pub gpu_count: i64,
    /// The share of each GPU.
    pub gpu_portion: f64,
    /// The groups of shared GPUs. New ones are called `new-0`, `new-1`, and so on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gpu_groups: Vec<String>,
}

/// A pod that is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionReport {
    /// The pod, as namespace/name.
    pub pod: String,
    /// Its pod group.
    pub pod_group: String,
    /// Its queue.
    pub queue: String,
    /// The node that it leaves.
    pub node: Option<String>,
    /// The pod group that it makes room for.
    pub preemptor: Option<String>,
    /// The queue of that pod group.
    pub preemptor_queue: Option<String>,
    /// How many pods are evicted together.
    pub gang_size: usize,
    /// The message of the event.
    pub message: String,
}

/// Pods of a pod group that wait for the same reasons.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PendingReport {
    /// The pod group, as namespace/name.
    pub pod_group: String,
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i32,
    /// The status of the pods: Pending or Gated.
    pub status: &'static str,
    /// The pods, as namespace/name.
    pub pods: Vec<String>,
    /// Where the reasons were found: `pod`, `podGroup`, `notReady`, `invalidSubGroup` or `none`.
    pub source: &'static str,
    /// The reasons, as the scheduler words them.
    pub reasons: Vec<String>,
}

/// The jobs and the pods' jobs of a cycle.
pub(crate) struct JobIndex<'a> {
    jobs: BTreeMap<&'a str, &'a JobReport>,
    job_of_pod: BTreeMap<&'a NamespacedName, &'a str>,
}

// === impl InputReport ===

impl InputReport {
    pub(crate) fn new(
        snapshot: &SchedulerSnapshot,
        overrides: Vec<String>,
        warnings: Vec<String>,
    ) -> InputReport {
        InputReport {
            name: snapshot.name.clone(),
            now: snapshot.time.to_string(),
            now_from: snapshot.time_origin.as_str(),
            overrides,
            warnings,
        }
    }
}

// === impl CycleReport ===

impl CycleReport {
    pub(crate) fn new(
        number: u32,
        now: String,
        decisions: &[ActionDecisions],
        report: &Report,
        index: &JobIndex<'_>,
        names: &GpuGroupNames,
    ) -> CycleReport {
        let queues = queues_of(report);
        let total = QuantityReport::of(&report.total);
        CycleReport {
            number,
            now,
            total,
            actions: decisions.iter().map(|action| ActionReport::new(action, index, names)).collect(),
            borrowing: find_borrowing(&queues, &total),
            queues,
            pending: pending_of(report, index),
        }
    }

    /// Whether any action decided something.
    pub fn has_decisions(&self) -> bool {
        let is_empty = |action: &ActionReport| {
            action.bound.is_empty() && action.pipelined.is_empty() && action.evicted.is_empty()
        };
        !self.actions.iter().all(is_empty)
    }
}

// === impl ActionReport ===

impl ActionReport {
    fn new(decisions: &ActionDecisions, index: &JobIndex<'_>, names: &GpuGroupNames) -> ActionReport {
        let placements = |placements: &[Placement]| {
            let reports = placements.iter().map(|placement| PlacementReport::new(placement, index, names));
            let mut reports: Vec<PlacementReport> = reports.collect();
            reports.sort_by(|left, right| left.pod.cmp(&right.pod));
            reports
        };
        let mut evicted: Vec<EvictionReport> =
            decisions.evicted.iter().map(|eviction| EvictionReport::new(eviction, index)).collect();
        evicted.sort_by(|left, right| left.pod.cmp(&right.pod));
        ActionReport {
            action: decisions.action.name(),
            bound: placements(&decisions.bound),
            pipelined: placements(&decisions.pipelined),
            evicted,
        }
    }
}

// === impl PlacementReport ===

impl PlacementReport {
    fn new(placement: &Placement, index: &JobIndex<'_>, names: &GpuGroupNames) -> PlacementReport {
        let (pod_group, queue) = index.job_and_queue(&placement.pod);
        PlacementReport {
            pod: full_name(&placement.pod),
            pod_group,
            queue,
            node: placement.node.to_string(),
            gpu_count: placement.gpu_count,
            gpu_portion: placement.gpu_portion,
            gpu_groups: placement.gpu_groups.iter().map(|group| names.name(group)).collect(),
        }
    }
}

// === impl EvictionReport ===

impl EvictionReport {
    fn new(eviction: &Eviction, index: &JobIndex<'_>) -> EvictionReport {
        let (pod_group, queue) = index.job_and_queue(&eviction.pod);
        let preemptor = eviction.preemptor.as_ref();
        EvictionReport {
            pod: full_name(&eviction.pod),
            pod_group,
            queue,
            node: eviction.node.as_ref().map(ToString::to_string),
            preemptor: preemptor.map(full_name),
            preemptor_queue: preemptor
                .and_then(|name| index.job(&name.name))
                .map(|job| job.queue.to_string()),
            gang_size: eviction.gang_size,
            message: eviction.message.clone(),
        }
    }
}

// === impl JobIndex ===

impl<'a> JobIndex<'a> {
    pub(crate) fn new(jobs: &'a [JobReport], pods: &'a [kai::PodState]) -> JobIndex<'a> {
        JobIndex {
            jobs: jobs.iter().map(|job| (&*job.name, job)).collect(),
            job_of_pod: pods.iter().map(|state| (&state.pod, &*state.job)).collect(),
        }
    }

    /// The job of that name.
    pub(crate) fn job(&self, name: &str) -> Option<&'a JobReport> {
        self.jobs.get(name).copied()
    }

    fn job_and_queue(&self, pod: &NamespacedName) -> (String, String) {
        let name = self.job_of_pod.get(pod).copied().unwrap_or_default();
        let queue = self.job(name).map(|job| job.queue.to_string());
        (name.to_owned(), queue.unwrap_or_default())
    }
}

/// The name of an object with its namespace, if it has one.
pub(crate) fn full_name(name: &NamespacedName) -> String {
    if name.namespace.is_empty() {
        name.name.to_string()
    } else {
        format!("{}/{}", name.namespace, name.name)
    }
}

/// The reasons of a pod that waits, with their source.
pub(crate) fn reasons_of(reason: &PendingReason) -> (&'static str, Vec<String>) {
    match reason {
        PendingReason::InvalidSubGroup(errors) => ("invalidSubGroup", errors.texts()),
        PendingReason::NotReady => ("notReady", Vec::new()),
        PendingReason::Pod(errors) => ("pod", errors.texts()),
        PendingReason::PodGroup(errors) => {
            let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            texts.sort_unstable();
            texts.dedup();
            ("podGroup", texts)
        }
        PendingReason::None => ("none", Vec::new()),
    }
}

fn pending_of(report: &Report, index: &JobIndex<'_>) -> Vec<PendingReport> {
    let mut groups: Vec<PendingReport> = Vec::new();
    let mut known: BTreeMap<(String, &'static str, Vec<String>), usize> = BTreeMap::new();
    for pending in &report.pending {
        let (source, reasons) = reasons_of(&pending.reason);
        let job = index.job(&pending.job);
        let pod_group = match job {
            Some(job) if !job.namespace.is_empty() => format!("{}/{}", job.namespace, job.name),
            _ => pending.job.to_string(),
        };
        let status = pending.status.name();
        let at = *known.entry((pod_group.clone(), status, reasons.clone())).or_insert_with(|| {
            groups.push(PendingReport {
                pod_group,
                queue: job.map(|job| job.queue.to_string()).unwrap_or_default(),
                priority: job.map(|job| job.priority).unwrap_or_default(),
                status,
                pods: Vec::new(),
                source,
                reasons,
            });
            groups.len() - 1
        });
        groups[at].pods.push(full_name(&pending.pod));
    }
    let is_gated = |group: &PendingReport| group.status == PodStatus::Gated.name();
    groups.sort_by(|left, right| {
        let key = |group: &PendingReport| (is_gated(group), group.queue.clone());
        key(left)
            .cmp(&key(right))
            .then(right.priority.cmp(&left.priority))
            .then(left.pod_group.cmp(&right.pod_group))
    });
    groups
}
