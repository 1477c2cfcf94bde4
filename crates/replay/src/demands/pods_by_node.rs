//! Existing pods by the node that they are bound to.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

/// Uids of pods by the name of their node, whether or not the node exists.
#[derive(Debug, Default)]
pub(super) struct PodsByNode(FxHashMap<Arc<str>, FxHashSet<Arc<str>>>);

impl PodsByNode {
    pub(super) fn insert(&mut self, node: &Arc<str>, pod: &Arc<str>) {
        self.0.entry(node.clone()).or_default().insert(pod.clone());
    }

    pub(super) fn remove(&mut self, node: &str, pod: &str) {
        if let Some(pods) = self.0.get_mut(node) {
            pods.remove(pod);
            if pods.is_empty() {
                self.0.remove(node);
            }
        }
    }

    /// The pods of a node, in no particular order.
    pub(super) fn of_node(&self, node: &str) -> impl Iterator<Item = &Arc<str>> {
        self.0.get(node).into_iter().flatten()
    }
}
