//! The snapshot of the KAI scheduler: a ZIP with one entry, `snapshot.json`, that holds the scheduler's settings and the
//! lists of objects it works on. The JSON alone is read too.
//!
//! Every release's shape is read. A file shows one moment and does not say which. What it says of the scheduler itself
//! (`config`, `schedulerParams`, `discovery`) becomes one object of the kind [`SETTINGS_KIND`].

use std::io::{self, BufRead, BufReader};

use model::{BadObject, Object};
use serde_json::value::RawValue;

use crate::manifests::named;
use crate::pull::{Broken, Piece, Pull, Step, Way, Why, shown};
use crate::{Error, Input, Item, Items, Result};

mod entry;
mod partition;
mod releases;
mod settings;
mod write;

pub use partition::{BadPartition, Partition};
pub use write::Writer;

/// The apiVersion of [`SETTINGS_KIND`].
pub const SETTINGS_API_VERSION: &str = "kai.kinescope.io/v1";
/// The kind of the object that keeps a scheduler's settings, under the scheduler's name.
pub const SETTINGS_KIND: &str = "SnapshotSettings";

/// The most that is read of a snapshot in a ZIP, whatever size that claims.
pub const MAX_ENTRY: u64 = 8 << 30;

/// The only entry of the ZIP that counts.
const ENTRY: &str = "snapshot.json";
/// A scheduler's name where none is given.
const SCHEDULER: &str = "kai-scheduler";
/// So many unknown keys are told one by one.
const MAX_UNKNOWN: u32 = 10;

/// A list of objects in `rawObjects`.
struct List {
    key: &'static str,
    /// What its items are: they seldom say so themselves.
    api_version: &'static str,
    kind: &'static str,
}

/// The lists of v0.17, in its order.
const LISTS: [List; 17] = [
    List { key: "pods", api_version: "v1", kind: "Pod" },
    List { key: "nodes", api_version: "v1", kind: "Node" },
    List { key: "queues", api_version: "scheduling.run.ai/v2", kind: "Queue" },
    List { key: "podGroups", api_version: "scheduling.run.ai/v2alpha2", kind: "PodGroup" },
    List { key: "bindRequests", api_version: "scheduling.run.ai/v1alpha2", kind: "BindRequest" },
    List { key: "priorityClasses", api_version: "scheduling.k8s.io/v1", kind: "PriorityClass" },
    List { key: "configMaps", api_version: "v1", kind: "ConfigMap" },
    List { key: "persistentVolumes", api_version: "v1", kind: "PersistentVolume" },
    List { key: "persistentVolumeClaims", api_version: "v1", kind: "PersistentVolumeClaim" },
    List { key: "csiStorageCapacities", api_version: "storage.k8s.io/v1", kind: "CSIStorageCapacity" },
    List { key: "storageClasses", api_version: "storage.k8s.io/v1", kind: "StorageClass" },
    List { key: "csiDrivers", api_version: "storage.k8s.io/v1", kind: "CSIDriver" },
    List { key: "resourceClaims", api_version: "resource.k8s.io/v1", kind: "ResourceClaim" },
    List { key: "resourceSlices", api_version: "resource.k8s.io/v1", kind: "ResourceSlice" },
    List { key: "deviceClasses", api_version: "resource.k8s.io/v1", kind: "DeviceClass" },
    List { key: "topologies", api_version: "kai.scheduler/v1alpha1", kind: "Topology" },
    List {
        key: "nodeResourceTopologies",
        api_version: "topology.node.k8s.io/v1alpha2",
        kind: "NodeResourceTopology",
    },
];

/// A list that there was up to v0.7.
const BUDGETS: List =
    List { key: "podDisruptionBudgets", api_version: "policy/v1", kind: "PodDisruptionBudget" };

/// What a file says: its objects, then the scheduler's settings.
pub fn read(mut input: Input) -> Result<Items> {
    let file = input.name.clone();
    let head = input.reader.fill_buf().map_err(|source| Error::read(&file, source))?;
    let zipped = head.starts_with(b"PK");
    let text: Box<dyn BufRead + Send> = if zipped {
        Box::new(BufReader::with_capacity(1 << 18, entry::open(&file, input.into_file()?, MAX_ENTRY)?))
    } else {
        input.reader
    };
    Ok(Box::new(Reader {
        file,
        pull: Pull::new(text, way),
        zipped,
        signs: releases::Signs::default(),
        settings: SettingsText::default(),
        has_objects: false,
        unknown: 0,
        ended: false,
    }))
}

struct Reader {
    file: String,
    pull: Pull<Box<dyn BufRead + Send>>,
    zipped: bool,
    signs: releases::Signs,
    settings: SettingsText,
    /// `rawObjects` was there.
    has_objects: bool,
    unknown: u32,
    ended: bool,
}

/// The texts of what the file says of the scheduler.
#[derive(Default)]
struct SettingsText {
    config: Option<Box<RawValue>>,
    scheduler_params: Option<Box<RawValue>>,
    discovery: Option<Box<RawValue>>,
}

// === impl Reader ===

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
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

impl Reader {
    /// Takes one value; what it comes to, if anything.
    fn read(&mut self) -> Result<Option<Item>> {
        match self.pull.next() {
            Err(broken) => Err(self.broken(broken)),
            Ok(None) => self.end(),
            Ok(Some((path, piece))) => {
                let taken = match (path, piece) {
                    ([], Piece::Inside) => Ok(None),
                    ([], _) => Err("not a JSON object".to_owned()),
                    ([Step::Field(key)], Piece::Inside) if key == "rawObjects" => {
                        self.has_objects = true;
                        Ok(None)
                    }
                    ([Step::Field(key)], Piece::Text(text)) if key != "rawObjects" => {
                        self.settings.take(key, text, &mut self.signs).map(|()| None)
                    }
                    ([_, Step::Field(_)], Piece::Inside | Piece::Text("null")) => Ok(None),
                    ([_, Step::Field(key), Step::Item(_)], Piece::Text(text)) => {
                        object(key, text, &mut self.signs).map(|object| Some(Item::Object(object)))
                    }
                    ([Step::Field(key)], Piece::Skipped) if key == "snapshot" => Err(
                        "a snapshot as KAI made it in March 2025, before its first release: take another one \
                         with v0.3.0 or later"
                            .to_owned(),
                    ),
                    ([.., Step::Field(key)], Piece::Skipped) => {
                        self.unknown = self.unknown.saturating_add(1);
                        Ok(match self.unknown.cmp(&MAX_UNKNOWN) {
                            std::cmp::Ordering::Less => Some(Item::Warning(format!(
                                "{}: {} is not known here and left out",
                                self.file,
                                shown(key)
                            ))),
                            std::cmp::Ordering::Equal => Some(Item::Warning(format!(
                                "{}: more keys are not known here and left out",
                                self.file
                            ))),
                            std::cmp::Ordering::Greater => None,
                        })
                    }
                    _ => Err("neither an object nor a list".to_owned()),
                };
                taken.map_err(|why| {
                    let place = self.pull.path();
                    self.unless_damaged(Error::bad(&self.file, place, why))
                })
            }
        }
    }

    /// The file is at its end.
    fn end(&mut self) -> Result<Option<Item>> {
        let rest = self.pull.drain();
        let more = rest.map_err(|source| self.broken_io(source))?;
        if let Some(settings) = self.settings.object() {
            let bad =
                |error: BadObject| Error::unfit(&self.file, format!("the scheduler's settings: {error}"));
            return settings.map(|settings| Some(Item::Object(settings))).map_err(bad);
        }
        self.ended = true;
        if !self.has_objects {
            return Err(Error::unfit(&self.file, "no snapshot of KAI: it has no \"rawObjects\""));
        }
        let why = || format!("{}: what follows the end of {ENTRY} is left out", self.file);
        Ok(more.then(|| Item::Warning(why())))
    }

    fn broken(&mut self, broken: Broken) -> Error {
        match broken {
            Broken { why: Why::Io(source), .. } => self.broken_io(source),
            // The checksum was right: that end was written so.
            Broken { why: Why::Ends, at, path } if self.zipped => Error::unfit(
                &self.file,
                format!(
                    "the ZIP is whole, but {ENTRY} ends early (byte {at}, at {path}): the scheduler failed while \
                     writing it; take another snapshot"
                ),
            ),
            Broken { why: Why::Long, .. } => broken.error(&self.file),
            _ => {
                let error = broken.error(&self.file);
                self.unless_damaged(error)
            }
        }
    }

    fn broken_io(&self, source: io::Error) -> Error {
        match entry::damage(&source) {
            Some(why) => Error::unfit(&self.file, why),
            None => Error::read(&self.file, source),
        }
    }

    /// That error, unless the ZIP turns out to be damaged, which then is the reason.
    fn unless_damaged(&mut self, error: Error) -> Error {
        if !self.zipped {
            return error;
        }
        match self.pull.drain() {
            Err(source) if entry::damage(&source).is_some() => self.broken_io(source),
            _ => error,
        }
    }
}

// === impl SettingsText ===

impl SettingsText {
    fn take(
        &mut self,
        key: &str,
        text: &str,
        signs: &mut releases::Signs,
    ) -> std::result::Result<(), String> {
        let value = RawValue::from_string(text.to_owned()).map_err(|error| format!("not JSON: {error}"))?;
        match key {
            "config" => {
                signs.config(text);
                self.config = Some(value);
            }
            "schedulerParams" => self.scheduler_params = Some(value),
            _ => self.discovery = Some(value),
        }
        Ok(())
    }

    /// What was said of the scheduler, once.
    fn object(&mut self) -> Option<std::result::Result<Object, BadObject>> {
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
            let name = serde_json::to_string(name).expect("a text is JSON");
            Object::parse(&format!(
                "{{\"apiVersion\":\"{SETTINGS_API_VERSION}\",\"kind\":\"{SETTINGS_KIND}\",\"metadata\":{{\"name\":{name}}}{fields}}}"
            ))
        };
        // A name that no object can have is still in the parameters.
        let object = name.and_then(|name| named(&name).ok());
        Some(object.map_or_else(|| named(SCHEDULER), Ok))
    }
}

/// What is cut out of a snapshot: the settings, and every object by itself.
fn way(path: &[Step]) -> Way {
    match path {
        [] => Way::Into,
        [Step::Field(key)] => match key.as_str() {
            "rawObjects" => Way::Into,
            "config" | "schedulerParams" | "discovery" => Way::Cut,
            _ => Way::Skip,
        },
        [_, Step::Field(key)] if list(key).is_some() => Way::Into,
        [_, Step::Field(_)] => Way::Skip,
        _ => Way::Cut,
    }
}

fn list(key: &str) -> Option<&'static List> {
    LISTS.iter().chain([&BUDGETS]).find(|list| list.key == key)
}

fn object(key: &str, text: &str, signs: &mut releases::Signs) -> std::result::Result<Object, String> {
    let list = list(key).expect("only lists that are known are gone into");
    let api_version = signs.api_version(list, text);
    Object::parse(&named(text, api_version, list.kind)).map_err(|error| error.to_string())
}
