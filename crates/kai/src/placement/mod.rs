//! The placement of a job's pods on nodes, within a statement.

use crate::cluster::fit_errors::{DEFAULT_POD_ERROR, JobFitError, POD_SCHEDULING_ERRORS, PodFitErrors};
use crate::cluster::ids::{JobId, NodeId, PodInfoId};
use crate::cluster::sub_group::{DEFAULT_SUB_GROUP, Member, PodSet};
use crate::plugins::node_fit::is_allocatable;
use crate::plugins::topology::PlacedGroup;
use crate::session::{Session, SharedGpuChoice};
use crate::statement::Statement;

/// The placement of one job.
#[derive(Clone, Copy, Debug)]
struct JobPlacement {
    /// The job, or a partial copy.
    job: JobId,
    /// Pods only wait for resources; nothing is bound.
    is_pipeline_only: bool,
}

/// Places the next pods of a job on these nodes. Returns whether all of them were placed.
pub(crate) fn place_job(
    session: &mut Session,
    statement: &mut Statement,
    nodes: &[NodeId],
    job: JobId,
    is_pipeline_only: bool,
) -> bool {
    if let Some(topology) = &mut session.topology {
        topology.start_job();
    }
    let pods = session.tasks_to_allocate(job, !is_pipeline_only);
    if pods.is_empty() {
        return false;
    }
    if let Some(proportion) = &session.proportion {
        let checked = proportion.check_job_capacity(&session.cluster, session.cluster.job(job), &pods);
        if let Err(over) = checked {
            if !is_pipeline_only {
                session.cluster.job_mut(job).add_fit_error(JobFitError::new(over.reason, over.message));
            }
            return false;
        }
    }
    let placement = JobPlacement { job, is_pipeline_only };
    placement.place_member(session, statement, nodes, Member::Set(0), &pods)
}

impl JobPlacement {
    /// Places the pods of a subgroup within one part of the nodes.
    fn place_member(
        self,
        session: &mut Session,
        statement: &mut Statement,
        nodes: &[NodeId],
        member: Member,
        pods: &[PodInfoId],
    ) -> bool {
        if pods.is_empty() {
            return true;
        }
        let mut pod_sets = session.cluster.job(self.job).tree.pod_sets_of(member);
        pod_sets.retain(|pod_set| pods.iter().any(|pod| is_in(session, *pod, *pod_set)));
        let node_sets = self.subset_nodes(session, member, &pod_sets, pods, nodes.to_vec());
        for nodes in node_sets {
            let checkpoint = statement.checkpoint();
            let is_placed = match member {
                Member::Set(set) => self.place_members(session, statement, &nodes, set, pods),
                Member::PodSet(_) => self.place_pods(session, statement, &nodes, pods),
            };
            if is_placed {
                return true;
            }
            statement.roll_back(session, checkpoint);
        }
        false
    }

    /// Places the pods of all members of a set, in their order.
    fn place_members(
        self,
        session: &mut Session,
        statement: &mut Statement,
        nodes: &[NodeId],
        set: usize,
        pods: &[PodInfoId],
    ) -> bool {
        session.ordered_members(self.job, set).into_iter().all(|member| {
            let pod_sets = session.cluster.job(self.job).tree.pod_sets_of(member);
            let is_of_member =
                |pod: &PodInfoId| pod_sets.iter().any(|pod_set| is_in(session, *pod, *pod_set));
            let of_member: Vec<PodInfoId> = pods.iter().copied().filter(is_of_member).collect();
            self.place_member(session, statement, nodes, member, &of_member)
        })
    }

    fn place_pods(
        self,
        session: &mut Session,
        statement: &mut Statement,
        nodes: &[NodeId],
        pods: &[PodInfoId],
    ) -> bool {
        for (index, &pod) in pods.iter().enumerate() {
            if !self.place_pod(session, statement, nodes, pod) {
                self.report_failure(session, pod, index);
                return false;
            }
        }
        true
    }

    fn place_pod(
        self,
        session: &mut Session,
        statement: &mut Statement,
        nodes: &[NodeId],
        pod: PodInfoId,
    ) -> bool {
        if let Err(message) = session.pre_predicates(pod) {
            let id = session.cluster.info(pod).pod;
            if let Some(job) = session.cluster.pod(id).job {
                session.cluster.job_mut(job).add_pod_fit_errors(id, PodFitErrors::of_error(message));
            }
            return false;
        }
        let counts_reasons = !self.is_pipeline_only;
        let id = session.cluster.info(pod).pod;
        let Some(job) = session.cluster.pod(id).job else { return false };
        let mut ordered = session.ordered_nodes(id, nodes, counts_reasons);
        let mut chosen = None;
        while chosen.is_none()
            && let Some(next) = ordered.pop()
        {
            let is_placed = session.is_fitting_node(job, id, next.node, counts_reasons)
                && self.place_on_node(session, statement, pod, next.node);
            chosen = is_placed.then_some(next);
        }
        if counts_reasons {
            session.count_unfit_nodes(job, id, &ordered, chosen);
        }
        chosen.is_some()
    }

    fn place_on_node(
        self,
        session: &mut Session,
        statement: &mut Statement,
        info: PodInfoId,
        node: NodeId,
    ) -> bool {
        let pod = session.cluster.pod_of(info);
        if pod.is_shared_gpu_request() {
            return self.place_on_shared_gpus(session, statement, info, node);
        }
        if !self.is_pipeline_only && is_allocatable(pod, session.cluster.node(node)) {
            return statement.allocate(session, info, node).is_ok();
        }
        statement.pipeline(session, info, node, !self.is_pipeline_only).is_ok()
    }

    fn place_on_shared_gpus(
        self,
        session: &mut Session,
        statement: &mut Statement,
        info: PodInfoId,
        node: NodeId,
    ) -> bool {
        let pod = session.cluster.pod_of(info);
        let choice = session.choose_shared_gpus(pod, session.cluster.node(node), self.is_pipeline_only);
        let Some(SharedGpuChoice { groups, is_releasing }) = choice else { return false };
        let gpu_groups = groups
            .into_iter()
            .map(|group| group.unwrap_or_else(|| session.cluster.gpu_groups.add()))
            .collect();
        session.cluster.infos[info].gpu_groups = gpu_groups;
        let placed = if self.is_pipeline_only || is_releasing {
            statement.pipeline(session, info, node, false)
        } else {
            statement.allocate(session, info, node)
        };
        if placed.is_err() {
            session.cluster.infos[info].gpu_groups.clear();
        }
        placed.is_ok()
    }

    /// The parts of a set of nodes that are tried, by the topology constraint of a member.
    fn subset_nodes(
        self,
        session: &mut Session,
        member: Member,
        pod_sets: &[usize],
        pods: &[PodInfoId],
        nodes: Vec<NodeId>,
    ) -> Vec<Vec<NodeId>> {
        let Some(topology) = &mut session.topology else { return vec![nodes] };
        let group = PlacedGroup { job: self.job, member, pod_sets, pods };
        let mut errors = Vec::new();
        let node_sets = topology.subset_nodes(&session.cluster, group, nodes, &mut errors);
        let job = session.cluster.job_mut(self.job);
        errors.into_iter().for_each(|error| job.add_fit_error(error));
        node_sets.unwrap_or_default()
    }

    /// Reports that a pod was not placed, after this many others of its pod set.
    fn report_failure(self, session: &mut Session, info: PodInfoId, placed: usize) {
        let id = session.cluster.info(info).pod;
        let pod = session.cluster.pod(id);
        let job = session.cluster.job(self.job);
        let error = job.pod_fit_errors.get(&id);
        let error = error.map_or_else(|| DEFAULT_POD_ERROR.to_owned(), PodFitErrors::to_string);
        let pod_sets = &job.tree.pod_sets;
        let pod_set = pod.pod_set.map(|index| &pod_sets[index as usize]);
        let is_gang = pod_sets.iter().any(|pod_set| pod_set.min_available > 1);
        let is_missing =
            |pod_set: &&PodSet| is_gang && (pod_set.active_used() as i64) < i64::from(pod_set.min_available);
        let message = match pod_set.filter(is_missing) {
            None => format!("Resources were not found for pod {} due to: {error}", pod.full_name()),
            Some(pod_set) if pod_sets.len() == 1 && *pod_set.name == *DEFAULT_SUB_GROUP => format!(
                "Resources were found for {placed} pods while {} are required for gang scheduling. Additional pods cannot be scheduled due to: {error}",
                pod_set.min_available
            ),
            Some(pod_set) => format!(
                "Resources were found for {placed} pods from all sub-groups while sub-group {} requires {} pods for gang scheduling. Additional pods cannot be scheduled in this sub-group due to: {error}",
                pod_set.name, pod_set.min_available
            ),
        };
        session.cluster.job_mut(self.job).add_fit_error(JobFitError::new(POD_SCHEDULING_ERRORS, message));
    }
}

fn is_in(session: &Session, pod: PodInfoId, pod_set: usize) -> bool {
    session.cluster.pod_of(pod).pod_set == Some(pod_set as u32)
}
