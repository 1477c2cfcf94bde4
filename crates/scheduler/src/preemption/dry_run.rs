//! Dry runs of preemption on one node: the victims without which the pod fits.

use std::cmp::Reverse;

use kubernetes::go;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use crate::cache::{BudgetId, ClusterCache};
use crate::cycle_state::{CycleState, NodeWithChanges};
use crate::ids::{NodeId, PodId};
use crate::plugin::Plugin;
use crate::status::{Code, Status};

/// Dry runs for one pod, with buffers that they share.
pub(super) struct DryRunner<'a, 'c> {
    cycle_state: &'c CycleState<'a>,
    /// The start time of pods that have none.
    now: i64,
    /// The filters that may reject the node when a pod is put back.
    pod_dependent_filters: SmallVec<[Plugin; 6]>,
    changed_node: NodeWithChanges,
    potential_victims: Vec<PotentialVictim>,
    violating: Vec<PotentialVictim>,
    non_violating: Vec<PotentialVictim>,
    victims: Vec<PotentialVictim>,
}

/// A pod of lower priority.
#[derive(Clone, Copy)]
struct PotentialVictim {
    pod: PodId,
    priority: i32,
    start_time: Option<i64>,
}

/// The victims on a node on which preemption helps.
#[derive(Debug)]
pub(super) struct Candidate {
    /// The most important first.
    pub victims: Vec<PodId>,
    /// The number of victims that violate a disruption budget.
    pub pdb_violations: usize,
    first_victim_priority: i32,
    priority_sum: i64,
    /// The earliest start time of the victims of the highest priority; `None` if none has one.
    earliest_start: Option<i64>,
    /// Whether a victim of the highest priority has no start time.
    lacks_start_time: bool,
}

/// The result of a dry run, and what it depends on besides the node and its pods.
pub(super) struct DryRunResult {
    pub outcome: Result<Candidate, Status>,
    /// The result holds at any time later than this; `None`: at any time.
    pub valid_after: Option<i64>,
    /// Whether a disruption budget covers any of the pods.
    pub depends_on_budgets: bool,
}

/// The disruption budgets that cover pods, by label set: each is matched once.
#[derive(Debug, Default)]
pub(super) struct CoveringBudgets {
    by_labels: FxHashMap<u64, SmallVec<[BudgetId; 1]>>,
    coverage_generation: u64,
}

/// kube-scheduler's criteria for the choice of a node, of which lower is better.
pub(super) type CandidateCost = (usize, i32, i64, usize, Reverse<Option<i64>>);

const MAX_LABEL_SETS: usize = 1 << 16;

// === impl DryRunner ===

impl<'a, 'c> DryRunner<'a, 'c> {
    pub(super) fn new(cycle_state: &'c CycleState<'a>, now: i64) -> DryRunner<'a, 'c> {
        DryRunner {
            cycle_state,
            now,
            pod_dependent_filters: cycle_state.pod_dependent_filters(),
            changed_node: NodeWithChanges::default(),
            potential_victims: Vec::new(),
            violating: Vec::new(),
            non_violating: Vec::new(),
            victims: Vec::new(),
        }
    }

    /// Dry-runs preemption on a node.
    pub(super) fn run(&mut self, node: NodeId, covering_budgets: &mut CoveringBudgets) -> DryRunResult {
        let (cache, preemptor) = (self.cycle_state.cache, self.cycle_state.pod);
        self.potential_victims.clear();
        for &id in &cache.nodes.usage(node).pods {
            let pod = cache.pod(id);
            let (priority, start_time) = (pod.priority(), pod.start_time);
            if is_preemption_allowed(priority, preemptor.priority()) {
                self.potential_victims.push(PotentialVictim { pod: id, priority, start_time });
            }
        }
        let mut depends_on_budgets = false;
        let outcome = self.select_victims_on_node(node, covering_budgets, &mut depends_on_budgets);
        DryRunResult { outcome, valid_after: self.valid_after(), depends_on_budgets }
    }

    /// Returns the victims, or the status if preemption does not help.
    fn select_victims_on_node(
        &mut self,
        node: NodeId,
        covering_budgets: &mut CoveringBudgets,
        depends_on_budgets: &mut bool,
    ) -> Result<Candidate, Status> {
        if self.potential_victims.is_empty() {
            return Err(no_victims_status());
        }
        let cycle_state = self.cycle_state;
        cycle_state.reset_changes(&mut self.changed_node, node);
        for victim in &self.potential_victims {
            cycle_state.remove_pod(&mut self.changed_node, victim.pod, node);
        }
        cycle_state.filter_with_changes(node, &self.changed_node)?;
        sort_by_importance(&mut self.potential_victims, self.now);
        *depends_on_budgets = self.split_by_pdb_violation(covering_budgets);
        self.victims.clear();
        for index in 0..self.violating.len() {
            self.reprieve(self.violating[index], node);
        }
        let pdb_violations = self.victims.len();
        for index in 0..self.non_violating.len() {
            self.reprieve(self.non_violating[index], node);
        }
        if !self.violating.is_empty() && !self.non_violating.is_empty() {
            sort_by_importance(&mut self.victims, self.now);
        }
        if self.victims.is_empty() {
            let name = cycle_state.cache.nodes.name(node);
            let reason = format!("expected at least one victim pod on node {name:?}");
            return Err(Status {
                plugin: Plugin::DefaultPreemption,
                code: Code::Error,
                reasons: smallvec![reason.into()],
            });
        }
        Ok(Candidate::new(&self.victims, pdb_violations))
    }

    /// Keeps a pod on the node if the incoming pod still fits; otherwise it becomes a victim.
    fn reprieve(&mut self, victim: PotentialVictim, node: NodeId) {
        let cycle_state = self.cycle_state;
        cycle_state.add_pod(&mut self.changed_node, victim.pod, node);
        let filters = &self.pod_dependent_filters;
        if cycle_state.run_filters_with_changes(node, &self.changed_node, filters).is_err() {
            cycle_state.remove_pod(&mut self.changed_node, victim.pod, node);
            self.victims.push(victim);
        }
    }

    /// Splits the pods into those that violate a disruption budget if all are deleted in this order, and the others.
    /// Returns whether a budget covers any of them.
    fn split_by_pdb_violation(&mut self, covering_budgets: &mut CoveringBudgets) -> bool {
        self.violating.clear();
        self.non_violating.clear();
        let cache = self.cycle_state.cache;
        let budgets = &cache.related_objects.budgets;
        if budgets.is_empty() {
            self.non_violating.extend_from_slice(&self.potential_victims);
            return false;
        }
        let mut allowed: SmallVec<[(BudgetId, i64); 4]> = SmallVec::new();
        let mut depends_on_budgets = false;
        for &victim in &self.potential_victims {
            let name = &cache.pod(victim.pod).name.name;
            let mut is_violating = false;
            for &id in covering_budgets.of_pod(cache, victim.pod) {
                depends_on_budgets = true;
                let budget = budgets.get(id);
                if budget.disrupted_pods.contains(name) {
                    continue;
                }
                let index = allowed.iter().position(|(other, _)| *other == id).unwrap_or_else(|| {
                    allowed.push((id, i64::from(budget.disruptions_allowed)));
                    allowed.len() - 1
                });
                allowed[index].1 -= 1;
                is_violating |= allowed[index].1 < 0;
            }
            let list = if is_violating { &mut self.violating } else { &mut self.non_violating };
            list.push(victim);
        }
        depends_on_budgets
    }

    /// The time after which the order of the pods does not change any more.
    fn valid_after(&self) -> Option<i64> {
        let lacks_start_time = self.potential_victims.iter().any(|victim| victim.start_time.is_none());
        self.potential_victims
            .iter()
            .filter_map(|victim| victim.start_time)
            .max()
            .filter(|_| lacks_start_time)
    }
}

// === impl Candidate ===

impl Candidate {
    fn new(victims: &[PotentialVictim], pdb_violations: usize) -> Candidate {
        let highest_priority = victims.iter().map(|victim| victim.priority).max();
        let most_important = || victims.iter().filter(|victim| Some(victim.priority) == highest_priority);
        Candidate {
            victims: victims.iter().map(|victim| victim.pod).collect(),
            pdb_violations,
            first_victim_priority: victims.first().map_or(i32::MIN, |victim| victim.priority),
            priority_sum: victims.iter().map(|victim| i64::from(victim.priority) + (1 << 31)).sum(),
            earliest_start: most_important().filter_map(|victim| victim.start_time).min(),
            lacks_start_time: most_important().any(|victim| victim.start_time.is_none()),
        }
    }

    pub(super) fn cost(&self, now: i64) -> CandidateCost {
        let earliest_start = match (self.earliest_start, self.lacks_start_time) {
            (Some(start), true) => Some(start.min(now)),
            (None, true) => Some(now),
            (earliest_start, false) => earliest_start,
        };
        (
            self.pdb_violations,
            self.first_victim_priority,
            self.priority_sum,
            self.victims.len(),
            Reverse(earliest_start),
        )
    }
}

// === impl CoveringBudgets ===

impl CoveringBudgets {
    /// The budgets that cover a pod.
    fn of_pod(&mut self, cache: &ClusterCache, id: PodId) -> &[BudgetId] {
        let budgets = &cache.related_objects.budgets;
        if self.coverage_generation != budgets.coverage_generation() || self.by_labels.len() > MAX_LABEL_SETS
        {
            self.by_labels.clear();
            self.coverage_generation = budgets.coverage_generation();
        }
        self.by_labels.entry(cache.labels_serial(id)).or_insert_with(|| {
            let pod = cache.pod(id);
            budgets.covering(&pod.name.namespace, &pod.labels)
        })
    }
}

/// Whether a pod may be preempted: only by a pod of higher priority.
pub(super) fn is_preemption_allowed(victim_priority: i32, preemptor_priority: i32) -> bool {
    victim_priority < preemptor_priority
}

/// The status of a node without lower-priority pods.
pub(super) fn no_victims_status() -> Status {
    Status::unresolvable(Plugin::DefaultPreemption, "No preemption victims found for incoming pod")
}

/// The most important first: higher priority, then earlier start time.
fn sort_by_importance(pods: &mut [PotentialVictim], now: i64) {
    go::sort(pods, |a, b| {
        if a.priority != b.priority {
            return a.priority > b.priority;
        }
        match (a.start_time, b.start_time) {
            // kube-scheduler reads the clock for each missing start time, and the clock advances between the two reads.
            (None, None) => true,
            (a, b) => a.unwrap_or(now) < b.unwrap_or(now),
        }
    });
}
