//! How many nodes go at once.

use scheduler::ids::NodeId;

use super::super::cloud::GroupId;
use super::candidate::Candidate;

/// How many more nodes may be on their way out.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    /// Of all.
    pub all: i64,
    /// Of those that are drained.
    pub drained: i64,
    /// Of empty ones of ordinary groups, up to 1.32.
    pub empty: i64,
}

/// Nodes of one group that go.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub group: GroupId,
    pub nodes: Vec<NodeId>,
    /// How many must be ready to go before any of them goes; it counts for groups of which all go or none.
    pub size: usize,
}

/// The size of a group of which all nodes go or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct AtomicSize {
    pub target: i64,
    pub registered: usize,
}

/// Those that go now: groups of which all nodes go first, then empty nodes, then others. `atomic` tells which groups
/// are such.
pub(super) fn crop(
    mut budget: Budget,
    empty: &[Candidate],
    drained: &[Candidate],
    atomic: impl Fn(GroupId) -> Option<AtomicSize>,
) -> (Vec<Batch>, Vec<Batch>) {
    let (empty_atomic, empty_single) = split(empty, &atomic);
    let (mut drained_atomic, drained_single) = split(drained, &atomic);
    let empty_groups: Vec<GroupId> = empty_atomic.iter().map(|(batch, _)| batch.group).collect();
    let (mut empty, mut drained) = (Vec::new(), Vec::new());
    // One such group may exceed the budget: else the large ones would never go.
    let mut may_exceed = true;
    for (mut batch, size) in empty_atomic {
        let with = drained_atomic.iter().position(|(other, _)| other.group == batch.group);
        let to_drain = with.map_or(0, |place| drained_atomic[place].0.nodes.len());
        let count = batch.nodes.len() + to_drain;
        let exceeds = budget.all < count as i64 || budget.drained < to_drain as i64;
        if exceeds && (budget.all == 0 || (to_drain > 0 && budget.drained == 0) || !may_exceed) {
            break;
        }
        batch.size = size.needed(batch.nodes.len());
        if !size.is_all(count) {
            continue;
        }
        if let Some(place) = with {
            let (mut other, _) = drained_atomic.remove(place);
            other.size = batch.size;
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
        batch.size = size.needed(count);
        if !size.is_all(count) {
            continue;
        }
        drained.push(batch);
        budget.all = budget.all.saturating_sub(count as i64);
        budget.drained = budget.drained.saturating_sub(count as i64);
        may_exceed = false;
    }
    budget.all -= take_single(&mut empty, empty_single, budget.all.min(budget.empty));
    take_single(&mut drained, drained_single, budget.drained.min(budget.all));
    (empty, drained)
}

/// By group, in the order in which groups are first met: those of which all nodes go or none, and the others.
fn split(
    candidates: &[Candidate],
    atomic: impl Fn(GroupId) -> Option<AtomicSize>,
) -> (Vec<(Batch, AtomicSize)>, Vec<Batch>) {
    let mut batches: Vec<Batch> = Vec::new();
    for candidate in candidates {
        match batches.iter_mut().find(|batch| batch.group == candidate.group) {
            Some(batch) => batch.nodes.push(candidate.node),
            None => batches.push(Batch { group: candidate.group, nodes: vec![candidate.node], size: 0 }),
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

/// Takes as many as the budget allows, and tells how many.
fn take_single(taken: &mut Vec<Batch>, batches: Vec<Batch>, budget: i64) -> i64 {
    let mut left = budget;
    for mut batch in batches {
        if left < 1 {
            break;
        }
        batch.nodes.truncate(usize::try_from(left).unwrap_or(usize::MAX));
        left -= batch.nodes.len() as i64;
        taken.push(batch);
    }
    budget - left
}

// === impl AtomicSize ===

impl AtomicSize {
    fn is_all(self, count: usize) -> bool {
        count as i64 == self.target || count == self.registered
    }

    /// Instances that never registered are not waited for.
    fn needed(self, count: usize) -> usize {
        if count == self.registered { count } else { usize::try_from(self.target).unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests;
