//! Queries for pod counts: the pods that are counted, and the nodes and topology domains they are counted in.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::{RequiredNodeAffinity, Selector};
use kubernetes::taints::{Toleration, first_untolerated};

use super::super::ids::NodeId;
use super::super::node::Node;
use super::domain_counts::EligibleDomains;
use super::topology::{Topology, TopologyKeyId};

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
    /// `None` for every namespace. Sorted, each once.
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

/// A pod's namespace and labels: all that selectors depend on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PodLabels {
    pub namespace: Arc<str>,
    pub labels: Labels,
}

/// The number of pods with one label set on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCount {
    pub all: u32,
    pub non_terminating: u32,
}

/// Access to the nodes and their topology domains.
pub(super) trait TopologyView {
    /// Every existing node.
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)>;
    fn topology(&self) -> &Topology;
}

// === impl PodFilter ===

impl PodFilter {
    pub(super) fn matches(&self, pod_labels: &PodLabels) -> bool {
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

    pub(super) fn count(&self, pod_count: PodCount) -> u32 {
        match self {
            PodFilter::Spread(..) => pod_count.non_terminating,
            PodFilter::AllTerms(_) => pod_count.all,
        }
    }

    /// The namespaces of matching pods; `None` for every namespace.
    pub(super) fn namespaces(&self) -> Option<&[Arc<str>]> {
        match self {
            PodFilter::Spread(namespace, _) => Some(std::slice::from_ref(namespace)),
            PodFilter::AllTerms(terms) => terms[0].namespaces.as_deref(),
        }
    }

    /// Labels and values that all matching pods have.
    pub(super) fn required_labels(&self) -> impl Iterator<Item = (&str, &str)> {
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
    pub(super) fn domain_of(&self, node: NodeId, spec: &Node, topology: &Topology) -> Option<usize> {
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
    pub(super) fn eligible_domains(&self, topology_view: &impl TopologyView) -> EligibleDomains {
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
