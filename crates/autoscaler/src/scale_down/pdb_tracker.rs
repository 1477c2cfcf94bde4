//! Remaining disruptions of PodDisruptionBudgets during removal simulations.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::informer_cache::{InformerCache, PodDisruptionBudget};
use super::super::pod::Pod;

/// The remaining disruptions of every PodDisruptionBudget.
#[derive(Debug, Default)]
pub(super) struct RemainingPdbTracker {
    by_namespace: BTreeMap<Arc<str>, Vec<RemainingPdb>>,
    /// Increases when PodDisruptionBudgets match other pods than before.
    revision: u64,
}

#[derive(Debug)]
struct RemainingPdb {
    budget: Arc<PodDisruptionBudget>,
    left: i64,
}

impl RemainingPdbTracker {
    /// The disruptions that the PodDisruptionBudgets allow now.
    pub(super) fn of(cluster: &InformerCache) -> RemainingPdbTracker {
        let mut by_namespace: BTreeMap<Arc<str>, Vec<RemainingPdb>> = BTreeMap::new();
        for budget in cluster.pod_disruption_budgets() {
            let remaining = RemainingPdb { budget: budget.clone(), left: budget.disruptions_allowed };
            by_namespace.entry(budget.name.namespace.clone()).or_default().push(remaining);
        }
        RemainingPdbTracker { by_namespace, revision: 0 }
    }

    /// Resets the remaining disruptions to those that the PodDisruptionBudgets allow now.
    pub(super) fn reset(&mut self, cluster: &InformerCache) {
        let new = RemainingPdbTracker::of(cluster);
        let is_same = self.budgets().count() == new.budgets().count()
            && self.budgets().zip(new.budgets()).all(|(old, new)| old.matches_same_pods(new));
        *self = RemainingPdbTracker { revision: self.revision + u64::from(!is_same), ..new };
    }

    /// Changes when PodDisruptionBudgets match other pods than before.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Whether any PodDisruptionBudget matches the pod.
    pub(super) fn match_any(&self, pod: &Pod) -> bool {
        self.matching(pod).next().is_some()
    }

    /// Whether a PodDisruptionBudget that matches the pod has no disruptions left.
    pub(super) fn are_exhausted_for(&self, pod: &Pod) -> bool {
        self.matching(pod).any(|remaining| remaining.left < 1)
    }

    /// Subtracts the eviction of these pods. Returns whether all of them may be evicted at once.
    pub(super) fn remove_pods<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>) -> bool {
        let mut in_parallel = true;
        for pod in pods {
            let budgets = self.by_namespace.get_mut(&pod.name.namespace).into_iter().flatten();
            for remaining in budgets.filter(|remaining| remaining.matches(pod)) {
                remaining.left = remaining.left.saturating_sub(1);
                in_parallel &= remaining.left >= 0;
            }
        }
        in_parallel
    }

    fn budgets(&self) -> impl Iterator<Item = &PodDisruptionBudget> {
        self.by_namespace.values().flatten().map(|remaining| &*remaining.budget)
    }

    fn matching<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a RemainingPdb> {
        let budgets = self.by_namespace.get(&pod.name.namespace).into_iter().flatten();
        budgets.filter(|remaining| remaining.matches(pod))
    }
}

// === impl RemainingPdb ===

impl RemainingPdb {
    fn matches(&self, pod: &Pod) -> bool {
        self.budget.matches(&pod.name.namespace, &pod.labels)
    }
}
