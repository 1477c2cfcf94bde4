//! What a recording teaches: which node groups there were, how long things took, how long pods ran.
//!
//! Nothing here runs a cluster.

mod groups;
mod level;
mod pace;
mod provisioning;
mod replay_settings;
pub mod seen;

pub use groups::{Derived, ToldBy, derive};
pub use level::{BadLevel, Level};
pub use pace::MeasurePace;
pub use provisioning::Measure;
pub use replay_settings::{NodesBy, REPLAY_SETTINGS, ReplaySettings};
