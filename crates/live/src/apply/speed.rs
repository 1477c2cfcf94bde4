//! Due times of operations at the speed of the replay.

use std::time::Duration;

use model::Moment;
use tokio::time::Instant;

/// The speed of a replay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ReplaySpeed {
    /// As fast as the server allows.
    Max,
    /// Each operation when it is due, at a multiple of the recorded speed.
    Scaled {
        /// The multiple.
        speed: f64,
        /// The recorded moment that corresponds to the start.
        start: Moment,
    },
}

/// Computes due times. All are relative to the start, so that delays do not accumulate.
#[derive(Debug)]
pub(super) struct DueClock {
    speed: ReplaySpeed,
    started: Instant,
}

// === impl DueClock ===

impl DueClock {
    pub(super) fn start(speed: ReplaySpeed) -> DueClock {
        DueClock { speed, started: Instant::now() }
    }

    /// When an operation of this moment is due; `None`: immediately.
    pub(super) fn due(&self, at: Moment) -> Option<Instant> {
        let ReplaySpeed::Scaled { speed, start } = self.speed else { return None };
        let seconds = at.nanos_since(start).max(0) as f64 / 1e9 / speed;
        Some(self.started + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4))
    }

    /// Delays everything by a pause.
    pub(super) fn shift(&mut self, delay: Duration) {
        self.started += delay;
    }
}
