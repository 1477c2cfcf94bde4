//! When deeds are due.

use std::time::Duration;

use model::Moment;
use tokio::time::Instant;

/// How fast deeds are done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the server goes.
    Max,
    /// Each when it is due: so many times as fast as it happened, from this moment on.
    Times {
        /// How many times.
        speed: f64,
        /// What is now.
        from: Moment,
    },
}

/// Tells when something is due. Everything is counted from the beginning, so that no delay adds to another.
#[derive(Debug)]
pub(super) struct Clock {
    pace: Pace,
    began: Instant,
}

// === impl Clock ===

impl Clock {
    pub(super) fn start(pace: Pace) -> Clock {
        Clock { pace, began: Instant::now() }
    }

    /// When something is due that happened then; `None` if it is at once.
    pub(super) fn due(&self, at: Moment) -> Option<Instant> {
        let Pace::Times { speed, from } = self.pace else { return None };
        let seconds = at.nanos_since(from).max(0) as f64 / 1e9 / speed;
        Some(self.began + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX / 4))
    }

    /// Everything is due so much later.
    pub(super) fn shift(&mut self, by: Duration) {
        self.began += by;
    }
}
