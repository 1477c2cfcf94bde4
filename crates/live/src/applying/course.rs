//! How far it has come.

use std::collections::BTreeMap;

use model::Moment;

/// What is under way, and what was begun last.
#[derive(Debug, Default)]
pub(super) struct Course {
    begun: u64,
    under_way: BTreeMap<u64, Moment>,
    last: Option<Moment>,
}

impl Course {
    /// Something begins that happened then; its number is for its end.
    pub(super) fn begin(&mut self, at: Moment) -> u64 {
        self.begun += 1;
        self.under_way.insert(self.begun, at);
        self.last = Some(at);
        self.begun
    }

    pub(super) fn end(&mut self, number: u64) {
        self.under_way.remove(&number);
    }

    /// The moment before which everything is done: more of what happened then may come.
    pub(super) fn position(&self) -> Option<Moment> {
        self.under_way.values().next().copied().or(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_that_is_under_way_holds_the_position() {
        let at = Moment::from_nanos;
        let mut course = Course::default();
        assert_eq!(course.position(), None);
        let numbers = [1, 2, 3].map(|nanos| course.begin(at(nanos)));
        course.end(numbers[1]);
        assert_eq!(course.position(), Some(at(1)));
        course.end(numbers[0]);
        assert_eq!(course.position(), Some(at(3)));
        course.end(numbers[2]);
        assert_eq!(course.position(), Some(at(3)));
    }
}
