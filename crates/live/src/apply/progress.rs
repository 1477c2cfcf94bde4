//! Progress of a replay through its operations.

use std::collections::BTreeMap;

use model::Moment;

/// The operations in progress, and the moment of the last one started.
#[derive(Debug, Default)]
pub(super) struct Progress {
    started: u64,
    in_progress: BTreeMap<u64, Moment>,
    last: Option<Moment>,
}

impl Progress {
    /// Starts an operation of this moment; returns its number.
    pub(super) fn begin(&mut self, at: Moment) -> u64 {
        self.started += 1;
        self.in_progress.insert(self.started, at);
        self.last = Some(at);
        self.started
    }

    pub(super) fn end(&mut self, number: u64) {
        self.in_progress.remove(&number);
    }

    /// The moment before which all operations are done; others of that moment may follow.
    pub(super) fn done_until(&self) -> Option<Moment> {
        self.in_progress.values().next().copied().or(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_operation_in_progress_determines_the_position() {
        let at = Moment::from_nanos;
        let mut progress = Progress::default();
        assert_eq!(progress.done_until(), None);
        let numbers = [1, 2, 3].map(|nanos| progress.begin(at(nanos)));
        progress.end(numbers[1]);
        assert_eq!(progress.done_until(), Some(at(1)));
        progress.end(numbers[0]);
        assert_eq!(progress.done_until(), Some(at(3)));
        progress.end(numbers[2]);
        assert_eq!(progress.done_until(), Some(at(3)));
    }
}
