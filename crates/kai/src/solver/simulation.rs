//! The simulation of a scenario: its victims are evicted, and the job and the victims are placed in the usual order.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

use model::NamespacedName;

use super::JobSolver;
use super::scenario::{Scenario, VictimGroup};
use crate::cluster::gpu::GpuRequirement;
use crate::cluster::ids::{JobId, NodeId, PodInfoId, QueueId};
use crate::cluster::node_set::NodeSet;
use crate::cluster::queue::Queue;
use crate::cluster::status::PodStatus;
use crate::cluster::text::{GIGA, MILLI, humanize};
use crate::fair_share::Quantities;
use crate::placement::place_job;
use crate::session::Session;
use crate::session::job_order::{JobOrder, JobOrderOptions};
use crate::settings::Action;
use crate::statement::{EvictionReason, Statement};

/// Victims that make room for a job.
#[derive(Debug)]
pub(super) struct Solution {
    /// The pods that lose their place; those that get another one are the last.
    pub victims: Vec<PodInfoId>,
    /// Their groups.
    pub victim_groups: Vec<Rc<VictimGroup>>,
    /// The evictions and placements.
    pub statement: Statement,
}

impl JobSolver<'_> {
    /// Simulates a scenario. If it is no solution, everything is undone. Nodes of victims become feasible if it is one.
    pub(super) fn simulate(
        &mut self,
        session: &mut Session,
        scenario: &Scenario,
        feasible: &mut NodeSet,
    ) -> Option<Solution> {
        let victims: Vec<PodInfoId> =
            scenario.recorded_infos.iter().chain(&scenario.potential).copied().collect();
        if victims.is_empty() {
            return None;
        }
        session.search_counts.scenarios += 1;
        session.search_counts.evictions += victims.len() as u64;
        let mut statement = Statement::default();
        let checkpoint = statement.checkpoint();
        let reasons = self.eviction_reasons(session, scenario.preemptor, &victims);
        for (victim, reason) in victims.iter().zip(&reasons) {
            if statement.evict(session, *victim, reason).is_err() {
                statement.discard(session);
                return None;
            }
        }
        let nodes = victims.iter().filter_map(|victim| session.cluster.info(*victim).node.known());
        let added: Vec<NodeId> = nodes.filter(|node| feasible.insert(*node)).collect();
        let nodes: Vec<NodeId> = feasible.iter().collect();
        if !place_all(session, &mut statement, scenario.preemptor, &victims, &nodes) {
            added.into_iter().for_each(|node| feasible.remove(node));
            statement.roll_back(session, checkpoint);
            return None;
        }
        let with_status = |session: &Session, status: PodStatus| -> Vec<PodInfoId> {
            let has_status = |victim: &PodInfoId| session.cluster.info(*victim).status == status;
            victims.iter().copied().filter(has_status).collect()
        };
        let mut lost = with_status(session, PodStatus::Releasing);
        lost.extend(with_status(session, PodStatus::Pipelined));
        if !(self.validator)(session, scenario) {
            added.into_iter().for_each(|node| feasible.remove(node));
            statement.discard(session);
            return None;
        }
        let victim_groups = groups_of(session, scenario, &lost);
        Some(Solution { victims: lost, victim_groups, statement })
    }

    /// The reason of each eviction, as messages have it.
    fn eviction_reasons(
        &mut self,
        session: &Session,
        preemptor: JobId,
        victims: &[PodInfoId],
    ) -> Vec<Arc<EvictionReason>> {
        let cluster = &session.cluster;
        let group = &cluster.job(preemptor).group;
        let preemptor = NamespacedName { namespace: group.namespace.clone(), name: group.name.clone() };
        let reason = |queue_details: Option<Arc<str>>| {
            Arc::new(EvictionReason {
                action: self.action,
                preemptor: preemptor.clone(),
                gang_size: victims.len(),
                queue_details,
            })
        };
        if self.action != Action::Reclaim {
            return vec![reason(None); victims.len()];
        }
        let details: Vec<Option<Arc<str>>> = victims
            .iter()
            .map(|victim| {
                let job = cluster.pod_of(*victim).job?;
                let (victim, reclaimer) = (cluster.job(job).group.queue?, group.queue?);
                let details = self.queue_details.entry(victim);
                Some(details.or_insert_with(|| queue_details(session, reclaimer, victim).into()).clone())
            })
            .collect();
        details.into_iter().map(reason).collect()
    }
}

/// Places the job and its victims, in the order of all jobs that wait. Returns whether the job was placed; victims may
/// be left without a place.
fn place_all(
    session: &mut Session,
    statement: &mut Statement,
    preemptor: JobId,
    victims: &[PodInfoId],
    nodes: &[NodeId],
) -> bool {
    let cluster = &session.cluster;
    let preemptor_id = cluster.job(preemptor).id;
    let victim_jobs: BTreeSet<JobId> =
        victims.iter().filter_map(|victim| cluster.pod_of(*victim).job).collect();
    let mut jobs = cluster.pending_jobs.clone();
    jobs.extend(&victim_jobs);
    // The partial copy takes the place of the job.
    let jobs: Vec<JobId> = jobs.into_iter().filter(|job| *job != preemptor_id).chain([preemptor]).collect();
    let mut order = JobOrder::new(JobOrderOptions::default());
    order.add_jobs(session, jobs);
    let mut is_placed = false;
    let mut tried = 0;
    // The jobs behind the last one that is tried do not matter.
    while tried <= victim_jobs.len()
        && let Some(job) = order.pop(session)
    {
        if job != preemptor && !victim_jobs.contains(&job) {
            continue;
        }
        tried += 1;
        session.compute_tasks_to_allocate_resources(job, false);
        let was_placed = place_job(session, statement, nodes, job, true);
        if job == preemptor {
            if !was_placed {
                return false;
            }
            is_placed = true;
        }
    }
    is_placed
}

/// The groups of these victims, each once.
fn groups_of(session: &Session, scenario: &Scenario, victims: &[PodInfoId]) -> Vec<Rc<VictimGroup>> {
    let mut groups: Vec<Rc<VictimGroup>> = Vec::new();
    for victim in victims {
        let Some(group) = scenario.group_of(session, *victim) else { continue };
        let pod = session.cluster.info(*victim).pod;
        let has_pod =
            |known: &Rc<VictimGroup>| known.infos.iter().any(|info| session.cluster.info(*info).pod == pod);
        if !groups.iter().any(has_pod) {
            groups.push(group.clone());
        }
    }
    groups
}

/// What the queues of a reclaiming job and of a victim have; of their parents if these differ.
fn queue_details(session: &Session, reclaimer: QueueId, victim: QueueId) -> String {
    let Some(proportion) = &session.proportion else { return String::new() };
    let queue = |id: QueueId| session.cluster.queue(id);
    let (reclaimer, victim) = if queue(reclaimer).parent == queue(victim).parent {
        (reclaimer, victim)
    } else {
        (queue(reclaimer).parent.unwrap_or(reclaimer), queue(victim).parent.unwrap_or(victim))
    };
    let details = |id: QueueId| {
        let Queue { display_name, priority, .. } = queue(id);
        let share = proportion.share(id);
        format!(
            "{display_name} uses <{}> with a quota of <{}>, fair-share of <{}> and queue priority of <{priority}>.",
            amounts(&share.allocated()),
            amounts(&share.quota()),
            amounts(&share.fair_share()),
        )
    };
    format!("{}\n{}", details(victim), details(reclaimer))
}

/// Amounts as a request: whole GPUs, or hundredths of one; unlimited ones are none.
fn amounts(amounts: &Quantities) -> String {
    let [cpu, memory, gpu] = amounts.0;
    format!(
        "GPU: {}, CPU: {} (cores), memory: {} (GB)",
        humanize(GpuRequirement::of_gpus(gpu, 0).gpus(), 1.0),
        humanize(cpu, MILLI),
        humanize(memory, GIGA)
    )
}
