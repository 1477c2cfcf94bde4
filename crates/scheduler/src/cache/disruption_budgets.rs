//! PodDisruptionBudgets, and which of them cover a label set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::Selector;
use smallvec::SmallVec;

/// The identifier of a disruption budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BudgetId(u32);

/// A PodDisruptionBudget.
#[derive(Debug, PartialEq)]
pub(crate) struct DisruptionBudget {
    /// An invalid selector matches nothing.
    pub selector: Selector,
    pub disruptions_allowed: i32,
    /// The names of the pods in `status.disruptedPods`.
    pub disrupted_pods: BTreeSet<Arc<str>>,
}

/// All disruption budgets.
#[derive(Debug, Default)]
pub(crate) struct DisruptionBudgets {
    budgets: Vec<DisruptionBudget>,
    /// The identifiers of deleted budgets.
    free: Vec<BudgetId>,
    /// By namespace and name.
    ids: BTreeMap<(Arc<str>, Arc<str>), BudgetId>,
    /// Changes with every budget.
    generation: u64,
    /// Changes when a budget is added or removed, or gets another selector: [`BudgetId`]s obtained before are invalid.
    coverage_generation: u64,
}

impl DisruptionBudgets {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn get(&self, id: BudgetId) -> &DisruptionBudget {
        &self.budgets[id.0 as usize]
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    pub(crate) fn coverage_generation(&self) -> u64 {
        self.coverage_generation
    }

    /// The budgets that select pods with these labels. An empty selector selects none.
    pub(crate) fn covering(&self, namespace: &Arc<str>, labels: &Labels) -> SmallVec<[BudgetId; 1]> {
        if labels.is_empty() {
            return SmallVec::new();
        }
        let from_namespace = self.ids.range((namespace.clone(), Arc::from(""))..);
        let in_namespace = from_namespace.take_while(|((other, _), _)| other == namespace);
        let is_covering = |id: &BudgetId| {
            let selector = &self.get(*id).selector;
            !selector.is_everything() && selector.matches(|key| labels.get(key))
        };
        in_namespace.map(|(_, id)| *id).filter(is_covering).collect()
    }

    pub(super) fn set(&mut self, namespace: Arc<str>, name: Arc<str>, budget: DisruptionBudget) {
        let key = (namespace, name);
        if let Some(id) = self.ids.get(&key) {
            let old = &mut self.budgets[id.0 as usize];
            self.coverage_generation += u64::from(old.selector != budget.selector);
            self.generation += u64::from(*old != budget);
            *old = budget;
            return;
        }
        self.generation += 1;
        self.coverage_generation += 1;
        let id = self.free.pop().unwrap_or(BudgetId(self.budgets.len() as u32));
        if id.0 as usize == self.budgets.len() {
            self.budgets.push(budget);
        } else {
            self.budgets[id.0 as usize] = budget;
        }
        self.ids.insert(key, id);
    }

    pub(super) fn remove(&mut self, namespace: Arc<str>, name: Arc<str>) {
        if let Some(id) = self.ids.remove(&(namespace, name)) {
            self.generation += 1;
            self.coverage_generation += 1;
            self.free.push(id);
        }
    }
}
