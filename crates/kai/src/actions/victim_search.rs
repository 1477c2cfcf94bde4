//! The parts that consolidation, reclaim and preempt have in common.

use std::collections::BTreeMap;

use super::minimal_jobs::MinimalJobs;
use crate::cluster::Cluster;
use crate::cluster::fit_errors::{JobFitError, POD_SCHEDULING_ERRORS, PodFitErrors};
use crate::cluster::ids::{JobId, NodeId, QueueId};
use crate::cluster::node_set::NodeSet;
use crate::cluster::pod_info::AssignedNode;
use crate::session::Session;
use crate::session::job_order::{JobOrder, JobOrderOptions};
use crate::settings::Action;
use crate::solver::{ActionBudget, SearchResult};

/// An action that searches victims.
pub(super) struct VictimSearch<'a> {
    pub action: Action,
    /// Which jobs are tried.
    pub options: JobOrderOptions,
    /// Whether failed jobs are compared within their queue only.
    pub is_by_queue: bool,
    /// Whether a job is tried at all.
    pub is_tried: &'a dyn Fn(&mut Session, JobId) -> bool,
    /// The search for one job; `None` if it is not worth one.
    pub search: &'a dyn Fn(&mut Session, JobId, &mut ActionBudget) -> Option<SearchResult>,
}

impl VictimSearch<'_> {
    /// Tries all jobs in their order.
    pub(super) fn run(&self, session: &mut Session) {
        let mut budget = ActionBudget::new(self.action, &session.settings.config.search_budgets);
        let max_depth = session.queue_depth(self.action);
        let mut order = JobOrder::new(JobOrderOptions { max_depth, ..self.options });
        order.add_jobs(session, session.cluster.job_ids());
        let mut failed: BTreeMap<Option<QueueId>, MinimalJobs> = BTreeMap::new();
        while let Some(job) = order.pop(session) {
            if !(self.is_tried)(session, job) {
                continue;
            }
            let queue = session.queue_of(job).filter(|_| self.is_by_queue);
            let failed = failed.entry(queue).or_default();
            if session.settings.params.use_scheduling_signatures && !failed.is_easier(&session.cluster, job) {
                continue;
            }
            if has_invariant_failure(session, job) {
                continue;
            }
            match (self.search)(session, job, &mut budget) {
                Some(SearchResult::Solved(statement)) => statement.commit(session),
                Some(SearchResult::BudgetExhausted) => {
                    session.cluster.drop_copies();
                    return;
                }
                Some(SearchResult::Unsolved) | None => failed.add(&session.cluster, job),
            }
            session.cluster.drop_copies();
        }
    }
}

/// Whether a pod of the job cannot be placed whatever is evicted; that is reported.
fn has_invariant_failure(session: &mut Session, job: JobId) -> bool {
    let tasks = session.tasks_to_allocate(job, false);
    let Some((pod, message)) = session.invariant_failure(&tasks) else { return false };
    let name = session.cluster.pod(pod).full_name();
    let job = session.cluster.job_mut(job);
    let error = format!("Resources were not found for pod {name} due to: {message}");
    job.add_pod_fit_errors(pod, PodFitErrors::of_error(message));
    job.add_fit_error(JobFitError::new(POD_SCHEDULING_ERRORS, error));
    true
}

/// The nodes on which a job may be placed without victims: those with GPUs, if all its pods request some.
pub(super) fn feasible_nodes(cluster: &Cluster, job: JobId) -> NodeSet {
    if cluster.job(job).infos().any(|info| !cluster.pod_of(info).requires_gpu()) {
        return cluster.node_ids().collect();
    }
    let has_gpus = |node: &NodeId| {
        let node = cluster.node(*node);
        node.idle_gpus().0 > 0.0 || node.releasing_gpus().0 > 0.0
    };
    cluster.node_ids().filter(has_gpus).collect()
}

/// Whether a job has a pod that is alive and whose node, if it has one, is known.
pub(super) fn has_alive_pod(cluster: &Cluster, job: JobId) -> bool {
    cluster
        .job(job)
        .infos()
        .map(|info| cluster.info(info))
        .any(|info| info.status.is_alive() && info.node != AssignedNode::Unknown)
}
