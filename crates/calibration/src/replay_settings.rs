//! The settings of a replay, stored in the history that it writes, so that a replay of that history finds them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Kind, Moment, Object};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use simulation::latency::Latencies;

use crate::ReplayLevel;

const API_VERSION: &str = "replay.kinescope.io/v1";
/// The kind of the object that stores the settings.
pub const REPLAY_SETTINGS: &str = "ReplaySettings";

/// The settings of a replay. Its scheduler's configuration is stored beside it, as its own kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReplaySettings {
    /// The seed of all random choices.
    pub seed: u64,
    /// What was taken from the recording.
    #[serde(default)]
    pub level: ReplayLevel,
    /// The kube-scheduler version that was re-created.
    pub scheduler_version: String,
    /// The latencies.
    #[serde(rename = "pace")]
    pub latencies: Latencies,
    /// What added and removed nodes.
    pub nodes: NodesDecidedBy,
    /// The names of new nodes, by group, in the order in which they were requested.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The node groups, in the format of `node-groups.yaml`.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub node_groups: Value,
}

/// What adds and removes nodes in a replay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum NodesDecidedBy {
    /// The recording.
    #[serde(rename = "record")]
    Recording,
    /// Nothing: node groups keep their initial nodes.
    #[serde(rename = "nobody")]
    Nothing,
    /// A simulated autoscaler.
    Autoscaler {
        /// The version that was re-created, if it was requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        version: Option<String>,
        /// Its settings, if they differ from its Deployment's.
        #[serde(default, skip_serializing_if = "Value::is_null")]
        settings: Value,
        /// Additional flags.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        flags: Vec<String>,
        /// When it started. Its first loop was one scan interval later.
        start: String,
    },
}

// === impl ReplaySettings ===

impl ReplaySettings {
    /// The kind of the object that stores the settings.
    pub fn kind() -> Kind {
        Kind::of(API_VERSION, REPLAY_SETTINGS)
    }

    /// Returns the object that a history stores, with the moment that the replay has reached.
    pub fn to_object(&self, reached: Moment) -> Result<Object, serde_json::Error> {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": REPLAY_SETTINGS,
            "metadata": {"name": "replay"},
            "spec": serde_json::to_value(self)?,
            "status": {"reached": reached.to_string()},
        });
        Ok(Object::from_trusted(Arc::<str>::from(object.to_string())))
    }

    /// Reads the settings from an object of that kind.
    pub fn from_object(object: &Object) -> Result<ReplaySettings, serde_json::Error> {
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
    fn stored_settings_are_read_back() {
        for nodes in [
            NodesDecidedBy::Recording,
            NodesDecidedBy::Nothing,
            NodesDecidedBy::Autoscaler {
                version: Some("1.35".to_owned()),
                settings: json!({"scan-interval": "20s"}),
                flags: vec!["--expander=random".to_owned()],
                start: "2026-11-01T14:00:00Z".to_owned(),
            },
        ] {
            let settings = ReplaySettings {
                seed: u64::MAX,
                level: ReplayLevel::Workloads,
                scheduler_version: "1.36".to_owned(),
                latencies: Latencies::typical(),
                nodes,
                node_names: BTreeMap::from([("small".into(), vec!["small-1".into()])]),
                node_groups: json!({"groups": []}),
            };
            let object = settings.to_object(Moment::MAX).unwrap();
            assert_eq!(object.key(&"s".into()).kind, ReplaySettings::kind());
            assert_eq!(ReplaySettings::from_object(&object).unwrap(), settings);
        }
    }
}
