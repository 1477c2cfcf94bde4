//! Action reclaim: evicts pods of queues that have more than their share, for queues that have less.

use std::collections::BTreeMap;

use super::victim_search::{VictimSearch, feasible_nodes};
use crate::cluster::ids::{JobId, PodInfoId, QueueId};
use crate::cluster::resources::ResourceVector;
use crate::plugins::proportion::Reclaimer;
use crate::session::Session;
use crate::session::job_order::JobOrderOptions;
use crate::settings::Action;
use crate::solver::{ActionBudget, JobSolver, Scenario, SearchResult, VictimJobs};

pub(super) fn run(session: &mut Session) {
    let search = VictimSearch {
        action: Action::Reclaim,
        options: JobOrderOptions {
            skips_without_pending: true,
            skips_unready: true,
            skips_delayed: true,
            ..JobOrderOptions::default()
        },
        is_by_queue: true,
        is_tried: &can_reclaim,
        search: &reclaim,
    };
    search.run(session);
}

fn can_reclaim(session: &mut Session, job: JobId) -> bool {
    let required = session.tasks_to_allocate_resources(job, false);
    match (&session.proportion, reclaimer(session, job, &required)) {
        (Some(proportion), Some(reclaimer)) => proportion.can_reclaim(&session.cluster, reclaimer),
        (None, _) | (_, None) => false,
    }
}

fn reclaim(session: &mut Session, job: JobId, budget: &mut ActionBudget) -> Option<SearchResult> {
    session.compute_tasks_to_allocate_resources(job, false);
    if let Some(proportion) = &mut session.proportion {
        proportion.start_simulations();
    }
    let nodes = feasible_nodes(&session.cluster, job);
    let candidates = victim_jobs(session, job);
    let mut victims = |_: &mut Session| candidates.clone();
    let mut validator = allows_reclaim;
    let solver = JobSolver::new(Action::Reclaim, nodes, &mut victims, &mut validator, budget);
    Some(solver.solve(session, job))
}

/// The jobs of other queues from which something may be reclaimed.
fn victim_jobs(session: &mut Session, job: JobId) -> VictimJobs {
    let required = session.tasks_to_allocate_resources(job, false);
    let cluster = &session.cluster;
    let reclaiming = cluster.job(job);
    // All jobs of a queue are victims, or none.
    let mut victim_queues: Vec<Option<bool>> = vec![None; cluster.queues.len()];
    let mut is_victim_queue = |queue: QueueId| {
        *victim_queues[queue.index()].get_or_insert_with(|| {
            match (&session.proportion, reclaimer(session, job, &required)) {
                (Some(proportion), Some(reclaimer)) => proportion.is_victim_queue(cluster, reclaimer, queue),
                _ => true,
            }
        })
    };
    let is_victim = |victim: &JobId| {
        let victim = cluster.job(*victim);
        victim.group.is_preemptible
            && victim.group.queue_name != reclaiming.group.queue_name
            && victim.group.queue.is_none_or(&mut is_victim_queue)
            && session
                .min_runtime
                .as_ref()
                .is_none_or(|min_runtime| min_runtime.is_reclaim_victim(cluster, reclaiming, victim))
    };
    let options =
        JobOrderOptions { skips_non_preemptible: true, skips_inactive: true, ..JobOrderOptions::default() };
    VictimJobs { jobs: cluster.job_ids().filter(is_victim).collect(), options }
}

fn allows_reclaim(session: &mut Session, scenario: &Scenario) -> bool {
    let required = session.tasks_to_allocate_resources(scenario.preemptor, false);
    let victims = scenario.victims(session);
    let cluster = &session.cluster;
    if let Some(proportion) = &session.proportion {
        let mut by_queue: BTreeMap<QueueId, Vec<ResourceVector>> = BTreeMap::new();
        for (job, infos) in &victims {
            let pieces = reclaimed_pieces(session, *job, infos);
            if let Some(queue) = cluster.job(*job).group.queue.filter(|_| !pieces.is_empty()) {
                by_queue.entry(queue).or_default().extend(pieces);
            }
        }
        let Some(reclaimer) = reclaimer(session, scenario.preemptor, &required) else { return false };
        if !proportion.allows_reclaim(cluster, reclaimer, &by_queue) {
            return false;
        }
    }
    let preemptor = cluster.job(scenario.preemptor);
    session
        .min_runtime
        .as_ref()
        .is_none_or(|min_runtime| min_runtime.allows_reclaim(cluster, preemptor, &victims))
}

/// What is taken from a victim: pods that it does not need one by one, then those that it needs together.
fn reclaimed_pieces(session: &Session, job: JobId, infos: &[PodInfoId]) -> Vec<ResourceVector> {
    let cluster = &session.cluster;
    let mut by_pod_set: BTreeMap<u32, Vec<PodInfoId>> = BTreeMap::new();
    for info in infos {
        if let Some(pod_set) = cluster.pod_of(*info).pod_set {
            by_pod_set.entry(pod_set).or_default().push(*info);
        }
    }
    let (mut elastic, mut core) = (Vec::new(), Vec::new());
    for (pod_set, infos) in by_pod_set {
        let needed = cluster.job(job).tree.pod_sets[pod_set as usize].min_available;
        let needed = usize::try_from(needed).unwrap_or(0).min(infos.len());
        core.extend_from_slice(&infos[..needed]);
        elastic.extend_from_slice(&infos[needed..]);
    }
    // Pods that get another place are not taken, if that is allowed.
    let ignores_placed = session.settings.params.allow_consolidating_reclaim;
    let sum = |infos: &[PodInfoId]| {
        let states = infos.iter().map(|info| cluster.info(*info));
        let taken = states.filter(|info| !(ignores_placed && info.status.is_active_allocated()));
        taken.map(|info| info.accepted.clone()).reduce(|mut sum, accepted| {
            sum.add(&accepted);
            sum
        })
    };
    let elastic = elastic.iter().filter_map(|info| sum(std::slice::from_ref(info)));
    elastic.chain(sum(&core)).collect()
}

fn reclaimer<'a>(session: &Session, job: JobId, required: &'a ResourceVector) -> Option<Reclaimer<'a>> {
    let group = &session.cluster.job(job).group;
    Some(Reclaimer { queue: group.queue?, required, is_preemptible: group.is_preemptible })
}
