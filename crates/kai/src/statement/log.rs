//! The operations of a statement in their order, and which of them are undone.

use rustc_hash::FxHashMap;

use super::operation::Operation;
use crate::cluster::ids::PodId;

/// The operations of a statement in their order, and which of them are undone.
#[derive(Debug, Default)]
pub(super) struct OperationLog {
    operations: Vec<Operation>,
    /// For each operation the first one that undoes it.
    undone_by: Vec<Option<usize>>,
    /// The evictions of each pod, in their order.
    evictions: FxHashMap<PodId, Vec<usize>>,
}

impl OperationLog {
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    pub(super) fn get(&self, index: usize) -> &Operation {
        &self.operations[index]
    }

    /// Adds an operation.
    pub(super) fn push(&mut self, operation: Operation) {
        self.operations.push(operation);
        self.undone_by.push(None);
        self.index(self.operations.len() - 1);
    }

    /// Drops all operations from an index on.
    pub(super) fn truncate(&mut self, length: usize) {
        while self.operations.len() > length {
            let index = self.operations.len() - 1;
            self.undone_by.pop();
            match self.operations.pop() {
                Some(Operation::Undo { operation }) => {
                    if let Some(undone_by) =
                        self.undone_by.get_mut(operation).filter(|by| **by == Some(index))
                    {
                        *undone_by = None;
                    }
                }
                Some(Operation::Evict { pod, .. }) => {
                    if let Some(evictions) = self.evictions.get_mut(&pod) {
                        evictions.pop();
                    }
                }
                Some(Operation::Pipeline { .. } | Operation::Allocate { .. }) | None => {}
            }
        }
    }

    /// Drops the operations that are not to be kept. An undo keeps the index of the operation that it undoes, as in the
    /// original, wherever that operation moves.
    pub(super) fn retain(&mut self, is_kept: impl FnMut(&Operation) -> bool) {
        self.operations.retain(is_kept);
        self.undone_by = vec![None; self.operations.len()];
        self.evictions.clear();
        (0..self.operations.len()).for_each(|index| self.index(index));
    }

    /// Whether an operation was not undone, or its undoing was.
    pub(super) fn is_valid(&self, index: usize) -> bool {
        let mut is_valid = true;
        let mut next = self.undone_by[index];
        while let Some(undo) = next {
            is_valid = !is_valid;
            next = self.undone_by[undo];
        }
        is_valid
    }

    /// The first eviction of a pod that is valid.
    pub(super) fn first_valid_eviction(&self, pod: PodId) -> Option<usize> {
        let evictions = self.evictions.get(&pod)?;
        evictions.iter().copied().find(|index| self.is_valid(*index))
    }

    fn index(&mut self, index: usize) {
        match &self.operations[index] {
            Operation::Undo { operation } if *operation < index => {
                self.undone_by[*operation].get_or_insert(index);
            }
            Operation::Evict { pod, .. } => self.evictions.entry(*pod).or_default().push(index),
            Operation::Undo { .. } | Operation::Pipeline { .. } | Operation::Allocate { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(operation: usize) -> Operation {
        Operation::Undo { operation }
    }

    /// Whether each operation of a log of undos is valid.
    fn valid(log: &OperationLog) -> Vec<bool> {
        (0..log.len()).map(|index| log.is_valid(index)).collect()
    }

    #[test]
    fn an_operation_whose_undo_is_undone_is_valid() {
        let mut log = OperationLog::default();
        // The first two undo nothing: what they undo would come later.
        for operation in [undo(7), undo(7), undo(0), undo(2), undo(0)] {
            log.push(operation);
        }
        assert_eq!(valid(&log), [true, true, false, true, true]);
        log.truncate(3);
        assert_eq!(valid(&log), [false, true, true]);
        log.truncate(2);
        assert_eq!(valid(&log), [true, true]);
    }
}
