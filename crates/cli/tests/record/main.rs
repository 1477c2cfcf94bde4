//! `kinescope record` against real API servers: what is recorded is what happened, or is said to be missed.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where something is not as it should be, and prints its seed and what came of it"
)]

mod audit;
mod choice;
#[cfg(target_os = "linux")]
mod clock;
#[path = "../common/mod.rs"]
mod common;
mod damage;
mod defaults;
mod ends;
mod faults;
mod film;
mod gone;
mod kills;
mod recorder;
mod scopes;
mod server;
mod simulator;
mod surroundings;
