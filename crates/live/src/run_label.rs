//! The label of objects created by a replay.

/// The label of every object that a replay creates; its value is the name of the run.
pub const RUN_LABEL: &str = "replay.kinescope.io/run";
