//! Pod counts per topology domain, kept up to date as pods come and go. So the cost of a decision does not grow with
//! the number of assigned pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::super::ids::NodeId;
use super::super::node::Node;
use super::count_query::{CountQuery, GroupBy, NodeScope, PodCount, PodFilter, PodLabels, TopologyView};
use super::domain_counts::{DomainCounts, EligibleDomains};
use super::interner::Interner;
use super::topology::{Topology, TopologyKeyId};

/// The pods of one namespace and label set, by node.
#[derive(Debug, Default)]
pub(super) struct PodsByNode {
    nodes: BTreeMap<NodeId, PodCount>,
    /// The counts that include them, as of a generation of [`PodCounts`].
    counted_in: (u64, Vec<DomainCountsId>),
}

/// The identifier of a [`DomainCounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DomainCountsId(u32);

/// All label sets of pods, and the counts that are kept of them.
#[derive(Debug, Default)]
pub(super) struct PodCounts {
    labels: Interner<Arc<PodLabels>, PodsByNode>,
    /// The label sets of each namespace.
    labels_by_namespace: FxHashMap<Arc<str>, BTreeSet<u32>>,
    counts: Interner<Arc<CountQuery>, DomainCountsEntry>,
    /// The eligible domains of the counts; most are shared by several.
    domains: Interner<NodeScope, EligibleDomains>,
    /// Counts by a label and value that all of their pods have; `without_label` has those without one.
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<DomainCountsId>>>,
    without_label: Vec<DomainCountsId>,
    /// Changes when counts are added or evicted.
    generation: u64,
    clock: u64,
    /// The memory of all counts, about.
    byte_size: usize,
    /// The clock when counts out of use were last evicted.
    last_sweep: u64,
}

#[derive(Debug)]
struct DomainCountsEntry {
    counts: DomainCounts,
    domains_id: u32,
    last_used: u64,
}

/// The maximum number of counts is this, plus [`COUNTS_PER_LABEL_SET`] for each label set of a pod: a
/// template has up to a few spread constraints or affinity terms. The least recently used are evicted.
const BASE_COUNT_LIMIT: usize = 1024;
const COUNTS_PER_LABEL_SET: usize = 4;
/// The maximum memory of all counts and their eligible domains. Counts take 4 bytes for each of their pods'
/// domains, up to about 270 if these are scattered; eligible domains take 4 bytes per node and 4 per domain.
const MAX_BYTES: usize = 256 << 20;

// === impl PodCounts ===

impl PodCounts {
    /// Interns a label set for one more pod, and returns its identifier.
    pub(super) fn acquire_labels(&mut self, pod_labels: &Arc<PodLabels>) -> u32 {
        let (id, is_new) = self.labels.acquire(pod_labels.clone(), |_| PodsByNode::default());
        if is_new {
            self.labels_by_namespace.entry(pod_labels.namespace.clone()).or_default().insert(id);
        }
        id
    }

    /// The number of label sets.
    pub(super) fn label_set_count(&self) -> usize {
        self.labels.len()
    }

    /// The serial of a label set; unlike its identifier it is never reused.
    pub(super) fn serial(&self, labels_id: u32) -> u64 {
        self.labels.serial(labels_id)
    }

    /// Releases a label set for one pod.
    pub(super) fn release_labels(&mut self, labels_id: u32) {
        let Some((pod_labels, _)) = self.labels.release(labels_id) else { return };
        if let Some(ids) = self.labels_by_namespace.get_mut(&pod_labels.namespace) {
            ids.remove(&labels_id);
            if ids.is_empty() {
                self.labels_by_namespace.remove(&pod_labels.namespace);
            }
        }
    }

    /// A pod was assigned to a node. A pod of a node that does not exist is in no counts until the node is
    /// added.
    pub(super) fn add_pod(
        &mut self,
        labels_id: u32,
        node: NodeId,
        non_terminating: bool,
        is_node_present: bool,
    ) {
        let pod_count = self.labels.value_mut(labels_id).nodes.entry(node).or_default();
        pod_count.all += 1;
        pod_count.non_terminating += u32::from(non_terminating);
        if is_node_present {
            self.update(
                labels_id,
                node,
                PodCount { all: 1, non_terminating: u32::from(non_terminating) },
                DomainCounts::add,
            );
        }
    }

    /// A pod left its node.
    pub(super) fn remove_pod(
        &mut self,
        labels_id: u32,
        node: NodeId,
        non_terminating: bool,
        is_node_present: bool,
    ) {
        let pods_by_node = self.labels.value_mut(labels_id);
        let pod_count = pods_by_node.nodes.get_mut(&node).expect("a removed pod was counted on its node");
        pod_count.all -= 1;
        pod_count.non_terminating -= u32::from(non_terminating);
        if pod_count.all == 0 {
            pods_by_node.nodes.remove(&node);
        }
        if is_node_present {
            self.update(
                labels_id,
                node,
                PodCount { all: 1, non_terminating: u32::from(non_terminating) },
                DomainCounts::subtract,
            );
        }
    }

    /// A node was added; `labels_ids` has the label sets of its pods.
    pub(super) fn add_node(&mut self, node: NodeId, spec: &Node, labels_ids: &[u32], topology: &Topology) {
        for (key, domains) in self.domains.values_mut() {
            self.byte_size -= domains.byte_size();
            domains.add_node(node, key.domain_of(node, spec, topology));
            self.byte_size += domains.byte_size();
        }
        self.update_node(node, labels_ids, DomainCounts::add);
    }

    /// A node was removed, with its pods.
    pub(super) fn remove_node(&mut self, node: NodeId, labels_ids: &[u32]) {
        self.update_node(node, labels_ids, DomainCounts::subtract);
        for (_, domains) in self.domains.values_mut() {
            domains.remove_node(node);
        }
    }

    fn update_node(&mut self, node: NodeId, labels_ids: &[u32], change: CountUpdate) {
        let mut distinct_ids = labels_ids.to_vec();
        distinct_ids.sort_unstable();
        distinct_ids.dedup();
        for labels_id in distinct_ids {
            if let Some(&pod_count) = self.labels.value(labels_id).nodes.get(&node) {
                self.update(labels_id, node, pod_count, change);
            }
        }
    }

    /// Returns the counts for a query, computing them if they are not kept yet.
    pub(super) fn get_or_create(
        &mut self,
        query: CountQuery,
        topology_view: &impl TopologyView,
    ) -> DomainCountsId {
        let count_query = Arc::new(query);
        self.clock += 1;
        let clock = self.clock;
        let PodCounts { labels, labels_by_namespace, domains, byte_size, .. } = self;
        let (id, is_new) = self.counts.acquire(count_query, |count_query| {
            let (domains_id, is_new_scope) =
                domains.acquire(count_query.scope.clone(), |key| key.eligible_domains(topology_view));
            let eligible_domains = domains.value(domains_id);
            let mut counts = DomainCounts::default();
            for_matching_pods(labels, labels_by_namespace, &count_query.pods, |node, count| {
                if let Some(domain) = eligible_domains.domain(node).filter(|_| count > 0) {
                    counts.add(domain, count);
                }
            });
            *byte_size += counts.byte_size();
            *byte_size += if is_new_scope { eligible_domains.byte_size() } else { 0 };
            DomainCountsEntry { counts, domains_id, last_used: clock }
        });
        if !is_new {
            // Counts are not reference counted: the least recently used are evicted.
            self.counts.release(id);
            self.counts.value_mut(id).last_used = clock;
            return DomainCountsId(id);
        }
        self.generation += 1;
        let pod_filter = &self.counts.key(id).pods;
        let by_label = &mut self.by_label;
        let list_len = |key: &str, value: &str| by_label.get(key)?.get(value).map(Vec::len);
        // The label that the fewest other counts are indexed by, to avoid needless matching.
        match pod_filter.required_labels().min_by_key(|(key, value)| list_len(key, value)) {
            Some((key, value)) => {
                by_label
                    .entry(key.into())
                    .or_default()
                    .entry(value.into())
                    .or_default()
                    .push(DomainCountsId(id));
            }
            None => self.without_label.push(DomainCountsId(id)),
        }
        DomainCountsId(id)
    }

    #[cfg(test)]
    pub(super) fn counts_len(&self) -> usize {
        self.counts.len()
    }

    /// The serial of counts; unlike their identifier it is not reused, except after `clear_counts`.
    pub(super) fn counts_serial(&self, id: DomainCountsId) -> u64 {
        self.counts.serial(id.0)
    }

    /// Marks counts as used, if they still exist. Returns whether they do.
    pub(super) fn mark_used(&mut self, id: DomainCountsId, serial: u64) -> bool {
        if !self.counts.has_serial(id.0, serial) {
            return false;
        }
        self.clock += 1;
        self.counts.value_mut(id.0).last_used = self.clock;
        true
    }

    /// Evicts a quarter of all counts, the least recently used, if there are too many. Their identifiers are then
    /// invalid.
    pub(super) fn evict_unused(&mut self) {
        let max_counts = BASE_COUNT_LIMIT + COUNTS_PER_LABEL_SET * self.labels.len();
        if self.counts.len() <= max_counts && self.byte_size <= MAX_BYTES {
            return;
        }
        let mut by_last_use: Vec<(u64, u32)> =
            self.counts.iter().map(|(id, _, entry)| (entry.last_used, id)).collect();
        by_last_use.sort_unstable();
        let evicted = by_last_use.len().div_ceil(4);
        self.evict(by_last_use[..evicted].iter().map(|(_, id)| *id).collect());
    }

    /// Evicts the counts that have not been used since the last call.
    pub(super) fn sweep(&mut self) {
        let is_unused = |entry: &DomainCountsEntry| entry.last_used <= self.last_sweep;
        let unused = self.counts.iter().filter(|(_, _, entry)| is_unused(entry)).map(|(id, ..)| id).collect();
        self.last_sweep = self.clock;
        self.evict(unused);
    }

    /// The topology keys that counts depend on.
    pub(super) fn topology_keys(&self) -> impl Iterator<Item = TopologyKeyId> {
        self.domains.iter().flat_map(|(_, scope, _)| {
            let group_key = match scope.group_by {
                GroupBy::Node => None,
                GroupBy::Domain(key) | GroupBy::DomainOrEmpty(key) => Some(key),
            };
            scope.nodes.with_keys.iter().copied().chain(group_key)
        })
    }

    fn evict(&mut self, ids: BTreeSet<u32>) {
        if ids.is_empty() {
            return;
        }
        for id in &ids {
            if let Some((_, entry)) = self.counts.release(*id) {
                self.byte_size -= entry.counts.byte_size();
                if let Some((_, domains)) = self.domains.release(entry.domains_id) {
                    self.byte_size -= domains.byte_size();
                }
            }
        }
        self.without_label.retain(|id| !ids.contains(&id.0));
        self.by_label.retain(|_, values| {
            values.retain(|_, list| {
                list.retain(|id| !ids.contains(&id.0));
                !list.is_empty()
            });
            !values.is_empty()
        });
        self.generation += 1;
    }

    pub(super) fn clear_counts(&mut self) {
        self.counts = Interner::default();
        self.domains = Interner::default();
        self.by_label.clear();
        self.without_label.clear();
        self.byte_size = 0;
        self.generation += 1;
    }

    pub(super) fn counts(&self, id: DomainCountsId) -> &DomainCounts {
        &self.counts.value(id.0).counts
    }

    pub(super) fn is_node_counted(&self, id: DomainCountsId, node: NodeId) -> bool {
        self.domains.value(self.counts.value(id.0).domains_id).domain(node).is_some()
    }

    /// Returns the number of eligible domains, and the lowest count of any of them except `except`.
    pub(super) fn min_match(&self, id: DomainCountsId, except: Option<usize>) -> (usize, Option<u32>) {
        let entry = self.counts.value(id.0);
        entry.counts.min_match(self.domains.value(entry.domains_id), except)
    }

    fn update(&mut self, labels_id: u32, node: NodeId, count: PodCount, change: CountUpdate) {
        if self.labels.value(labels_id).counted_in.0 != self.generation {
            self.find_counts(labels_id);
        }
        for &DomainCountsId(id) in &self.labels.value(labels_id).counted_in.1 {
            let matching_count = self.counts.key(id).pods.count(count);
            let entry = self.counts.value_mut(id);
            if let Some(domain) =
                self.domains.value(entry.domains_id).domain(node).filter(|_| matching_count > 0)
            {
                self.byte_size -= entry.counts.byte_size();
                change(&mut entry.counts, domain, matching_count);
                self.byte_size += entry.counts.byte_size();
            }
        }
    }

    fn find_counts(&mut self, labels_id: u32) {
        let pod_labels = self.labels.key(labels_id);
        let counts_with_label = |(key, value)| self.by_label.get(key)?.get(value);
        let candidates =
            pod_labels.labels.iter().filter_map(counts_with_label).flatten().chain(&self.without_label);
        let matching_ids =
            candidates.copied().filter(|id| self.counts.key(id.0).pods.matches(pod_labels)).collect();
        self.labels.value_mut(labels_id).counted_in = (self.generation, matching_ids);
    }
}

/// Adds or subtracts a number of pods in a domain.
type CountUpdate = fn(&mut DomainCounts, usize, u32);

/// Calls `count` with the number of matching pods by label set and node.
fn for_matching_pods(
    labels: &Interner<Arc<PodLabels>, PodsByNode>,
    labels_by_namespace: &FxHashMap<Arc<str>, BTreeSet<u32>>,
    pod_filter: &PodFilter,
    mut count: impl FnMut(NodeId, u32),
) {
    let mut visit = |pod_labels: &PodLabels, pods_by_node: &PodsByNode| {
        if pod_filter.matches(pod_labels) {
            for (&node, &pod_count) in &pods_by_node.nodes {
                count(node, pod_filter.count(pod_count));
            }
        }
    };
    match pod_filter.namespaces() {
        None => labels.iter().for_each(|(_, pod_labels, pods_by_node)| visit(pod_labels, pods_by_node)),
        Some(namespaces) => {
            let ids = namespaces.iter().filter_map(|namespace| labels_by_namespace.get(namespace)).flatten();
            ids.for_each(|id| visit(labels.key(*id), labels.value(*id)));
        }
    }
}
