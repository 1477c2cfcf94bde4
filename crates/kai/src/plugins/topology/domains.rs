//! The tree of a topology's domains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cluster::ids::NodeId;
use crate::cluster::node::Node;
use crate::cluster::node_set::NodeSet;
use crate::cluster::resources::ResourceVector;
use crate::cluster::topology::Topology;

/// The level above all levels, and its only domain.
pub(super) const ROOT_LEVEL: &str = "root";

/// The index of a domain.
pub(super) type DomainId = usize;

/// The tree of a topology's domains. The first domain is the root.
#[derive(Clone, Debug)]
pub(super) struct TopologyTree {
    /// Node labels, from the widest level to the narrowest.
    pub levels: Vec<Arc<str>>,
    domains: Vec<Domain>,
    /// By level, then by identifier.
    by_level: BTreeMap<Arc<str>, BTreeMap<Arc<str>, DomainId>>,
    /// For each node its domains, from the widest level to the narrowest.
    of_nodes: Vec<Option<Vec<DomainId>>>,
}

/// A domain of a topology.
#[derive(Clone, Debug)]
pub(super) struct Domain {
    /// The values of the labels from the widest level down.
    pub id: Arc<str>,
    pub level: Arc<str>,
    pub children: Vec<DomainId>,
    /// Sorted.
    pub nodes: Vec<NodeId>,
    /// How many of the pods that are being placed fit; `None` if that is not counted.
    pub allocatable_pods: Option<usize>,
    /// What is idle or being released, where that was summed up.
    pub free: Option<ResourceVector>,
}

impl TopologyTree {
    /// The domains of the nodes that have all labels.
    pub(super) fn new(topology: &Topology, nodes: &[Node]) -> TopologyTree {
        let root = Domain::new(ROOT_LEVEL.into(), ROOT_LEVEL.into());
        let mut tree = TopologyTree {
            levels: topology.levels.clone(),
            domains: vec![root],
            by_level: BTreeMap::from([(ROOT_LEVEL.into(), BTreeMap::from([(ROOT_LEVEL.into(), 0)]))]),
            of_nodes: Vec::with_capacity(nodes.len()),
        };
        for (index, node) in nodes.iter().enumerate() {
            let of_node = tree.add_node(NodeId::of(index), node);
            tree.of_nodes.push(of_node);
        }
        tree
    }

    /// The only domain of the root level.
    pub(super) fn root(&self) -> DomainId {
        0
    }

    pub(super) fn domain(&self, id: DomainId) -> &Domain {
        &self.domains[id]
    }

    pub(super) fn domain_mut(&mut self, id: DomainId) -> &mut Domain {
        &mut self.domains[id]
    }

    pub(super) fn domains_mut(&mut self) -> impl Iterator<Item = &mut Domain> {
        self.domains.iter_mut()
    }

    /// Whether a node has all labels.
    pub(super) fn contains(&self, node: NodeId) -> bool {
        self.of_nodes[node.index()].is_some()
    }

    /// The domains of a level, by identifier.
    pub(super) fn of_level(&self, level: &str) -> impl Iterator<Item = DomainId> + '_ {
        self.by_level.get(level).into_iter().flat_map(|domains| domains.values().copied())
    }

    /// The narrowest domain that has all of these nodes, but none below the preferred level.
    pub(super) fn lowest_common_domain(&self, nodes: &NodeSet, preferred: &str) -> DomainId {
        let mut nodes = nodes.iter().filter_map(|node| self.of_nodes[node.index()].as_ref());
        let Some(first) = nodes.next() else { return self.root() };
        let rest: Vec<&Vec<DomainId>> = nodes.collect();
        let mut common = self.root();
        for (index, level) in self.levels.iter().enumerate() {
            let domain = first[index];
            // An empty label is no domain of its own.
            let is_named = !self.domains[domain].id.ends_with('.') && !self.domains[domain].id.is_empty();
            if !is_named || rest.iter().any(|other| other[index] != domain) {
                break;
            }
            common = domain;
            if **level == *preferred {
                break;
            }
        }
        common
    }

    /// The domains of a level below a domain, or the domain itself.
    pub(super) fn descendants_of_level(&self, root: DomainId, level: &str) -> Vec<DomainId> {
        if *self.domains[root].level == *level {
            return vec![root];
        }
        let children = self.domains[root].children.iter();
        children.flat_map(|child| self.descendants_of_level(*child, level)).collect()
    }

    /// Adds a domain and all below it.
    pub(super) fn add_subtree(&self, domain: DomainId, domains: &mut BTreeSet<DomainId>) {
        domains.insert(domain);
        for child in &self.domains[domain].children {
            self.add_subtree(*child, domains);
        }
    }

    fn add_node(&mut self, id: NodeId, node: &Node) -> Option<Vec<DomainId>> {
        let values: Option<Vec<&str>> = self.levels.iter().map(|level| node.view.label(level)).collect();
        let values = values?;
        self.domains[0].nodes.push(id);
        let (mut parent, mut path) = (0, Vec::with_capacity(values.len()));
        for (index, level) in self.levels.clone().into_iter().enumerate() {
            let domain_id: Arc<str> = values[..=index].join(".").into();
            let next = self.domains.len();
            let of_level = self.by_level.entry(level.clone()).or_default();
            let domain = *of_level.entry(domain_id.clone()).or_insert(next);
            if domain == next {
                self.domains.push(Domain::new(domain_id, level));
            }
            if !self.domains[parent].children.contains(&domain) {
                self.domains[parent].children.push(domain);
            }
            self.domains[domain].nodes.push(id);
            path.push(domain);
            parent = domain;
        }
        Some(path)
    }
}

impl Domain {
    fn new(id: Arc<str>, level: Arc<str>) -> Domain {
        Domain { id, level, children: Vec::new(), nodes: Vec::new(), allocatable_pods: None, free: None }
    }
}
