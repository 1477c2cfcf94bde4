//! Virtual time beside real time: how fast it goes, and showing how far it has come.

use std::time::{Duration, Instant};

use model::{Moment, What};
use replay::play::Follower;
use simulation::{Audience, Decided, Demand};

use super::{Speed, seconds};
use crate::cli::progress::Progress;
use crate::cli::signals;

/// Where virtual time is to be, by real time.
pub(super) struct Clock {
    began: Instant,
    from: Moment,
    speed: Speed,
}

/// All who follow a replay, and those who watch how it goes.
pub(super) struct Watched<'a> {
    clock: &'a Clock,
    progress: &'a Progress,
    followers: Vec<&'a mut dyn Follower>,
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

// === impl Watched ===

impl<'a> Watched<'a> {
    pub(super) fn new(
        clock: &'a Clock,
        progress: &'a Progress,
        followers: Vec<&'a mut dyn Follower>,
    ) -> Watched<'a> {
        Watched { clock, progress, followers, shown: Instant::now() }
    }

    pub(super) fn also(&mut self, follower: &'a mut dyn Follower) {
        self.followers.push(follower);
    }

    fn pass(&mut self, at: Moment) {
        self.clock.wait(at);
        if self.shown.elapsed() >= SHOWN_EVERY {
            self.shown = Instant::now();
            self.progress.replayed(seconds(at.nanos_since(self.clock.from)), at, self.clock.factor(at));
        }
    }
}

impl Audience for Watched<'_> {
    fn wants_changes(&self) -> bool {
        self.followers.iter().any(|follower| follower.wants_changes())
    }

    fn changed(&mut self, at: Moment, what: What) {
        self.pass(at);
        for follower in &mut self.followers {
            follower.changed(at, what.clone());
        }
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        self.pass(at);
        for follower in &mut self.followers {
            follower.decided(at, decided);
        }
    }
}

impl Follower for Watched<'_> {
    fn asked(&mut self, at: Moment, demand: &Demand) {
        for follower in &mut self.followers {
            follower.asked(at, demand);
        }
    }

    fn reached(&mut self, now: Moment) {
        self.pass(now);
        for follower in &mut self.followers {
            follower.reached(now);
        }
    }

    fn goes_on(&self) -> bool {
        signals::check().is_ok() && self.followers.iter().all(|follower| follower.goes_on())
    }
}
