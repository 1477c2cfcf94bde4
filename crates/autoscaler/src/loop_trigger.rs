//! The loop trigger, which decides when loops run.

use kubernetes::time::after;
use model::Moment;

use super::settings::Settings;

/// The last loop, and the events that trigger another one before the scan interval is over.
#[derive(Debug)]
pub(crate) struct LoopTrigger {
    last_run: Moment,
    /// The number of loops that still follow immediately.
    follow_ups: u32,
    /// Since when a pod is unschedulable that was reported after the last loop.
    unschedulable_since: Option<Moment>,
}

/// A pod that became unschedulable longer than this before the last loop triggers no other.
const UNSCHEDULABLE_POD_MAX_AGE_NANOS: i64 = 10 * 1_000_000_000;

impl LoopTrigger {
    pub(crate) fn new(start: Moment) -> LoopTrigger {
        LoopTrigger { last_run: start, follow_ups: 0, unschedulable_since: None }
    }

    /// Reports a pod that is unschedulable since that moment. A recent one triggers a loop.
    pub(crate) fn report_unschedulable_pod(&mut self, since: Moment) {
        if self.unschedulable_since.is_none()
            && self.last_run.nanos_since(since) <= UNSCHEDULABLE_POD_MAX_AGE_NANOS
        {
            self.unschedulable_since = Some(since);
        }
    }

    /// Records a loop. One that scaled up or down is followed by two more immediately: cluster-autoscaler compares with
    /// the older of its last two runs.
    pub(crate) fn loop_ran(&mut self, now: Moment, did_something: bool) {
        (self.last_run, self.unschedulable_since) = (now, None);
        self.follow_ups = if did_something { 2 } else { self.follow_ups.saturating_sub(1) };
    }

    /// Cancels the immediate follow-ups.
    pub(crate) fn cancel_follow_ups(&mut self) {
        self.follow_ups = 0;
    }

    /// When the next loop is due, if nothing else happens until then.
    pub(crate) fn next_loop(&self, settings: &Settings) -> Moment {
        let timer = after(self.last_run, settings.scan_interval);
        if !settings.frequent_loops_enabled {
            return timer;
        }
        if self.follow_ups > 0 {
            return self.last_run;
        }
        self.unschedulable_since
            .map_or(timer, |unschedulable_at| unschedulable_at.max(self.last_run).min(timer))
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
    fn a_loop_that_scaled_is_followed_by_two_immediately() {
        let settings = Settings::default();
        let mut timing = LoopTrigger::new(second(0));
        assert_eq!(timing.next_loop(&settings), second(10));
        timing.loop_ran(second(10), true);
        assert_eq!(timing.next_loop(&settings), second(10));
        timing.loop_ran(second(10), false);
        assert_eq!(timing.next_loop(&settings), second(10));
        timing.loop_ran(second(10), false);
        assert_eq!(timing.next_loop(&settings), second(20));
        timing.loop_ran(second(20), true);
        timing.cancel_follow_ups();
        assert_eq!(timing.next_loop(&settings), second(30));
    }

    #[test]
    fn a_pod_that_has_just_become_unschedulable_triggers_a_loop() {
        let settings = Settings::default();
        let mut timing = LoopTrigger::new(second(100));
        timing.report_unschedulable_pod(second(89));
        assert_eq!(timing.next_loop(&settings), second(110), "the report is too old to trigger a loop");
        timing.report_unschedulable_pod(second(95));
        assert_eq!(timing.next_loop(&settings), second(100), "at once");
        timing.loop_ran(second(100), false);
        timing.report_unschedulable_pod(second(103));
        assert_eq!(timing.next_loop(&settings), second(103));
        assert_eq!(
            timing.next_loop(&Settings::for_version(Version::V1_34)),
            second(110),
            "1.34 waits for the scan interval"
        );
    }
}
