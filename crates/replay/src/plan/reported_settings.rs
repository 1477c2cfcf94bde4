//! The settings of a replay as its report shows them.

use query::autoscaler_choice::{AutoscalerSettingsSource, NodeGroupsSource};
use query::scheduler_choice::SettingsSource;
use serde_json::Value;

use super::{NodeScaling, ReplayPlan};
use crate::report::{
    AutoscalerSettings, LatencySettings, ReportedSettings, SchedulerSettings, SettingsOrigin,
};

impl ReplayPlan {
    /// Returns the settings and where they come from.
    pub fn reported_settings(&self) -> ReportedSettings {
        ReportedSettings {
            scheduler: SchedulerSettings {
                version: self.scheduler.settings.version.to_string(),
                verified: self.scheduler.is_verified(),
                origin: match &self.scheduler.settings_source {
                    SettingsSource::Defaults => SettingsOrigin::Defaults,
                    SettingsSource::File(name) => SettingsOrigin::File(name.clone()),
                    SettingsSource::History(name) => SettingsOrigin::History(name.clone()),
                },
                configuration: self.scheduler.configuration.clone(),
                unsupported_features: self.scheduler.settings.unsupported_features.clone(),
            },
            autoscaler: self.reported_autoscaler_settings(),
            latencies: LatencySettings {
                origin: if self.resolved.measured.latencies {
                    SettingsOrigin::History("measured".to_owned())
                } else {
                    SettingsOrigin::Replay
                },
            },
            overrides: self.edits.clone(),
        }
    }

    fn reported_autoscaler_settings(&self) -> AutoscalerSettings {
        let choice = &self.autoscaler;
        let runs = self.resolved.node_scaling == NodeScaling::Autoscaled;
        let groups_from = match &choice.groups_source {
            NodeGroupsSource::NoGroups => SettingsOrigin::Defaults,
            NodeGroupsSource::File(name) => SettingsOrigin::File(name.clone()),
            NodeGroupsSource::History(origin) => SettingsOrigin::History(origin.to_string()),
            NodeGroupsSource::Replay => SettingsOrigin::Replay,
        };
        let from = match (choice.settings_source, &groups_from) {
            (AutoscalerSettingsSource::Defaults, _) => SettingsOrigin::Defaults,
            (AutoscalerSettingsSource::File, groups_from) => groups_from.clone(),
            (AutoscalerSettingsSource::History, _) => SettingsOrigin::History("its Deployment".to_owned()),
            (AutoscalerSettingsSource::Replay, _) => SettingsOrigin::Replay,
        };
        AutoscalerSettings {
            nodes: self.resolved.node_scaling.as_str(),
            version: runs.then(|| choice.settings.version.to_string()),
            verified: runs.then(|| choice.is_verified()),
            origin: runs.then_some(from),
            flags: if runs { choice.flags.clone() } else { Vec::new() },
            groups_from,
            groups: match self.resolved.node_scaling {
                NodeScaling::AsRecorded => Value::Array(Vec::new()),
                NodeScaling::Autoscaled | NodeScaling::Fixed => choice.groups_document()["groups"].take(),
            },
            assumptions: choice.assumptions.clone(),
            unsupported_flags: choice.settings.unsupported.clone(),
        }
    }
}
