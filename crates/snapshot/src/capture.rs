//! Snapshots for KAI's own tool, of a moment of a history or of a live cluster.

use std::io::Write;

use formats::kai_snapshot::{self, KaiSnapshotWriter, Partition, SchedulerSettings};
use formats::{WriteSummary, Writer};
use kubernetes::anonymize::Anonymizer;
use live::Connection;
use model::{Change, Kind, Moment, Object, What};
use serde_json::{Map, Value, json};

use crate::input::HistoryMoment;

/// The objects of a cluster at one time.
#[derive(Clone, Debug)]
pub struct CapturedObjects {
    objects: Vec<Object>,
    /// The settings of the scheduler, if they were recorded.
    settings: Option<Object>,
    time: Moment,
}

/// The objects of a live cluster.
#[derive(Clone, Debug)]
pub struct LiveObjects {
    /// What was listed.
    pub captured: CapturedObjects,
    /// The kinds that the server does not have.
    pub missing: Vec<Kind>,
}

/// The options of a capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureOptions {
    /// Replaces names, if set.
    pub anonymizer: Option<Anonymizer>,
    /// Whether to leave out the data of ConfigMaps.
    pub without_config_map_data: bool,
    /// The objects of the scheduler; `None` for those of the recorded settings, or else those without the label.
    pub partition: Option<Partition>,
}

/// What was captured.
#[derive(Clone, Debug)]
pub struct CaptureSummary {
    /// What was written, left out and added.
    pub written: WriteSummary,
    /// The time of the snapshot.
    pub time: Moment,
    /// Whether it has the settings of a scheduler that were recorded.
    pub has_recorded_settings: bool,
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The fields of containers that the scheduler keeps.
const CONTAINER_FIELDS: [&str; 5] = ["name", "ports", "resources", "volumeMounts", "restartPolicy"];
/// The lists that are restricted to the partition of a scheduler.
const PARTITIONED_KINDS: [&str; 3] = ["Node", "Queue", "PodGroup"];

impl CapturedObjects {
    /// The objects at a moment of a history.
    pub fn at(history: &HistoryMoment<'_>) -> anyhow::Result<CapturedObjects> {
        let (settings, objects) = history.read()?;
        Ok(CapturedObjects { objects, settings, time: history.moment })
    }

    /// Their time.
    pub fn time(&self) -> Moment {
        self.time
    }
}

/// Lists the objects of a live cluster. `now` is its time if the server does not say it.
pub async fn list_live(connection: &Connection, now: Moment) -> anyhow::Result<LiveObjects> {
    let kinds: Vec<Kind> = kai_snapshot::listed_kinds().collect();
    let listing = connection.list(&kinds).await?;
    let objects: Vec<Object> =
        listing.objects.iter().map(without_container_details).collect::<anyhow::Result<_>>()?;
    // A time of whole seconds may lie before what happened in its second.
    let newest = objects.iter().filter_map(formats::newest_time).max();
    let time = listing.time.unwrap_or(now).max(newest.unwrap_or(Moment::MIN));
    Ok(LiveObjects { captured: CapturedObjects { objects, settings: None, time }, missing: listing.missing })
}

/// Writes a snapshot.
pub fn take(
    captured: &CapturedObjects,
    options: &CaptureOptions,
    out: impl Write,
) -> anyhow::Result<CaptureSummary> {
    let anonymous = options.anonymizer.as_ref().map(|anonymizer| captured.anonymous(anonymizer, options));
    let anonymous = anonymous.transpose()?;
    let (captured, partition) = match &anonymous {
        Some((anonymous, partition)) => (anonymous, Some(partition.clone())),
        None => (captured, options.partition.clone()),
    };
    let mut writer = KaiSnapshotWriter::new(out, partition);
    if options.without_config_map_data {
        writer = writer.without_config_map_data();
    }
    let mut writer = Box::new(writer);
    let source = "snapshot".into();
    for object in captured.objects.iter().chain(&captured.settings) {
        let (at, key) = (captured.time, object.key(&source));
        let what = What::Added(object.clone());
        writer.change(&Change { seq: 0, at, seen: at, key, what, inferred: false })?;
    }
    let written = writer.finish()?;
    Ok(CaptureSummary { written, time: captured.time, has_recorded_settings: captured.settings.is_some() })
}

// === impl CapturedObjects ===

impl CapturedObjects {
    /// The objects of the scheduler's partition with their names replaced, and the partition that has them all: the
    /// names of labels are replaced too, so that the scheduler could not choose them.
    fn anonymous(
        &self,
        anonymizer: &Anonymizer,
        options: &CaptureOptions,
    ) -> anyhow::Result<(CapturedObjects, Partition)> {
        let recorded = SchedulerSettings::new(self.settings.as_ref(), options.partition.clone());
        let is_inside = |object: &&Object| {
            !PARTITIONED_KINDS.contains(&&*object.meta().kind) || recorded.partition.contains(object)
        };
        let objects = self.objects.iter().filter(is_inside).map(|object| anonymizer.object(object)).collect();
        let all = Partition { key: String::new(), value: String::new() };
        let settings = match &self.settings {
            Some(_) => Some(anonymous_settings(anonymizer, recorded)?),
            None => None,
        };
        Ok((CapturedObjects { objects, settings, time: self.time }, all))
    }
}

/// Settings without names: those of the usage database are left out, and that of the scheduler is replaced as in pods.
fn anonymous_settings(anonymizer: &Anonymizer, recorded: SchedulerSettings) -> anyhow::Result<Object> {
    let SchedulerSettings { mut config, mut scheduler_params, discovery, .. } = recorded;
    if let Some(fields) = config.as_object_mut() {
        fields.remove("usageDBConfig");
    }
    let name = scheduler_params["schedulerName"].clone();
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"schedulerName": name}});
    let pod = anonymizer.object(&Object::parse(&pod.to_string())?).value()?;
    scheduler_params["schedulerName"] = pod["spec"]["schedulerName"].clone();
    let mut settings = json!({
        "apiVersion": kai_snapshot::SETTINGS_API_VERSION,
        "kind": kai_snapshot::SETTINGS_KIND,
        "metadata": {"name": "scheduler"},
        "config": config,
        "schedulerParams": scheduler_params,
    });
    if let Some(discovery) = discovery {
        settings["discovery"] = discovery;
    }
    Ok(Object::parse(&settings.to_string())?)
}

/// A pod as the scheduler keeps it, without what only its containers need; any other object as it is.
fn without_container_details(object: &Object) -> anyhow::Result<Object> {
    if object.meta().kind != "Pod" {
        return Ok(object.clone());
    }
    let mut pod = object.value()?;
    let metadata = &mut pod["metadata"];
    remove(metadata, "managedFields");
    remove(&mut metadata["annotations"], LAST_APPLIED);
    for list in ["containers", "initContainers"] {
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            *container = container_for_scheduling(container);
        }
    }
    if pod["spec"]["initContainers"].is_null() {
        remove(&mut pod["spec"], "initContainers");
    }
    Ok(Object::parse(&pod.to_string())?)
}

/// A container with what decisions depend on: of its environment, that which needs a ConfigMap.
fn container_for_scheduling(container: &Value) -> Value {
    let mut kept = Map::new();
    for field in CONTAINER_FIELDS {
        if !container[field].is_null() {
            kept.insert(field.to_owned(), container[field].clone());
        }
    }
    let sources = container["envFrom"].as_array().into_iter().flatten();
    let sources: Vec<Value> = sources
        .filter(|source| !source["configMapRef"].is_null())
        .map(|source| json!({"configMapRef": source["configMapRef"]}))
        .collect();
    if !sources.is_empty() {
        kept.insert("envFrom".to_owned(), Value::from(sources));
    }
    let variables = container["env"].as_array().into_iter().flatten();
    let variables: Vec<Value> = variables
        .filter(|variable| !variable["valueFrom"]["configMapKeyRef"].is_null())
        .map(|variable| {
            let reference = &variable["valueFrom"]["configMapKeyRef"];
            json!({"name": variable["name"], "valueFrom": {"configMapKeyRef": reference}})
        })
        .collect();
    if !variables.is_empty() {
        kept.insert("env".to_owned(), Value::from(variables));
    }
    Value::Object(kept)
}

fn remove(value: &mut Value, field: &str) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove(field);
    }
}
