//! When loops run.

use kubernetes::time::after;
use model::Moment;

use super::settings::Settings;

/// When loops ran, and whether something happened that calls for another.
#[derive(Debug)]
pub(crate) struct Timing {
    last: Moment,
    /// How many loops still follow at once.
    follow_ups: u32,
    /// Since when a pod is unschedulable that was told of after the last loop.
    called: Option<Moment>,
}

/// A pod that became unschedulable so long before the last loop calls for no other.
const NEWS_NANOS: i64 = 10 * 1_000_000_000;

impl Timing {
    pub(crate) fn new(start: Moment) -> Timing {
        Timing { last: start, follow_ups: 0, called: None }
    }

    /// A pod was told of that is unschedulable since then. One that has just become so calls for a loop.
    pub(crate) fn see(&mut self, since: Moment) {
        if self.called.is_none() && self.last.nanos_since(since) <= NEWS_NANOS {
            self.called = Some(since);
        }
    }

    /// A loop ran. One that made the cluster larger or smaller is followed by two more at once: cluster-autoscaler
    /// looks at the older of its last two runs.
    pub(crate) fn ran(&mut self, now: Moment, did_something: bool) {
        (self.last, self.called) = (now, None);
        self.follow_ups = if did_something { 2 } else { self.follow_ups.saturating_sub(1) };
    }

    /// Nothing was done after all.
    pub(crate) fn was_idle(&mut self) {
        self.follow_ups = 0;
    }

    /// When the next loop is due, if nothing else happens until then.
    pub(crate) fn next(&self, settings: &Settings) -> Moment {
        let timer = after(self.last, settings.scan_interval);
        if !settings.frequent_loops_enabled {
            return timer;
        }
        if self.follow_ups > 0 {
            return self.last;
        }
        self.called.map_or(timer, |called| called.max(self.last).min(timer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Version;

    fn second(second: i64) -> Moment {
        Moment::from_nanos(kubernetes::time::seconds(second))
    }

    #[test]
    fn a_loop_that_did_something_is_followed_by_two_at_once() {
        let settings = Settings::default();
        let mut timing = Timing::new(second(0));
        assert_eq!(timing.next(&settings), second(10));
        timing.ran(second(10), true);
        assert_eq!(timing.next(&settings), second(10));
        timing.ran(second(10), false);
        assert_eq!(timing.next(&settings), second(10));
        timing.ran(second(10), false);
        assert_eq!(timing.next(&settings), second(20));
        timing.ran(second(20), true);
        timing.was_idle();
        assert_eq!(timing.next(&settings), second(30));
    }

    #[test]
    fn a_pod_that_has_just_become_unschedulable_calls_for_a_loop() {
        let settings = Settings::default();
        let mut timing = Timing::new(second(100));
        timing.see(second(89));
        assert_eq!(timing.next(&settings), second(110), "old news");
        timing.see(second(95));
        assert_eq!(timing.next(&settings), second(100), "at once");
        timing.ran(second(100), false);
        timing.see(second(103));
        assert_eq!(timing.next(&settings), second(103));
        assert_eq!(timing.next(&Settings::for_version(Version::V1_34)), second(110), "not in its time");
    }
}
