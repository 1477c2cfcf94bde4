//! The snapshot of the KAI scheduler: a ZIP with one entry, `snapshot.json`, that holds the scheduler's settings and
//! the lists of objects in its cache. The JSON alone is read too.
//!
//! The snapshots of all releases are read. The scheduler's settings (`config`, `schedulerParams`, `discovery`) become one
//! object of the kind [`SETTINGS_KIND`]. The scheduler's snapshots do not contain their time; those written here do, in a
//! key that the scheduler's tool ignores.

use std::io::{self, BufRead, BufReader};

use model::{BadObject, Kind, Moment, Object};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json_pull::{
    JsonPullParser, PathSegment, PullAction, PullError, PullErrorKind, PulledValue, escape_for_message,
};
use crate::manifests::with_type_meta;
use crate::{Error, ImportItem, ImportItems, Input, Result};

mod partition;
mod releases;
mod settings;
mod write;
mod zip_entry;

pub use partition::{BadPartition, Partition};
pub use settings::SchedulerSettings;
pub use write::KaiSnapshotWriter;

/// The apiVersion of [`SETTINGS_KIND`].
pub const SETTINGS_API_VERSION: &str = "kai.kinescope.io/v1";
/// The kind of the object that stores a scheduler's settings, under the scheduler's name.
pub const SETTINGS_KIND: &str = "SnapshotSettings";

/// The most bytes that are read of a snapshot in a ZIP, whatever size the ZIP declares.
pub const MAX_ENTRY_BYTES: u64 = 8 << 30;

/// The only entry of the ZIP that is read.
const ENTRY_NAME: &str = "snapshot.json";
/// The key of what only snapshots written here contain.
const OWN_KEY: &str = "kinescope";
/// The default scheduler name.
const DEFAULT_SCHEDULER_NAME: &str = "kai-scheduler";
/// How many unknown keys are reported.
const MAX_UNKNOWN_WARNINGS: u32 = 10;

/// A list of objects in `rawObjects`.
struct ObjectList {
    key: &'static str,
    /// The items' apiVersion and kind, which they seldom have themselves.
    api_version: &'static str,
    kind: &'static str,
}

/// The lists of v0.17, in its order.
const OBJECT_LISTS: [ObjectList; 17] = [
    ObjectList { key: "pods", api_version: "v1", kind: "Pod" },
    ObjectList { key: "nodes", api_version: "v1", kind: "Node" },
    ObjectList { key: "queues", api_version: "scheduling.run.ai/v2", kind: "Queue" },
    ObjectList { key: "podGroups", api_version: "scheduling.run.ai/v2alpha2", kind: "PodGroup" },
    ObjectList { key: "bindRequests", api_version: "scheduling.run.ai/v1alpha2", kind: "BindRequest" },
    ObjectList { key: "priorityClasses", api_version: "scheduling.k8s.io/v1", kind: "PriorityClass" },
    ObjectList { key: "configMaps", api_version: "v1", kind: "ConfigMap" },
    ObjectList { key: "persistentVolumes", api_version: "v1", kind: "PersistentVolume" },
    ObjectList { key: "persistentVolumeClaims", api_version: "v1", kind: "PersistentVolumeClaim" },
    ObjectList { key: "csiStorageCapacities", api_version: "storage.k8s.io/v1", kind: "CSIStorageCapacity" },
    ObjectList { key: "storageClasses", api_version: "storage.k8s.io/v1", kind: "StorageClass" },
    ObjectList { key: "csiDrivers", api_version: "storage.k8s.io/v1", kind: "CSIDriver" },
    ObjectList { key: "resourceClaims", api_version: "resource.k8s.io/v1", kind: "ResourceClaim" },
    ObjectList { key: "resourceSlices", api_version: "resource.k8s.io/v1", kind: "ResourceSlice" },
    ObjectList { key: "deviceClasses", api_version: "resource.k8s.io/v1", kind: "DeviceClass" },
    ObjectList { key: "topologies", api_version: "kai.scheduler/v1alpha1", kind: "Topology" },
    ObjectList {
        key: "nodeResourceTopologies",
        api_version: "topology.node.k8s.io/v1alpha2",
        kind: "NodeResourceTopology",
    },
];

/// A list that existed up to v0.7.
const POD_DISRUPTION_BUDGETS: ObjectList =
    ObjectList { key: "podDisruptionBudgets", api_version: "policy/v1", kind: "PodDisruptionBudget" };

/// Whether snapshots list objects of a kind. Kueue's topologies are those of the scheduler up to v0.10.
pub fn is_listed(kind: &Kind) -> bool {
    kind.is("kueue.x-k8s.io", "Topology") || listed_kinds().any(|listed| listed == *kind)
}

/// The kinds that snapshots list, in their order.
pub fn listed_kinds() -> impl Iterator<Item = Kind> {
    OBJECT_LISTS.iter().map(|list| Kind::of(list.api_version, list.kind))
}

/// Reads a snapshot: its objects, then the scheduler's settings.
pub fn read(mut input: Input) -> Result<ImportItems> {
    let file = input.name.clone();
    let head = input.reader.fill_buf().map_err(|source| Error::cannot_read(&file, source))?;
    let zipped = head.starts_with(b"PK");
    let text: Box<dyn BufRead + Send> = if zipped {
        Box::new(BufReader::with_capacity(
            1 << 18,
            zip_entry::open(&file, input.into_file()?, MAX_ENTRY_BYTES)?,
        ))
    } else {
        input.reader
    };
    Ok(Box::new(KaiSnapshotReader {
        file,
        pull: JsonPullParser::new(text, pull_action),
        zipped,
        hints: releases::ReleaseHints::default(),
        settings: SettingsText::default(),
        capture_time: None,
        has_objects: false,
        unknown: 0,
        ended: false,
    }))
}

struct KaiSnapshotReader {
    file: String,
    pull: JsonPullParser<Box<dyn BufRead + Send>>,
    zipped: bool,
    hints: releases::ReleaseHints,
    settings: SettingsText,
    capture_time: Option<Moment>,
    /// Whether `rawObjects` was found.
    has_objects: bool,
    unknown: u32,
    ended: bool,
}

/// The JSON texts of the scheduler's settings.
#[derive(Default)]
struct SettingsText {
    config: Option<Box<RawValue>>,
    scheduler_params: Option<Box<RawValue>>,
    discovery: Option<Box<RawValue>>,
}

// === impl KaiSnapshotReader ===

impl Iterator for KaiSnapshotReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        loop {
            if self.ended {
                return None;
            }
            match self.read() {
                Ok(None) => {}
                Ok(Some(item)) => return Some(Ok(item)),
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

impl KaiSnapshotReader {
    /// Reads one value and returns its item, if it makes one.
    fn read(&mut self) -> Result<Option<ImportItem>> {
        match self.pull.next() {
            Err(broken) => Err(self.pull_error(broken)),
            Ok(None) => self.finish(),
            Ok(Some((path, piece))) => {
                let result = match (path, piece) {
                    ([], PulledValue::Descended) => Ok(None),
                    ([], _) => Err("not a JSON object".to_owned()),
                    ([PathSegment::Field(key)], PulledValue::Descended) if key == "rawObjects" => {
                        self.has_objects = true;
                        Ok(None)
                    }
                    ([PathSegment::Field(key)], PulledValue::Text(text)) if key == OWN_KEY => {
                        capture_time(text).map(|time| {
                            self.capture_time = time;
                            None
                        })
                    }
                    ([PathSegment::Field(key)], PulledValue::Text(text)) if key != "rawObjects" => {
                        self.settings.set(key, text, &mut self.hints).map(|()| None)
                    }
                    ([_, PathSegment::Field(_)], PulledValue::Descended | PulledValue::Text("null")) => Ok(None),
                    ([_, PathSegment::Field(key), PathSegment::Index(_)], PulledValue::Text(text)) => {
                        object(key, text, &mut self.hints).map(|object| Some(ImportItem::Object(object)))
                    }
                    ([PathSegment::Field(key)], PulledValue::Skipped) if key == "snapshot" => Err(
                        "snapshots of KAI before v0.3.0 are not supported: take another one with v0.3.0 or later"
                            .to_owned(),
                    ),
                    ([.., PathSegment::Field(key)], PulledValue::Skipped) => {
                        self.unknown = self.unknown.saturating_add(1);
                        Ok(match self.unknown.cmp(&MAX_UNKNOWN_WARNINGS) {
                            std::cmp::Ordering::Less => Some(ImportItem::Warning(format!(
                                "{}: unknown key {} ignored",
                                self.file,
                                escape_for_message(key)
                            ))),
                            std::cmp::Ordering::Equal => Some(ImportItem::Warning(format!(
                                "{}: more unknown keys ignored",
                                self.file
                            ))),
                            std::cmp::Ordering::Greater => None,
                        })
                    }
                    _ => Err("neither an object nor a list".to_owned()),
                };
                result.map_err(|why| {
                    let location = self.pull.path();
                    self.or_zip_damage(Error::invalid_at(&self.file, location, why))
                })
            }
        }
    }

    /// Returns the settings, and at last ends the file.
    fn finish(&mut self) -> Result<Option<ImportItem>> {
        let rest = self.pull.drain();
        let more = rest.map_err(|source| self.io_error(source))?;
        if let Some(settings) = self.settings.take_object() {
            let invalid =
                |error: BadObject| Error::invalid_file(&self.file, format!("scheduler settings: {error}"));
            return settings.map(|settings| Some(ImportItem::Object(settings))).map_err(invalid);
        }
        if let Some(time) = self.capture_time.take() {
            return Ok(Some(ImportItem::CaptureTime(time)));
        }
        self.ended = true;
        if !self.has_objects {
            return Err(Error::invalid_file(&self.file, "not a KAI snapshot: \"rawObjects\" is missing"));
        }
        let why = || format!("{}: data after the end of {ENTRY_NAME} ignored", self.file);
        Ok(more.then(|| ImportItem::Warning(why())))
    }

    fn pull_error(&mut self, broken: PullError) -> Error {
        match broken {
            PullError { kind: PullErrorKind::Io(source), .. } => self.io_error(source),
            // The checksum was right, so the JSON was written incomplete.
            PullError { kind: PullErrorKind::UnexpectedEnd, at, path } if self.zipped => Error::invalid_file(
                &self.file,
                format!(
                    "the ZIP is valid, but {ENTRY_NAME} is truncated (byte {at}, at {path}): the scheduler failed while writing it; take another snapshot"
                ),
            ),
            PullError { kind: PullErrorKind::TooLong, .. } => broken.into_error(&self.file),
            _ => {
                let error = broken.into_error(&self.file);
                self.or_zip_damage(error)
            }
        }
    }

    fn io_error(&self, source: io::Error) -> Error {
        match zip_entry::damage_reason(&source) {
            Some(why) => Error::invalid_file(&self.file, why),
            None => Error::cannot_read(&self.file, source),
        }
    }

    /// The error, or the ZIP's damage as its cause if the ZIP turns out to be damaged.
    fn or_zip_damage(&mut self, error: Error) -> Error {
        if !self.zipped {
            return error;
        }
        match self.pull.drain() {
            Err(source) if zip_entry::damage_reason(&source).is_some() => self.io_error(source),
            _ => error,
        }
    }
}

// === impl SettingsText ===

impl SettingsText {
    fn set(
        &mut self,
        key: &str,
        text: &str,
        signs: &mut releases::ReleaseHints,
    ) -> std::result::Result<(), String> {
        let value = RawValue::from_string(text.to_owned()).map_err(|error| format!("not JSON: {error}"))?;
        match key {
            "config" => {
                signs.observe_config(text);
                self.config = Some(value);
            }
            "schedulerParams" => self.scheduler_params = Some(value),
            _ => self.discovery = Some(value),
        }
        Ok(())
    }

    /// Takes the settings as an object; `None` if there are none left.
    fn take_object(&mut self) -> Option<std::result::Result<Object, BadObject>> {
        let SettingsText { config, scheduler_params, discovery } = std::mem::take(self);
        let parts = [("config", &config), ("schedulerParams", &scheduler_params), ("discovery", &discovery)];
        let mut fields = String::new();
        for (key, value) in parts {
            if let Some(value) = value {
                fields.push_str(&format!(",\"{key}\":{value}"));
            }
        }
        if fields.is_empty() {
            return None;
        }
        let name = scheduler_params.as_deref().and_then(settings::scheduler_name);
        let named = |name: &str| {
            let name = serde_json::to_string(name).expect("a string serializes as JSON");
            Object::parse(&format!(
                "{{\"apiVersion\":\"{SETTINGS_API_VERSION}\",\"kind\":\"{SETTINGS_KIND}\",\"metadata\":{{\"name\":{name}}}{fields}}}"
            ))
        };
        // An invalid object name is not lost: the parameters contain it.
        let object = name.and_then(|name| named(&name).ok());
        Some(object.map_or_else(|| named(DEFAULT_SCHEDULER_NAME), Ok))
    }
}

/// Extracts the settings, and every object by itself.
fn pull_action(path: &[PathSegment]) -> PullAction {
    match path {
        [] => PullAction::Descend,
        [PathSegment::Field(key)] => match key.as_str() {
            "rawObjects" => PullAction::Descend,
            "config" | "schedulerParams" | "discovery" | OWN_KEY => PullAction::Extract,
            _ => PullAction::Skip,
        },
        [_, PathSegment::Field(key)] if list(key).is_some() => PullAction::Descend,
        [_, PathSegment::Field(_)] => PullAction::Skip,
        _ => PullAction::Extract,
    }
}

/// The time that a snapshot written here was taken at.
fn capture_time(text: &str) -> std::result::Result<Option<Moment>, String> {
    #[derive(Deserialize)]
    struct Own {
        time: Option<String>,
    }
    let own: Own = serde_json::from_str(text).map_err(|error| format!("invalid {OWN_KEY}: {error}"))?;
    own.time.map(|time| time.parse().map_err(|error| format!("invalid {OWN_KEY}.time: {error}"))).transpose()
}

fn list(key: &str) -> Option<&'static ObjectList> {
    OBJECT_LISTS.iter().chain([&POD_DISRUPTION_BUDGETS]).find(|list| list.key == key)
}

fn object(key: &str, text: &str, signs: &mut releases::ReleaseHints) -> std::result::Result<Object, String> {
    let list = list(key).expect("only known lists are parsed");
    let api_version = signs.api_version(list, text);
    Object::parse(&with_type_meta(text, api_version, list.kind)).map_err(|error| error.to_string())
}
