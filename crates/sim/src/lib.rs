//! Kubernetes in virtual time.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on chance that was not seeded or on the order of
//! a hash table: the same changes, settings and seed give the same decisions, byte for byte.

pub mod autoscaler;
pub mod controllers;
pub mod pace;
pub mod run;
pub mod scheduler;
pub mod seen;
