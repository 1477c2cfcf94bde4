//! What pods on the nodes wish of others: their affinity terms, each with how many of the pods at a place have it. A pod
//! to be placed asks which of them mean it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::labels::Labels;

use super::super::ids::NodeId;
use super::super::pod::{Shape, Term};
use super::registry::Registry;
use super::topology::{KeyId, Topology};

/// A term that pods on the nodes may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct WishId(u32);

/// A term, and how it is meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wish {
    pub how: How,
    pub term: Term,
}

/// How a term is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum How {
    /// Such pods must not come near.
    MustNot,
    /// Such pods had to be near.
    Must,
    /// Such pods are liked near, or with a negative weight disliked.
    Likes(i64),
}

/// Who has a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wishers {
    pub key: KeyId,
    /// By the number of the place.
    counts: Vec<u32>,
    total: u64,
}

/// All wishes of pods that are known, on nodes or waiting.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    wishes: Registry<Arc<Wish>, Wishers>,
    /// Those that mean pods of one or more named namespaces, and those that look at the labels of namespaces.
    by_namespace: BTreeMap<Arc<str>, Vec<WishId>>,
    by_labels: Vec<WishId>,
    /// Changes with the wishes there are.
    pub generation: u64,
}

// === impl Wishers ===

impl Wishers {
    /// How many there are at a place.
    pub(crate) fn at(&self, place: usize) -> u32 {
        self.counts.get(place).copied().unwrap_or(0)
    }

    /// How many there are on nodes that have the label.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

// === impl Wishes ===

impl Wishes {
    /// The wishes of a shape, which one more pod has. `key` gives the number of a label.
    pub(super) fn take(&mut self, shape: &Shape, mut key: impl FnMut(&Arc<str>) -> KeyId) -> Vec<WishId> {
        let must_not = shape.required_anti_affinity.iter().map(|term| (How::MustNot, term));
        let must = shape.required_affinity.iter().map(|term| (How::Must, term));
        let likes = shape.preferred_affinity.iter().map(|(weight, term)| (How::Likes(*weight), term));
        let mut ids = Vec::new();
        for (how, term) in must_not.chain(must).chain(likes) {
            let key = key(&term.key);
            let wish = Arc::new(Wish { how, term: term.clone() });
            let (id, new) = self.wishes.take(wish, |_| Wishers { key, counts: Vec::new(), total: 0 });
            if new {
                self.list(WishId(id), term);
            }
            ids.push(WishId(id));
        }
        ids
    }

    /// One pod less has these.
    pub(super) fn give_back(&mut self, ids: &[WishId]) {
        for &id in ids {
            let term = self.wish(id).term.clone();
            if self.wishes.give_back(id.0).is_some() {
                self.generation += 1;
                for namespace in &term.namespaces {
                    if let Some(list) = self.by_namespace.get_mut(namespace) {
                        list.retain(|other| *other != id);
                        if list.is_empty() {
                            self.by_namespace.remove(namespace);
                        }
                    }
                }
                self.by_labels.retain(|other| *other != id);
            }
        }
    }

    /// Pods with these wishes came to a node, or went from it.
    pub(super) fn count(&mut self, ids: &[WishId], node: NodeId, came: bool, topology: &Topology) {
        for id in ids {
            let wishers = self.wishes.value_mut(id.0);
            let place = topology.place(wishers.key, node);
            if !place.is_present() {
                continue;
            }
            if wishers.counts.len() <= place.value() {
                wishers.counts.resize(place.value() + 1, 0);
            }
            let count = &mut wishers.counts[place.value()];
            if came {
                *count += 1;
                wishers.total += 1;
            } else {
                *count -= 1;
                wishers.total -= 1;
            }
        }
    }

    /// Those that mean a pod of that namespace with those labels, in the order of their numbers.
    pub(super) fn about(
        &self,
        namespace: &Arc<str>,
        labels: &Labels,
        namespace_labels: &Labels,
    ) -> Vec<WishId> {
        let named = self.by_namespace.get(namespace).into_iter().flatten();
        let candidates = named.chain(&self.by_labels).copied();
        let mut ids: Vec<WishId> = candidates
            .filter(|id| self.wish(*id).term.matches(namespace, labels, namespace_labels))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    pub(super) fn wish(&self, id: WishId) -> &Wish {
        self.wishes.key(id.0)
    }

    pub(super) fn wishers(&self, id: WishId) -> &Wishers {
        self.wishes.value(id.0)
    }

    fn list(&mut self, id: WishId, term: &Term) {
        self.generation += 1;
        for namespace in &term.namespaces {
            self.by_namespace.entry(namespace.clone()).or_default().push(id);
        }
        if !term.namespace_selector.is_nothing() {
            self.by_labels.push(id);
        }
    }
}
