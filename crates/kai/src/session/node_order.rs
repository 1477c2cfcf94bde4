//! The order in which nodes are tried for a pod.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Session;
use crate::cluster::ids::{JobId, NodeId, PodId};
use crate::cluster::resources::{CPU, GPU};
use crate::plugins::node_fit::is_allocatable_on_releasing_or_idle;
use crate::plugins::node_placement::AllocatableRange;
use crate::plugins::registry::Plugin;
use crate::plugins::{gpu_sharing_order, node_availability, nominated_node, resource_type};

/// The nodes that are tried for a pod, in their order. Those without enough resources would be tried too, and rejected:
/// they are kept apart, and matter only for the reasons of a pod.
#[derive(Debug)]
pub(crate) struct OrderedNodes {
    range: Option<AllocatableRange>,
    /// Nodes with enough resources.
    fitting: BinaryHeap<ScoredNode>,
    /// All others.
    unfit: Vec<NodeId>,
}

/// A node with its score. The greatest is tried first: the one with the highest score, or the first name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScoredNode {
    score: f64,
    pub node: NodeId,
}

impl Session {
    /// The nodes that are tried for a pod. Those without enough resources are returned only if that is wanted.
    pub(crate) fn ordered_nodes(&mut self, id: PodId, nodes: &[NodeId], wants_unfit: bool) -> OrderedNodes {
        let range = self.start_scoring(id, nodes);
        let (pod, free) = (self.cluster.pod(id), &self.cluster.free);
        let cpu = pod.request.get(CPU);
        // Shares of GPUs fit where no whole one is free.
        let gpus = if pod.is_shared_gpu_request() { f64::NEG_INFINITY } else { pod.request.get(GPU) };
        let (mut fitting, mut unfit) = (Vec::new(), Vec::new());
        for &node in nodes {
            let is_fitting = cpu <= free.cpu.get(node)
                && gpus <= free.gpu.get(node)
                && is_allocatable_on_releasing_or_idle(pod, self.cluster.node(node));
            if !is_fitting {
                if wants_unfit {
                    unfit.push(node);
                }
            } else if let Some(score) = self.score_node(id, node, range, |_, _| {}) {
                fitting.push(ScoredNode { score, node });
            }
        }
        OrderedNodes { range, fitting: fitting.into(), unfit }
    }

    /// Counts why nodes without enough resources were rejected that were tried before another one; all if no other was
    /// successful.
    pub(crate) fn count_unfit_nodes(
        &mut self,
        job: JobId,
        id: PodId,
        nodes: &OrderedNodes,
        before: Option<ScoredNode>,
    ) {
        let are_all_tried =
            before.is_none() && self.topology.as_ref().is_none_or(|topology| !topology.has_scores());
        for &node in &nodes.unfit {
            let is_tried = || match self.score_node(id, node, nodes.range, |_, _| {}) {
                // It is in no domain of the pod's topology.
                None => false,
                Some(score) => before.is_none_or(|before| ScoredNode { score, node } > before),
            };
            if (are_all_tried || is_tried())
                && let Err(Some(rejection)) = self.check_node(id, job, node, true)
            {
                self.count_rejection(job, id, &rejection);
            }
        }
    }

    /// Prepares the scores of a pod on these nodes.
    pub(crate) fn start_scoring(&mut self, id: PodId, nodes: &[NodeId]) -> Option<AllocatableRange> {
        if let Some(pod_affinity) = &mut self.pod_affinity {
            pod_affinity.pre_score(&self.cluster, id);
        }
        let (cluster, placement) = (&self.cluster, self.node_placement.as_ref()?);
        Some(placement.range(cluster.pod(id), &cluster.free, nodes))
    }

    /// The score of a node; `None` if it is in no domain of the pod's topology. Each plugin's part is passed on.
    pub(crate) fn score_node(
        &self,
        id: PodId,
        node_id: NodeId,
        range: Option<AllocatableRange>,
        mut of_plugin: impl FnMut(Plugin, f64),
    ) -> Option<f64> {
        let (cluster, pod) = (&self.cluster, self.cluster.pod(id));
        let node = cluster.node(node_id);
        let mut total = 0.0;
        for &plugin in &self.node_order_plugins {
            let score = match plugin {
                Plugin::NodeAvailability => node_availability::score(pod, node),
                Plugin::GpuSharingOrder => gpu_sharing_order::score(pod, node),
                Plugin::ResourceType => resource_type::score(pod, node),
                Plugin::NominatedNode => nominated_node::score(pod, node),
                Plugin::NodePlacement => match (&self.node_placement, range) {
                    (Some(placement), Some(range)) => placement.score(pod, node, range),
                    (None, _) | (_, None) => 0.0,
                },
                Plugin::PodAffinity => {
                    self.pod_affinity.as_ref().map_or(0.0, |affinity| affinity.score(id, node))
                }
                Plugin::Topology => match (&self.topology, pod.job, pod.pod_set) {
                    (Some(topology), Some(job), Some(pod_set)) => {
                        topology.score(cluster, job, pod_set as usize, node_id)?
                    }
                    _ => 0.0,
                },
                _ => continue,
            };
            total += score;
            of_plugin(plugin, score);
        }
        Some(total)
    }
}

// === impl OrderedNodes ===

impl OrderedNodes {
    /// Takes the next node with enough resources.
    pub(crate) fn pop(&mut self) -> Option<ScoredNode> {
        self.fitting.pop()
    }
}

// === impl ScoredNode ===

impl Ord for ScoredNode {
    fn cmp(&self, other: &ScoredNode) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.node.cmp(&self.node))
    }
}

impl PartialOrd for ScoredNode {
    fn partial_cmp(&self, other: &ScoredNode) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ScoredNode {
    fn eq(&self, other: &ScoredNode) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ScoredNode {}
