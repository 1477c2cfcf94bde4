//! The state of a cycle, at its start and now: queues, nodes, jobs, and the pods that still wait.

use std::sync::Arc;

use model::NamespacedName;

use crate::cluster::fit_errors::{JobFitError, PodFitErrors, Rejection};
use crate::cluster::ids::{NodeId, PodId};
use crate::cluster::pod_info::PodInfos;
use crate::cluster::resources::{CPU, GPU, MEMORY};
use crate::cluster::status::PodStatus;
use crate::initial_state::{Amounts, JobReport};
use crate::plugins::registry::Plugin;
use crate::session::Session;

/// The state of a cycle, at its start and now.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What the top queues share.
    pub total: Amounts,
    /// The queues, sorted by name.
    pub queues: Vec<QueueReport>,
    /// The nodes, sorted by name.
    pub nodes: Vec<NodeReport>,
    /// The jobs, sorted by name.
    pub jobs: Vec<JobReport>,
    /// The pods that wait, sorted by namespace and name.
    pub pending: Vec<PendingPod>,
}

/// The share of a queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueReport {
    /// Its name.
    pub name: Arc<str>,
    /// The name of its parent.
    pub parent: Option<Arc<str>>,
    /// Its priority.
    pub priority: i64,
    /// Cpu in millicores.
    pub cpu: ResourceReport,
    /// Memory in bytes.
    pub memory: ResourceReport,
    /// GPUs in devices.
    pub gpu: ResourceReport,
}

/// The share of a queue of one resource; -1 stands for any amount.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceReport {
    /// What it deserves.
    pub quota: f64,
    /// What it may have at most.
    pub limit: f64,
    /// Its weight above its quota.
    pub weight: f64,
    /// What its pods have or wait for, at the start.
    pub request: f64,
    /// What its pods have, at the start.
    pub allocated: f64,
    /// The part of it of pods that cannot be preempted.
    pub allocated_non_preemptible: f64,
    /// Its fair share, which does not change in a cycle.
    pub fair_share: f64,
    /// What its pods have now, those that wait for resources included.
    pub allocated_after: f64,
}

/// The resources of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeReport {
    /// Its name.
    pub name: Arc<str>,
    /// What it has for pods.
    pub allocatable: Amounts,
    /// What is free at the start.
    pub idle: Amounts,
    /// What is being released at the start.
    pub releasing: Amounts,
    /// What is free now.
    pub idle_after: Amounts,
}

/// A pod that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingPod {
    /// Its name.
    pub pod: NamespacedName,
    /// The name of its job.
    pub job: Arc<str>,
    /// Its status.
    pub status: PodStatus,
    /// Why it waits.
    pub reason: PendingReason,
}

/// Why a pod waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PendingReason {
    /// It names a subgroup that its pod group has not.
    InvalidSubGroup(PodFitErrors),
    /// The job lacks pods.
    NotReady,
    /// It was tried.
    Pod(PodFitErrors),
    /// Its job was not placed.
    PodGroup(Vec<JobFitError>),
    /// Nothing was recorded: its job was not tried.
    None,
}

/// The verdict on a node for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeVerdict {
    /// The node.
    pub node: Arc<str>,
    /// Why it is rejected; without reasons if its resources are only being released.
    pub rejection: Option<Rejection>,
    /// The scores of plugins, and their sum; `None` if the node is in no domain of the pod's topology.
    pub scores: Option<(Vec<(Plugin, f64)>, f64)>,
}

impl Session {
    /// The state at the start of the cycle and now.
    pub fn report(&self) -> Report {
        let cluster = &self.cluster;
        let total = self.proportion.as_ref().map(|proportion| proportion.total.0).unwrap_or_default();
        let nodes =
            cluster.nodes.iter().zip(&self.initial.nodes).map(|(node, (idle, releasing))| NodeReport {
                name: node.name().clone(),
                allocatable: Amounts::of(&node.allocatable),
                idle: *idle,
                releasing: *releasing,
                idle_after: Amounts::of(&node.idle),
            });
        Report {
            total: Amounts { cpu: total[CPU], memory: total[MEMORY], gpu: total[GPU] },
            queues: self.queue_reports(),
            nodes: nodes.collect(),
            jobs: self.initial.jobs.clone(),
            pending: self.pending_pods(),
        }
    }

    /// The verdict on every node for a pod in the present state; `None` if there is no such pod in a job.
    pub fn explain(&mut self, pod: &NamespacedName) -> Option<Vec<NodeVerdict>> {
        let index = self.cluster.pods.binary_search_by(|other| other.view.name.cmp(pod)).ok()?;
        let (id, nodes) = (PodId::of(index), self.cluster.node_ids().collect::<Vec<NodeId>>());
        let job = self.cluster.pod(id).job?;
        // Prepares the checks; what they say about the pod itself is among the fit errors.
        let _ = self.pre_predicates(PodInfos::of_pod(id));
        let range = self.start_scoring(id, &nodes);
        let verdict = |&node: &NodeId| {
            let mut of_plugins = Vec::new();
            let total = self.score_node(id, node, range, |plugin, score| of_plugins.push((plugin, score)));
            NodeVerdict {
                node: self.cluster.node(node).name().clone(),
                rejection: self
                    .check_node(id, job, node, true)
                    .err()
                    .map(|rejection| rejection.unwrap_or_else(Rejection::of_unknown_resources)),
                scores: total.map(|total| (of_plugins, total)),
            }
        };
        Some(nodes.iter().map(verdict).collect())
    }

    fn queue_reports(&self) -> Vec<QueueReport> {
        let Some(proportion) = &self.proportion else { return Vec::new() };
        let cluster = &self.cluster;
        let queues = cluster.queue_ids().map(|id| {
            let queue = cluster.queue(id);
            let (before, after) = (&self.initial.shares[id.index()], proportion.share(id));
            let resource = |index: usize| {
                let share = &before.resources[index];
                ResourceReport {
                    quota: share.quota,
                    limit: share.limit,
                    weight: share.over_quota_weight,
                    request: share.request,
                    allocated: share.allocated,
                    allocated_non_preemptible: share.allocated_non_preemptible,
                    fair_share: share.fair_share,
                    allocated_after: after.resources[index].allocated,
                }
            };
            QueueReport {
                name: queue.name.clone(),
                parent: queue.parent.map(|parent| cluster.queue(parent).name.clone()),
                priority: queue.priority,
                cpu: resource(CPU),
                memory: resource(MEMORY),
                gpu: resource(GPU),
            }
        });
        queues.collect()
    }

    fn pending_pods(&self) -> Vec<PendingPod> {
        let cluster = &self.cluster;
        let mut pending = Vec::new();
        for id in cluster.job_ids() {
            let job = cluster.job(id);
            let pod = |pod: PodId, status: PodStatus, reason: PendingReason| PendingPod {
                pod: cluster.pod(pod).view.name.clone(),
                job: job.group.name.clone(),
                status,
                reason,
            };
            for &invalid in &job.invalid_pods {
                let errors = job.pod_fit_errors.get(&invalid).cloned().unwrap_or_default();
                let status = cluster.info(PodInfos::of_pod(invalid)).status;
                pending.push(pod(invalid, status, PendingReason::InvalidSubGroup(errors)));
            }
            for info in job.infos().map(|info| cluster.info(info)) {
                if !matches!(info.status, PodStatus::Pending | PodStatus::Gated) {
                    continue;
                }
                let reason = if !job.is_ready() {
                    PendingReason::NotReady
                } else if let Some(errors) = job.pod_fit_errors.get(&info.pod) {
                    PendingReason::Pod(errors.clone())
                } else if !job.fit_errors.is_empty() {
                    PendingReason::PodGroup(job.fit_errors.clone())
                } else {
                    PendingReason::None
                };
                pending.push(pod(info.pod, info.status, reason));
            }
        }
        pending.sort_by(|left, right| left.pod.cmp(&right.pod));
        pending
    }
}
