//! How a replay was set, kept in the history that it makes: replaying that finds its own settings.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Kind, Moment, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use simulation::pace::Pace;

use crate::Level;

const API_VERSION: &str = "replay.kinescope.io/v1";
/// The kind that they are kept as.
pub const REPLAY_SETTINGS: &str = "ReplaySettings";

/// How a replay was set. Its scheduler's configuration is kept beside it, under its own kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaySettings {
    /// Decided between what is as likely.
    pub seed: u64,
    /// What was given.
    #[serde(default)]
    pub level: Level,
    /// Whose rules the scheduler followed.
    pub scheduler_version: String,
    /// How long things took.
    pub pace: Pace,
    /// Who made nodes come and go.
    pub nodes: NodesBy,
    /// What new nodes were called, group by group in the order in which they were asked for.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// Which node groups there were, as `node-groups.yaml` has them.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub node_groups: Value,
}

/// Who makes nodes come and go.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum NodesBy {
    /// It is as recorded.
    Record,
    /// Nobody: those of groups stay as they were at the beginning.
    Nobody,
    /// An autoscaler.
    Autoscaler {
        /// Whose rules it followed, if those were asked for.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// How it was set, if not as its Deployment says.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        settings: Value,
        /// Flags on top of that.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flags: Vec<String>,
        /// Its first loop was a scan interval later.
        start: String,
    },
}

// === impl ReplaySettings ===

impl ReplaySettings {
    /// The kind that they are kept as.
    pub fn kind() -> Kind {
        Kind::of(API_VERSION, REPLAY_SETTINGS)
    }

    /// The object that a history keeps, with how far the replay has come.
    pub fn object(&self, reached: Moment) -> Result<Object, serde_json::Error> {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": REPLAY_SETTINGS,
            "metadata": {"name": "replay"},
            "spec": serde_json::to_value(self)?,
            "status": {"reached": reached.to_string()},
        });
        Ok(Object::trusted(Arc::<str>::from(object.to_string())))
    }

    /// What an object of that kind says.
    pub fn kept_in(object: &Object) -> Result<ReplaySettings, serde_json::Error> {
        #[derive(Deserialize)]
        struct Outer {
            spec: ReplaySettings,
        }
        Ok(object.view::<Outer>()?.spec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_kept_are_found_again() {
        for nodes in [
            NodesBy::Record,
            NodesBy::Nobody,
            NodesBy::Autoscaler {
                version: Some("1.35".to_owned()),
                settings: json!({"scan-interval": "20s"}),
                flags: vec!["--expander=random".to_owned()],
                start: "2026-11-01T14:00:00Z".to_owned(),
            },
        ] {
            let settings = ReplaySettings {
                seed: u64::MAX,
                level: Level::Workloads,
                scheduler_version: "1.36".to_owned(),
                pace: Pace::usual(),
                nodes,
                node_names: BTreeMap::from([("small".into(), vec!["small-1".into()])]),
                node_groups: json!({"groups": []}),
            };
            let object = settings.object(Moment::MAX).unwrap();
            assert_eq!(object.key(&"s".into()).kind, ReplaySettings::kind());
            assert_eq!(ReplaySettings::kept_in(&object).unwrap(), settings);
        }
    }
}
