//! Topology keys in use: for each, the domain of every node as a small integer.

use std::sync::Arc;

use kubernetes::labels::Labels;
use rustc_hash::FxHashMap;

use super::super::ids::NodeId;

/// The identifier of a topology key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TopologyKeyId(u32);

/// A node's domain under a topology key. A node without the label has the empty value, but is not present in that
/// domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TopologyDomain(u32);

/// The topology keys in use, and the domain of every node.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    /// By identifier; `None` if it is free.
    keys: Vec<Option<TopologyKey>>,
    ids_by_name: FxHashMap<Arc<str>, TopologyKeyId>,
    free: Vec<TopologyKeyId>,
    /// The number of keys after unused ones were last freed.
    kept_keys: usize,
}

#[derive(Debug)]
struct TopologyKey {
    name: Arc<str>,
    ids_by_value: FxHashMap<Arc<str>, u32>,
    /// Each value with its number of nodes; the identifier is reused when no node has it.
    node_counts: Vec<(Arc<str>, u32)>,
    free_ids: Vec<u32>,
    domains: Vec<TopologyDomain>,
}

/// Unused keys are freed when the number added since the last sweep exceeds this or half of those kept,
/// whichever is larger.
const MIN_ADDED_KEYS: usize = 16;

const ABSENT: TopologyDomain = TopologyDomain(0);
/// The identifier of the empty value, under every key.
const EMPTY_VALUE: u32 = 0;

// === impl TopologyDomain ===

impl TopologyDomain {
    /// Whether the node has the label.
    pub(crate) fn is_present(self) -> bool {
        self.0 & 1 == 1
    }

    /// The identifier of the value; that of the empty value if the label is absent.
    pub(crate) fn value_id(self) -> usize {
        (self.0 >> 1) as usize
    }
}

// === impl Topology ===

impl Topology {
    /// The identifier of a topology key. `nodes` are all existing nodes, used if the key is new.
    pub(crate) fn key_id<'a>(
        &mut self,
        name: &Arc<str>,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) -> TopologyKeyId {
        if let Some(&id) = self.ids_by_name.get(name) {
            return id;
        }
        let mut key = TopologyKey {
            name: name.clone(),
            ids_by_value: FxHashMap::from_iter([(Arc::from(""), EMPTY_VALUE)]),
            node_counts: vec![(Arc::from(""), 1)],
            free_ids: Vec::new(),
            domains: Vec::new(),
        };
        nodes.for_each(|(node, labels)| key.add_node(node, labels));
        let id = self.free.pop().unwrap_or(TopologyKeyId(self.keys.len() as u32));
        if id.0 as usize == self.keys.len() {
            self.keys.push(None);
        }
        self.keys[id.0 as usize] = Some(key);
        self.ids_by_name.insert(name.clone(), id);
        id
    }

    #[cfg(test)]
    pub(super) fn key_count(&self) -> usize {
        self.ids_by_name.len()
    }

    /// Whether so many keys have been added that unused ones should be freed.
    pub(crate) fn has_grown(&self) -> bool {
        self.ids_by_name.len() > self.kept_keys + (self.kept_keys / 2).max(MIN_ADDED_KEYS)
    }

    /// Frees all keys but these. Their identifiers are given to other keys later.
    pub(crate) fn retain_keys(&mut self, used: impl Iterator<Item = TopologyKeyId>) {
        let mut is_used = vec![false; self.keys.len()];
        used.for_each(|id| is_used[id.0 as usize] = true);
        for (index, slot) in (0..).zip(&mut self.keys) {
            if let Some(key) = slot.take_if(|_| !is_used[index as usize]) {
                self.ids_by_name.remove(&key.name);
                self.free.push(TopologyKeyId(index));
            }
        }
        self.kept_keys = self.ids_by_name.len();
    }

    /// The identifier of a topology key, if it is in use.
    pub(crate) fn find_key(&self, name: &str) -> Option<TopologyKeyId> {
        self.ids_by_name.get(name).copied()
    }

    /// Adds a node, or updates its labels.
    pub(crate) fn add_node(&mut self, node: NodeId, labels: &Labels) {
        self.keys.iter_mut().flatten().for_each(|key| key.add_node(node, labels));
    }

    pub(crate) fn remove_node(&mut self, node: NodeId) {
        self.keys.iter_mut().flatten().for_each(|key| key.remove_node(node));
    }

    /// The domain of a node.
    pub(crate) fn domain(&self, key: TopologyKeyId, node: NodeId) -> TopologyDomain {
        self.key(key).domains[node.index()]
    }

    /// The domain of every node, by identifier.
    pub(crate) fn domains(&self, key: TopologyKeyId) -> &[TopologyDomain] {
        &self.key(key).domains
    }

    /// All value identifiers are below this.
    pub(crate) fn value_id_bound(&self, key: TopologyKeyId) -> usize {
        self.key(key).node_counts.len()
    }

    fn key(&self, id: TopologyKeyId) -> &TopologyKey {
        self.keys[id.0 as usize].as_ref().expect("an ID is used only while its key is kept")
    }
}

// === impl TopologyKey ===

impl TopologyKey {
    fn add_node(&mut self, node: NodeId, labels: &Labels) {
        if self.domains.len() <= node.index() {
            self.domains.resize(node.index() + 1, ABSENT);
        }
        self.remove_node(node);
        let Some(value) = labels.get_shared(&self.name) else { return };
        let value_id = match self.ids_by_value.get(value) {
            Some(&number) => number,
            None => {
                let value_id = self.free_ids.pop().unwrap_or(self.node_counts.len() as u32);
                if value_id as usize == self.node_counts.len() {
                    self.node_counts.push((value.clone(), 0));
                } else {
                    self.node_counts[value_id as usize] = (value.clone(), 0);
                }
                self.ids_by_value.insert(value.clone(), value_id);
                value_id
            }
        };
        self.node_counts[value_id as usize].1 += 1;
        self.domains[node.index()] = TopologyDomain(value_id << 1 | 1);
    }

    fn remove_node(&mut self, node: NodeId) {
        let Some(domain) = self.domains.get_mut(node.index()) else { return };
        let value_id = domain.value_id();
        if !domain.is_present() {
            return;
        }
        *domain = ABSENT;
        let (value, nodes) = &mut self.node_counts[value_id];
        *nodes -= 1;
        if *nodes == 0 {
            self.ids_by_value.remove(value);
            self.free_ids.push(value_id as u32);
        }
    }
}
