//! The generators of scenarios.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::budget::{Budget, JobBudget};
use super::builder::ScenarioBuilder;
use super::scenario::{Scenario, VictimGroup};
use crate::cluster::ids::{JobId, NodeId, PodId, PodInfoId};
use crate::cluster::node_set::NodeSet;
use crate::cluster::pod_info::AssignedNode;
use crate::plugins::registry::Plugin;
use crate::session::Session;
use crate::session::job_order::JobOrder;

/// The kinds of generators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GeneratorKind {
    /// For each node of the last victim job: all victims that have to do with it.
    NodeLocalGreedy,
    /// The victims of as few nodes as may be enough, then of more.
    MultiNodeGang,
}

/// A generator of scenarios for a job.
#[derive(Debug)]
pub(super) struct ScenarioGenerator {
    kind: GeneratorKind,
    builder: ScenarioBuilder,
    is_started: bool,
    /// Scenarios that were made together, the next one last.
    ready: Vec<Scenario>,
}

// === impl GeneratorKind ===

impl GeneratorKind {
    /// The generators that the plugins register, in their order.
    pub(super) fn of_plugins(plugins: &[Plugin]) -> Vec<GeneratorKind> {
        let kind = |plugin: &Plugin| match plugin {
            Plugin::NodeLocalGreedy => Some(GeneratorKind::NodeLocalGreedy),
            Plugin::MultiNodeGang => Some(GeneratorKind::MultiNodeGang),
            _ => None,
        };
        plugins.iter().filter_map(kind).collect()
    }

    /// Its name in search budgets.
    pub(super) fn name(self) -> &'static str {
        match self {
            GeneratorKind::NodeLocalGreedy => "NodeLocalGreedy",
            GeneratorKind::MultiNodeGang => "MultiNodeGang",
        }
    }
}

// === impl ScenarioGenerator ===

impl ScenarioGenerator {
    pub(super) fn new(
        session: &mut Session,
        kind: GeneratorKind,
        preemptor: JobId,
        recorded: Vec<Rc<VictimGroup>>,
        victim_jobs: JobOrder,
        feasible: &NodeSet,
    ) -> ScenarioGenerator {
        let builder = ScenarioBuilder::new(session, preemptor, recorded, victim_jobs, feasible);
        ScenarioGenerator { kind, builder, is_started: false, ready: Vec::new() }
    }

    /// The next scenario; `None` if there is none left, or nothing of the budget.
    pub(super) fn next(
        &mut self,
        session: &mut Session,
        budget: &mut Budget,
        job_budget: &mut JobBudget,
    ) -> Option<Scenario> {
        if budget.is_exhausted() {
            return None;
        }
        budget.spend(1);
        job_budget.spend();
        match self.kind {
            GeneratorKind::MultiNodeGang => {
                let advances = std::mem::replace(&mut self.is_started, true);
                self.builder.next_part(session, advances, budget, job_budget)
            }
            GeneratorKind::NodeLocalGreedy => loop {
                if let Some(scenario) = self.ready.pop() {
                    return Some(scenario);
                }
                let advances = std::mem::replace(&mut self.is_started, true);
                let accumulated = self.builder.next_accumulated(session, advances, budget, job_budget)?;
                self.ready = node_local_scenarios(session, accumulated);
                self.ready.reverse();
            },
        }
    }
}

/// For each node of the last victim job, all victims that have to do with it.
fn node_local_scenarios(session: &mut Session, base: &Scenario) -> Vec<Scenario> {
    let Some(job) = base.latest_job(session) else {
        return if base.recorded_infos.is_empty() { Vec::new() } else { vec![base.clone()] };
    };
    let mut scenarios = Vec::new();
    let mut seen: BTreeSet<Vec<PodId>> = BTreeSet::new();
    for node in nodes_of_job(session, job) {
        let victims = base.groups_of_node(AssignedNode::Node(node));
        if victims.is_empty() {
            continue;
        }
        let mut pods: Vec<PodId> = victims.iter().map(|info| session.cluster.info(*info).pod).collect();
        pods.sort_unstable();
        if !seen.insert(pods) {
            continue;
        }
        let mut scenario =
            Scenario::new(session, base.preemptor, base.pending.clone(), base.recorded.clone());
        for (_, victims) in by_job(session, &victims) {
            scenario.add_potential(session, &victims);
        }
        scenarios.push(scenario);
    }
    scenarios
}

/// The nodes of a job's pods, by name.
fn nodes_of_job(session: &Session, job: JobId) -> BTreeSet<NodeId> {
    let cluster = &session.cluster;
    cluster.job(job).infos().filter_map(|info| cluster.info(info).node.known()).collect()
}

fn by_job(session: &Session, victims: &[PodInfoId]) -> BTreeMap<Option<JobId>, Vec<PodInfoId>> {
    let mut of_jobs: BTreeMap<Option<JobId>, Vec<PodInfoId>> = BTreeMap::new();
    for victim in victims {
        of_jobs.entry(session.cluster.pod_of(*victim).job).or_default().push(*victim);
    }
    of_jobs
}
