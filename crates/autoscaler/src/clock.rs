//! What time it is in a loop, and how long whatever was asked about the time keeps its answer.

use std::cell::Cell;

use model::Moment;

/// The moment of a loop. Who compares it with another asks the clock, which notes when the answer would be another: until
/// then a loop that knows the same comes to the same.
#[derive(Debug)]
pub(crate) struct Clock {
    now: Moment,
    /// The last moment at which all answers are the same; before now if something was done that a later loop sees.
    same_until: Cell<Moment>,
}

impl Clock {
    pub(crate) fn at(now: Moment) -> Clock {
        Clock { now, same_until: Cell::new(Moment::MAX) }
    }

    /// To be written down, not to be compared.
    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Whether a moment is over.
    pub(crate) fn is_past(&self, moment: Moment) -> bool {
        let is_past = self.now > moment;
        if !is_past {
            self.note(moment);
        }
        is_past
    }

    /// Whether a moment has come.
    pub(crate) fn has_come(&self, moment: Moment) -> bool {
        let has_come = self.now >= moment;
        if !has_come {
            self.note(moment.plus_nanos(-1));
        }
        has_come
    }

    /// Something was done or remembered for which the next loop may come to something else.
    pub(crate) fn disturb(&self) {
        self.note(self.now.plus_nanos(-1));
    }

    /// Up to when loops come to the same, if at all.
    pub(crate) fn same_until(&self) -> Option<Moment> {
        Some(self.same_until.get()).filter(|until| *until >= self.now)
    }

    fn note(&self, until: Moment) {
        self.same_until.set(self.same_until.get().min(until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(100);

    #[track_caller]
    fn check(ask: impl Fn(&Clock), until: Option<i64>) {
        let clock = Clock::at(NOW);
        ask(&clock);
        assert_eq!(clock.same_until(), until.map(Moment::from_nanos));
    }

    #[test]
    fn answers_hold_until_the_first_of_them_changes() {
        let moment = Moment::from_nanos;
        check(|clock| assert!(!clock.is_past(moment(105))), Some(105));
        check(|clock| assert!(!clock.has_come(moment(105))), Some(104));
        check(|clock| assert!(!clock.is_past(NOW)), Some(100));
        check(|clock| assert!(clock.has_come(NOW)), Some(i64::MAX));
        check(|clock| assert!(clock.is_past(moment(99)) && clock.has_come(moment(99))), Some(i64::MAX));
        check(|clock| assert!(!clock.is_past(moment(130)) && !clock.has_come(moment(120))), Some(119));
    }

    #[test]
    fn nothing_holds_after_something_was_done() {
        check(|clock| clock.disturb(), None);
    }
}
