//! Pods that were promised a node, where room was made for them.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::PodId;

/// Which pods were promised which node, by the node's name: it may be gone, or not there yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Nominations {
    /// In the order in which they were promised.
    by_node: FxHashMap<Arc<str>, Vec<PodId>>,
    by_pod: FxHashMap<PodId, Arc<str>>,
}

impl Nominations {
    /// The pods promised a node.
    pub(super) fn on(&self, node: &str) -> &[PodId] {
        self.by_node.get(node).map_or(&[], Vec::as_slice)
    }

    /// Whether any pod was promised a node.
    pub(super) fn any(&self) -> bool {
        !self.by_pod.is_empty()
    }

    /// A pod is promised this node and no other, or none.
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
