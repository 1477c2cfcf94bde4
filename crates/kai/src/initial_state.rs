//! The state of a cycle at its start.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cluster::Cluster;
use crate::cluster::ids::JobId;
use crate::cluster::resources::{CPU, GPU, MEMORY, ResourceVector};
use crate::cluster::status::PodStatus;
use crate::fair_share::QueueShare;

/// Amounts of three resources.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Amounts {
    /// In millicores.
    pub cpu: f64,
    /// In bytes.
    pub memory: f64,
    /// In devices.
    pub gpu: f64,
}

/// A job at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReport {
    /// Its name.
    pub name: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its queue, which may not exist.
    pub queue: Arc<str>,
    /// Its priority.
    pub priority: i32,
    /// Whether it may be preempted.
    pub is_preemptible: bool,
    /// Whether enough of its pods exist.
    pub is_ready: bool,
    /// Whether it runs with fewer pods than it needs.
    pub is_stale: bool,
    /// The number of its pods, by status.
    pub statuses: BTreeMap<PodStatus, usize>,
}

/// The state at the start of a cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct InitialState {
    pub shares: Vec<QueueShare>,
    pub nodes: Vec<(Amounts, Amounts)>,
    pub jobs: Vec<JobReport>,
}

// === impl InitialState ===

impl InitialState {
    pub(crate) fn of(cluster: &Cluster, shares: Vec<QueueShare>) -> InitialState {
        let nodes = cluster.nodes.iter().map(|node| (Amounts::of(&node.idle), Amounts::of(&node.releasing)));
        InitialState {
            shares,
            nodes: nodes.collect(),
            jobs: cluster.job_ids().map(|job| job_report(cluster, job)).collect(),
        }
    }
}

// === impl Amounts ===

impl Amounts {
    pub(crate) fn of(vector: &ResourceVector) -> Amounts {
        Amounts { cpu: vector.get(CPU), memory: vector.get(MEMORY), gpu: vector.get(GPU) }
    }
}

fn job_report(cluster: &Cluster, id: JobId) -> JobReport {
    let job = cluster.job(id);
    let mut statuses = BTreeMap::new();
    for status in job.statuses() {
        *statuses.entry(status).or_default() += 1;
    }
    JobReport {
        name: job.group.name.clone(),
        namespace: job.group.namespace.clone(),
        queue: job.group.queue_name.clone(),
        priority: job.group.priority,
        is_preemptible: job.group.is_preemptible,
        is_ready: job.is_ready(),
        is_stale: job.is_stale(&cluster.infos),
        statuses,
    }
}
