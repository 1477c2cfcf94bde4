//! The clock that paces virtual time, and the progress bars of reading and replaying.

use std::time::{Duration, Instant};

use model::Moment;
use replay::Speed;
use replay::plan::{ReplayListener, ReplayPlan};

use super::seconds;
use crate::output::Printer;
use crate::progress::Progress;
use crate::signals;

/// Maps real time to virtual time, by the replay's speed.
pub(super) struct ReplayClock {
    started: Instant,
    from: Moment,
    speed: Speed,
}

/// Shows the progress of reading the recording.
pub(super) struct ReadProgress {
    progress: Progress,
    from: Moment,
}

/// Paces the replay by the clock, and shows its progress.
pub(super) struct ReplayProgress<'a> {
    clock: &'a ReplayClock,
    progress: Progress,
    /// When the progress bar was last refreshed.
    last_refresh: Instant,
}

/// How often to check for a signal while waiting.
const SIGNAL_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// How often the progress bar is refreshed.
const REFRESH_INTERVAL: Duration = Duration::from_millis(100);

// === impl ReplayClock ===

impl ReplayClock {
    pub(super) fn new(speed: Speed, from: Moment) -> ReplayClock {
        ReplayClock { started: Instant::now(), from, speed }
    }

    /// The real time since the replay started.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Waits until virtual time may reach this moment.
    pub(super) fn wait(&self, at: Moment) {
        let Speed::Times(times) = self.speed else { return };
        let due = at.nanos_since(self.from).max(0) as f64 / 1e9 / times;
        // Saturate: a wait that overflows a Duration never ends in practice.
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        while let Some(remaining) = due.checked_sub(self.elapsed()).filter(|remaining| !remaining.is_zero()) {
            if signals::check().is_err() {
                return;
            }
            std::thread::sleep(remaining.min(SIGNAL_CHECK_INTERVAL));
        }
    }

    /// The speed so far, as a multiple of real time.
    fn speed_factor_at(&self, at: Moment) -> f64 {
        speed_factor(at.nanos_since(self.from), self.elapsed())
    }
}

/// The speed of replaying `nanos` of recorded time, as a multiple of real time.
pub(super) fn speed_factor(nanos: i64, took: Duration) -> f64 {
    nanos.max(0) as f64 / 1e9 / took.as_secs_f64().max(1e-3)
}

// === impl ReadProgress ===

impl ReadProgress {
    pub(super) fn new(out: &Printer, plan: &ReplayPlan) -> ReadProgress {
        let from = plan.resolved.part.window.from;
        ReadProgress { progress: Progress::reading(out, seconds(plan.resolved.end.nanos_since(from))), from }
    }
}

impl ReplayListener for ReadProgress {
    fn on_progress(&mut self, at: Moment) {
        self.progress.set_position(seconds(at.nanos_since(self.from)));
    }

    fn check_cancelled(&self) -> anyhow::Result<()> {
        signals::check()
    }
}

// === impl ReplayProgress ===

impl<'a> ReplayProgress<'a> {
    pub(super) fn new(out: &Printer, plan: &ReplayPlan, clock: &'a ReplayClock) -> ReplayProgress<'a> {
        let window = plan.resolved.part.window;
        let progress = Progress::replay(out, seconds(window.to.nanos_since(window.from)));
        ReplayProgress { clock, progress, last_refresh: Instant::now() }
    }
}

impl ReplayListener for ReplayProgress<'_> {
    fn on_progress(&mut self, at: Moment) {
        self.clock.wait(at);
        if self.last_refresh.elapsed() >= REFRESH_INTERVAL {
            self.last_refresh = Instant::now();
            self.progress.set_replayed(
                seconds(at.nanos_since(self.clock.from)),
                at,
                self.clock.speed_factor_at(at),
            );
        }
    }

    fn check_cancelled(&self) -> anyhow::Result<()> {
        signals::check()
    }
}
