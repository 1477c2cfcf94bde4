//! The accumulation of victims, job by job, until there may be enough.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::budget::{Budget, JobBudget};
use super::filters::ScenarioFilters;
use super::scenario::{Scenario, VictimGroup};
use super::sub_scenarios::SubScenarios;
use crate::cluster::ids::{JobId, PodId, PodInfoId};
use crate::cluster::node_set::NodeSet;
use crate::session::Session;
use crate::session::job_order::JobOrder;

/// The accumulation of victims.
#[derive(Debug)]
pub(super) struct ScenarioBuilder {
    /// All victims so far; `None` if the job has no pods to place.
    accumulated: Option<Scenario>,
    filters: ScenarioFilters,
    victim_jobs: JobOrder,
    recorded_pods: BTreeSet<PodId>,
    /// Nodes on which the job may be placed.
    feasible: NodeSet,
    sub_scenarios: Option<SubScenarios>,
}

impl ScenarioBuilder {
    pub(super) fn new(
        session: &mut Session,
        preemptor: JobId,
        recorded: Vec<Rc<VictimGroup>>,
        victim_jobs: JobOrder,
        feasible: &NodeSet,
    ) -> ScenarioBuilder {
        let tasks = session.tasks_to_allocate(preemptor, false);
        let recorded_infos = recorded.iter().flat_map(|group| &group.infos);
        let recorded_pods = recorded_infos.map(|info| session.cluster.info(*info).pod).collect();
        let accumulated =
            (!tasks.is_empty()).then(|| Scenario::new(session, preemptor, tasks.to_vec(), recorded));
        let filters = ScenarioFilters::new(session, accumulated.as_ref(), feasible);
        ScenarioBuilder {
            accumulated,
            filters,
            victim_jobs,
            recorded_pods,
            feasible: feasible.clone(),
            sub_scenarios: None,
        }
    }

    /// The next accumulation that may be enough; the first one without further victims if `advances` is false.
    pub(super) fn next_accumulated(
        &mut self,
        session: &mut Session,
        mut advances: bool,
        budget: &mut Budget,
        job_budget: &mut JobBudget,
    ) -> Option<&Scenario> {
        loop {
            if advances && !self.advance(session, budget, job_budget)? {
                continue;
            }
            advances = true;
            if self.is_valid(session) {
                return self.accumulated.as_ref();
            }
        }
    }

    /// The next scenario with a part of the victims of an accumulation.
    pub(super) fn next_part(
        &mut self,
        session: &mut Session,
        mut advances: bool,
        budget: &mut Budget,
        job_budget: &mut JobBudget,
    ) -> Option<Scenario> {
        self.accumulated.as_ref()?;
        loop {
            let accumulated = self.accumulated.as_ref()?;
            let part = self.sub_scenarios.as_mut().and_then(|parts| parts.next(session, accumulated));
            if part.is_some() {
                return part;
            }
            self.sub_scenarios = None;
            if advances && !self.advance(session, budget, job_budget)? {
                continue;
            }
            advances = true;
            if !self.is_valid(session) {
                continue;
            }
            let accumulated = self.accumulated.as_ref()?;
            if accumulated.potential.is_empty() {
                return Some(accumulated.clone());
            }
            self.sub_scenarios = Some(SubScenarios::new(session, accumulated, &self.feasible));
        }
    }

    /// Adds the next victims. Returns whether there were any in the next job; `None` if there is no job left, or nothing
    /// of the budget.
    fn advance(
        &mut self,
        session: &mut Session,
        budget: &mut Budget,
        job_budget: &mut JobBudget,
    ) -> Option<bool> {
        if budget.is_exhausted() || job_budget.is_exhausted() {
            return None;
        }
        budget.spend(1);
        job_budget.spend();
        let job = self.victim_jobs.pop(session)?;
        let (victims, are_others_left) = session.tasks_to_evict(job);
        let cluster = &session.cluster;
        let is_recorded = |info: &PodInfoId| self.recorded_pods.contains(&cluster.info(*info).pod);
        if victims.iter().any(is_recorded) {
            let others: Vec<PodInfoId> = cluster.job(job).infos().filter(|info| !is_recorded(info)).collect();
            self.push_copy(session, job, &others);
            return Some(false);
        }
        if are_others_left {
            let others: Vec<PodInfoId> =
                cluster.job(job).infos().filter(|info| !victims.contains(info)).collect();
            self.push_copy(session, job, &others);
        }
        if let Some(accumulated) = &mut self.accumulated {
            accumulated.add_potential(session, &victims);
        }
        Some(true)
    }

    /// Puts the other pods of a job back.
    fn push_copy(&mut self, session: &mut Session, job: JobId, others: &[PodInfoId]) {
        if !others.is_empty() {
            let copy = session.cluster.copy_job(job, others);
            self.victim_jobs.push(session, copy);
        }
    }

    fn is_valid(&mut self, session: &Session) -> bool {
        self.accumulated.as_ref().is_some_and(|scenario| self.filters.is_valid(session, scenario))
    }
}
