//! The choice of a scheduler: its version, its settings, and the source of the settings.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use history::Selection;
use model::{Kind, Moment};
use scheduler::{Profile, Settings, Version};
use serde_json::{Value, json};

use super::{ConfigEdit, OpenHistory, OptionNames};

/// A user's options for the scheduler.
#[derive(Clone, Copy)]
pub struct SchedulerOptions<'a> {
    /// A file with a KubeSchedulerConfiguration.
    pub file: Option<&'a Path>,
    /// The version to simulate.
    pub version: Version,
    /// Edits of its configuration.
    pub edits: &'a [ConfigEdit],
    /// The names of these options in messages.
    pub names: OptionNames,
}

/// A scheduler's settings and their source.
pub struct SchedulerChoice {
    /// The settings.
    pub settings: Settings,
    /// The KubeSchedulerConfiguration that it was read from.
    pub configuration: Value,
    /// The source of the configuration.
    pub settings_source: SettingsSource,
    /// The number of the user's edits.
    edits: usize,
}

/// The source of a scheduler's settings.
pub enum SettingsSource {
    /// Kubernetes' defaults.
    Defaults,
    /// A file.
    File(String),
    /// An object of that name in the history.
    History(String),
}

// === impl SchedulerChoice ===

impl SchedulerChoice {
    /// Takes the configuration from the file, else from the history at the first of these moments that has one, else
    /// the defaults.
    pub fn resolve(
        open_history: &OpenHistory,
        source: &Arc<str>,
        moments: &[Moment],
        options: &SchedulerOptions<'_>,
    ) -> anyhow::Result<SchedulerChoice> {
        let (settings_source, mut configuration) = match options.file {
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
                let configuration = formats::manifests::parse_yaml(&name, &text)?;
                (SettingsSource::File(name), configuration)
            }
            None => match recorded_configuration(open_history, source, moments)? {
                Some((name, configuration)) => (SettingsSource::History(name), configuration),
                None => (SettingsSource::Defaults, default_configuration()),
            },
        };
        for edit in options.edits {
            edit.apply(&mut configuration)?;
        }
        let settings =
            Settings::read_for(options.version, &configuration).with_context(|| match &settings_source {
                // Only the edits can be wrong: the defaults are valid.
                SettingsSource::Defaults => options.names.set.to_owned(),
                SettingsSource::File(name) => name.clone(),
                SettingsSource::History(name) => format!(
                    "the recorded KubeSchedulerConfiguration {name:?} is invalid; specify another with {}",
                    options.names.scheduler_config
                ),
            })?;
        Ok(SchedulerChoice { settings, configuration, settings_source, edits: options.edits.len() })
    }

    /// The profile for pods with that schedulerName.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.settings.profiles.iter().find(|profile| &*profile.scheduler_name == name)
    }

    /// Whether the version is verified against the real scheduler; only one is.
    pub fn is_verified(&self) -> bool {
        self.settings.version == Version::V1_36
    }
}

impl fmt::Display for SchedulerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.settings.version;
        match &self.settings_source {
            SettingsSource::Defaults => write!(f, "defaults of {version}")?,
            SettingsSource::File(name) => write!(f, "{version}, configured by {name}")?,
            SettingsSource::History(name) => write!(f, "{version}, recorded configuration ({name})")?,
        }
        match self.edits {
            0 => {}
            1 => f.write_str(", 1 override")?,
            edits => write!(f, ", {edits} overrides")?,
        }
        if !self.is_verified() {
            f.write_str("; this version is not verified")?;
        }
        Ok(())
    }
}

/// The kind of a scheduler's configuration in a history.
pub fn configuration_kind() -> Kind {
    Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration")
}

/// An empty configuration, which means defaults.
fn default_configuration() -> Value {
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
}

/// The configuration in the history at the first of these moments that has one, without its metadata.
fn recorded_configuration(
    open_history: &OpenHistory,
    source: &Arc<str>,
    moments: &[Moment],
) -> anyhow::Result<Option<(String, Value)>> {
    let selection = Selection {
        kinds: Some(vec![configuration_kind()]),
        source: Some(source.clone()),
        ..Selection::default()
    };
    for moment in moments {
        let found = open_history.history.at(*moment, &selection)?.into_objects();
        let usual = found.iter().find(|version| &*version.key.name == "kube-scheduler");
        let Some(version) = usual.or(found.first()) else { continue };
        let mut configuration = version.object.value()?;
        if let Value::Object(fields) = &mut configuration {
            fields.remove("metadata");
        }
        return Ok(Some((version.key.name.to_string(), configuration)));
    }
    Ok(None)
}
