//! A set of nodes, in the order of their names.

use super::ids::NodeId;

/// A set of nodes, in the order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeSet {
    /// A bit for each node.
    words: Vec<u64>,
}

const BITS: usize = u64::BITS as usize;

impl NodeSet {
    /// Adds a node. Returns whether it was not there before.
    pub(crate) fn insert(&mut self, node: NodeId) -> bool {
        let (word, bit) = position(node);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes a node, if it is there.
    pub(crate) fn remove(&mut self, node: NodeId) {
        let (word, bit) = position(node);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }

    pub(crate) fn contains(&self, node: NodeId) -> bool {
        let (word, bit) = position(node);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The nodes, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = NodeId> {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let next = |rest: &u64| Some(rest & (rest - 1)).filter(|rest| *rest != 0);
            let rests = std::iter::successors(Some(*word).filter(|word| *word != 0), next);
            rests.map(move |rest| NodeId::of(index * BITS + rest.trailing_zeros() as usize))
        })
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> NodeSet {
        let mut set = NodeSet::default();
        set.extend(nodes);
        set
    }
}

impl Extend<NodeId> for NodeSet {
    fn extend<I: IntoIterator<Item = NodeId>>(&mut self, nodes: I) {
        for node in nodes {
            self.insert(node);
        }
    }
}

fn position(node: NodeId) -> (usize, u64) {
    (node.index() / BITS, 1 << (node.index() % BITS))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_equals_a_sorted_set(changes in proptest::collection::vec((0_u32..300, any::<bool>()), 0..200)) {
            let (mut set, mut sorted) = (NodeSet::default(), BTreeSet::new());
            for (node, is_added) in changes {
                let node = NodeId(node);
                if is_added {
                    prop_assert_eq!(set.insert(node), sorted.insert(node));
                } else {
                    set.remove(node);
                    sorted.remove(&node);
                }
                prop_assert_eq!(set.contains(node), sorted.contains(&node));
            }
            prop_assert_eq!(set.iter().collect::<Vec<_>>(), sorted.into_iter().collect::<Vec<_>>());
        }
    }
}
