//! The cache of dry runs, by preemptor class (node-local spec and priority) and node. An entry is valid until
//! the node, its pods or their order change; if a budget covers a potential victim, until any budget changes.
//! Adding or deleting a budget, changing a selector, or clearing the filter cache clears the cache.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::dry_run::{Candidate, CoveringBudgets, DryRunner};
use crate::cache::ClusterCache;
use crate::cycle_state::CycleState;
use crate::filter_cache::FilterCache;
use crate::ids::NodeId;
use crate::pod::SchedulingSpec;

/// Dry runs of earlier preemptions.
#[derive(Debug, Default)]
pub(crate) struct DryRunCache {
    by_class: FxHashMap<PreemptorClass, CachedDryRuns>,
    pub(super) covering_budgets: CoveringBudgets,
    /// The last value of the filter cache's clear count and of the coverage generation of budgets.
    valid_for: (u64, u64),
    clock: u64,
}

/// Preemptors that share dry runs: the identifier of their node-local spec, and their priority.
type PreemptorClass = (u32, i32);

/// Dry runs of one preemptor class.
#[derive(Debug)]
pub(super) struct CachedDryRuns {
    spec: Arc<SchedulingSpec>,
    by_node: Vec<Option<CachedDryRun>>,
    last_used: u64,
}

/// A dry run on a node.
#[derive(Debug)]
struct CachedDryRun {
    generation: u64,
    victim_order_changes: u32,
    valid_after: Option<i64>,
    /// Set if it depends on disruption budgets.
    budget_generation: Option<u64>,
    /// A candidate, or the identifier of a status.
    outcome: DryRunOutcome,
}

/// A candidate, or the identifier of the status why preemption does not help.
pub(super) type DryRunOutcome = Result<Candidate, u32>;

/// The maximum number of preemptor classes. Each takes about 120 bytes per node, and 4 bytes per victim.
const MAX_CLASSES: usize = 32;

// === impl DryRunCache ===

impl DryRunCache {
    pub(crate) fn clear(&mut self) {
        self.by_class.clear();
        self.covering_budgets = CoveringBudgets::default();
    }

    /// Takes the dry runs of a preemptor's class out of the cache; the caller puts them back. `None` if the
    /// preemptor's dry runs depend on more than a node and its pods.
    pub(super) fn take(
        &mut self,
        cycle_state: &CycleState<'_>,
        filter_cache: &FilterCache,
    ) -> Option<CachedDryRuns> {
        let valid_for =
            (filter_cache.clear_count(), cycle_state.cache.related_objects.budgets.coverage_generation());
        if std::mem::replace(&mut self.valid_for, valid_for) != valid_for {
            self.clear();
        }
        if !cycle_state.has_cacheable_dry_runs() {
            return None;
        }
        self.clock += 1;
        let (class, spec) = preemptor_class(cycle_state);
        let cached = self.by_class.remove(&class).filter(|cached| Arc::ptr_eq(&cached.spec, spec));
        let mut dry_runs =
            cached.unwrap_or_else(|| CachedDryRuns { spec: spec.clone(), by_node: Vec::new(), last_used: 0 });
        dry_runs.last_used = self.clock;
        Some(dry_runs)
    }

    pub(super) fn put_back(&mut self, cycle_state: &CycleState<'_>, dry_runs: CachedDryRuns) {
        self.by_class.insert(preemptor_class(cycle_state).0, dry_runs);
        if self.by_class.len() > MAX_CLASSES {
            let oldest = self.by_class.iter().map(|(class, dry_runs)| (dry_runs.last_used, *class)).min();
            oldest.map(|(_, class)| self.by_class.remove(&class));
        }
    }
}

fn preemptor_class<'a>(cycle_state: &CycleState<'a>) -> (PreemptorClass, &'a Arc<SchedulingSpec>) {
    let (spec_id, spec) = cycle_state.cache.node_local_spec(cycle_state.pod_id);
    ((spec_id, cycle_state.pod.priority()), spec)
}

// === impl CachedDryRuns ===

impl CachedDryRuns {
    /// The outcome of a dry run on a node, from the cache if it is still valid.
    pub(super) fn get_or_run(
        &mut self,
        node: NodeId,
        now: i64,
        cache: &ClusterCache,
        runner: &mut DryRunner<'_, '_>,
        covering_budgets: &mut CoveringBudgets,
        filter_cache: &mut FilterCache,
    ) -> &DryRunOutcome {
        if self.by_node.len() <= node.index() {
            self.by_node.resize_with(cache.nodes.id_bound(), || None);
        }
        let slot = &mut self.by_node[node.index()];
        let is_valid = slot.as_ref().is_some_and(|dry_run| dry_run.is_valid(node, now, cache));
        if !is_valid {
            let result = runner.run(node, covering_budgets);
            *slot = Some(CachedDryRun {
                generation: cache.nodes.generation(node),
                victim_order_changes: cache.nodes.victim_order_changes(node),
                // If a start time is not in the past, the order may change: never reuse the result.
                valid_after: result.valid_after.map(|after| if now > after { after } else { i64::MAX }),
                budget_generation: result
                    .depends_on_budgets
                    .then(|| cache.related_objects.budgets.generation()),
                outcome: result.outcome.map_err(|status| filter_cache.status_id(status)),
            });
        }
        &slot.as_ref().expect("the dry run has just been stored").outcome
    }
}

// === impl CachedDryRun ===

impl CachedDryRun {
    fn is_valid(&self, node: NodeId, now: i64, cache: &ClusterCache) -> bool {
        self.generation == cache.nodes.generation(node)
            && self.victim_order_changes == cache.nodes.victim_order_changes(node)
            && self.valid_after.is_none_or(|after| now > after)
            && self
                .budget_generation
                .is_none_or(|generation| generation == cache.related_objects.budgets.generation())
    }
}
