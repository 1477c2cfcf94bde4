//! The search for pods whose eviction makes room for a job.

mod budget;
mod builder;
mod filters;
mod generators;
mod scenario;
mod simulation;
mod sub_scenarios;

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

pub(crate) use budget::ActionBudget;
pub(crate) use scenario::Scenario;

use budget::{Budget, JobBudget};
use generators::{GeneratorKind, ScenarioGenerator};
use scenario::{Fingerprint, VictimGroup};
use simulation::Solution;

use crate::cluster::ids::{JobId, PodInfoId, QueueId};
use crate::cluster::node_set::NodeSet;
use crate::cluster::sub_group::SubGroupTree;
use crate::session::Session;
use crate::session::job_order::{JobOrder, JobOrderOptions};
use crate::settings::Action;
use crate::statement::Statement;

/// The jobs that may be victims, in the order in which they are tried.
#[derive(Clone, Debug)]
pub(crate) struct VictimJobs {
    pub jobs: Vec<JobId>,
    pub options: JobOrderOptions,
}

/// The search for victims for one job.
pub(crate) struct JobSolver<'a> {
    pub action: Action,
    /// Nodes on which the job may be placed without victims.
    pub feasible_nodes: NodeSet,
    pub victims: &'a mut dyn FnMut(&mut Session) -> VictimJobs,
    /// Whether the outcome of a simulation is allowed.
    pub validator: &'a mut dyn FnMut(&mut Session, &Scenario) -> bool,
    pub budget: &'a mut ActionBudget,
    failed: BTreeSet<Fingerprint>,
    /// What eviction messages say about queues, as before any eviction.
    queue_details: BTreeMap<QueueId, Arc<str>>,
}

/// The result of a search.
#[derive(Debug)]
pub(crate) enum SearchResult {
    /// The job has all its pods; the statement is to be committed.
    Solved(Statement),
    /// No victims were found.
    Unsolved,
    /// The budget of the action is used up.
    BudgetExhausted,
}

/// The victims that were found for fewer pods of the job.
#[derive(Clone, Debug, Default)]
struct RecordedVictims {
    groups: Vec<Rc<VictimGroup>>,
    infos: Vec<PodInfoId>,
}

/// The result of an attempt with some pods of the job.
enum Probe {
    Solved(Solution),
    Unsolved,
    BudgetExhausted,
}

impl<'a> JobSolver<'a> {
    pub(crate) fn new(
        action: Action,
        feasible_nodes: NodeSet,
        victims: &'a mut dyn FnMut(&mut Session) -> VictimJobs,
        validator: &'a mut dyn FnMut(&mut Session, &Scenario) -> bool,
        budget: &'a mut ActionBudget,
    ) -> JobSolver<'a> {
        JobSolver {
            action,
            feasible_nodes,
            victims,
            validator,
            budget,
            failed: BTreeSet::new(),
            queue_details: BTreeMap::new(),
        }
    }

    /// Searches victims for the next pods of a job.
    pub(crate) fn solve(mut self, session: &mut Session, job: JobId) -> SearchResult {
        let active_before = session.cluster.job(job).active_used_count(&session.cluster.infos);
        let tasks = session.tasks_to_allocate(job, false);
        if tasks.is_empty() {
            return SearchResult::Unsolved;
        }
        let Some(mut job_budget) = self.budget.start_job() else { return SearchResult::BudgetExhausted };
        session.search_counts.jobs += 1;
        let kinds = GeneratorKind::of_plugins(&session.plugins);
        let mut result = SearchResult::Unsolved;
        for kind in kinds {
            let mut generator_budget = self.budget.start_generator(&job_budget, kind.name());
            let probe = self.solve_with(session, job, &tasks, kind, &mut job_budget, &mut generator_budget);
            result = match probe {
                Probe::Unsolved => continue,
                Probe::BudgetExhausted => SearchResult::BudgetExhausted,
                Probe::Solved(solution) => {
                    let job = session.cluster.job(job);
                    let is_solved = job.is_gang_satisfied()
                        && job.active_used_count(&session.cluster.infos) > active_before;
                    // As in the original, what was done for a job that still lacks pods is neither committed nor undone.
                    if is_solved { SearchResult::Solved(solution.statement) } else { SearchResult::Unsolved }
                }
            };
            break;
        }
        self.budget.end_job(job_budget);
        result
    }

    fn solve_with(
        &mut self,
        session: &mut Session,
        job: JobId,
        tasks: &[PodInfoId],
        kind: GeneratorKind,
        job_budget: &mut JobBudget,
        generator_budget: &mut Budget,
    ) -> Probe {
        let mut recorded = RecordedVictims::default();
        let mut probe =
            |solver: &mut Self, session: &mut Session, recorded: &mut RecordedVictims, count: usize| {
                solver.probe(session, job, &tasks[..count], recorded, kind, job_budget, generator_budget)
            };
        // Twice as many pods each time, then the middle between success and failure.
        let (mut solved, mut failed, mut count) = (0, None, 1);
        loop {
            match probe(self, session, &mut recorded, count) {
                Probe::BudgetExhausted => return Probe::BudgetExhausted,
                Probe::Unsolved => failed = Some(count),
                Probe::Solved(solution) => {
                    solved = count;
                    recorded.take_from(session, solution);
                }
            }
            count = match failed {
                None if solved == tasks.len() => break,
                None => (2 * count).min(tasks.len()),
                Some(failed) if failed - solved <= 1 => break,
                Some(failed) => (solved + failed) / 2,
            };
        }
        if solved == 0 {
            return Probe::Unsolved;
        }
        probe(self, session, &mut recorded, tasks.len())
    }

    /// Searches victims for these pods of a job.
    #[expect(clippy::too_many_arguments, reason = "they are what a single attempt depends on")]
    fn probe(
        &mut self,
        session: &mut Session,
        job: JobId,
        tasks: &[PodInfoId],
        recorded: &RecordedVictims,
        kind: GeneratorKind,
        job_budget: &mut JobBudget,
        generator_budget: &mut Budget,
    ) -> Probe {
        let partial = partial_job(session, job, tasks);
        let mut feasible = self.feasible_nodes.clone();
        let recorded_nodes =
            recorded.infos.iter().filter_map(|info| session.cluster.info(*info).node.known());
        feasible.extend(recorded_nodes);
        let victims = (self.victims)(session);
        let mut victim_order = JobOrder::new(JobOrderOptions { is_for_victims: true, ..victims.options });
        victim_order.add_jobs(session, victims.jobs);
        let mut generator =
            ScenarioGenerator::new(session, kind, partial, recorded.groups.clone(), victim_order, &feasible);
        loop {
            if job_budget.is_exhausted() {
                return Probe::BudgetExhausted;
            }
            let Some(scenario) = generator.next(session, generator_budget, job_budget) else {
                return Probe::Unsolved;
            };
            let fingerprint = scenario.fingerprint(session);
            if self.failed.contains(&fingerprint) {
                continue;
            }
            match self.simulate(session, &scenario, &mut feasible) {
                Some(solution) => return Probe::Solved(solution),
                None => drop(self.failed.insert(fingerprint)),
            }
        }
    }
}

// === impl RecordedVictims ===

impl RecordedVictims {
    /// Takes the victims of a solution, and undoes it.
    fn take_from(&mut self, session: &mut Session, solution: Solution) {
        self.groups = solution.victim_groups;
        self.infos = solution.victims;
        solution.statement.discard(session);
    }
}

/// A copy of a job with its pods on nodes and some of those to place, that needs no more than these.
fn partial_job(session: &mut Session, job: JobId, tasks: &[PodInfoId]) -> JobId {
    let cluster = &session.cluster;
    let mut infos: Vec<PodInfoId> =
        cluster.job(job).infos().filter(|info| cluster.info(*info).status.is_active_allocated()).collect();
    infos.extend_from_slice(tasks);
    let partial = session.cluster.copy_job(job, &infos);
    let tree = &mut session.cluster.job_mut(partial).tree;
    for pod_set in tree.pod_sets.iter_mut().filter(|pod_set| pod_set.len() > 0) {
        let count = i32::try_from(pod_set.len()).unwrap_or(i32::MAX);
        pod_set.min_available = pod_set.min_available.min(count);
    }
    lower_min_sub_group(tree, 0);
    partial
}

/// Lowers what a set needs to its members with pods. Returns whether there are any.
fn lower_min_sub_group(tree: &mut SubGroupTree, set: usize) -> bool {
    let pod_sets = tree.sets[set].pod_sets.iter();
    let mut members = pod_sets.filter(|pod_set| tree.pod_sets[**pod_set].len() > 0).count();
    for child in tree.sets[set].sets.clone() {
        members += usize::from(lower_min_sub_group(tree, child));
    }
    if let Some(needed) = &mut tree.sets[set].min_sub_group {
        *needed = (*needed).min(i32::try_from(members).unwrap_or(i32::MAX));
    }
    members > 0
}
