//! Which scheduler decides: its version, how it is set, and who says so.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use history::Selection;
use model::{Kind, Moment};
use scheduler::{Profile, Settings, Version};
use serde_json::{Value, json};

use super::{Chosen, Edit};

/// What a user says of a scheduler.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// A configuration in a file.
    pub file: Option<&'a Path>,
    /// Whose rules are to be followed.
    pub version: Version,
    /// What is set otherwise in its configuration.
    pub edits: &'a [Edit],
}

/// A scheduler.
pub struct Which {
    /// How it is set.
    pub settings: Settings,
    /// The KubeSchedulerConfiguration that it was read from.
    pub configuration: Value,
    /// Who says so.
    pub told_by: ToldBy,
    /// How many places of it the user has set otherwise.
    edits: usize,
}

/// Who says how it is set.
pub enum ToldBy {
    /// Nobody: it has its defaults.
    Nobody,
    /// This file.
    File(String),
    /// The history, by an object of that name.
    History(String),
}

// === impl Which ===

impl Which {
    /// The scheduler as a file says, else as the history says at the first of these moments at which it does, else with
    /// its defaults.
    pub fn choose(
        chosen: &Chosen,
        source: &Arc<str>,
        moments: &[Moment],
        asked: &Asked<'_>,
    ) -> anyhow::Result<Which> {
        let (told_by, mut configuration) = match asked.file {
            Some(path) => {
                let name = path.display().to_string();
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
                let configuration = formats::manifests::of_yaml(&name, &text)?;
                (ToldBy::File(name), configuration)
            }
            None => match recorded(chosen, source, moments)? {
                Some((name, configuration)) => (ToldBy::History(name), configuration),
                None => (ToldBy::Nobody, usual()),
            },
        };
        for edit in asked.edits {
            edit.apply(&mut configuration)?;
        }
        let settings = Settings::read_for(asked.version, &configuration).with_context(|| match &told_by {
            // What was set otherwise is to blame: without it there is nothing to be wrong.
            ToldBy::Nobody => "--set".to_owned(),
            ToldBy::File(name) => name.clone(),
            ToldBy::History(name) => format!(
                "the scheduler's configuration {name:?} of the history cannot be used; give one with --scheduler-config"
            ),
        })?;
        Ok(Which { settings, configuration, told_by, edits: asked.edits.len() })
    }

    /// The profile that pods of that schedulerName have.
    pub fn profile(&self, name: &str) -> Option<&Profile> {
        self.settings.profiles.iter().find(|profile| &*profile.scheduler_name == name)
    }

    /// Only the newest version is held against the real one.
    pub fn is_verified(&self) -> bool {
        self.settings.version == Version::V1_36
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.settings.version;
        match &self.told_by {
            ToldBy::Nobody => write!(f, "defaults of {version}")?,
            ToldBy::File(name) => write!(f, "{version}, set by {name}")?,
            ToldBy::History(name) => write!(f, "{version}, set as the history says ({name})")?,
        }
        match self.edits {
            0 => {}
            1 => f.write_str(", one place set otherwise")?,
            edits => write!(f, ", {edits} places set otherwise")?,
        }
        if !self.is_verified() {
            f.write_str("; the rules of that version are not verified")?;
        }
        Ok(())
    }
}

/// What a scheduler's configuration is kept as in a history.
pub fn kind() -> Kind {
    Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration")
}

/// A configuration that leaves everything as it is.
fn usual() -> Value {
    json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
}

/// The configuration that the history has at the first of some moments, without the metadata that made it an object.
fn recorded(
    chosen: &Chosen,
    source: &Arc<str>,
    moments: &[Moment],
) -> anyhow::Result<Option<(String, Value)>> {
    let selection =
        Selection { kinds: Some(vec![kind()]), source: Some(source.clone()), ..Selection::default() };
    for moment in moments {
        let found = chosen.history.at(*moment, &selection)?.into_objects();
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
