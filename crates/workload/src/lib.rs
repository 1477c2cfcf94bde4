//! Generated clusters under load: seeded histories for the demo, tests and benchmarks.
//!
//! The same seed gives the same bytes. Nothing in this crate reads a clock, a file, a socket or the environment.

pub mod churn;
mod objects;
mod rng;
pub mod shop;
