//! The scheduler's settings: `config` and `schedulerParams` of a snapshot.

mod action;
mod config;
mod duration;
mod params;

pub use action::Action;
pub use config::{PluginOption, SchedulerConfiguration, SearchBudgets};
pub(crate) use duration::parse_long_duration;
pub use params::{NodePool, SchedulerParams};

use crate::Result;

/// The scheduler's settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Actions, plugins, queue depths and search budgets.
    pub config: SchedulerConfiguration,
    /// The command line's parameters.
    pub params: SchedulerParams,
}

impl Settings {
    /// Reads the JSON texts of `config` and `schedulerParams`.
    pub fn parse(config: &str, params: &str) -> Result<Settings> {
        Ok(Settings {
            config: SchedulerConfiguration::parse(config)?,
            params: SchedulerParams::parse(params)?,
        })
    }
}
