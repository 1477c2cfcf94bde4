//! The pods of a run, by number, name and node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::NamespacedName;
use rustc_hash::FxHashMap;

use super::pod::Pod;
use crate::ids::DemandId;
use crate::ids::PodId;

/// The pods of a run.
#[derive(Debug, Default)]
pub(crate) struct PodTable {
    pods: BTreeMap<PodId, Pod>,
    by_name: FxHashMap<NamespacedName, PodId>,
    /// Pods without an assigned node.
    unassigned: BTreeSet<PodId>,
    /// Unfinished pods that are bound or being bound to a node.
    by_node: BTreeMap<Arc<str>, BTreeSet<PodId>>,
}

impl PodTable {
    /// Adds a pod without a node.
    pub(crate) fn insert(&mut self, id: PodId, pod: Pod) {
        self.by_name.insert(pod.name.clone(), id);
        self.unassigned.insert(id);
        self.pods.insert(id, pod);
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<Pod> {
        let pod = self.pods.remove(&id)?;
        self.unassigned.remove(&id);
        self.by_name.remove(&pod.name);
        self.remove_from_node(id, pod.node.as_ref());
        Some(pod)
    }

    pub(crate) fn get(&self, id: PodId) -> Option<&Pod> {
        self.pods.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: PodId) -> Option<&mut Pod> {
        self.pods.get_mut(&id)
    }

    pub(crate) fn id_of(&self, name: &NamespacedName) -> Option<PodId> {
        self.by_name.get(name).copied()
    }

    pub(crate) fn get_by_name(&self, name: &NamespacedName) -> Option<&Pod> {
        self.pods.get(self.by_name.get(name)?)
    }

    /// The pods of a demand, the oldest first.
    pub(crate) fn of_demand(&self, demand: DemandId) -> impl DoubleEndedIterator<Item = (PodId, &Pod)> {
        let range = PodId { demand, incarnation: 0 }..=PodId { demand, incarnation: u32::MAX };
        self.pods.range(range).map(|(id, pod)| (*id, pod))
    }

    /// Pods without an assigned node.
    pub(crate) fn unassigned(&self) -> impl Iterator<Item = PodId> {
        self.unassigned.iter().copied()
    }

    /// Assigns a pod to a node; its binding is not visible yet.
    pub(crate) fn assign(&mut self, id: PodId, node: &Arc<str>) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        pod.node = Some(node.clone());
        self.unassigned.remove(&id);
        self.by_node.entry(node.clone()).or_default().insert(id);
    }

    /// The binding of a pod failed.
    pub(crate) fn unassign(&mut self, id: PodId) {
        let node = self.pods.get_mut(&id).and_then(|pod| pod.node.take());
        self.remove_from_node(id, node.as_ref());
    }

    /// A pod has finished: it does not count as on its node any more, but keeps its `nodeName`.
    pub(crate) fn release_node(&mut self, id: PodId) {
        let node = self.pods.get(&id).and_then(|pod| pod.node.clone());
        self.remove_from_node(id, node.as_ref());
    }

    fn remove_from_node(&mut self, id: PodId, node: Option<&Arc<str>>) {
        let Some(node) = node else { return };
        if let Some(pods) = self.by_node.get_mut(node) {
            pods.remove(&id);
            if pods.is_empty() {
                self.by_node.remove(node);
            }
        }
    }

    /// The unfinished pods that are bound or being bound to a node.
    pub(crate) fn on_node(&self, node: &str) -> Vec<PodId> {
        self.by_node.get(node).into_iter().flatten().copied().collect()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pods.is_empty()
            && self.by_name.is_empty()
            && self.unassigned.is_empty()
            && self.by_node.is_empty()
    }
}
