//! Action preempt: evicts pods of lower priority in the same queue.

use super::victim_search::{VictimSearch, feasible_nodes, has_alive_pod};
use crate::cluster::ids::JobId;
use crate::session::Session;
use crate::session::job_order::JobOrderOptions;
use crate::settings::Action;
use crate::solver::{ActionBudget, JobSolver, Scenario, SearchResult, VictimJobs};

pub(super) fn run(session: &mut Session) {
    let search = VictimSearch {
        action: Action::Preempt,
        options: JobOrderOptions {
            skips_without_pending: true,
            skips_unready: true,
            skips_delayed: true,
            ..JobOrderOptions::default()
        },
        is_by_queue: true,
        is_tried: &|_, _| true,
        search: &preempt,
    };
    search.run(session);
}

fn preempt(session: &mut Session, job: JobId, budget: &mut ActionBudget) -> Option<SearchResult> {
    session.compute_tasks_to_allocate_resources(job, false);
    let tasks = session.tasks_to_allocate(job, false);
    if let Some(proportion) = &session.proportion {
        let cluster = &session.cluster;
        proportion.check_non_preemptible_quota(cluster, cluster.job(job), &tasks).ok()?;
    }
    let nodes = feasible_nodes(&session.cluster, job);
    let candidates = victim_jobs(session, job);
    let mut victims = |_: &mut Session| candidates.clone();
    let mut validator = |session: &mut Session, scenario: &Scenario| {
        session.min_runtime.as_ref().is_none_or(|min_runtime| {
            min_runtime.allows_preempt(&session.cluster, &scenario.victims(session))
        })
    };
    let solver = JobSolver::new(Action::Preempt, nodes, &mut victims, &mut validator, budget);
    Some(solver.solve(session, job))
}

/// Preemptible jobs of the same queue with a lower priority.
fn victim_jobs(session: &Session, preemptor: JobId) -> VictimJobs {
    let cluster = &session.cluster;
    let group = &cluster.job(preemptor).group;
    let is_victim = |job: &JobId| {
        let victim = cluster.job(*job);
        victim.group.is_preemptible
            && victim.group.priority < group.priority
            && victim.group.queue_name == group.queue_name
            && *job != preemptor
            && victim.active_allocated_count() != 0
            && has_alive_pod(cluster, *job)
            && session
                .min_runtime
                .as_ref()
                .is_none_or(|min_runtime| min_runtime.is_preempt_victim(cluster, victim))
    };
    let options =
        JobOrderOptions { skips_non_preemptible: true, skips_inactive: true, ..JobOrderOptions::default() };
    VictimJobs { jobs: cluster.job_ids().filter(is_victim).collect(), options }
}
