//! `kinescope snapshot` and `kinescope snapshot-tool`: taking, running, explaining and comparing KAI snapshots.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod cluster;
mod decisions;
mod explanations;
mod round_trip;
mod tool;
mod vectors;
