//! The clock of a virtual cluster: the wall clock, or one that moves only when it is told to.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use model::Moment;

/// The clock of a cluster.
#[derive(Debug)]
pub enum ClusterClock {
    /// The wall clock.
    Real,
    /// A clock that stands still until it is moved.
    Virtual(AtomicI64),
}

impl ClusterClock {
    /// A virtual clock that shows this moment.
    pub fn starting_at(moment: Moment) -> ClusterClock {
        ClusterClock::Virtual(AtomicI64::new(moment.nanos()))
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        match self {
            ClusterClock::Real => {
                let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                Moment::from_nanos(i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX))
            }
            ClusterClock::Virtual(nanos) => Moment::from_nanos(nanos.load(Ordering::Acquire)),
        }
    }

    /// Whether it moves only when it is told to.
    pub fn is_virtual(&self) -> bool {
        matches!(self, ClusterClock::Virtual(_))
    }

    /// Moves a virtual clock forward; a moment in its past changes nothing.
    pub(crate) fn set(&self, moment: Moment) {
        if let ClusterClock::Virtual(nanos) = self {
            nanos.fetch_max(moment.nanos(), Ordering::AcqRel);
        }
    }
}
