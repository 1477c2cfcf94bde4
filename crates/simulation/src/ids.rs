//! Identifiers of demands and pods, and the annotation that names a pod's demand.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;

/// The number of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DemandId(pub u64);

/// One of the pods of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId {
    /// The demand.
    pub demand: DemandId,
    /// The number of the demand's earlier pods.
    pub incarnation: u32,
}

/// The annotation that names the demand of a pod. A replay of the run's result reads it, and need not infer which pod
/// replaced which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandAnnotation {
    /// The demand.
    pub demand: DemandId,
    /// The demand that had to finish first.
    pub after: Option<DemandId>,
}

// === impl DemandAnnotation ===

impl DemandAnnotation {
    /// The annotation's key.
    pub const KEY: &str = "replay.kinescope.io/demand";
}

impl fmt::Display for DemandAnnotation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.after {
            None => write!(f, "{}", self.demand.0),
            Some(after) => write!(f, "{} after {}", self.demand.0, after.0),
        }
    }
}

impl FromStr for DemandAnnotation {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<DemandAnnotation, ParseIntError> {
        let (demand, after) =
            text.split_once(" after ").map_or((text, None), |(demand, after)| (demand, Some(after)));
        Ok(DemandAnnotation {
            demand: DemandId(demand.parse()?),
            after: after.map(str::parse).transpose()?.map(DemandId),
        })
    }
}
