//! Demands and pods of a run by number, and the annotation that tells which demand a pod is of.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// A wish for a pod, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DemandId(pub u64);

/// One of the pods of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// The demand.
    pub demand: DemandId,
    /// How many pods it had before.
    pub life: u32,
}

/// What a run writes on its pods: which demand each is of. A replay of what came of the run knows them by it, and need
/// not guess who was made instead of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandMark {
    /// The demand.
    pub demand: DemandId,
    /// The one that had to end before.
    pub after: Option<DemandId>,
}

// === impl DemandMark ===

impl DemandMark {
    /// The annotation.
    pub const KEY: &str = "replay.kinescope.io/demand";
}

impl fmt::Display for DemandMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.after {
            None => write!(f, "{}", self.demand.0),
            Some(after) => write!(f, "{} after {}", self.demand.0, after.0),
        }
    }
}

impl FromStr for DemandMark {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<DemandMark, ParseIntError> {
        let (demand, after) =
            text.split_once(" after ").map_or((text, None), |(demand, after)| (demand, Some(after)));
        Ok(DemandMark {
            demand: DemandId(demand.parse()?),
            after: after.map(str::parse).transpose()?.map(DemandId),
        })
    }
}
