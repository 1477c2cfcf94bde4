//! Our own configuration format: a folder, clusters, and defaults for all clusters.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use formats::sktrace::TracerConfig;
use history::Retention;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{Config, ConfigOverrides, KEY_FILE, api_server, parse_duration, parse_size};
use crate::policy::{RecordingDetail, RecordingPolicy, parse_event_choice};
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

/// Parses a file in the folder `base_folder`, to which its paths are relative.
pub(super) fn read(value: Value, base_folder: &Path, overrides: &ConfigOverrides) -> anyhow::Result<Config> {
    let Value::Object(mut root) = value else { bail!("not a map") };
    let folder = match (&overrides.folder, root.remove("folder")) {
        (Some(folder), _) => folder.clone(),
        (None, Some(Value::String(folder))) => base_folder.join(folder),
        (None, None) => base_folder.to_owned(),
        (None, Some(_)) => bail!("folder: not a string"),
    };
    let Some(Value::Array(clusters)) = root.remove("clusters") else { bail!("clusters: not a list") };
    if let Some(key) = root.keys().find(|key| !DEFAULT_KEYS.contains(&&***key)) {
        bail!("unknown key {key:?}: expected folder, clusters, {}", DEFAULT_KEYS.join(", "));
    }
    let mut config = Config { folder, assignments: Vec::new(), warnings: Vec::new() };
    for (index, cluster) in clusters.into_iter().enumerate() {
        let name = cluster["name"].as_str().map_or(format!("clusters[{index}]"), str::to_owned);
        let assignment = assignment(cluster, &root, base_folder, &mut config).with_context(|| name)?;
        config.assignments.push(assignment);
    }
    config.validated()
}

fn assignment(
    cluster: Value,
    defaults: &Map<String, Value>,
    base_folder: &Path,
    config: &mut Config,
) -> anyhow::Result<Assignment> {
    let Value::Object(cluster) = cluster else { bail!("not a map") };
    let mut entry = defaults.clone();
    entry.extend(cluster);
    let entry: ClusterEntry = serde_json::from_value(Value::Object(entry))?;
    let mut settings = Vec::new();
    if let Some(path) = &entry.scheduler_config {
        settings.push(read_scheduler_config(&base_folder.join(path))?);
    }
    let mut if_served = Vec::new();
    if let Some(tracked_objects) = &entry.tracked_objects {
        let text = json!({ "trackedObjects": tracked_objects }).to_string();
        let (tracer, warnings) = TracerConfig::parse("trackedObjects", &text)?;
        config.warnings.extend(warnings);
        if_served.extend(tracer.kinds());
        settings.push(tracer.to_object());
    }
    let (detail, redaction) = match (entry.everything, entry.redact) {
        (true, true) => bail!("everything requires redact: false, because environment values are kept too"),
        (true, false) => (RecordingDetail::Everything, None),
        (false, false) => (RecordingDetail::Significant, None),
        (false, true) => {
            let key = entry.redact_key.map_or(config.folder.join(KEY_FILE), |path| base_folder.join(path));
            (RecordingDetail::Significant, Some(secret_key::read_redact_key(&key)?))
        }
    };
    let events = entry.events.as_deref().map(parse_event_choice).transpose();
    let usage = entry.usage.as_deref().map(parse_duration).transpose();
    let policy = RecordingPolicy {
        kinds: entry.kinds,
        also: entry.also,
        if_served,
        skip: entry.skip,
        namespaces: entry.namespaces,
        selector: entry.selector,
        events: events.map_err(anyhow::Error::msg).context("events")?.unwrap_or_default(),
        usage: usage.map_err(anyhow::Error::msg).context("usage")?,
        detail,
        redaction,
        retention: entry.retention.parse()?,
        in_order: false,
    };
    policy.check_selector().context("selector")?;
    let control_plane = entry.control_plane.map(|control_plane_entry| {
        let kubeconfig = control_plane_entry.kubeconfig.map(|path| base_folder.join(path));
        let server = api_server(kubeconfig, control_plane_entry.context);
        ControlPlaneConfig { server, namespace: control_plane_entry.namespace }
    });
    Ok(Assignment {
        history_path: config.folder.join(format!("{}.kine", entry.name)),
        name: entry.name.into(),
        cluster: api_server(entry.kubeconfig.map(|path| base_folder.join(path)), entry.context),
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
