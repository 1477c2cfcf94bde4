//! Which scheduler decides: its version, how it is set, and who says so.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use history::Selection;
use model::{Kind, Moment};
use serde_json::Value;
use sim::scheduler::{Profile, Settings, Version};

use crate::look::Chosen;

/// A scheduler.
pub(super) struct Which {
    pub(super) settings: Settings,
    pub(super) told_by: ToldBy,
}

/// Who says how it is set.
pub(super) enum ToldBy {
    /// Nobody: it has its defaults.
    Nobody,
    /// This file.
    File(String),
    /// The history, by an object of that name.
    History(String),
}

// === impl Which ===

impl Which {
    /// The scheduler as a file says, else as the history says, else as it is by itself.
    pub(super) fn choose(
        chosen: &Chosen,
        source: &Arc<str>,
        moment: Moment,
        file: Option<&Path>,
        version: Version,
    ) -> anyhow::Result<Which> {
        if let Some(path) = file {
            let name = path.display().to_string();
            let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
            let configuration = formats::manifests::of_yaml(&name, &text)?;
            let settings = Settings::read_for(version, &configuration).with_context(|| name.clone())?;
            return Ok(Which { settings, told_by: ToldBy::File(name) });
        }
        let Some((name, configuration)) = recorded(chosen, source, moment)? else {
            return Ok(Which { settings: Settings::for_version(version), told_by: ToldBy::Nobody });
        };
        let settings = Settings::read_for(version, &configuration).with_context(|| {
            format!("the scheduler's configuration {name:?} of the history cannot be used; give one with --scheduler-config")
        })?;
        Ok(Which { settings, told_by: ToldBy::History(name) })
    }

    /// The profile that pods of that schedulerName have.
    pub(super) fn profile(&self, name: &str) -> Option<&Profile> {
        self.settings.profiles.iter().find(|profile| &*profile.scheduler_name == name)
    }

    /// Only the newest version is held against the real one.
    pub(super) fn is_verified(&self) -> bool {
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
        if !self.is_verified() {
            f.write_str("; the rules of that version are not verified")?;
        }
        Ok(())
    }
}

/// The configuration that the history has at a moment, without the metadata that made it an object.
fn recorded(chosen: &Chosen, source: &Arc<str>, moment: Moment) -> anyhow::Result<Option<(String, Value)>> {
    let kind = Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration");
    let selection =
        Selection { kinds: Some(vec![kind]), source: Some(source.clone()), ..Selection::default() };
    let found = chosen.history.at(moment, &selection)?.into_objects();
    let usual = found.iter().find(|version| &*version.key.name == "kube-scheduler");
    let Some(version) = usual.or(found.first()) else { return Ok(None) };
    let mut configuration = version.object.value()?;
    if let Value::Object(fields) = &mut configuration {
        fields.remove("metadata");
    }
    Ok(Some((version.key.name.to_string(), configuration)))
}
