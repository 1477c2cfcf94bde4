//! Decoding of a `KubeSchedulerConfiguration` as in kube-scheduler: strict, with its defaults, and with the validation
//! that it does before it starts.

mod args;
mod config_value;
mod plugins;
mod process_settings;
mod profile;
mod resources;
#[cfg(test)]
mod tests;
mod values;

use serde_json::Value;

use self::config_value::{ConfigFields, ConfigValue};
use self::process_settings::Extenders;
use self::profile::ProfileReader;
use self::values::at_least;
use super::settings::{Settings, Version};

/// The API version of configurations and of plugins' arguments.
const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
const KIND: &str = "KubeSchedulerConfiguration";

/// An invalid configuration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid scheduler configuration: {path}: {reason}")]
pub struct BadConfiguration {
    /// The path of the field: `profiles[0].pluginConfig[1].args.scoringStrategy.resources[0].weight`.
    pub path: String,
    /// What is wrong, and what would be right.
    pub reason: String,
}

// === impl Settings ===

impl Settings {
    /// The settings of a scheduler of that version without a configuration.
    pub fn for_version(version: Version) -> Settings {
        settings(version, &ConfigFields::NONE).expect("every omitted field has a default")
    }

    /// Reads a `KubeSchedulerConfiguration` for the newest version.
    pub fn read(configuration: &Value) -> Result<Settings, BadConfiguration> {
        Settings::read_for(Version::V1_36, configuration)
    }

    /// Reads a `KubeSchedulerConfiguration` with that version's defaults.
    ///
    /// Fields of newer versions are read as in those.
    pub fn read_for(version: Version, configuration: &Value) -> Result<Settings, BadConfiguration> {
        let root = ConfigValue::root(configuration);
        let Value::Object(document) = configuration else {
            return Err(root.bad(format!("expected a {KIND}")));
        };
        for (name, right) in [("apiVersion", API_VERSION), ("kind", KIND)] {
            match document.get(name) {
                Some(Value::String(text)) if text == right => {}
                Some(other) => {
                    return Err(BadConfiguration::new(
                        name,
                        format!("{other} is not supported; must be {right}"),
                    ));
                }
                None => return Err(BadConfiguration::new(name, format!("missing; must be {right}"))),
            }
        }
        settings(version, &root.fields(&FIELDS)?)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings::for_version(Version::V1_36)
    }
}

// === impl BadConfiguration ===

impl BadConfiguration {
    fn new(path: &str, reason: impl Into<String>) -> BadConfiguration {
        let path = if path.is_empty() { "the document" } else { path };
        BadConfiguration { path: path.to_owned(), reason: reason.into() }
    }
}

const FIELDS: [&str; 13] = [
    "apiVersion",
    "kind",
    "parallelism",
    "leaderElection",
    "clientConnection",
    "enableProfiling",
    "enableContentionProfiling",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
    "extenders",
    "delayCacheUntilActive",
];

fn settings(version: Version, fields: &ConfigFields<'_>) -> Result<Settings, BadConfiguration> {
    process_settings::check_leader_election(&fields.get("leaderElection"))?;
    process_settings::check_connection(&fields.get("clientConnection"))?;
    for name in ["enableProfiling", "enableContentionProfiling", "delayCacheUntilActive"] {
        fields.get(name).flag()?;
    }
    let parallelism = fields.get("parallelism");
    at_least(&parallelism, parallelism.int32()?.unwrap_or(16), 1)?;

    let (initial, max) = (fields.get("podInitialBackoffSeconds"), fields.get("podMaxBackoffSeconds"));
    let initial_backoff_seconds = at_least(&initial, initial.int64()?.unwrap_or(1), 1)?;
    let max_backoff_seconds = max.int64()?.unwrap_or(10);
    if max_backoff_seconds < initial_backoff_seconds {
        return Err(max.bad(format!(
            "{max_backoff_seconds} is less than podInitialBackoffSeconds, {initial_backoff_seconds}"
        )));
    }

    let Extenders { ignored_resources: ignored, mut unsupported_features } =
        Extenders::read(&fields.get("extenders"))?;
    let profiles = ProfileReader { version, ignored_resources: &ignored }
        .read(&fields.get("profiles"), &mut unsupported_features)?;
    Ok(Settings {
        version,
        profiles,
        percentage_of_nodes_to_score: profile::percentage(fields)?.unwrap_or(0),
        initial_backoff_seconds,
        max_backoff_seconds,
        seed: 0,
        unsupported_features,
    })
}
