//! Comparison of the re-created scheduler, autoscaler and controllers with the real ones.
//!
//! There are three kinds of evidence: vectors, which the real code printed earlier; fresh cases, which the real code
//! solves now; and recordings of real clusters, which contain the real components' decisions.

pub mod autoscaler;
mod case;
pub mod controllers;
mod error;
pub mod film;
mod lines;
mod oracle;
mod outcome;
mod tally;
mod trial;

pub use case::{Case, Cases};
pub use error::{Error, Result};
pub use lines::Lines;
pub use oracle::{Oracle, Wish};
pub use outcome::{Outcome, Verdict};
pub use tally::Tally;
pub use trial::{Difference, Judged, judge};
