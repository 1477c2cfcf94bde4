//! Counts of the pods of ReplicaSets, kept up to date as pods change.
//!
//! A ReplicaSet is synced whenever one of its pods changes. A sync that counted all its pods would take time
//! proportional to their number.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::Arc;

use model::NamespacedName;
use serde_json::{Map, Value};

use super::super::api::ReplicaSetSpec;
use super::super::informer_cache::InformerCache;
use super::super::object_table::CachedObject;
use super::super::pod::Pod;

/// The counted pods of each ReplicaSet that was synced, by uid.
#[derive(Debug, Default)]
pub(crate) struct ReplicaSetPods {
    sets: BTreeMap<Arc<str>, CountedPods>,
}

/// The number of pods of a ReplicaSet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    pub(super) active: i64,
    /// Active pods with all labels of the template.
    pub(super) fully_labeled: i64,
    /// Active pods that are ready.
    pub(super) ready: i64,
    /// Pods that are terminating and have not finished.
    pub(super) terminating: i64,
}

/// The pods of one ReplicaSet.
#[derive(Debug)]
struct CountedPods {
    spec: Arc<ReplicaSetSpec>,
    /// The labels of its template.
    labels: Map<String, Value>,
    /// Each pod as it was counted.
    pods: BTreeMap<NamespacedName, PodCounts>,
    counts: PodCounts,
    /// Pods that changed since they were counted.
    changed: BTreeSet<NamespacedName>,
}

// === impl ReplicaSetPods ===

impl ReplicaSetPods {
    /// A pod with this controller was added, modified or deleted.
    pub(crate) fn pod_changed(&mut self, controller_uid: &str, pod: &NamespacedName) {
        if let Some(counted) = self.sets.get_mut(controller_uid) {
            counted.changed.insert(pod.clone());
        }
    }

    /// A ReplicaSet was deleted.
    pub(crate) fn set_deleted(&mut self, uid: &str) {
        self.sets.remove(uid);
    }

    /// Counts the pods of a ReplicaSet.
    pub(super) fn count(&mut self, cache: &InformerCache, set: &CachedObject<ReplicaSetSpec>) -> PodCounts {
        let counted = match self.sets.entry(set.uid.clone()) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(CountedPods::new(cache, set)),
        };
        counted.update(cache, set);
        counted.counts
    }
}

// === impl CountedPods ===

impl CountedPods {
    /// All pods of a ReplicaSet, not counted yet.
    fn new(cache: &InformerCache, set: &CachedObject<ReplicaSetSpec>) -> CountedPods {
        CountedPods {
            spec: set.spec.clone(),
            labels: set.spec.template.labels(),
            pods: BTreeMap::new(),
            counts: PodCounts::default(),
            changed: cache.pods_of(&set.uid).iter().map(|pod| pod.name.clone()).collect(),
        }
    }

    fn update(&mut self, cache: &InformerCache, set: &CachedObject<ReplicaSetSpec>) {
        if !Arc::ptr_eq(&self.spec, &set.spec) {
            self.spec = set.spec.clone();
            let labels = set.spec.template.labels();
            if labels != self.labels {
                self.labels = labels;
                self.changed.extend(self.pods.keys().cloned());
            }
        }
        for name in std::mem::take(&mut self.changed) {
            let pod = cache.pods.get(&name);
            let pod = pod.filter(|pod| pod.controller().is_some_and(|owner| owner.uid == set.uid));
            let counts = pod.map(|pod| PodCounts::of(pod, &self.labels));
            let counted = match counts {
                Some(counts) => self.pods.insert(name, counts),
                None => self.pods.remove(&name),
            };
            self.counts.add(counts.unwrap_or_default(), 1);
            self.counts.add(counted.unwrap_or_default(), -1);
        }
    }
}

// === impl PodCounts ===

impl PodCounts {
    /// The counts of one pod.
    fn of(pod: &Pod, labels: &Map<String, Value>) -> PodCounts {
        let is_active = pod.is_active();
        let is_labeled = || labels.iter().all(|(key, value)| pod.label(key) == value.as_str());
        PodCounts {
            active: i64::from(is_active),
            fully_labeled: i64::from(is_active && is_labeled()),
            ready: i64::from(is_active && pod.ready),
            terminating: i64::from(!is_active && pod.is_terminating()),
        }
    }

    fn add(&mut self, counts: PodCounts, times: i64) {
        let PodCounts { active, fully_labeled, ready, terminating } = counts;
        self.active += active * times;
        self.fully_labeled += fully_labeled * times;
        self.ready += ready * times;
        self.terminating += terminating * times;
    }
}
