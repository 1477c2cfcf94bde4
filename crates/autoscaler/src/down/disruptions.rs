//! Disruption budgets, and what is left of them while removals are tried.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::cluster::{Budget, Cluster};
use super::super::pod::Pod;

/// What is left of every budget.
#[derive(Debug, Default)]
pub(super) struct Disruptions {
    by_namespace: BTreeMap<Arc<str>, Vec<Remaining>>,
}

#[derive(Debug)]
struct Remaining {
    budget: Arc<Budget>,
    left: i64,
}

impl Disruptions {
    /// All that the budgets allow now.
    pub(super) fn of(cluster: &Cluster) -> Disruptions {
        let mut by_namespace: BTreeMap<Arc<str>, Vec<Remaining>> = BTreeMap::new();
        for budget in cluster.budgets() {
            let remaining = Remaining { budget: budget.clone(), left: budget.allowed };
            by_namespace.entry(budget.name.namespace.clone()).or_default().push(remaining);
        }
        Disruptions { by_namespace }
    }

    /// Whether any budget means the pod.
    pub(super) fn mean(&self, pod: &Pod) -> bool {
        self.of_pod(pod).next().is_some()
    }

    /// Whether a budget that means the pod is used up.
    pub(super) fn forbid(&self, pod: &Pod) -> bool {
        self.of_pod(pod).any(|remaining| remaining.left < 1)
    }

    /// These pods go. Tells whether they could all go at once.
    pub(super) fn spend<'a>(&mut self, pods: impl Iterator<Item = &'a Pod>) -> bool {
        let mut at_once = true;
        for pod in pods {
            let budgets = self.by_namespace.get_mut(&pod.name.namespace).into_iter().flatten();
            for remaining in budgets.filter(|remaining| remaining.means(pod)) {
                remaining.left = remaining.left.saturating_sub(1);
                at_once &= remaining.left >= 0;
            }
        }
        at_once
    }

    fn of_pod<'a>(&'a self, pod: &'a Pod) -> impl Iterator<Item = &'a Remaining> {
        let budgets = self.by_namespace.get(&pod.name.namespace).into_iter().flatten();
        budgets.filter(|remaining| remaining.means(pod))
    }
}

// === impl Remaining ===

impl Remaining {
    fn means(&self, pod: &Pod) -> bool {
        self.budget.means(&pod.name.namespace, &pod.labels)
    }
}
