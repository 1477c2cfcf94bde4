//! Compares the virtual scheduler and the virtual autoscaler with the real ones.
//!
//! Three judges: vectors, which the real code printed; fresh cases, for which it is asked again; and films of real
//! clusters, in which its decisions can be seen.

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
