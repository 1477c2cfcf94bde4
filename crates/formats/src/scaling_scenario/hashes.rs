//! The hashes of a report that are not those of its rows.

use super::cluster::{ClusterSnapshot, NodeGroupInfo, NodeTemplate};
use crate::scaling_history::info::{InfoHasher, PodInfo};

impl NodeGroupInfo {
    pub(super) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        hash.text(&self.name);
        for number in [self.target, self.min, self.max] {
            hash.number(number);
        }
        hash.text(&self.zone);
        hash.text(&self.pool);
        hash.hex()
    }
}

impl NodeTemplate {
    pub(super) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        for part in [&self.name, &self.instance_type, &self.region, &self.zone] {
            hash.text(part);
        }
        hash.resources(&self.capacity);
        hash.labels(&self.labels);
        hash.taints(&self.taints);
        hash.hex()
    }
}

impl ClusterSnapshot {
    /// The hash of `AutoscalerConfig`: templates, groups, nodes and settings.
    pub(super) fn config_hash(&self) -> String {
        let mut hash = InfoHasher::default();
        for template in &self.node_templates {
            hash.text(&template.name);
            hash.text(&template.hash());
        }
        for group in &self.node_groups {
            hash.text(&group.name);
            hash.text(&group.hash());
        }
        self.nodes.iter().for_each(|node| hash.text(&node.hash()));
        hash.text(&self.autoscaler.clone().unwrap_or_default().hash());
        hash.hex()
    }

    /// The hash of the whole snapshot: that of `AutoscalerConfig`, and those of all entries in their order.
    pub(super) fn hash(&self, config: &str, pods: &[&PodInfo]) -> String {
        let mut hash = InfoHasher::default();
        hash.text(config);
        self.worker_pools.iter().for_each(|pool| hash.text(&pool.hash()));
        self.priority_classes.iter().for_each(|class| hash.text(&class.hash()));
        pods.iter().for_each(|pod| hash.text(&pod_hash(pod)));
        self.nodes.iter().for_each(|node| hash.text(&node.hash()));
        hash.hex()
    }
}

/// The hash of a pod; empty if the replayer could not compute one for its spec.
pub(super) fn pod_hash(pod: &PodInfo) -> String {
    pod.hash().unwrap_or_default()
}
