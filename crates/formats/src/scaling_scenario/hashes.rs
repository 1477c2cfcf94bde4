//! The fingerprints that a report carries beside those of its rows.

use super::cluster::{ClusterSnapshot, NodeGroupInfo, NodeTemplate};
use crate::scaling_history::info::{Hash, PodInfo};

impl NodeGroupInfo {
    pub(super) fn hash(&self) -> String {
        let mut hash = Hash::default();
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
        let mut hash = Hash::default();
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
    /// Of the autoscaler's part: templates, groups, nodes and settings.
    pub(super) fn config_hash(&self) -> String {
        let mut hash = Hash::default();
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

    /// Of the whole: that of the autoscaler's part, and those of all entries as they are listed.
    pub(super) fn hash(&self, config: &str, pods: &[&PodInfo]) -> String {
        let mut hash = Hash::default();
        hash.text(config);
        self.worker_pools.iter().for_each(|pool| hash.text(&pool.hash()));
        self.priority_classes.iter().for_each(|class| hash.text(&class.hash()));
        pods.iter().for_each(|pod| hash.text(&hash_of(pod)));
        self.nodes.iter().for_each(|node| hash.text(&node.hash()));
        hash.hex()
    }
}

/// Of a pod; empty if its spec is such that theirs could not be made.
pub(super) fn hash_of(pod: &PodInfo) -> String {
    pod.hash().unwrap_or_default()
}
