//! The clock of a loop, which also tracks until when all comparisons with the current time keep their result.

use std::cell::Cell;

use model::Moment;

/// The moment of a loop. All comparisons with it go through the clock, which notes when their result would change:
/// until then a loop with the same input has the same result.
#[derive(Debug)]
pub(crate) struct LoopClock {
    now: Moment,
    /// The last moment at which all comparisons have the same result; before now if state changed that a later loop
    /// reads.
    stable_until: Cell<Moment>,
}

impl LoopClock {
    pub(crate) fn at(now: Moment) -> LoopClock {
        LoopClock { now, stable_until: Cell::new(Moment::MAX) }
    }

    /// The current moment, to be stored. For comparisons use the other methods.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Whether the current time is after a moment.
    pub(crate) fn is_past(&self, moment: Moment) -> bool {
        let is_past = self.now > moment;
        if !is_past {
            self.limit_stable_until(moment);
        }
        is_past
    }

    /// Whether the current time is at or after a moment.
    pub(crate) fn has_reached(&self, moment: Moment) -> bool {
        let has_reached = self.now >= moment;
        if !has_reached {
            self.limit_stable_until(moment.plus_nanos(-1));
        }
        has_reached
    }

    /// Prevents a repetition: state changed so that the next loop may have another result.
    pub(crate) fn prevent_repeat(&self) {
        self.limit_stable_until(self.now.plus_nanos(-1));
    }

    /// Until when loops have the same result; `None` if the next one may differ.
    pub(crate) fn stable_until(&self) -> Option<Moment> {
        Some(self.stable_until.get()).filter(|until| *until >= self.now)
    }

    fn limit_stable_until(&self, until: Moment) {
        self.stable_until.set(self.stable_until.get().min(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(100);

    #[track_caller]
    fn check(query: impl Fn(&LoopClock), until: Option<i64>) {
        let clock = LoopClock::at(NOW);
        query(&clock);
        assert_eq!(clock.stable_until(), until.map(Moment::from_nanos));
    }

    #[test]
    fn results_are_stable_until_the_first_of_them_changes() {
        let moment = Moment::from_nanos;
        check(|clock| assert!(!clock.is_past(moment(105))), Some(105));
        check(|clock| assert!(!clock.has_reached(moment(105))), Some(104));
        check(|clock| assert!(!clock.is_past(NOW)), Some(100));
        check(|clock| assert!(clock.has_reached(NOW)), Some(i64::MAX));
        check(|clock| assert!(clock.is_past(moment(99)) && clock.has_reached(moment(99))), Some(i64::MAX));
        check(|clock| assert!(!clock.is_past(moment(130)) && !clock.has_reached(moment(120))), Some(119));
    }

    #[test]
    fn nothing_is_stable_after_a_state_change() {
        check(|clock| clock.prevent_repeat(), None);
    }
}
