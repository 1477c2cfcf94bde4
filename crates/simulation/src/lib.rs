//! A cluster in virtual time: discrete events on one clock.
//!
//! An [`Input`] takes effect whatever the components decide; the scheduler, the autoscaler and the controllers decide
//! the rest, and an [`Observer`] is notified. The same inputs, settings and seed produce the same run, byte for byte.
//!
//! [`components`] are the components by themselves, for programs that keep the cluster's objects elsewhere.

mod agenda;
mod cloud;
pub mod components;
mod events;
mod eviction;
mod ids;
mod input;
pub mod latency;
mod node_edit;
mod observer;
mod pod_template;
mod requests;
mod run;
mod setup;
mod store;
#[cfg(test)]
mod tests;
mod timeline;

pub use agenda::{Agenda, Task};
pub use cloud::{CloudChange, SimulatedCloud, group_of_provider_id, with_ready_condition};
pub use components::{PodRecord, RecordedPodSource};
pub use eviction::EvictionCause;
pub use ids::{DemandAnnotation, DemandId, PodId};
pub use input::{
    ContainerExit, InitialPodState, Input, ObservedDuration, ParsedDemand, PodDemand, PodIncarnation,
    RecreatePolicy,
};
pub use node_edit::NodeEdit;
pub use observer::{Observer, SimulationEvent};
pub use pod_template::{InvalidPod, WITHDRAWN_REASON};
pub use requests::Requests;
pub use run::Run;
pub use setup::{AutoscalerSetup, RunSetup};
