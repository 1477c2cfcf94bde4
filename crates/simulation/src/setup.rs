//! The settings of a cluster in virtual time.

use model::Moment;

use crate::cloud::SimulatedCloud;
use crate::pace::Pace;

/// How a cluster in virtual time is set.
#[derive(Debug)]
pub struct Setup {
    /// When it begins.
    pub start: Moment,
    /// Its scheduler.
    pub scheduler: scheduler::Settings,
    /// Its autoscaler, if it has one.
    pub autoscaler: Option<AutoscalerSetup>,
    /// How long things take.
    pub pace: Pace,
    /// Decides between measured delays, and makes names and uids.
    pub seed: u64,
}

/// An autoscaler and its cloud.
#[derive(Debug)]
pub struct AutoscalerSetup {
    /// How it is set.
    pub settings: autoscaler::Settings,
    /// The cloud, which adopts the nodes that are given.
    pub cloud: SimulatedCloud,
    /// Its first loop is due a scan interval later.
    pub start: Moment,
}
