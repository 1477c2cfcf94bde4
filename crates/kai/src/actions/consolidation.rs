//! Action consolidation: moves pods to other nodes so that a job fits.

use super::victim_search::{VictimSearch, feasible_nodes, has_alive_pod};
use crate::cluster::ids::JobId;
use crate::cluster::status::PodStatus;
use crate::session::Session;
use crate::session::job_order::JobOrderOptions;
use crate::settings::Action;
use crate::solver::{ActionBudget, JobSolver, Scenario, SearchResult, VictimJobs};

/// The number of victims that stands for any number.
const ANY_NUMBER: i64 = -1;

pub(super) fn run(session: &mut Session) {
    if session.settings.params.max_consolidation_preemptees == 0 {
        return;
    }
    let search = VictimSearch {
        action: Action::Consolidation,
        options: JobOrderOptions {
            skips_without_pending: true,
            skips_unready: true,
            skips_non_preemptible: true,
            skips_delayed: true,
            ..JobOrderOptions::default()
        },
        is_by_queue: false,
        is_tried: &|_, _| true,
        search: &consolidate,
    };
    search.run(session);
}

fn consolidate(session: &mut Session, job: JobId, budget: &mut ActionBudget) -> Option<SearchResult> {
    session.compute_tasks_to_allocate_resources(job, false);
    if !has_enough_gpus(session, job) {
        return None;
    }
    let nodes = feasible_nodes(&session.cluster, job);
    let mut victims = |session: &mut Session| victim_jobs(session, job);
    let mut validator = |session: &mut Session, scenario: &Scenario| are_all_placed(session, scenario);
    let solver = JobSolver::new(Action::Consolidation, nodes, &mut victims, &mut validator, budget);
    Some(solver.solve(session, job))
}

/// Whether the ready nodes together have enough GPUs and GPU memory, idle or being released.
fn has_enough_gpus(session: &mut Session, job: JobId) -> bool {
    let (requested, requested_memory) = session.tasks_to_allocate_gpus(job, false);
    let (mut gpus, mut memory) = (0.0, 0_i64);
    for node in session.cluster.nodes.iter().filter(|node| node.is_ready()) {
        for (of_node, memory_of_node) in [node.idle_gpus(), node.releasing_gpus()] {
            gpus += of_node;
            memory = memory.saturating_add(memory_of_node);
        }
    }
    gpus >= requested && memory >= requested_memory
}

/// Preemptible jobs with pods on nodes, at most one more than allowed.
fn victim_jobs(session: &Session, preemptor: JobId) -> VictimJobs {
    let cluster = &session.cluster;
    let is_victim = |job: &JobId| {
        let victim = cluster.job(*job);
        victim.group.is_preemptible
            && *job != preemptor
            && victim.active_allocated_count() != 0
            && has_alive_pod(cluster, *job)
    };
    let most = session.settings.params.max_consolidation_preemptees;
    let count = match most {
        ANY_NUMBER => usize::MAX,
        _ => usize::try_from(most.saturating_add(1)).unwrap_or(0),
    };
    let options = JobOrderOptions {
        skips_non_preemptible: most == ANY_NUMBER,
        skips_inactive: most == ANY_NUMBER,
        ..JobOrderOptions::default()
    };
    VictimJobs { jobs: cluster.job_ids().filter(is_victim).take(count).collect(), options }
}

/// Whether every victim has a place again.
fn are_all_placed(session: &Session, scenario: &Scenario) -> bool {
    let victims = scenario.victims(session);
    let mut infos = victims.values().flatten();
    infos.all(|info| session.cluster.info(*info).status != PodStatus::Releasing)
}
