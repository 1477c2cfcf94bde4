//! Scale-down budgets: the number of nodes deleted at once.

use scheduler::ids::NodeId;

use super::super::cloud::GroupId;
use super::candidate::ScaleDownCandidate;

/// The number of further deletions allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct DeletionBudget {
    /// In total.
    pub all: i64,
    /// Of nodes that are drained.
    pub drained: i64,
    /// Of empty nodes of ordinary groups, up to 1.32 (`--max-empty-bulk-delete`).
    pub empty: i64,
}

/// Nodes of one group that are deleted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NodeBatch {
    pub group: GroupId,
    pub nodes: Vec<NodeId>,
    /// For zero-or-max groups, the number of nodes that must be ready for deletion before any is deleted.
    pub batch_size: usize,
}

/// The size of a zero-or-max group.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicGroupSize {
    pub target: i64,
    pub registered: usize,
}

/// The nodes to delete now: zero-or-max groups first, then empty nodes, then nodes to drain. `atomic` returns the size
/// of zero-or-max groups, `None` for other groups.
pub(super) fn crop_nodes(
    mut budget: DeletionBudget,
    empty: &[ScaleDownCandidate],
    drained: &[ScaleDownCandidate],
    atomic: impl Fn(GroupId) -> Option<AtomicGroupSize>,
) -> (Vec<NodeBatch>, Vec<NodeBatch>) {
    let (empty_atomic, empty_single) = split_by_atomicity(empty, &atomic);
    let (mut drained_atomic, drained_single) = split_by_atomicity(drained, &atomic);
    let empty_groups: Vec<GroupId> = empty_atomic.iter().map(|(batch, _)| batch.group).collect();
    let (mut empty, mut drained) = (Vec::new(), Vec::new());
    // One such group may exceed the budget: otherwise large ones could never be deleted.
    let mut may_exceed = true;
    for (mut batch, size) in empty_atomic {
        let drained_index = drained_atomic.iter().position(|(other, _)| other.group == batch.group);
        let to_drain = drained_index.map_or(0, |index| drained_atomic[index].0.nodes.len());
        let count = batch.nodes.len() + to_drain;
        let exceeds = budget.all < count as i64 || budget.drained < to_drain as i64;
        if exceeds && (budget.all == 0 || (to_drain > 0 && budget.drained == 0) || !may_exceed) {
            break;
        }
        batch.batch_size = size.required_batch_size(batch.nodes.len());
        if !size.is_whole_group(count) {
            continue;
        }
        if let Some(index) = drained_index {
            let (mut other, _) = drained_atomic.remove(index);
            other.batch_size = batch.batch_size;
            drained.push(other);
        }
        empty.push(batch);
        budget.all = budget.all.saturating_sub(count as i64);
        budget.drained = budget.drained.saturating_sub(to_drain as i64);
        may_exceed = false;
    }
    budget.drained = budget.drained.min(budget.all);
    for (mut batch, size) in drained_atomic {
        if empty_groups.contains(&batch.group) {
            continue;
        }
        let count = batch.nodes.len();
        if budget.drained < count as i64 && (budget.drained == 0 || !may_exceed) {
            break;
        }
        batch.batch_size = size.required_batch_size(count);
        if !size.is_whole_group(count) {
            continue;
        }
        drained.push(batch);
        budget.all = budget.all.saturating_sub(count as i64);
        budget.drained = budget.drained.saturating_sub(count as i64);
        may_exceed = false;
    }
    budget.all -= crop_individual_nodes(&mut empty, empty_single, budget.all.min(budget.empty));
    crop_individual_nodes(&mut drained, drained_single, budget.drained.min(budget.all));
    (empty, drained)
}

/// Batches by group, in the order of their first candidates: those of zero-or-max groups, and the others.
fn split_by_atomicity(
    candidates: &[ScaleDownCandidate],
    atomic: impl Fn(GroupId) -> Option<AtomicGroupSize>,
) -> (Vec<(NodeBatch, AtomicGroupSize)>, Vec<NodeBatch>) {
    let mut batches: Vec<NodeBatch> = Vec::new();
    for candidate in candidates {
        match batches.iter_mut().find(|batch| batch.group == candidate.group) {
            Some(batch) => batch.nodes.push(candidate.node),
            None => {
                batches.push(NodeBatch { group: candidate.group, nodes: vec![candidate.node], batch_size: 0 })
            }
        }
    }
    let (mut all_or_none, mut single) = (Vec::new(), Vec::new());
    for batch in batches {
        match atomic(batch.group) {
            Some(size) => all_or_none.push((batch, size)),
            None => single.push(batch),
        }
    }
    (all_or_none, single)
}

/// Takes as many nodes as the budget allows, and returns their number.
fn crop_individual_nodes(cropped: &mut Vec<NodeBatch>, batches: Vec<NodeBatch>, budget: i64) -> i64 {
    let mut remaining = budget;
    for mut batch in batches {
        if remaining < 1 {
            break;
        }
        batch.nodes.truncate(usize::try_from(remaining).unwrap_or(usize::MAX));
        remaining -= batch.nodes.len() as i64;
        cropped.push(batch);
    }
    budget - remaining
}

// === impl AtomicGroupSize ===

impl AtomicGroupSize {
    fn is_whole_group(self, count: usize) -> bool {
        count as i64 == self.target || count == self.registered
    }

    /// The batch size; instances that never registered are not awaited.
    fn required_batch_size(self, count: usize) -> usize {
        if count == self.registered { count } else { usize::try_from(self.target).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests;
