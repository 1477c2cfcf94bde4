//! The pods of a run, by number, name, node and ReplicaSet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::{Moment, NamespacedName};
use rustc_hash::FxHashMap;

use super::pod::Pod;
use crate::ids::DemandId;
use crate::ids::PodId;

/// The pods of a run.
#[derive(Debug, Default)]
pub(crate) struct PodTable {
    pods: BTreeMap<PodId, Pod>,
    by_name: FxHashMap<NamespacedName, PodId>,
    /// By pod of a ReplicaSet without an assigned node: the ReplicaSet's uid. A pod whose binding failed is
    /// terminating, and is not added again.
    unassigned: FxHashMap<PodId, Arc<str>>,
    /// The same pods by ReplicaSet, the oldest first.
    unassigned_by_set: FxHashMap<Arc<str>, BTreeSet<(Moment, PodId)>>,
    /// Unfinished pods that are bound or being bound to a node.
    by_node: BTreeMap<Arc<str>, BTreeSet<PodId>>,
}

impl PodTable {
    /// Adds a pod without a node, and the uid of its ReplicaSet.
    pub(crate) fn insert(&mut self, id: PodId, pod: Pod, replica_set: Option<&Arc<str>>) {
        self.by_name.insert(pod.name.clone(), id);
        if let Some(set) = replica_set {
            self.unassigned.insert(id, set.clone());
            self.unassigned_by_set.entry(set.clone()).or_default().insert((pod.created, id));
        }
        self.pods.insert(id, pod);
    }

    pub(crate) fn remove(&mut self, id: PodId) -> Option<Pod> {
        let pod = self.pods.remove(&id)?;
        self.remove_unassigned(id, pod.created);
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

    /// The pods of a ReplicaSet without an assigned node, the newest first.
    pub(crate) fn unassigned_of_set(&self, replica_set: &str) -> impl Iterator<Item = (PodId, &Pod)> {
        let newest_first =
            self.unassigned_by_set.get(replica_set).into_iter().flat_map(|pods| pods.iter().rev());
        newest_first.filter_map(|(_, id)| Some((*id, self.pods.get(id)?)))
    }

    /// Assigns a pod to a node; its binding is not visible yet.
    pub(crate) fn assign(&mut self, id: PodId, node: &Arc<str>) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        pod.node = Some(node.clone());
        let created = pod.created;
        self.remove_unassigned(id, created);
        self.by_node.entry(node.clone()).or_default().insert(id);
    }

    fn remove_unassigned(&mut self, id: PodId, created: Moment) {
        let Some(set) = self.unassigned.remove(&id) else { return };
        if let Some(pods) = self.unassigned_by_set.get_mut(&set) {
            pods.remove(&(created, id));
            if pods.is_empty() {
                self.unassigned_by_set.remove(&set);
            }
        }
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
        self.pods.is_empty() && self.by_name.is_empty() && self.has_no_unassigned() && self.by_node.is_empty()
    }

    /// Whether no pod of a ReplicaSet lacks a node.
    #[cfg(test)]
    pub(crate) fn has_no_unassigned(&self) -> bool {
        self.unassigned.is_empty() && self.unassigned_by_set.is_empty()
    }
}
