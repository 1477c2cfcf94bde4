//! How everything is set, for the report.

use query::autoscaler_setup::{GroupsBy, SettingsBy};
use query::scheduler_settings::ToldBy;
use serde_json::Value;

use super::{Nodes, Plan};
use crate::report::{AutoscalerSettings, From, PaceSettings, SchedulerSettings, Settings};

impl Plan {
    /// How it is set, and who says so.
    pub fn told(&self) -> Settings {
        Settings {
            scheduler: SchedulerSettings {
                version: self.scheduler.settings.version.to_string(),
                verified: self.scheduler.is_verified(),
                from: match &self.scheduler.told_by {
                    ToldBy::Nobody => From::Defaults,
                    ToldBy::File(name) => From::File(name.clone()),
                    ToldBy::History(name) => From::History(name.clone()),
                },
                configuration: self.scheduler.configuration.clone(),
                left_out: self.scheduler.settings.left_out.clone(),
            },
            autoscaler: self.autoscaler(),
            pace: PaceSettings {
                from: if self.run.measured.pace {
                    From::History("measured".to_owned())
                } else {
                    From::Replay
                },
            },
            set: self.edits.clone(),
        }
    }

    fn autoscaler(&self) -> AutoscalerSettings {
        let setup = &self.autoscaler;
        let runs = self.run.nodes == Nodes::Autoscaled;
        let groups_from = match &setup.groups_by {
            GroupsBy::Nobody => From::Defaults,
            GroupsBy::File(name) => From::File(name.clone()),
            GroupsBy::History(told_by) => From::History(told_by.to_string()),
            GroupsBy::Replay => From::Replay,
        };
        let from = match (setup.settings_by, &groups_from) {
            (SettingsBy::Nobody, _) => From::Defaults,
            (SettingsBy::File, groups_from) => groups_from.clone(),
            (SettingsBy::History, _) => From::History("its Deployment".to_owned()),
            (SettingsBy::Replay, _) => From::Replay,
        };
        AutoscalerSettings {
            nodes: self.run.nodes.word(),
            version: runs.then(|| setup.settings.version.to_string()),
            verified: runs.then(|| setup.is_verified()),
            from: runs.then_some(from),
            flags: if runs { setup.flags.clone() } else { Vec::new() },
            groups_from,
            groups: match self.run.nodes {
                Nodes::AsRecorded => Value::Array(Vec::new()),
                Nodes::Autoscaled | Nodes::Stay => setup.groups_document()["groups"].take(),
            },
            assumed: setup.assumed.clone(),
            left_out: setup.settings.left_out.clone(),
        }
    }
}
