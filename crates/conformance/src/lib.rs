//! Comparison of the re-created scheduler, autoscaler, controllers and KAI-Scheduler with the real ones.
//!
//! There are three kinds of evidence: vectors, which the real code printed earlier; fresh cases, which the real code
//! solves now; and recordings of real clusters, which contain the real components' decisions.

pub mod autoscaler;
mod case;
mod case_reader;
mod comparison;
pub mod controllers;
mod counts;
mod error;
mod json_lines;
pub mod kai;
mod oracle;
mod outcome;
pub mod recording;

pub use case::SchedulerCase;
pub use case_reader::{CaseReader, LineCase};
pub use comparison::{DecisionComparison, DecisionDifference, compare_scheduler_case};
pub use counts::DecisionCounts;
pub use error::{Error, Result};
pub use json_lines::JsonLines;
pub use oracle::{CaseRequest, Oracle};
pub use outcome::{PluginVerdict, SchedulingOutcome};
