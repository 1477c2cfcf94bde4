//! Run times of the shop's batch jobs.

use std::fmt;
use std::time::Duration;

use kubernetes::objects::PodView;
use model::ObjectRef;
use simulation::{ContainerExit, PodRecord, RecordedPodSource};

use crate::rng::SeededRng;

/// Draws the run time of each new pod of a Job.
pub(super) struct RunTimes {
    rng: SeededRng,
}

// === impl RunTimes ===

impl RunTimes {
    pub(super) fn new(rng: SeededRng) -> RunTimes {
        RunTimes { rng }
    }
}

impl fmt::Debug for RunTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RunTimes")
    }
}

impl RecordedPodSource for RunTimes {
    fn next_record(&mut self, _: &PodView, owners: &[ObjectRef]) -> Option<PodRecord> {
        let job = owners.iter().find(|owner| &*owner.kind.kind == "Job")?;
        let (seconds, fails) = match job.name.split('-').next() {
            // It queries other shops, some of which do not answer.
            Some("price") => (4..=25, self.rng.below(12) == 0),
            Some("thumbnails") => (240..=420, false),
            _ => (300..=900, false),
        };
        let lasting = Duration::from_secs(self.rng.between(seconds).unsigned_abs());
        Some(PodRecord { exit: Some(ContainerExit { after: lasting, fails }), ..PodRecord::default() })
    }
}
