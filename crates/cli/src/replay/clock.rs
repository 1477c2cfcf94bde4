//! Virtual time beside real time: how fast it goes, and showing how far it has come.

use std::time::{Duration, Instant};

use model::Moment;
use replay::Speed;
use replay::plan::{Plan, Watcher};

use super::seconds;
use crate::output::Out;
use crate::progress::Progress;
use crate::signals;

/// Where virtual time is to be, by real time.
pub(super) struct Clock {
    began: Instant,
    from: Moment,
    speed: Speed,
}

/// Somebody who watches how a recording is read.
pub(super) struct Reading {
    progress: Progress,
    from: Moment,
}

/// Somebody who watches how it is played, as fast as the clock says.
pub(super) struct Playing<'a> {
    clock: &'a Clock,
    progress: Progress,
    /// When the progress was last shown.
    shown: Instant,
}

/// A signal is noticed so soon.
const NAP: Duration = Duration::from_millis(100);
/// Faster than that nobody reads.
const SHOWN_EVERY: Duration = Duration::from_millis(100);

// === impl Clock ===

impl Clock {
    pub(super) fn new(speed: Speed, from: Moment) -> Clock {
        Clock { began: Instant::now(), from, speed }
    }

    /// How long it has taken.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Waits until it is time for what happens at a moment.
    pub(super) fn wait(&self, at: Moment) {
        let Speed::Times(times) = self.speed else { return };
        let due = at.nanos_since(self.from).max(0) as f64 / 1e9 / times;
        // What is too long for a Duration nobody will see the end of.
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        while let Some(left) = due.checked_sub(self.elapsed()).filter(|left| !left.is_zero()) {
            if signals::check().is_err() {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// How many times as fast as it happened it goes.
    fn factor(&self, at: Moment) -> f64 {
        factor(at.nanos_since(self.from), self.elapsed())
    }
}

/// How many times as fast as it happened something was played.
pub(super) fn factor(nanos: i64, took: Duration) -> f64 {
    nanos.max(0) as f64 / 1e9 / took.as_secs_f64().max(1e-3)
}

// === impl Reading ===

impl Reading {
    pub(super) fn new(out: &Out, plan: &Plan) -> Reading {
        let from = plan.run.part.window.from;
        Reading { progress: Progress::reading(out, seconds(plan.run.end.nanos_since(from))), from }
    }
}

impl Watcher for Reading {
    fn reached(&mut self, at: Moment) {
        self.progress.at(seconds(at.nanos_since(self.from)));
    }

    fn check(&self) -> anyhow::Result<()> {
        signals::check()
    }
}

// === impl Playing ===

impl<'a> Playing<'a> {
    pub(super) fn new(out: &Out, plan: &Plan, clock: &'a Clock) -> Playing<'a> {
        let window = plan.run.part.window;
        let progress = Progress::replay(out, seconds(window.to.nanos_since(window.from)));
        Playing { clock, progress, shown: Instant::now() }
    }
}

impl Watcher for Playing<'_> {
    fn reached(&mut self, at: Moment) {
        self.clock.wait(at);
        if self.shown.elapsed() >= SHOWN_EVERY {
            self.shown = Instant::now();
            self.progress.replayed(seconds(at.nanos_since(self.clock.from)), at, self.clock.factor(at));
        }
    }

    fn check(&self) -> anyhow::Result<()> {
        signals::check()
    }
}
