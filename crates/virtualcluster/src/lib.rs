//! Kubernetes clusters in this process, which an `apiserver` serves to kubectl and other clients. A [`VirtualCluster`]
//! has a store in memory and components that work on it; a [`PastStore`] is a cluster as it was at a moment of a
//! history.

mod bootstrap;
mod clock;
mod cluster;
mod control_api;
mod control_plane;
mod credentials;
mod kubeconfig;
mod node_conditions;
mod node_template;
mod past_store;
mod playback;
mod recording;
mod stage;
#[cfg(test)]
mod tests;
mod time_shift;

pub use clock::ClusterClock;
pub use cluster::{PreparedCluster, SchedulingOutcome, StartError, VirtualCluster, VirtualClusterOptions};
pub use control_api::{AdvanceRequest, CONTROL_PATH, control_routes, read_only_control_routes};
pub use control_plane::{
    AdvanceCancellation, AdvanceError, AdvanceTarget, AutoscalerSettings, ComponentSet, ControlPlaneSettings,
    EndlessStages, InvalidComponents, MAX_ADVANCE, default_scheduler_configuration,
};
pub use credentials::Credentials;
pub use kubeconfig::{Kubeconfig, KubeconfigCluster};
pub use node_template::{NodeTemplate, NotANode};
pub use past_store::{PastOptions, PastStore};
pub use recording::RecordingOptions;
