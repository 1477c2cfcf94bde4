//! A scheduling cycle: the cluster, the plugins' states, and the decisions so far.

mod fit;
mod gpu_sharing;
pub(crate) mod heap;
pub(crate) mod job_order;
mod node_order;
mod open;
mod order;
mod task_lists;
mod victim_sums;

pub(crate) use gpu_sharing::SharedGpuChoice;

use model::NamespacedName;
use order::PodOrderKey;

use crate::cluster::Cluster;
use crate::cluster::ids::{GpuGroupId, JobId, PodId, PodInfoId, QueueId};
use crate::cluster::status::PodStatus;
use crate::decisions::{ActionDecisions, Commitment, Eviction, GpuGroup, Placement, SearchCounts};
use crate::initial_state::InitialState;
use crate::plugins::min_runtime::MinRuntime;
use crate::plugins::node_placement::NodePlacement;
use crate::plugins::pod_affinity::PodAffinity;
use crate::plugins::predicates::Predicates;
use crate::plugins::proportion::Proportion;
use crate::plugins::registry::Plugin;
use crate::plugins::topology::TopologyDomains;
use crate::settings::Settings;

/// A scheduling cycle on a snapshot.
#[derive(Debug)]
pub struct Session {
    pub(crate) cluster: Cluster,
    pub(crate) settings: Settings,
    /// The plugins in the order of the configuration.
    pub(crate) plugins: Vec<Plugin>,
    /// Those of them that order jobs.
    pub(crate) job_order_plugins: Vec<Plugin>,
    /// Those of them that score nodes.
    pub(crate) node_order_plugins: Vec<Plugin>,
    /// What plugins order pods by, by pod.
    pub(crate) pod_order: Vec<PodOrderKey>,
    pub(crate) proportion: Option<Proportion>,
    pub(crate) predicates: Option<Predicates>,
    pub(crate) pod_affinity: Option<PodAffinity>,
    pub(crate) node_placement: Option<NodePlacement>,
    pub(crate) min_runtime: Option<MinRuntime>,
    pub(crate) topology: Option<TopologyDomains>,
    /// The decisions of the actions so far; the last one is that of the present action.
    pub(crate) decisions: Vec<ActionDecisions>,
    pub(crate) search_counts: SearchCounts,
    pub(crate) initial: InitialState,
    /// What is noteworthy about the settings.
    pub(crate) warnings: Vec<String>,
}

impl Session {
    /// How much was searched for victims so far.
    pub fn search_counts(&self) -> SearchCounts {
        self.search_counts
    }

    /// Charges the queues of a pod.
    pub(crate) fn allocate_event(&mut self, info: PodInfoId) {
        if let Some(proportion) = &mut self.proportion {
            proportion.allocate(&self.cluster, info);
        }
    }

    /// Takes the charge for a pod back.
    pub(crate) fn deallocate_event(&mut self, info: PodInfoId) {
        if let Some(proportion) = &mut self.proportion {
            proportion.deallocate(&self.cluster, info);
        }
    }

    /// The queue of a job.
    pub(crate) fn queue_of(&self, job: JobId) -> Option<QueueId> {
        self.cluster.job(job).group.queue
    }

    /// Records that a pod is bound.
    pub(crate) fn record_bind(&mut self, info: PodInfoId) {
        let placement = self.placement(info);
        let decisions = self.present_decisions();
        decisions.order.push(Commitment::Bind(placement.pod.clone()));
        decisions.bound.push(placement);
    }

    /// Records that a pod waits for a node's resources.
    pub(crate) fn record_pipeline(&mut self, info: PodInfoId) {
        let placement = self.placement(info);
        let decisions = self.present_decisions();
        decisions.order.push(Commitment::Pipeline(placement.pod.clone()));
        decisions.pipelined.push(placement);
    }

    /// Records an eviction.
    pub(crate) fn record_eviction(
        &mut self,
        pod: PodId,
        preemptor: Option<NamespacedName>,
        gang_size: usize,
        message: String,
    ) {
        let view = &self.cluster.pod(pod).view;
        let (pod, node) = (view.name.clone(), view.node_name.clone());
        let decisions = self.present_decisions();
        let action = decisions.action;
        decisions.evicted.push(Eviction { pod, node, action, preemptor, gang_size, message });
    }

    /// Evicts a pod at once. Returns whether its job and its node have it.
    pub(crate) fn evict(&mut self, info: PodInfoId, gang_size: usize, message: String) -> bool {
        let pod = self.cluster.info(info).pod;
        self.record_eviction(pod, None, gang_size, message);
        if !self.cluster.update_status(info, PodStatus::Releasing) {
            return false;
        }
        let Some(node) = self.cluster.info(info).node.known() else { return false };
        if self.cluster.update_on_node(info, node).is_err() {
            return false;
        }
        self.deallocate_event(info);
        true
    }

    fn placement(&self, info: PodInfoId) -> Placement {
        let info = self.cluster.info(info);
        let mut gpu_groups: Vec<GpuGroup> = if info.is_shared_gpu_allocation() {
            info.gpu_groups.iter().map(|group| self.gpu_group(*group)).collect()
        } else {
            Vec::new()
        };
        gpu_groups.sort_unstable();
        Placement {
            pod: self.cluster.pod(info.pod).view.name.clone(),
            node: info.node.known().map_or_else(|| "".into(), |node| self.cluster.node(node).name().clone()),
            received: info.received,
            gpu_count: info.accepted_gpu.count,
            gpu_portion: info.accepted_gpu.portion,
            gpu_groups,
        }
    }

    fn gpu_group(&self, group: GpuGroupId) -> GpuGroup {
        let names = &self.cluster.gpu_groups;
        match names.name(group) {
            Some(name) => GpuGroup::Known(name.clone()),
            None => GpuGroup::New(group.index() - names.known_count()),
        }
    }

    fn present_decisions(&mut self) -> &mut ActionDecisions {
        self.decisions.last_mut().expect("decisions are taken by actions")
    }
}
