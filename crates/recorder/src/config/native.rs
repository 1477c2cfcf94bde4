//! Our own configuration format: a folder, clusters, and defaults for all clusters.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use formats::sktrace::TracerConfig;
use history::Retention;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Config, ConfigOverrides, KEY_FILE, api_server, parse_duration, parse_size};
use crate::policy::{Detail, RecordingPolicy, parse_event_choice};
use crate::{Assignment, ControlPlaneConfig, read_scheduler_config, secret_key};

/// The keys allowed beside `clusters`, as defaults for all clusters.
const DEFAULT_KEYS: [&str; 13] = [
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
struct ClusterEntry {
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
    /// The sampling interval.
    usage: Option<String>,
    #[serde(default)]
    everything: bool,
    #[serde(default = "default_true")]
    redact: bool,
    redact_key: Option<PathBuf>,
    scheduler_config: Option<PathBuf>,
    #[serde(default)]
    retention: RetentionEntry,
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
struct RetentionEntry {
    age: Option<Value>,
    size: Option<Value>,
}

/// Parses a file in the folder `at`, to which its paths are relative.
pub(super) fn read(value: Value, at: &Path, beside: &ConfigOverrides) -> anyhow::Result<Config> {
    let Value::Object(mut told) = value else { bail!("it is no map") };
    let folder = match (&beside.folder, told.remove("folder")) {
        (Some(folder), _) => folder.clone(),
        (None, Some(Value::String(folder))) => at.join(folder),
        (None, None) => at.to_owned(),
        (None, Some(_)) => bail!("folder: it is no text"),
    };
    let Some(Value::Array(clusters)) = told.remove("clusters") else { bail!("clusters: it is no list") };
    if let Some(key) = told.keys().find(|key| !DEFAULT_KEYS.contains(&&***key)) {
        bail!("{key:?} is not known here: there are folder, clusters, {}", DEFAULT_KEYS.join(", "));
    }
    let mut config = Config { folder, assignments: Vec::new(), warnings: Vec::new() };
    for (index, cluster) in clusters.into_iter().enumerate() {
        let name = cluster["name"].as_str().map_or(format!("clusters[{index}]"), str::to_owned);
        let assignment = assignment(cluster, &told, at, &mut config).with_context(|| name)?;
        config.assignments.push(assignment);
    }
    config.validated()
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
    let told: ClusterEntry = serde_json::from_value(Value::Object(told))?;
    let mut settings = Vec::new();
    if let Some(path) = &told.scheduler_config {
        settings.push(read_scheduler_config(&at.join(path))?);
    }
    let mut if_served = Vec::new();
    if let Some(tracked) = &told.tracked_objects {
        let text = json!({ "trackedObjects": tracked }).to_string();
        let (tracer, warnings) = TracerConfig::parse("trackedObjects", &text)?;
        config.warnings.extend(warnings);
        if_served.extend(tracer.kinds());
        settings.push(tracer.to_object());
    }
    let (detail, redaction) = match (told.everything, told.redact) {
        (true, true) => bail!("everything keeps environment values too: say redact: false with it"),
        (true, false) => (Detail::Everything, None),
        (false, false) => (Detail::Significant, None),
        (false, true) => {
            let key = told.redact_key.map_or(config.folder.join(KEY_FILE), |path| at.join(path));
            (Detail::Significant, Some(secret_key::read_redact_key(&key)?))
        }
    };
    let events = told.events.as_deref().map(parse_event_choice).transpose();
    let usage = told.usage.as_deref().map(parse_duration).transpose();
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
        retention: told.retention.parse()?,
        in_order: false,
    };
    policy.check_selector().context("selector")?;
    let control_plane = told.control_plane.map(|control| {
        let kubeconfig = control.kubeconfig.map(|path| at.join(path));
        let server = api_server(kubeconfig, control.context);
        ControlPlaneConfig { server, namespace: control.namespace }
    });
    Ok(Assignment {
        history_path: config.folder.join(format!("{}.kine", told.name)),
        name: told.name.into(),
        cluster: api_server(told.kubeconfig.map(|path| at.join(path)), told.context),
        control_plane,
        policy,
        settings,
    })
}

// === impl RetentionEntry ===

impl RetentionEntry {
    fn parse(&self) -> anyhow::Result<Retention> {
        let nanos = match &self.age {
            Some(age) => {
                let age =
                    parse_duration(&scalar_text(age)).map_err(anyhow::Error::msg).context("retention.age")?;
                Some(i64::try_from(age.as_nanos()).context("retention.age")?)
            }
            None => None,
        };
        let bytes = self.size.as_ref().map(|bytes| parse_size(&scalar_text(bytes))).transpose();
        Ok(Retention { nanos, bytes: bytes.map_err(anyhow::Error::msg).context("retention.size")? })
    }
}

/// The text of a string or number.
fn scalar_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn default_true() -> bool {
    true
}
