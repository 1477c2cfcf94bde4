//! The label of objects that a replay has made.

/// The label of all that a replay creates: the name of the run.
pub const RUN: &str = "replay.kinescope.io/run";
