//! What a recording teaches: which node groups there were, how long things took, how long pods ran.
//!
//! Nothing here runs a cluster.

mod groups;
mod pace;
mod provisioning;
pub mod seen;

pub use groups::{Derived, ToldBy, derive};
pub use pace::MeasurePace;
pub use provisioning::Measure;
