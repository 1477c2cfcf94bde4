//! The cluster cache: nodes in the scheduler's order, the pods assigned to or assumed on them, and all other objects
//! that a decision depends on.

mod affinity_terms;
mod count_query;
mod disruption_budgets;
mod domain_counts;
mod interner;
mod nodes;
mod pod_counts;
mod related_objects;
mod sweep;
#[cfg(test)]
mod tests;
mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::amounts::{ScalarResourceId, ScalarResourceNames};
use model::NamespacedName;
use rustc_hash::FxHashMap;

use super::ids::{NodeId, PodId};
use super::node::Node;
use super::pod::{Pod, SchedulingSpec};
use super::storage::StorageCache;
use affinity_terms::AffinityTerms;
use interner::Interner;
use pod_counts::PodCounts;

pub(super) use affinity_terms::{TermCounts, TermId, TermKind};
pub(super) use count_query::{
    CountQuery, CountedNodes, GroupBy, NodeScope, PodFilter, PodLabels, ResolvedTerm,
};
pub(super) use disruption_budgets::BudgetId;
pub(super) use domain_counts::DomainCounts;
pub(super) use nodes::{ImageStates, NodeTable};
pub(super) use pod_counts::DomainCountsId;
pub(super) use related_objects::{RelatedObjectKind, RelatedObjects};
pub(super) use topology::{Topology, TopologyDomain, TopologyKeyId};

/// The scheduler's cache of the cluster. Everything is live, except the order of nodes and their image
/// states, which are taken when a scheduling cycle begins ([`NodeTable::update_snapshot`]).
#[derive(Debug, Default)]
pub(super) struct ClusterCache {
    pub scalars: ScalarResourceNames,
    pub nodes: NodeTable,
    pub topology: Topology,
    pub related_objects: RelatedObjects,
    pub storage: StorageCache,
    pods: Vec<Option<CachedPod>>,
    free_pods: Vec<PodId>,
    /// Pods by namespace, then by name.
    by_name: FxHashMap<Arc<str>, FxHashMap<Arc<str>, PodId>>,
    pod_counts: PodCounts,
    /// The number of assigned pods by priority.
    priority_counts: BTreeMap<i32, usize>,
    affinity_terms: AffinityTerms,
    specs: Interner<Arc<SchedulingSpec>, SpecEntry>,
    /// The node-local part of each of them, which many share.
    node_local_specs: Interner<Arc<SchedulingSpec>, ()>,
    /// Incremented by every change that invalidates [`PreFilterState`](super::pre_filter_state::PreFilterState)s, other
    /// than of pods.
    invalidations: u64,
    profile_scalars: Vec<ScalarResourceId>,
    /// The number of scalar resources after unused ones were last freed.
    kept_scalars: usize,
}

/// A pod with its interned labels and spec.
#[derive(Debug)]
struct CachedPod {
    pod: Pod,
    labels_id: u32,
    spec_id: u32,
    /// The node it is assigned to or assumed on.
    node: Option<NodeId>,
    assumed: bool,
}

#[derive(Debug)]
struct SpecEntry {
    /// Its node-local part.
    node_local: u32,
    terms: Vec<TermId>,
}

impl count_query::TopologyView for (&NodeTable, &Topology) {
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.0.present()
    }

    fn topology(&self) -> &Topology {
        self.1
    }
}

impl ClusterCache {
    // Pods.

    pub(super) fn find_pod(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.by_name.get(namespace)?.get(name).copied()
    }

    pub(super) fn pod(&self, id: PodId) -> &Pod {
        &self.cached(id).pod
    }

    /// Whether two pods have the same labels.
    pub(super) fn have_same_labels(&self, a: PodId, b: PodId) -> bool {
        let (a, b) = (self.cached(a), self.cached(b));
        a.labels_id == b.labels_id || a.pod.labels == b.pod.labels
    }

    /// The node a pod is assigned to or assumed on.
    pub(super) fn node_of(&self, id: PodId) -> Option<NodeId> {
        self.cached(id).node
    }

    /// Whether a pod is assumed on its node and not yet confirmed by an informer event.
    pub(super) fn is_assumed(&self, id: PodId) -> bool {
        self.cached(id).assumed
    }

    /// The node-local part of a pod's spec, and its identifier.
    pub(super) fn node_local_spec(&self, id: PodId) -> (u32, &Arc<SchedulingSpec>) {
        let local = self.specs.value(self.cached(id).spec_id).node_local;
        (local, self.node_local_specs.key(local))
    }

    /// The serials of a pod's spec and labels, which determine its `PreFilterState`. Serials are never reused.
    pub(super) fn pre_filter_key(&self, id: PodId) -> (u64, u64) {
        let cached_pod = self.cached(id);
        (self.specs.serial(cached_pod.spec_id), self.pod_counts.serial(cached_pod.labels_id))
    }

    /// The serial of a pod's namespace and label set, which is never reused.
    pub(super) fn labels_serial(&self, id: PodId) -> u64 {
        self.pod_counts.serial(self.cached(id).labels_id)
    }

    /// Every pod, by identifier.
    #[cfg(test)]
    pub(super) fn pods(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        let cached_pod = self.pods.iter().enumerate();
        cached_pod.filter_map(|(id, cached_pod)| Some((PodId(id as u32), &cached_pod.as_ref()?.pod)))
    }

    /// Adds a pod; it is assigned if it names a node.
    pub(super) fn add_pod(&mut self, mut pod: Pod) -> PodId {
        let pod_labels = PodLabels { namespace: pod.name.namespace.clone(), labels: pod.labels.clone() };
        let labels_id = self.pod_counts.acquire_labels(&Arc::new(pod_labels));
        let spec_id = self.acquire_spec(&pod.spec);
        // Equal specs are stored once.
        pod.spec = self.specs.key(spec_id).clone();
        let id = self.free_pods.pop().unwrap_or(PodId(self.pods.len() as u32));
        let NamespacedName { namespace, name } = pod.name.clone();
        let node = pod.node_name.clone();
        let cached_pod = Some(CachedPod { pod, labels_id, spec_id, node: None, assumed: false });
        if id.index() == self.pods.len() {
            self.pods.push(cached_pod);
        } else {
            self.pods[id.index()] = cached_pod;
        }
        self.by_name.entry(namespace).or_default().insert(name, id);
        if let Some(node) = node {
            self.assign_by_name(id, &node, false);
        }
        id
    }

    pub(super) fn remove_pod(&mut self, id: PodId) -> Pod {
        self.unassign(id);
        let cached_pod = self.pods[id.index()].take().expect("a pod ID is valid while the pod is cached");
        self.free_pods.push(id);
        let NamespacedName { namespace, name } = &cached_pod.pod.name;
        if let Some(pods_by_name) = self.by_name.get_mut(namespace) {
            pods_by_name.remove(name);
            if pods_by_name.is_empty() {
                self.by_name.remove(namespace);
            }
        }
        self.pod_counts.release_labels(cached_pod.labels_id);
        self.release_spec(cached_pod.spec_id);
        cached_pod.pod
    }

    /// Updates a pod, which keeps its identifier. It stays assumed on its node as long as it has no `nodeName`.
    pub(super) fn update_pod(&mut self, id: PodId, mut pod: Pod) {
        if let Some(node) = self.unaffected_node(id, &pod) {
            self.nodes.move_pod_to_end(node, id);
            self.pods[id.index()].as_mut().expect("a pod ID is valid while the pod is cached").pod = pod;
            return;
        }
        // By name: the identifier of a placeholder node is freed with its last pod.
        let assumed_node = self.cached(id).assumed.then(|| self.cached(id).node).flatten();
        let assumed_node = assumed_node.map(|node| self.nodes.name(node).clone());
        self.unassign(id);
        let pod_labels = PodLabels { namespace: pod.name.namespace.clone(), labels: pod.labels.clone() };
        let new_labels_id = self.pod_counts.acquire_labels(&Arc::new(pod_labels));
        let new_spec_id = self.acquire_spec(&pod.spec);
        pod.spec = self.specs.key(new_spec_id).clone();
        let node_name = pod.node_name.clone();
        let cached_pod = self.pods[id.index()].as_mut().expect("a pod ID is valid while the pod is cached");
        let (old_labels_id, old_spec_id) = (cached_pod.labels_id, cached_pod.spec_id);
        (cached_pod.pod, cached_pod.labels_id, cached_pod.spec_id, cached_pod.assumed) =
            (pod, new_labels_id, new_spec_id, false);
        self.pod_counts.release_labels(old_labels_id);
        self.release_spec(old_spec_id);
        match (node_name, assumed_node) {
            (Some(node), _) => self.assign_by_name(id, &node, false),
            (None, Some(node)) => self.assign_by_name(id, &node, true),
            (None, None) => {}
        }
    }

    /// The node of an assigned pod, if an update of the pod changes nothing that the node's usage or any count depends
    /// on, such as its start time.
    fn unaffected_node(&self, id: PodId, pod: &Pod) -> Option<NodeId> {
        let CachedPod { pod: old, node, assumed, .. } = self.cached(id);
        let is_unaffected = !assumed
            && Arc::ptr_eq(&old.spec, &pod.spec)
            // A host port of two pods is freed with the first of them, and taken again by an update of the other.
            && pod.spec.host_ports.is_empty()
            && old.node_name == pod.node_name
            && old.terminating == pod.terminating
            && old.labels == pod.labels
            && old.usage == pod.usage
            && old.volumes == pod.volumes
            && old.read_error == pod.read_error;
        node.filter(|_| is_unaffected)
    }

    /// Assumes a pod on a node before its binding is observed.
    pub(super) fn assume_pod(&mut self, id: PodId, node: NodeId) {
        self.unassign(id);
        self.assign(id, node, true);
    }

    /// Removes an assumed pod from its node.
    pub(super) fn forget_pod(&mut self, id: PodId) {
        if self.cached(id).assumed {
            self.unassign(id);
        }
    }

    pub(super) fn set_nominated_node(&mut self, id: PodId, node: Option<Arc<str>>) {
        let cached_pod = self.pods[id.index()].as_mut().expect("a pod ID is valid while the pod is cached");
        cached_pod.pod.nominated_node = node;
    }

    /// Whether any node, existing or not, has a pod of lower priority.
    pub(super) fn has_lower_priority_pod(&self, priority: i32) -> bool {
        self.priority_counts.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    fn cached(&self, id: PodId) -> &CachedPod {
        self.pods[id.index()].as_ref().expect("a pod ID is valid while the pod is cached")
    }

    fn assign_by_name(&mut self, id: PodId, node: &Arc<str>, assumed: bool) {
        let node = self.nodes.by_name_or_placeholder(node);
        self.assign(id, node, assumed);
    }

    fn assign(&mut self, id: PodId, node: NodeId, assumed: bool) {
        let cached_pod = self.pods[id.index()].as_mut().expect("a pod ID is valid while the pod is cached");
        cached_pod.node = Some(node);
        cached_pod.assumed = assumed;
        let (labels_id, non_terminating, spec_id) =
            (cached_pod.labels_id, !cached_pod.pod.terminating, cached_pod.spec_id);
        self.nodes.update_usage(node, |usage| usage.add_pod(id, &cached_pod.pod));
        *self.priority_counts.entry(cached_pod.pod.priority()).or_default() += 1;
        let is_node_present = self.nodes.is_present(node);
        self.pod_counts.add_pod(labels_id, node, non_terminating, is_node_present);
        if is_node_present {
            self.affinity_terms.update_counts(&self.specs.value(spec_id).terms, node, true, &self.topology);
            self.add_volumes(id, node);
        }
    }

    fn unassign(&mut self, id: PodId) {
        let cached_pod = self.pods[id.index()].as_mut().expect("a pod ID is valid while the pod is cached");
        let Some(node) = cached_pod.node.take() else { return };
        cached_pod.assumed = false;
        let (labels_id, non_terminating, spec_id) =
            (cached_pod.labels_id, !cached_pod.pod.terminating, cached_pod.spec_id);
        self.nodes.update_usage(node, |usage| {
            usage.remove_pod(id, &cached_pod.pod);
        });
        let priority_count = self
            .priority_counts
            .get_mut(&cached_pod.pod.priority())
            .expect("the priority of a pod on a node is counted");
        *priority_count -= 1;
        if *priority_count == 0 {
            self.priority_counts.remove(&cached_pod.pod.priority());
        }
        let is_node_present = self.nodes.is_present(node);
        self.pod_counts.remove_pod(labels_id, node, non_terminating, is_node_present);
        if is_node_present {
            self.affinity_terms.update_counts(&self.specs.value(spec_id).terms, node, false, &self.topology);
            self.storage.remove_pod(id);
        }
        self.nodes.release_if_unused(node);
    }

    fn add_volumes(&mut self, id: PodId, node: NodeId) {
        let pod = &self.pods[id.index()].as_ref().expect("a pod on a node is cached").pod;
        if let Some(volumes) = &pod.volumes {
            self.storage.add_pod(id, self.nodes.name(node), &pod.name.namespace, volumes);
        }
    }

    fn acquire_spec(&mut self, pod_spec: &Arc<SchedulingSpec>) -> u32 {
        let ClusterCache { specs, node_local_specs, affinity_terms, topology, nodes, .. } = self;
        let (id, is_new) = specs.acquire(pod_spec.clone(), |pod_spec| SpecEntry {
            node_local: node_local_specs.acquire(Arc::new(pod_spec.node_local()), |_| ()).0,
            terms: Vec::new(),
        });
        if is_new && pod_spec.has_affinity() {
            let key =
                |name: &Arc<str>| topology.key_id(name, nodes.present().map(|(id, spec)| (id, &spec.labels)));
            specs.value_mut(id).terms = affinity_terms.acquire(pod_spec, key);
        }
        id
    }

    fn release_spec(&mut self, spec_id: u32) {
        if let Some((_, entry)) = self.specs.release(spec_id) {
            self.node_local_specs.release(entry.node_local);
            self.affinity_terms.release(&entry.terms);
        }
    }

    // Nodes.

    /// Adds or updates a node.
    pub(super) fn set_node(&mut self, spec: Node) -> NodeId {
        let id = self.nodes.by_name_or_placeholder(&spec.name);
        let old = self.nodes.is_present(id).then(|| self.nodes.spec(id));
        let is_topology_changed =
            old.is_none_or(|old| old.labels != spec.labels || old.taints != spec.taints);
        let labels_ids = self.labels_ids_on(id);
        let was_present = self.nodes.is_present(id);
        if is_topology_changed && was_present {
            self.detach_node(id, &labels_ids);
        }
        self.nodes.set(id, spec);
        if !was_present {
            self.storage.add_node(id, self.nodes.name(id));
            for pod in self.nodes.usage(id).pods.clone() {
                self.add_volumes(pod, id);
            }
        }
        if is_topology_changed {
            let spec = self.nodes.spec(id);
            self.topology.add_node(id, &spec.labels);
            self.pod_counts.add_node(id, spec, &labels_ids, &self.topology);
            self.count_terms(id, true);
        }
        id
    }

    /// Removes a node. Its pods stay in the cache on a placeholder node.
    pub(super) fn remove_node(&mut self, name: &str) {
        let Some(id) = self.nodes.by_name(name) else { return };
        let labels_ids = self.labels_ids_on(id);
        self.detach_node(id, &labels_ids);
        for pod in &self.nodes.usage(id).pods {
            self.storage.remove_pod(*pod);
        }
        self.storage.remove_node(id, self.nodes.name(id));
        self.nodes.remove(id);
        self.nodes.release_if_unused(id);
    }

    fn detach_node(&mut self, id: NodeId, labels_ids: &[u32]) {
        self.count_terms(id, false);
        self.pod_counts.remove_node(id, labels_ids);
        self.topology.remove_node(id);
    }

    fn labels_ids_on(&self, id: NodeId) -> Vec<u32> {
        self.nodes.usage(id).pods.iter().map(|pod| self.cached(*pod).labels_id).collect()
    }

    fn count_terms(&mut self, id: NodeId, is_added: bool) {
        for pod in &self.nodes.usage(id).pods {
            let spec_id = self.pods[pod.index()].as_ref().expect("a pod on a node is cached").spec_id;
            self.affinity_terms.update_counts(&self.specs.value(spec_id).terms, id, is_added, &self.topology);
        }
    }

    // Counts.

    /// The identifier of a topology key.
    pub(super) fn topology_key(&mut self, name: &Arc<str>) -> TopologyKeyId {
        let nodes = &self.nodes;
        self.topology.key_id(name, nodes.present().map(|(id, spec)| (id, &spec.labels)))
    }

    /// Returns the counts for a query, which are kept up to date from now on.
    pub(super) fn counts_for(&mut self, query: CountQuery) -> DomainCountsId {
        self.pod_counts.get_or_create(query, &(&self.nodes, &self.topology))
    }

    pub(super) fn counts(&self, id: DomainCountsId) -> &DomainCounts {
        self.pod_counts.counts(id)
    }

    /// Whether pods on a node are counted.
    pub(super) fn is_node_counted(&self, id: DomainCountsId, node: NodeId) -> bool {
        self.pod_counts.is_node_counted(id, node)
    }

    /// Returns the number of eligible domains, and the lowest count of any of them except `except`.
    pub(super) fn min_match(&self, id: DomainCountsId, except: Option<usize>) -> (usize, Option<u32>) {
        self.pod_counts.min_match(id, except)
    }

    pub(super) fn term_counts(&self, id: TermId) -> &TermCounts {
        self.affinity_terms.counts(id)
    }

    pub(super) fn term_kind(&self, id: TermId) -> TermKind {
        self.affinity_terms.term(id).kind
    }

    /// The affinity terms of existing pods that match this pod.
    pub(super) fn terms_matching(&self, pod: &Pod) -> Vec<TermId> {
        let namespace = &pod.name.namespace;
        self.affinity_terms.matching(namespace, &pod.labels, self.related_objects.namespace_labels(namespace))
    }

    /// Changes with everything that a `PreFilterState` depends on, except pods.
    pub(super) fn pre_filter_generation(&self) -> (u64, u64) {
        (self.invalidations, self.affinity_terms.generation)
    }

    pub(super) fn invalidate_pre_filter_states(&mut self) {
        self.invalidations += 1;
    }

    /// Drops all counts; each is recomputed when it is next requested.
    pub(super) fn drop_counts(&mut self) {
        self.pod_counts.clear_counts();
        self.invalidations += 1;
    }

    /// Evicts the counts that have not been used for the longest time, if there are too many.
    pub(super) fn evict_unused_counts(&mut self) {
        self.pod_counts.evict_unused();
        self.free_unused_topology_keys();
    }

    /// Marks counts as used. Returns false if one of them has been evicted.
    pub(super) fn mark_counts_used(&mut self, counts: &[(DomainCountsId, u64)]) -> bool {
        counts.iter().all(|(id, serial)| self.pod_counts.mark_used(*id, *serial))
    }

    /// The serial of counts, which is never reused, except after `drop_counts`, which invalidates all states.
    pub(super) fn counts_serial(&self, id: DomainCountsId) -> u64 {
        self.pod_counts.counts_serial(id)
    }

    /// The number of counts that are kept.
    #[cfg(test)]
    fn counts_len(&self) -> usize {
        self.pod_counts.counts_len()
    }

    /// The number of distinct label sets of pods, by namespace.
    pub(super) fn label_set_count(&self) -> usize {
        self.pod_counts.label_set_count()
    }
}
