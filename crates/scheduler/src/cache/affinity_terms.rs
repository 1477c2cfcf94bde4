//! The affinity terms of existing pods, each with the number of pods that have it per topology domain. An incoming pod
//! looks up the terms that match it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::labels::Labels;

use super::super::ids::NodeId;
use super::super::pod::{AffinityTerm, SchedulingSpec};
use super::interner::Interner;
use super::topology::{Topology, TopologyKeyId};

/// The identifier of an affinity term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TermId(u32);

/// An affinity or anti-affinity term and its kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountedTerm {
    pub kind: TermKind,
    pub term: AffinityTerm,
}

/// The kind of an affinity term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum TermKind {
    /// Required anti-affinity.
    RequiredAnti,
    /// Required affinity.
    Required,
    /// Preferred affinity, or with a negative weight preferred anti-affinity.
    Preferred(i64),
}

/// The number of assigned pods that have a term, by topology domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TermCounts {
    pub key: TopologyKeyId,
    /// By domain.
    counts: Vec<u32>,
    total: u64,
}

/// The affinity terms of all pods, assigned or pending.
#[derive(Debug, Default)]
pub(super) struct AffinityTerms {
    terms: Interner<Arc<CountedTerm>, TermCounts>,
    /// Terms that name namespaces, and terms with a namespace selector.
    by_namespace: BTreeMap<Arc<str>, Vec<TermId>>,
    by_namespace_labels: Vec<TermId>,
    /// Changes when a term is added or removed.
    pub generation: u64,
}

// === impl TermCounts ===

impl TermCounts {
    /// The number of pods in a domain.
    pub(crate) fn at(&self, domain: usize) -> u32 {
        self.counts.get(domain).copied().unwrap_or(0)
    }

    /// The number of pods on nodes that have the topology key.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }
}

// === impl AffinityTerms ===

impl AffinityTerms {
    /// Adds references to the terms of a spec. `key` returns the identifier of a topology key.
    pub(super) fn acquire(
        &mut self,
        spec: &SchedulingSpec,
        mut key: impl FnMut(&Arc<str>) -> TopologyKeyId,
    ) -> Vec<TermId> {
        let anti_affinity = spec.required_anti_affinity.iter().map(|term| (TermKind::RequiredAnti, term));
        let affinity = spec.required_affinity.iter().map(|term| (TermKind::Required, term));
        let preferred =
            spec.preferred_affinity.iter().map(|(weight, term)| (TermKind::Preferred(*weight), term));
        let mut ids = Vec::new();
        for (kind, term) in anti_affinity.chain(affinity).chain(preferred) {
            let key = key(&term.topology_key);
            let affinity_term = Arc::new(CountedTerm { kind, term: term.clone() });
            let (id, is_new) =
                self.terms.acquire(affinity_term, |_| TermCounts { key, counts: Vec::new(), total: 0 });
            if is_new {
                self.add_to_index(TermId(id), term);
            }
            ids.push(TermId(id));
        }
        ids
    }

    /// Drops references to terms.
    pub(super) fn release(&mut self, ids: &[TermId]) {
        for &id in ids {
            let term = self.term(id).term.clone();
            if self.terms.release(id.0).is_some() {
                self.generation += 1;
                for namespace in &term.namespaces {
                    if let Some(list) = self.by_namespace.get_mut(namespace) {
                        list.retain(|other| *other != id);
                        if list.is_empty() {
                            self.by_namespace.remove(namespace);
                        }
                    }
                }
                self.by_namespace_labels.retain(|other| *other != id);
            }
        }
    }

    /// A pod with these terms was added to a node or removed from it.
    pub(super) fn update_counts(
        &mut self,
        ids: &[TermId],
        node: NodeId,
        is_added: bool,
        topology: &Topology,
    ) {
        for id in ids {
            let term_counts = self.terms.value_mut(id.0);
            let domain = topology.domain(term_counts.key, node);
            if !domain.is_present() {
                continue;
            }
            if term_counts.counts.len() <= domain.value_id() {
                term_counts.counts.resize(domain.value_id() + 1, 0);
            }
            let count = &mut term_counts.counts[domain.value_id()];
            if is_added {
                *count += 1;
                term_counts.total += 1;
            } else {
                *count -= 1;
                term_counts.total -= 1;
            }
        }
    }

    /// The terms that match a pod of that namespace with those labels, by identifier.
    pub(super) fn matching(
        &self,
        namespace: &Arc<str>,
        labels: &Labels,
        namespace_labels: &Labels,
    ) -> Vec<TermId> {
        let by_name = self.by_namespace.get(namespace).into_iter().flatten();
        let candidates = by_name.chain(&self.by_namespace_labels).copied();
        let mut ids: Vec<TermId> = candidates
            .filter(|id| self.term(*id).term.matches(namespace, labels, namespace_labels))
            .collect();
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The topology keys of all terms.
    pub(super) fn topology_keys(&self) -> impl Iterator<Item = TopologyKeyId> {
        self.terms.iter().map(|(_, _, term_counts)| term_counts.key)
    }

    pub(super) fn term(&self, id: TermId) -> &CountedTerm {
        self.terms.key(id.0)
    }

    pub(super) fn counts(&self, id: TermId) -> &TermCounts {
        self.terms.value(id.0)
    }

    fn add_to_index(&mut self, id: TermId, term: &AffinityTerm) {
        self.generation += 1;
        for namespace in &term.namespaces {
            self.by_namespace.entry(namespace.clone()).or_default().push(id);
        }
        if !term.namespace_selector.is_nothing() {
            self.by_namespace_labels.push(id);
        }
    }
}
