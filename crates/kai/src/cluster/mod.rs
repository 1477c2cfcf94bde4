//! The cluster as a cycle sees and changes it: nodes, pods, jobs and queues.

pub(crate) mod fit_errors;
pub(crate) mod free_columns;
pub(crate) mod gpu;
mod gpu_groups;
pub(crate) mod ids;
pub(crate) mod job;
mod load;
mod load_jobs;
mod load_pods;
mod load_queues;
pub(crate) mod node;
mod node_gpus;
pub(crate) mod node_set;
pub(crate) mod pod;
pub(crate) mod pod_info;
mod pod_request;
pub(crate) mod queue;
pub(crate) mod resources;
pub(crate) mod shared_gpus;
mod signature;
pub(crate) mod status;
pub(crate) mod sub_group;
pub(crate) mod text;
pub(crate) mod topology;

use std::collections::BTreeSet;

use model::{Moment, NamespacedName};

pub(crate) use gpu_groups::GpuGroupNames;
pub(crate) use load::load;

use free_columns::FreeColumns;
use ids::{JobId, NodeId, PodId, PodInfoId, QueueId};
use job::Job;
use node::{AlreadyOnNode, Node, NotOnNode};
use node_set::NodeSet;
use pod::Pod;
use pod_info::{PodInfo, PodInfos};
use queue::Queue;
use resources::ResourceNames;
use status::PodStatus;
use topology::Topology;

/// The cluster as a cycle sees and changes it.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub now: Moment,
    pub names: ResourceNames,
    /// Sorted by name.
    pub nodes: Vec<Node>,
    /// What is free on the nodes.
    pub free: FreeColumns,
    /// The nodes with pods that have affinity to other pods.
    nodes_with_affinity: NodeSet,
    /// Sorted by namespace and name.
    pub pods: Vec<Pod>,
    pub infos: PodInfos,
    /// Those of the snapshot, sorted by name, then partial copies.
    pub jobs: Vec<Job>,
    /// The jobs of the snapshot with pending pods.
    pub pending_jobs: BTreeSet<JobId>,
    /// How many jobs the snapshot has.
    pub job_count: usize,
    /// Sorted by name.
    pub queues: Vec<Queue>,
    pub gpu_groups: GpuGroupNames,
    pub topologies: Vec<Topology>,
    pub config_maps: BTreeSet<NamespacedName>,
    /// The least memory of GPUs, in MiB.
    pub min_gpu_memory: Option<i64>,
    /// The most memory of GPUs, in MiB.
    pub max_gpu_memory: Option<i64>,
    /// How often a pod's status was changed.
    pub status_changes: u64,
}

impl Cluster {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(crate) fn pod(&self, id: PodId) -> &Pod {
        &self.pods[id.index()]
    }

    pub(crate) fn job(&self, id: JobId) -> &Job {
        &self.jobs[id.index()]
    }

    pub(crate) fn job_mut(&mut self, id: JobId) -> &mut Job {
        &mut self.jobs[id.index()]
    }

    pub(crate) fn queue(&self, id: QueueId) -> &Queue {
        &self.queues[id.index()]
    }

    pub(crate) fn info(&self, id: PodInfoId) -> &PodInfo {
        &self.infos[id]
    }

    /// The pod whose state that is.
    pub(crate) fn pod_of(&self, info: PodInfoId) -> &Pod {
        self.pod(self.infos[info].pod)
    }

    /// The jobs of the snapshot.
    pub(crate) fn job_ids(&self) -> impl Iterator<Item = JobId> + use<> {
        (0..self.job_count).map(JobId::of)
    }

    /// All nodes.
    pub(crate) fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::of)
    }

    /// All queues.
    pub(crate) fn queue_ids(&self) -> impl Iterator<Item = QueueId> + use<> {
        (0..self.queues.len()).map(QueueId::of)
    }

    /// Adds a copy of a job with copies of some pods.
    pub(crate) fn copy_job(&mut self, job: JobId, infos: &[PodInfoId]) -> JobId {
        let copy = self.jobs[job.index()].copy_with(infos, &mut self.infos, &self.pods, &self.names);
        self.jobs.push(copy);
        JobId::of(self.jobs.len() - 1)
    }

    /// Drops all copies. Where one has taken the place of a pod's state, that is what the pod's state is from now on.
    pub(crate) fn drop_copies(&mut self) {
        self.jobs.truncate(self.job_count);
        let copies: Vec<(PodInfoId, PodId)> = self.infos.copies().collect();
        for (copy, pod) in copies {
            let Pod { job: Some(job), pod_set: Some(pod_set), .. } = self.pods[pod.index()] else { continue };
            let pod_set = &mut self.jobs[job.index()].tree.pod_sets[pod_set as usize];
            if pod_set.get(pod) == Some(copy) {
                let place = self.infos.restore(copy);
                pod_set.replace(pod, copy, place);
                let job = &mut self.jobs[job.index()];
                (job.tasks_to_allocate, job.tasks_to_allocate_resources) = (None, None);
            }
        }
        self.infos.drop_copies();
    }

    /// The nodes with pods that have affinity to other pods.
    pub(crate) fn nodes_with_affinity(&self) -> impl Iterator<Item = &Node> {
        self.nodes_with_affinity.iter().map(|node| self.node(node))
    }

    /// Adds a pod to a node.
    pub(crate) fn add_to_node(&mut self, info: PodInfoId, node: NodeId) -> Result<(), AlreadyOnNode> {
        self.change_node(info, node, Node::add_pod)
    }

    /// Adds a pod to other GPUs of a node than those it is being released from.
    pub(crate) fn add_to_other_gpus(&mut self, info: PodInfoId, node: NodeId) {
        self.change_node(info, node, Node::add_pod_on_other_gpus);
    }

    /// Removes a pod from a node and adds it again in its present state.
    pub(crate) fn update_on_node(&mut self, info: PodInfoId, node: NodeId) -> Result<(), NotOnNode> {
        self.change_node(info, node, Node::update_pod)
    }

    /// Removes a pod from a node.
    pub(crate) fn remove_from_node(&mut self, info: PodInfoId, node: NodeId) -> Result<(), NotOnNode> {
        self.change_node(info, node, |node, info, pod, names| node.remove_pod(info.pod, pod, names))
    }

    fn change_node<T>(
        &mut self,
        info: PodInfoId,
        id: NodeId,
        change: impl FnOnce(&mut Node, &mut PodInfo, &Pod, &ResourceNames) -> T,
    ) -> T {
        let (node, info) = (&mut self.nodes[id.index()], &mut self.infos[info]);
        let pod = &self.pods[info.pod.index()];
        let result = change(node, info, pod, &self.names);
        self.free.update(id, node);
        if pod.spec.has_affinity() {
            if node.pods_with_affinity().is_empty() {
                self.nodes_with_affinity.remove(id);
            } else {
                self.nodes_with_affinity.insert(id);
            }
        }
        result
    }

    /// Changes the status of a pod in its job of the snapshot. Returns whether the job has the pod.
    pub(crate) fn update_status(&mut self, info: PodInfoId, status: PodStatus) -> bool {
        let pod = self.infos[info].pod;
        let Some(id) = self.pods[pod.index()].job else { return false };
        self.status_changes += 1;
        let job = &mut self.jobs[id.index()];
        let was_pending = job.has_status(PodStatus::Pending);
        let is_updated = job.update_status(info, status, &mut self.infos, &self.pods).is_ok();
        match (was_pending, job.has_status(PodStatus::Pending)) {
            (false, true) => {
                self.pending_jobs.insert(id);
            }
            (true, false) => {
                self.pending_jobs.remove(&id);
            }
            (false, false) | (true, true) => {}
        }
        is_updated
    }
}
