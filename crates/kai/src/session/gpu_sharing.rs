//! The choice of shared GPUs on a node.

use crate::cluster::Cluster;
use crate::cluster::ids::GpuGroupId;
use crate::cluster::node::{DEFAULT_GPU_MEMORY, Node};
use crate::cluster::pod::Pod;
use crate::cluster::resources::GPU;
use crate::plugins::node_fit::{fits_gpu_group, has_idle_memory, is_allocatable};
use crate::plugins::registry::Plugin;
use crate::plugins::{gpu_pack, gpu_spread};

use super::Session;

/// The GPUs that a pod shares on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedGpuChoice {
    /// `None` for a GPU that is not shared yet.
    pub groups: Vec<Option<GpuGroupId>>,
    /// Whether the pod has to wait for some of it.
    pub is_releasing: bool,
}

impl Session {
    /// The GPUs that a pod would share on a node; `None` if there are not enough.
    pub(crate) fn choose_shared_gpus(
        &self,
        pod: &Pod,
        node: &Node,
        is_pipeline_only: bool,
    ) -> Option<SharedGpuChoice> {
        let mut choice = SharedGpuChoice { groups: Vec::new(), is_releasing: false };
        for group in self.fitting_gpus(pod, node) {
            choice.is_releasing |= match group {
                None => is_pipeline_only || !is_allocatable(pod, node),
                Some(group) => {
                    !has_idle_memory(pod, node, &node.shared_gpus.get(group)) || !is_allocatable(pod, node)
                }
            };
            choice.groups.push(group);
            if choice.groups.len() as i64 == pod.gpu.count {
                return Some(choice);
            }
        }
        None
    }

    /// Whether a pod would share a GPU that is not shared yet, for which a reservation pod is needed.
    pub(crate) fn needs_new_gpu_group(&self, pod: &Pod, node: &Node) -> bool {
        let is_new = |cluster: &Cluster, choice: SharedGpuChoice| {
            let mut groups = choice.groups.into_iter();
            groups.any(|group| group.is_none_or(|group| cluster.gpu_groups.looks_new(group)))
        };
        if let Some(choice) = self.choose_shared_gpus(pod, node, false).filter(|choice| !choice.is_releasing)
        {
            return is_new(&self.cluster, choice);
        }
        let choice = self.choose_shared_gpus(pod, node, true);
        choice.is_none_or(|choice| is_new(&self.cluster, choice))
    }

    /// The GPUs that fit, the best first: shared ones, and `None` for each that is not shared yet. Among equally good
    /// ones shared GPUs come first, in the order of their groups.
    fn fitting_gpus(&self, pod: &Pod, node: &Node) -> Vec<Option<GpuGroupId>> {
        let shared = node.shared_gpus.iter().filter(|(_, memory)| fits_gpu_group(pod, node, memory));
        let mut scored: Vec<(f64, Option<GpuGroupId>)> = Vec::new();
        for (group, memory) in shared {
            // A node with less memory has no valid shares.
            if node.gpu_memory >= DEFAULT_GPU_MEMORY {
                let used = memory.used as f64 / node.gpu_memory as f64;
                scored.push((self.gpu_score(Some(used)), Some(group)));
            }
        }
        let (idle, releasing) = (node.idle.get(GPU), node.releasing.get(GPU));
        if idle > 0.0 || releasing > 0.0 {
            let whole = (idle as i64).saturating_add(releasing as i64);
            // No more are taken than the pod has devices.
            let whole = whole.clamp(0, pod.gpu.count.max(1));
            let score = self.gpu_score(None);
            scored.extend((0..whole).map(|_| (score, None)));
        }
        scored.sort_by(|(left, _), (right, _)| right.total_cmp(left));
        scored.into_iter().map(|(_, group)| group).collect()
    }

    /// The score of a GPU of which this part is used; `None` for one that is not shared.
    fn gpu_score(&self, used: Option<f64>) -> f64 {
        let of_plugins = self.plugins.iter().map(|plugin| match plugin {
            Plugin::GpuPack => gpu_pack::score(used),
            Plugin::GpuSpread => gpu_spread::score(used),
            _ => 0.0,
        });
        of_plugins.sum()
    }
}
