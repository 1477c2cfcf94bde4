//! The settings of a cluster in virtual time.

use model::Moment;

use crate::cloud::SimulatedCloud;
use crate::latency::Latencies;

/// The configuration of a run.
#[derive(Debug)]
pub struct RunSetup {
    /// The start of the run.
    pub start: Moment,
    /// The scheduler's settings.
    pub scheduler: scheduler::Settings,
    /// The autoscaler, if the cluster has one.
    pub autoscaler: Option<AutoscalerSetup>,
    /// The latencies of the cluster's components.
    pub latencies: Latencies,
    /// Seeds the choice between measured delays, and generated names and uids.
    pub seed: u64,
}

/// An autoscaler and its cloud.
#[derive(Debug)]
pub struct AutoscalerSetup {
    /// The autoscaler's settings.
    pub settings: autoscaler::Settings,
    /// The cloud. It adopts the nodes that are part of the input.
    pub cloud: SimulatedCloud,
    /// The autoscaler's start. Its first loop is due one scan interval later.
    pub start: Moment,
}
