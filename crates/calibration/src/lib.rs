//! Settings that are derived or measured from recordings: node groups, latencies, and the settings of replays.
//!
//! This crate simulates nothing.

mod groups;
mod latency;
mod level;
pub mod observed;
mod provisioning;
mod replay_settings;

pub use groups::{DerivedGroups, NodeGroupsOrigin, derive_node_groups};
pub use latency::LatencyMeter;
pub use level::{ParseLevelError, ReplayLevel};
pub use provisioning::ProvisioningMeter;
pub use replay_settings::{NodesDecidedBy, REPLAY_SETTINGS, ReplaySettings};
