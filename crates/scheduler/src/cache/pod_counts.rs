//! Pod counts per topology domain, kept up to date as pods come and go. So the cost of a decision does not grow with
//! the number of assigned pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::{RequiredNodeAffinity, Selector};
use kubernetes::taints::{Toleration, first_untolerated};

use super::super::ids::NodeId;
use super::super::node::NodeSpec;
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
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeSpec)>;
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

    fn count(&self, heads: PodCount) -> u32 {
        match self {
            PodFilter::Spread(..) => heads.non_terminating,
            PodFilter::AllTerms(_) => heads.all,
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
    fn domain_of(&self, node: NodeId, spec: &NodeSpec, topology: &Topology) -> Option<usize> {
        let nodes = &self.nodes;
        let counts = nodes.with_keys.iter().all(|&key| topology.domain(key, node).is_present())
            && nodes.selected_by.as_ref().is_none_or(|required| required.selects(&spec.name, &spec.labels))
            && nodes.tolerated_by.as_ref().is_none_or(|list| first_untolerated(&spec.taints, list).is_none());
        if counts { self.group_by.domain(node, topology) } else { None }
    }

    /// Computes the domains of all eligible nodes.
    fn eligible_domains(&self, topology_view: &impl TopologyView) -> EligibleDomains {
        let mut ground = EligibleDomains::default();
        for (node, spec) in topology_view.nodes() {
            ground.add_node(node, self.domain_of(node, spec, topology_view.topology()));
        }
        ground
    }
}

impl GroupBy {
    /// The domain of a node; `None` if it has none.
    pub(crate) fn domain(self, node: NodeId, topology: &Topology) -> Option<usize> {
        match self {
            GroupBy::Node => Some(node.index()),
            GroupBy::Domain(key) => Some(topology.domain(key, node))
                .filter(|place| place.is_present())
                .map(|place| place.value_id()),
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
    pub(super) fn add_pod(&mut self, labels_id: u32, node: NodeId, living: bool, attached: bool) {
        let heads = self.labels.value_mut(labels_id).nodes.entry(node).or_default();
        heads.all += 1;
        heads.non_terminating += u32::from(living);
        if attached {
            self.update(
                labels_id,
                node,
                PodCount { all: 1, non_terminating: u32::from(living) },
                DomainCounts::add,
            );
        }
    }

    /// A pod left its node.
    pub(super) fn remove_pod(&mut self, labels_id: u32, node: NodeId, living: bool, attached: bool) {
        let residents = self.labels.value_mut(labels_id);
        let heads = residents.nodes.get_mut(&node).expect("who departs was there");
        heads.all -= 1;
        heads.non_terminating -= u32::from(living);
        if heads.all == 0 {
            residents.nodes.remove(&node);
        }
        if attached {
            self.update(
                labels_id,
                node,
                PodCount { all: 1, non_terminating: u32::from(living) },
                DomainCounts::subtract,
            );
        }
    }

    /// A node was added; `on_it` has the label sets of its pods.
    pub(super) fn add_node(&mut self, node: NodeId, spec: &NodeSpec, on_it: &[u32], topology: &Topology) {
        for (key, ground) in self.domains.values_mut() {
            ground.add_node(node, key.domain_of(node, spec, topology));
        }
        self.update_node(node, on_it, DomainCounts::add);
    }

    /// A node was removed, with its pods.
    pub(super) fn remove_node(&mut self, node: NodeId, on_it: &[u32]) {
        self.update_node(node, on_it, DomainCounts::subtract);
        for (_, ground) in self.domains.values_mut() {
            ground.remove_node(node);
        }
    }

    fn update_node(&mut self, node: NodeId, on_it: &[u32], change: CountUpdate) {
        let mut identities = on_it.to_vec();
        identities.sort_unstable();
        identities.dedup();
        for identity in identities {
            if let Some(&heads) = self.labels.value(identity).nodes.get(&node) {
                self.update(identity, node, heads, change);
            }
        }
    }

    /// Returns the counts for a query, computing them if they are not kept yet.
    pub(super) fn get_or_create(&mut self, query: CountQuery, topology_view: &impl TopologyView) -> CountsId {
        let question = Arc::new(query);
        self.clock += 1;
        let clock = self.clock;
        let PodCounts { labels: identities, domains: grounds, .. } = self;
        let (id, new) = self.counts.acquire(question, |question| {
            let (ground, _) =
                grounds.acquire(question.scope.clone(), |key| key.eligible_domains(topology_view));
            let mut tally = DomainCounts::default();
            for (node, heads) in matching_pods(identities, question) {
                if let Some(place) = grounds.value(ground).domain(node).filter(|_| heads > 0) {
                    tally.add(place, heads);
                }
            }
            KeptCounts { counts: tally, domains_id: ground, last_used: clock }
        });
        if !new {
            // Counts are not reference counted: the least recently used are evicted.
            self.counts.release(id);
            self.counts.value_mut(id).last_used = clock;
            return CountsId(id);
        }
        self.generation += 1;
        let who = &self.counts.key(id).pods;
        let by_label = &mut self.by_label;
        let known = |key: &str, value: &str| by_label.get(key)?.get(value).map(Vec::len);
        // The label that the fewest other counts are indexed by, to avoid needless matching.
        match who.required_labels().min_by_key(|(key, value)| known(key, value)) {
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
        let mut all: Vec<(u64, u32)> = self.counts.iter().map(|(id, _, kept)| (kept.last_used, id)).collect();
        all.sort_unstable();
        for &(_, id) in &all[..MAX_COUNTS / 2] {
            if let Some((_, kept)) = self.counts.release(id) {
                self.domains.release(kept.domains_id);
            }
            let labelled = self.by_label.values_mut().flat_map(BTreeMap::values_mut);
            for list in labelled.chain([&mut self.without_label]) {
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

    /// Returns the number of eligible domains, and the lowest count of any of them except `but`.
    pub(super) fn min_match(&self, id: CountsId, but: Option<usize>) -> (usize, Option<u32>) {
        let kept = self.counts.value(id.0);
        kept.counts.min_match(self.domains.value(kept.domains_id), but)
    }

    fn update(&mut self, labels_id: u32, node: NodeId, count: PodCount, change: CountUpdate) {
        if self.labels.value(labels_id).counted_in.0 != self.generation {
            self.find_counts(labels_id);
        }
        for &CountsId(id) in &self.labels.value(labels_id).counted_in.1 {
            let heads = self.counts.key(id).pods.count(count);
            let kept = self.counts.value_mut(id);
            if let Some(place) = self.domains.value(kept.domains_id).domain(node).filter(|_| heads > 0) {
                change(&mut kept.counts, place, heads);
            }
        }
    }

    fn find_counts(&mut self, labels_id: u32) {
        let who = self.labels.key(labels_id);
        let labelled = |(key, value)| self.by_label.get(key)?.get(value);
        let met = who.labels.iter().filter_map(labelled).flatten().chain(&self.without_label);
        let found = met.copied().filter(|id| self.counts.key(id.0).pods.matches(who)).collect();
        self.labels.value_mut(labels_id).counted_in = (self.generation, found);
    }
}

/// Adds or subtracts a number of pods in a domain.
type CountUpdate = fn(&mut DomainCounts, usize, u32);

/// The number of pods that match a query, by label set and node.
fn matching_pods<'a>(
    identities: &'a Interner<Arc<PodLabels>, PodsByNode>,
    query: &'a CountQuery,
) -> impl Iterator<Item = (NodeId, u32)> + 'a {
    let meant = identities.iter().filter(|(_, identity, _)| query.pods.matches(identity));
    meant.flat_map(|(_, _, residents)| {
        residents.nodes.iter().map(|(&node, &heads)| (node, query.pods.count(heads)))
    })
}
