//! Objects besides pods and nodes whose changes may help a pod that was refused: what of them such a pod asks for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::quantity::Quantity;
use model::Object;
use serde_json::Value;

/// A kind of such objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ThingKind {
    Claim,
    Volume,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
}

/// What is asked of such an object. What makes no sense there is as if it were not there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Thing {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub details: Details,
}

/// What is asked of such an object besides its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Details {
    /// Nothing more.
    None,
    /// The zones and regions of a volume, by label.
    Volume {
        places: Vec<(&'static str, BTreeSet<String>)>,
    },
    StorageClass {
        waits_for_consumer: bool,
        topologies: Value,
    },
    /// How many volumes each driver attaches, and which plugins gave way to a driver.
    CsiNode {
        limits: BTreeMap<String, i64>,
        migrated: String,
    },
    CsiDriver {
        tracks_capacity: bool,
    },
    /// The biggest volume, in bytes.
    CsiStorageCapacity {
        most: Option<i64>,
    },
    VolumeAttachment {
        driver: String,
    },
    DeviceClass {
        resource: Option<String>,
    },
    ResourceClaim {
        is_allocated: bool,
    },
}

/// Such objects as they were last seen.
#[derive(Debug, Default)]
pub(crate) struct Things(BTreeMap<(ThingKind, Arc<str>, Arc<str>), Arc<Thing>>);

/// Labels that say where a volume is, as kube-scheduler goes through them.
const PLACES: [&str; 4] = [
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
];
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";

// === impl ThingKind ===

impl ThingKind {
    /// The kind, if it is one of these.
    pub(crate) fn of(group: &str, kind: &str) -> Option<ThingKind> {
        Some(match (group, kind) {
            ("", "PersistentVolumeClaim") => ThingKind::Claim,
            ("", "PersistentVolume") => ThingKind::Volume,
            ("storage.k8s.io", "StorageClass") => ThingKind::StorageClass,
            ("storage.k8s.io", "CSINode") => ThingKind::CsiNode,
            ("storage.k8s.io", "CSIDriver") => ThingKind::CsiDriver,
            ("storage.k8s.io", "CSIStorageCapacity") => ThingKind::CsiStorageCapacity,
            ("storage.k8s.io", "VolumeAttachment") => ThingKind::VolumeAttachment,
            ("resource.k8s.io", "DeviceClass") => ThingKind::DeviceClass,
            ("resource.k8s.io", "ResourceClaim") => ThingKind::ResourceClaim,
            ("resource.k8s.io", "ResourceSlice") => ThingKind::ResourceSlice,
            _ => return None,
        })
    }
}

// === impl Thing ===

impl Thing {
    pub(crate) fn read(kind: ThingKind, object: &Object) -> Thing {
        let meta = object.meta();
        let details = match kind {
            ThingKind::Claim | ThingKind::ResourceSlice => Details::None,
            _ => details(kind, &object.value().unwrap_or(Value::Null)),
        };
        Thing { namespace: meta.namespace.as_ref().into(), name: meta.name.as_ref().into(), details }
    }
}

fn details(kind: ThingKind, value: &Value) -> Details {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind {
        ThingKind::Claim | ThingKind::ResourceSlice => Details::None,
        ThingKind::Volume => {
            let labels = value.pointer("/metadata/labels");
            let place = |label: &'static str| Some((label, zones(labels?.get(label)?.as_str()?)?));
            Details::Volume { places: PLACES.into_iter().filter_map(place).collect() }
        }
        ThingKind::StorageClass => Details::StorageClass {
            waits_for_consumer: text("/volumeBindingMode") == "WaitForFirstConsumer",
            topologies: match value.get("allowedTopologies") {
                // None and an empty list are the same.
                None | Some(Value::Null) => Value::Array(Vec::new()),
                Some(topologies) => topologies.clone(),
            },
        },
        ThingKind::CsiNode => {
            let drivers = value.pointer("/spec/drivers").and_then(Value::as_array);
            let limit = |driver: &Value| {
                let count = driver.pointer("/allocatable/count").and_then(Value::as_i64);
                Some((driver.get("name")?.as_str()?.to_owned(), count.unwrap_or(0)))
            };
            let annotation = value.pointer("/metadata/annotations").and_then(|all| all.get(MIGRATED));
            Details::CsiNode {
                limits: drivers.into_iter().flatten().filter_map(limit).collect(),
                migrated: annotation.and_then(Value::as_str).unwrap_or_default().to_owned(),
            }
        }
        ThingKind::CsiDriver => Details::CsiDriver {
            tracks_capacity: value.pointer("/spec/storageCapacity").and_then(Value::as_bool).unwrap_or(false),
        },
        ThingKind::CsiStorageCapacity => {
            let size = |field: &str| Some(value.get(field)?.as_str()?.to_owned());
            let most = size("maximumVolumeSize").or_else(|| size("capacity"));
            let most = most.and_then(|size| Quantity::parse(&size).ok());
            Details::CsiStorageCapacity { most: most.map(|size| size.value()) }
        }
        ThingKind::VolumeAttachment => Details::VolumeAttachment { driver: text("/spec/attacher") },
        ThingKind::DeviceClass => {
            let resource = value.pointer("/spec/extendedResourceName").and_then(Value::as_str);
            Details::DeviceClass { resource: resource.map(str::to_owned) }
        }
        ThingKind::ResourceClaim => Details::ResourceClaim {
            is_allocated: value.pointer("/status/allocation").is_some_and(|allocation| !allocation.is_null()),
        },
    }
}

/// The zones of a label: `a__b`. One with an empty zone says nothing.
fn zones(label: &str) -> Option<BTreeSet<String>> {
    let zones: BTreeSet<String> = label.split("__").map(|zone| zone.trim().to_owned()).collect();
    (!zones.contains("")).then_some(zones)
}

// === impl Things ===

impl Things {
    /// An object is this now, or gone; gives what it was.
    pub(crate) fn set(
        &mut self,
        kind: ThingKind,
        object: &Object,
        thing: Option<Arc<Thing>>,
    ) -> Option<Arc<Thing>> {
        let meta = object.meta();
        let key = (kind, meta.namespace.as_ref().into(), meta.name.as_ref().into());
        match thing {
            Some(thing) => self.0.insert(key, thing),
            None => self.0.remove(&key),
        }
    }
}
