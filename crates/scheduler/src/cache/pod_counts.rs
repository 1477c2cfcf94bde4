//! Pod counts per topology domain, kept up to date as pods come and go. So the cost of a decision does not grow with
//! the number of assigned pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::{RequiredNodeAffinity, Selector};
use kubernetes::taints::{Toleration, first_untolerated};

use super::super::ids::NodeId;
use super::super::node::Node;
use super::domain_counts::{DomainCounts, EligibleDomains};
use super::interner::Interner;
use super::topology::{Topology, TopologyKeyId};

/// A pod's namespace and labels: all that selectors depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodLabels {
    pub namespace: Arc<str>,
    pub labels: Labels,
}

/// The pods of one namespace and label set, by node.
#[derive(Debug, Default)]
pub(super) struct PodsByNode {
    nodes: BTreeMap<NodeId, PodCount>,
    /// The counts that include them, as of a generation of [`PodCounts`].
    counted_in: (u64, Vec<CountsId>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PodCount {
    all: u32,
    non_terminating: u32,
}

/// The identifier of a [`DomainCounts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct CountsId(u32);

/// The pods that are counted, and the nodes and domains they are counted in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountQuery {
    pub pods: PodFilter,
    pub scope: NodeScope,
}

/// The nodes on which pods are counted, and how they are grouped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NodeScope {
    pub group_by: GroupBy,
    pub nodes: CountedNodes,
}

/// The pods that are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PodFilter {
    /// Non-terminating pods of a namespace that match a selector.
    Spread(Arc<str>, Selector),
    /// Pods that match all terms; there is at least one term.
    AllTerms(Vec<ResolvedTerm>),
}

/// An affinity term of an incoming pod with its namespace selector resolved to namespaces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ResolvedTerm {
    /// `None` for every namespace. Sorted.
    pub namespaces: Option<Vec<Arc<str>>>,
    pub selector: Selector,
}

/// How nodes are grouped for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum GroupBy {
    /// Each node by itself.
    Node,
    /// By the value of a topology key; nodes without the label are not counted.
    Domain(TopologyKeyId),
    /// By the value of a topology key; nodes without the label count as the empty value.
    DomainOrEmpty(TopologyKeyId),
}

/// The nodes on which pods are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct CountedNodes {
    /// Only nodes with all of these labels.
    pub with_keys: Vec<TopologyKeyId>,
    /// Only nodes that match this node affinity.
    pub selected_by: Option<Arc<RequiredNodeAffinity>>,
    /// Only nodes whose taints are all tolerated.
    pub tolerated_by: Option<Vec<Toleration>>,
}

/// All label sets of pods, and the counts that are kept of them.
#[derive(Debug, Default)]
pub(super) struct PodCounts {
    labels: Interner<Arc<PodLabels>, PodsByNode>,
    counts: Interner<Arc<CountQuery>, KeptCounts>,
    /// The eligible domains of the counts; most are shared by several.
    domains: Interner<NodeScope, EligibleDomains>,
    /// Counts by a label and value that all of their pods have; `without_label` has those without one.
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<CountsId>>>,
    without_label: Vec<CountsId>,
    /// Changes when counts are added or evicted.
    generation: u64,
    clock: u64,
}

#[derive(Debug)]
struct KeptCounts {
    counts: DomainCounts,
    domains_id: u32,
    last_used: u64,
}

/// The maximum number of counts; the least recently used are evicted. Each takes a few bytes per node.
const MAX_COUNTS: usize = 1024;

/// Access to the nodes and their topology domains.
pub(super) trait TopologyView {
    /// Every existing node.
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)>;
    fn topology(&self) -> &Topology;
}

// === impl PodFilter ===

impl PodFilter {
    fn matches(&self, pod_labels: &PodLabels) -> bool {
        let label = |key: &str| pod_labels.labels.get(key);
        match self {
            // An empty spread selector matches no pods.
            PodFilter::Spread(namespace, selector) => {
                *namespace == pod_labels.namespace && !selector.is_everything() && selector.matches(label)
            }
            PodFilter::AllTerms(terms) => {
                terms.iter().all(|term| term.matches(&pod_labels.namespace, &pod_labels.labels))
            }
        }
    }

    fn count(&self, pod_count: PodCount) -> u32 {
        match self {
            PodFilter::Spread(..) => pod_count.non_terminating,
            PodFilter::AllTerms(_) => pod_count.all,
        }
    }

    /// Labels and values that all matching pods have.
    fn required_labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let selector = match self {
            PodFilter::Spread(_, selector) => selector,
            PodFilter::AllTerms(terms) => &terms[0].selector,
        };
        selector.labels()
    }
}

// === impl ResolvedTerm ===

impl ResolvedTerm {
    pub(crate) fn matches(&self, namespace: &Arc<str>, labels: &Labels) -> bool {
        self.namespaces.as_ref().is_none_or(|namespaces| namespaces.binary_search(namespace).is_ok())
            && self.selector.matches(|key| labels.get(key))
    }
}

// === impl NodeScope ===

impl NodeScope {
    /// The domain of a node, or `None` if its pods are not counted.
    fn domain_of(&self, node: NodeId, spec: &Node, topology: &Topology) -> Option<usize> {
        let nodes = &self.nodes;
        let is_counted = nodes.with_keys.iter().all(|&key| topology.domain(key, node).is_present())
            && nodes.selected_by.as_ref().is_none_or(|required| required.selects(&spec.name, &spec.labels))
            && nodes
                .tolerated_by
                .as_ref()
                .is_none_or(|tolerations| first_untolerated(&spec.taints, tolerations).is_none());
        if is_counted { self.group_by.domain(node, topology) } else { None }
    }

    /// Computes the domains of all eligible nodes.
    fn eligible_domains(&self, topology_view: &impl TopologyView) -> EligibleDomains {
        let mut domains = EligibleDomains::default();
        for (node, spec) in topology_view.nodes() {
            domains.add_node(node, self.domain_of(node, spec, topology_view.topology()));
        }
        domains
    }
}

impl GroupBy {
    /// The domain of a node; `None` if it has none.
    pub(crate) fn domain(self, node: NodeId, topology: &Topology) -> Option<usize> {
        match self {
            GroupBy::Node => Some(node.index()),
            GroupBy::Domain(key) => Some(topology.domain(key, node))
                .filter(|domain| domain.is_present())
                .map(|domain| domain.value_id()),
            GroupBy::DomainOrEmpty(key) => Some(topology.domain(key, node).value_id()),
        }
    }
}

// === impl PodCounts ===

impl PodCounts {
    /// Interns a label set for one more pod, and returns its identifier.
    pub(super) fn acquire_labels(&mut self, pod_labels: &Arc<PodLabels>) -> u32 {
        self.labels.acquire(pod_labels.clone(), |_| PodsByNode::default()).0
    }

    /// The serial of a label set; unlike its identifier it is never reused.
    pub(super) fn serial(&self, labels_id: u32) -> u64 {
        self.labels.serial(labels_id)
    }

    /// Releases a label set for one pod.
    pub(super) fn release_labels(&mut self, labels_id: u32) {
        self.labels.release(labels_id);
    }

    /// A pod was assigned to a node. `attached` says whether the node exists.
    pub(super) fn add_pod(&mut self, labels_id: u32, node: NodeId, non_terminating: bool, attached: bool) {
        let pod_count = self.labels.value_mut(labels_id).nodes.entry(node).or_default();
        pod_count.all += 1;
        pod_count.non_terminating += u32::from(non_terminating);
        if attached {
            self.update(
                labels_id,
                node,
                PodCount { all: 1, non_terminating: u32::from(non_terminating) },
                DomainCounts::add,
            );
        }
    }

    /// A pod left its node.
    pub(super) fn remove_pod(&mut self, labels_id: u32, node: NodeId, non_terminating: bool, attached: bool) {
        let pods_by_node = self.labels.value_mut(labels_id);
        let pod_count = pods_by_node.nodes.get_mut(&node).expect("a removed pod was counted on its node");
        pod_count.all -= 1;
        pod_count.non_terminating -= u32::from(non_terminating);
        if pod_count.all == 0 {
            pods_by_node.nodes.remove(&node);
        }
        if attached {
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
            domains.add_node(node, key.domain_of(node, spec, topology));
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
    pub(super) fn get_or_create(&mut self, query: CountQuery, topology_view: &impl TopologyView) -> CountsId {
        let count_query = Arc::new(query);
        self.clock += 1;
        let clock = self.clock;
        let PodCounts { labels, domains, .. } = self;
        let (id, is_new) = self.counts.acquire(count_query, |count_query| {
            let (domains_id, _) =
                domains.acquire(count_query.scope.clone(), |key| key.eligible_domains(topology_view));
            let mut counts = DomainCounts::default();
            for (node, count) in matching_pods(labels, count_query) {
                if let Some(domain) = domains.value(domains_id).domain(node).filter(|_| count > 0) {
                    counts.add(domain, count);
                }
            }
            KeptCounts { counts, domains_id, last_used: clock }
        });
        if !is_new {
            // Counts are not reference counted: the least recently used are evicted.
            self.counts.release(id);
            self.counts.value_mut(id).last_used = clock;
            return CountsId(id);
        }
        self.generation += 1;
        let pod_filter = &self.counts.key(id).pods;
        let by_label = &mut self.by_label;
        let list_len = |key: &str, value: &str| by_label.get(key)?.get(value).map(Vec::len);
        // The label that the fewest other counts are indexed by, to avoid needless matching.
        match pod_filter.required_labels().min_by_key(|(key, value)| list_len(key, value)) {
            Some((key, value)) => {
                by_label.entry(key.into()).or_default().entry(value.into()).or_default().push(CountsId(id));
            }
            None => self.without_label.push(CountsId(id)),
        }
        CountsId(id)
    }

    /// Evicts the least recently used counts if there are too many, and returns whether any was evicted. Identifiers
    /// obtained before are then invalid.
    pub(super) fn evict_unused(&mut self) -> bool {
        if self.counts.len() <= MAX_COUNTS {
            return false;
        }
        let mut by_last_use: Vec<(u64, u32)> =
            self.counts.iter().map(|(id, _, entry)| (entry.last_used, id)).collect();
        by_last_use.sort_unstable();
        for &(_, id) in &by_last_use[..MAX_COUNTS / 2] {
            if let Some((_, entry)) = self.counts.release(id) {
                self.domains.release(entry.domains_id);
            }
            let labeled_lists = self.by_label.values_mut().flat_map(BTreeMap::values_mut);
            for list in labeled_lists.chain([&mut self.without_label]) {
                list.retain(|other| other.0 != id);
            }
        }
        self.by_label.retain(|_, values| {
            values.retain(|_, list| !list.is_empty());
            !values.is_empty()
        });
        self.generation += 1;
        true
    }

    pub(super) fn clear_counts(&mut self) {
        self.counts = Interner::default();
        self.domains = Interner::default();
        self.by_label.clear();
        self.without_label.clear();
        self.generation += 1;
    }

    pub(super) fn counts(&self, id: CountsId) -> &DomainCounts {
        &self.counts.value(id.0).counts
    }

    pub(super) fn is_node_counted(&self, id: CountsId, node: NodeId) -> bool {
        self.domains.value(self.counts.value(id.0).domains_id).domain(node).is_some()
    }

    /// Returns the number of eligible domains, and the lowest count of any of them except `except`.
    pub(super) fn min_match(&self, id: CountsId, except: Option<usize>) -> (usize, Option<u32>) {
        let entry = self.counts.value(id.0);
        entry.counts.min_match(self.domains.value(entry.domains_id), except)
    }

    fn update(&mut self, labels_id: u32, node: NodeId, count: PodCount, change: CountUpdate) {
        if self.labels.value(labels_id).counted_in.0 != self.generation {
            self.find_counts(labels_id);
        }
        for &CountsId(id) in &self.labels.value(labels_id).counted_in.1 {
            let matching_count = self.counts.key(id).pods.count(count);
            let entry = self.counts.value_mut(id);
            if let Some(domain) =
                self.domains.value(entry.domains_id).domain(node).filter(|_| matching_count > 0)
            {
                change(&mut entry.counts, domain, matching_count);
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

/// The number of pods that match a query, by label set and node.
fn matching_pods<'a>(
    labels: &'a Interner<Arc<PodLabels>, PodsByNode>,
    query: &'a CountQuery,
) -> impl Iterator<Item = (NodeId, u32)> + 'a {
    let matching = labels.iter().filter(|(_, pod_labels, _)| query.pods.matches(pod_labels));
    matching.flat_map(|(_, _, pods_by_node)| {
        pods_by_node.nodes.iter().map(|(&node, &pod_count)| (node, query.pods.count(pod_count)))
    })
}
