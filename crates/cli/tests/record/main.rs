//! Tests of `kinescope record` against real API servers: every event is recorded, or within a gap.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where something is not as it should be, and prints its seed and its results"
)]

mod audit;
#[cfg(target_os = "linux")]
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod compaction;
mod damage;
mod defaults;
mod faults;
mod kills;
mod kind_selection;
mod recorded_history;
mod recorder;
mod scope_changes;
mod server;
mod shutdown;
mod simulator;
mod unusable_environments;
