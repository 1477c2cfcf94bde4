//! How long the shop's batch work takes.

use std::fmt;
use std::time::Duration;

use controllers::OwnerName;
use model::Object;
use simulation::{Memory, Remembered, Runs};

use crate::chance::Chance;

/// Draws how long a new pod of a Job runs.
pub(super) struct RunTimes {
    chance: Chance,
}

// === impl RunTimes ===

impl RunTimes {
    pub(super) fn new(chance: Chance) -> RunTimes {
        RunTimes { chance }
    }
}

impl fmt::Debug for RunTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunTimes")
    }
}

impl Memory for RunTimes {
    fn recall(&mut self, _: &Object, owners: &[OwnerName]) -> Option<Remembered> {
        let job = owners.iter().find(|owner| &*owner.kind == "Job")?;
        let (seconds, fails) = match job.name.split('-').next() {
            // It asks other shops, of which one or the other does not answer.
            Some("price") => (4..=25, self.chance.below(12) == 0),
            Some("thumbnails") => (240..=420, false),
            _ => (300..=900, false),
        };
        let lasting = Duration::from_secs(self.chance.between(seconds).unsigned_abs());
        Some(Remembered { runs: Some(Runs { lasting, fails }), ..Remembered::default() })
    }
}
