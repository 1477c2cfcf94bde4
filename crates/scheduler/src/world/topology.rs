//! Labels of nodes whose values are places: for each such label, the place of every node as a small number.

use std::sync::Arc;

use kubernetes::labels::Labels;
use rustc_hash::FxHashMap;

use super::super::ids::NodeId;

/// A label whose values are places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyId(u32);

/// Where a node is, by one label. A node without the label is at the place of the empty value, but not present there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u32);

/// The labels in use, and where every node is.
#[derive(Debug, Default)]
pub(crate) struct Topology {
    keys: Vec<Key>,
    by_name: FxHashMap<Arc<str>, KeyId>,
}

#[derive(Debug)]
struct Key {
    name: Arc<str>,
    values: FxHashMap<Arc<str>, u32>,
    /// How many nodes have each value, and the value itself: a number is given out again when none has it.
    used: Vec<(Arc<str>, u32)>,
    free: Vec<u32>,
    places: Vec<Place>,
}

const ABSENT: Place = Place(0);
/// The number of the empty value, under every label.
const EMPTY: u32 = 0;

// === impl Place ===

impl Place {
    /// Whether the node has the label.
    pub(crate) fn is_present(self) -> bool {
        self.0 & 1 == 1
    }

    /// The number of the value; that of the empty one if the label is absent.
    pub(crate) fn value(self) -> usize {
        (self.0 >> 1) as usize
    }
}

// === impl Topology ===

impl Topology {
    /// The label of that name; `nodes` are all there are, should it be new.
    pub(crate) fn key<'a>(
        &mut self,
        name: &Arc<str>,
        nodes: impl Iterator<Item = (NodeId, &'a Labels)>,
    ) -> KeyId {
        if let Some(&id) = self.by_name.get(name) {
            return id;
        }
        let mut key = Key {
            name: name.clone(),
            values: FxHashMap::from_iter([(Arc::from(""), EMPTY)]),
            used: vec![(Arc::from(""), 1)],
            free: Vec::new(),
            places: Vec::new(),
        };
        nodes.for_each(|(node, labels)| key.enter(node, labels));
        let id = KeyId(self.keys.len() as u32);
        self.keys.push(key);
        self.by_name.insert(name.clone(), id);
        id
    }

    /// The label of that name, if it is in use.
    pub(crate) fn find(&self, name: &str) -> Option<KeyId> {
        self.by_name.get(name).copied()
    }

    /// A node came, or came back with other labels.
    pub(crate) fn enter(&mut self, node: NodeId, labels: &Labels) {
        self.keys.iter_mut().for_each(|key| key.enter(node, labels));
    }

    /// A node went.
    pub(crate) fn leave(&mut self, node: NodeId) {
        self.keys.iter_mut().for_each(|key| key.leave(node));
    }

    /// Where a node is.
    pub(crate) fn place(&self, key: KeyId, node: NodeId) -> Place {
        self.keys[key.0 as usize].places[node.index()]
    }

    /// Where every node is, by its number.
    pub(crate) fn places(&self, key: KeyId) -> &[Place] {
        &self.keys[key.0 as usize].places
    }

    /// No value has this number or a higher one.
    pub(crate) fn values(&self, key: KeyId) -> usize {
        self.keys[key.0 as usize].used.len()
    }
}

// === impl Key ===

impl Key {
    fn enter(&mut self, node: NodeId, labels: &Labels) {
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, ABSENT);
        }
        self.leave(node);
        let Some(value) = labels.get_shared(&self.name) else { return };
        let number = match self.values.get(value) {
            Some(&number) => number,
            None => {
                let number = self.free.pop().unwrap_or(self.used.len() as u32);
                if number as usize == self.used.len() {
                    self.used.push((value.clone(), 0));
                } else {
                    self.used[number as usize] = (value.clone(), 0);
                }
                self.values.insert(value.clone(), number);
                number
            }
        };
        self.used[number as usize].1 += 1;
        self.places[node.index()] = Place(number << 1 | 1);
    }

    fn leave(&mut self, node: NodeId) {
        let Some(place) = self.places.get_mut(node.index()) else { return };
        let number = place.value();
        if !place.is_present() {
            return;
        }
        *place = ABSENT;
        let (value, nodes) = &mut self.used[number];
        *nodes -= 1;
        if *nodes == 0 {
            self.values.remove(value);
            self.free.push(number as u32);
        }
    }
}
