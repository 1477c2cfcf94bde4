//! The nominator: pods nominated to nodes, by node.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::PodId;

/// Nominated pods by node name; the node need not exist.
#[derive(Clone, Debug, Default)]
pub(super) struct Nominator {
    /// In the order of nomination.
    by_node: FxHashMap<Arc<str>, Vec<PodId>>,
    by_pod: FxHashMap<PodId, Arc<str>>,
}

impl Nominator {
    /// The pods nominated to a node.
    pub(super) fn nominated_pods_for_node(&self, node: &str) -> &[PodId] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// The names of the nodes that pods are nominated to, sorted.
    pub(super) fn node_names(&self) -> Vec<&Arc<str>> {
        let mut names: Vec<&Arc<str>> = self.by_node.keys().collect();
        names.sort_unstable();
        names
    }

    /// The number of nodes that pods are nominated to.
    pub(super) fn node_count(&self) -> usize {
        self.by_node.len()
    }

    /// Sets or clears the nomination of a pod.
    pub(super) fn set(&mut self, pod: PodId, node: Option<&Arc<str>>) {
        if let Some(old) = self.by_pod.remove(&pod)
            && let Some(pods) = self.by_node.get_mut(&old)
        {
            pods.retain(|other| *other != pod);
            if pods.is_empty() {
                self.by_node.remove(&old);
            }
        }
        if let Some(node) = node {
            self.by_pod.insert(pod, node.clone());
            self.by_node.entry(node.clone()).or_default().push(pod);
        }
    }
}
