//! Loops that come to what the one before came to.
//!
//! A loop is a function of what it knows, of what it remembers and of the time. One that left its memory as it was, and
//! after which nothing was told, comes to the same again until one of the moments comes that it compared the time with.

use model::Moment;

use super::clock::Clock;
use super::cloud::Cloud;
use super::{Autoscaler, Loop};

/// A loop after which the next may come to the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    /// When it ran, be it as a repetition.
    at: Moment,
    until: Moment,
    /// How many templates it made.
    made: u64,
}

impl Autoscaler {
    /// Whether a loop now comes to exactly what the last one came to, but for the time. If so, it counts as run.
    pub fn repeat(&mut self, now: Moment, cloud: &dyn Cloud) -> bool {
        self.refresh(now, cloud);
        let Some(rest) = self.rest.filter(|rest| now <= rest.until && self.down.is_at_rest(now)) else {
            return false;
        };
        self.state.templates.made_again(rest.at, now, rest.made);
        self.state.registry.counted_again(rest.at, now);
        self.down.looked_again(rest.at, now);
        self.status.written_again(rest.at, now);
        self.timing.ran(now, false);
        self.rest = Some(Rest { at: now, ..rest });
        true
    }

    /// Hears of instances, if it is time.
    pub(super) fn refresh(&mut self, now: Moment, cloud: &dyn Cloud) {
        if self.state.registry.refresh(now, cloud) {
            self.rest = None;
        }
    }

    /// A loop is over.
    pub(super) fn rest_after(&mut self, done: &Loop, clock: &Clock, made: u64) {
        let is_idle = done.actions.is_empty() && done.scale_down.delete_results.is_empty();
        let until = clock.same_until().filter(|_| is_idle);
        self.rest = until.map(|until| Rest { at: clock.now(), until, made });
    }

    /// Whether the next loop may come to what the last one came to.
    pub fn may_repeat(&self) -> bool {
        self.rest.is_some()
    }
}
