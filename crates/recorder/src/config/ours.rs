//! Our own configuration: a folder, clusters, and what is said once for all of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use formats::sktrace::TracerConfig;
use history::Retention;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Beside, Config, KEY_FILE, api_server, duration, size};
use crate::policy::{Detail, RecordingPolicy, event_choice};
use crate::{Assignment, ControlPlaneConfig, scheduler_config, secret_key};

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
    let mut if_served = Vec::new();
    if let Some(tracked) = &told.tracked_objects {
        let text = json!({ "trackedObjects": tracked }).to_string();
        let (tracer, warnings) = TracerConfig::parse("trackedObjects", &text)?;
        config.warnings.extend(warnings);
        if_served.extend(tracer.kinds());
        settings.push(tracer.kept());
    }
    let (detail, redaction) = match (told.everything, told.redact) {
        (true, true) => bail!("everything keeps environment values too: say redact: false with it"),
        (true, false) => (Detail::Everything, None),
        (false, false) => (Detail::Significant, None),
        (false, true) => {
            let key = told.redact_key.map_or(config.folder.join(KEY_FILE), |path| at.join(path));
            (Detail::Significant, Some(secret_key::redact_key(&key)?))
        }
    };
    let events = told.events.as_deref().map(event_choice).transpose();
    let usage = told.usage.as_deref().map(duration).transpose();
    let policy = RecordingPolicy {
        kinds: told.kinds,
        also: told.also,
        if_served,
        skip: told.skip,
        namespaces: told.namespaces,
        selector: told.selector,
        events: events.map_err(anyhow::Error::msg).context("events")?.unwrap_or_default(),
        usage: usage.map_err(anyhow::Error::msg).context("usage")?,
        detail,
        redaction,
        retention: told.retention.read()?,
        in_order: false,
    };
    policy.check_selector().context("selector")?;
    let control_plane = told.control_plane.map(|control| {
        let kubeconfig = control.kubeconfig.map(|path| at.join(path));
        let server = api_server(kubeconfig, control.context);
        ControlPlaneConfig { server, namespace: control.namespace }
    });
    Ok(Assignment {
        into: config.folder.join(format!("{}.kine", told.name)),
        name: told.name.into(),
        cluster: api_server(told.kubeconfig.map(|path| at.join(path)), told.context),
        control_plane,
        policy,
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
