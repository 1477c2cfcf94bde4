//! The order in which nodes are tried for a pod.

use super::Session;
use crate::cluster::ids::{NodeId, PodId, PodInfoId};
use crate::plugins::node_placement::AllocatableRange;
use crate::plugins::registry::Plugin;
use crate::plugins::{gpu_sharing_order, node_availability, nominated_node, resource_type};

impl Session {
    /// Nodes by score, the best first, and by name among equally good ones.
    pub(crate) fn ordered_nodes(&mut self, info: PodInfoId, nodes: &[NodeId]) -> Vec<NodeId> {
        let pod = self.cluster.info(info).pod;
        let range = self.start_scoring(pod, nodes);
        let mut scored = Vec::with_capacity(nodes.len());
        for &node in nodes {
            if let Some(score) = self.score_node(pod, node, range, |_, _| {}) {
                scored.push((score, node));
            }
        }
        scored.sort_unstable_by(|(left, left_node), (right, right_node)| {
            right.total_cmp(left).then_with(|| left_node.cmp(right_node))
        });
        scored.into_iter().map(|(_, node)| node).collect()
    }

    /// Prepares the scores of a pod on these nodes.
    pub(crate) fn start_scoring(&mut self, id: PodId, nodes: &[NodeId]) -> Option<AllocatableRange> {
        if let Some(pod_affinity) = &mut self.pod_affinity {
            pod_affinity.pre_score(&self.cluster, id);
        }
        let (cluster, placement) = (&self.cluster, self.node_placement.as_ref()?);
        Some(placement.range(cluster.pod(id), nodes.iter().map(|node| cluster.node(*node))))
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
        for &plugin in &self.plugins {
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
