//! Our own configuration: a folder, clusters, and what is said once for all of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use formats::sktrace::TracerConfig;
use history::Retention;
use kubernetes::rules::Rules;
use kubernetes::selector::Selector;
use live::{EventChoice, KindChoice, Wanted};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Beside, Config, KEY_FILE, duration, event_choice, plane, rules, size};
use crate::assignment::of_control_plane;
use crate::{Assignment, Keep, scheduler_config};

/// What may stand beside `clusters` and then holds for each that does not say otherwise.
const FOR_ALL: [&str; 13] = [
    "kinds",
    "also",
    "skip",
    "namespaces",
    "selector",
    "events",
    "usage",
    "everything",
    "redact",
    "redactKey",
    "schedulerConfig",
    "retention",
    "trackedObjects",
];

/// A cluster of the file.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OfCluster {
    name: String,
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    control_plane: Option<ControlPlane>,
    kinds: Option<Vec<String>>,
    #[serde(default)]
    also: Vec<String>,
    #[serde(default)]
    skip: Vec<String>,
    #[serde(default)]
    namespaces: Vec<String>,
    selector: Option<String>,
    events: Option<String>,
    /// An interval.
    usage: Option<String>,
    #[serde(default)]
    everything: bool,
    #[serde(default = "yes")]
    redact: bool,
    redact_key: Option<PathBuf>,
    scheduler_config: Option<PathBuf>,
    #[serde(default)]
    retention: HowLong,
    tracked_objects: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ControlPlane {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    namespace: String,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct HowLong {
    age: Option<Value>,
    size: Option<Value>,
}

/// Reads a file that lies in the folder `at`: what it names is meant from there.
pub(super) fn read(value: Value, at: &Path, beside: &Beside) -> anyhow::Result<Config> {
    let Value::Object(mut told) = value else { bail!("it is no map") };
    let folder = match (&beside.folder, told.remove("folder")) {
        (Some(folder), _) => folder.clone(),
        (None, Some(Value::String(folder))) => at.join(folder),
        (None, None) => at.to_owned(),
        (None, Some(_)) => bail!("folder: it is no text"),
    };
    let Some(Value::Array(clusters)) = told.remove("clusters") else { bail!("clusters: it is no list") };
    if let Some(key) = told.keys().find(|key| !FOR_ALL.contains(&&***key)) {
        bail!("{key:?} is not known here: there are folder, clusters, {}", FOR_ALL.join(", "));
    }
    let mut config = Config { folder, assignments: Vec::new(), warnings: Vec::new() };
    for (index, cluster) in clusters.into_iter().enumerate() {
        let name = cluster["name"].as_str().map_or(format!("clusters[{index}]"), str::to_owned);
        let assignment = assignment(cluster, &told, at, &mut config).with_context(|| name)?;
        config.assignments.push(assignment);
    }
    config.checked()
}

fn assignment(
    cluster: Value,
    for_all: &Map<String, Value>,
    at: &Path,
    config: &mut Config,
) -> anyhow::Result<Assignment> {
    let Value::Object(cluster) = cluster else { bail!("it is no map") };
    let mut told = for_all.clone();
    told.extend(cluster);
    let told: OfCluster = serde_json::from_value(Value::Object(told))?;
    let mut settings = Vec::new();
    if let Some(path) = &told.scheduler_config {
        settings.push(scheduler_config(&at.join(path))?);
    }
    let mut if_there = Vec::new();
    if let Some(tracked) = &told.tracked_objects {
        let text = json!({ "trackedObjects": tracked }).to_string();
        let (tracer, warnings) = TracerConfig::parse("trackedObjects", &text)?;
        config.warnings.extend(warnings);
        if_there.extend(tracer.kinds());
        settings.push(tracer.kept());
    }
    let keep = match (told.everything, told.redact) {
        (true, true) => bail!("everything keeps environment values too: say redact: false with it"),
        (true, false) => Keep::Everything,
        (false, false) => Keep::Significant(Rules::default()),
        (false, true) => {
            let key = told.redact_key.map_or(config.folder.join(KEY_FILE), |path| at.join(path));
            Keep::Significant(rules(&key)?)
        }
    };
    let kinds = KindChoice { only: told.kinds, also: told.also, if_there, skip: told.skip };
    let events = told.events.as_deref().map_or(Ok(EventChoice::All), event_choice);
    let events = events.map_err(anyhow::Error::msg).context("events")?;
    let usage = told.usage.as_deref().map(duration).transpose();
    let usage = usage.map_err(anyhow::Error::msg).context("usage")?;
    let (namespaces, labels) = (told.namespaces, told.selector);
    let wanted = Wanted { kinds, namespaces, labels, events, usage, in_order: false };
    if let Some(labels) = &wanted.labels {
        Selector::parse(labels).context("selector")?;
    }
    let control_plane = told.control_plane.map(|control| {
        let kubeconfig = control.kubeconfig.map(|path| at.join(path));
        plane(kubeconfig, control.context, Wanted { events, ..of_control_plane(control.namespace) })
    });
    Ok(Assignment {
        into: config.folder.join(format!("{}.kine", told.name)),
        name: told.name.into(),
        cluster: plane(told.kubeconfig.map(|path| at.join(path)), told.context, wanted),
        control_plane,
        keep,
        retention: told.retention.read()?,
        settings,
    })
}

// === impl HowLong ===

impl HowLong {
    fn read(&self) -> anyhow::Result<Retention> {
        let nanos = match &self.age {
            Some(age) => {
                let age = duration(&words(age)).map_err(anyhow::Error::msg).context("retention.age")?;
                Some(i64::try_from(age.as_nanos()).context("retention.age")?)
            }
            None => None,
        };
        let bytes = self.size.as_ref().map(|bytes| size(&words(bytes))).transpose();
        Ok(Retention { nanos, bytes: bytes.map_err(anyhow::Error::msg).context("retention.size")? })
    }
}

/// A number is meant as it is written.
fn words(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn yes() -> bool {
    true
}
