//! Objects besides pods and nodes that queueing hints depend on, as last observed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::quantity::Quantity;
use kubernetes::well_known::{BETA_REGION, BETA_ZONE, REGION, ZONE};
use model::Object;
use serde_json::Value;

/// The kind of a tracked object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TrackedObjectKind {
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CsiNode,
    CsiDriver,
    CsiStorageCapacity,
    VolumeAttachment,
    DeviceClass,
    ResourceClaim,
    ResourceSlice,
}

/// The parts of an object that hints depend on. Unreadable fields are treated as absent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TrackedObject {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub details: TrackedDetails,
}

/// The parts besides the name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TrackedDetails {
    /// Nothing more.
    None,
    /// The zones and regions of a volume, by topology label.
    PersistentVolume {
        topology_labels: Vec<(&'static str, BTreeSet<String>)>,
    },
    StorageClass {
        waits_for_consumer: bool,
        allowed_topologies: Value,
    },
    /// Attach limits by driver, and the migrated in-tree plugins.
    CsiNode {
        limits: BTreeMap<String, i64>,
        migrated_plugins: String,
    },
    CsiDriver {
        tracks_capacity: bool,
    },
    /// In bytes.
    CsiStorageCapacity {
        max_volume_size: Option<i64>,
    },
    VolumeAttachment {
        driver: String,
    },
    DeviceClass {
        extended_resource_name: Option<String>,
    },
    ResourceClaim {
        is_allocated: bool,
    },
}

/// All tracked objects, as last observed. Queueing hints get them as the old versions in events. No filter
/// reads them: filters read `StorageCache` and `RelatedObjects`.
#[derive(Debug, Default)]
pub(crate) struct TrackedObjects(BTreeMap<(TrackedObjectKind, Arc<str>, Arc<str>), Arc<TrackedObject>>);

/// Topology labels of volumes, in kube-scheduler's order.
const TOPOLOGY_LABELS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

// === impl TrackedObjectKind ===

impl TrackedObjectKind {
    pub(crate) fn of(group: &str, kind: &str) -> Option<TrackedObjectKind> {
        Some(match (group, kind) {
            ("", "PersistentVolumeClaim") => TrackedObjectKind::PersistentVolumeClaim,
            ("", "PersistentVolume") => TrackedObjectKind::PersistentVolume,
            ("storage.k8s.io", "StorageClass") => TrackedObjectKind::StorageClass,
            ("storage.k8s.io", "CSINode") => TrackedObjectKind::CsiNode,
            ("storage.k8s.io", "CSIDriver") => TrackedObjectKind::CsiDriver,
            ("storage.k8s.io", "CSIStorageCapacity") => TrackedObjectKind::CsiStorageCapacity,
            ("storage.k8s.io", "VolumeAttachment") => TrackedObjectKind::VolumeAttachment,
            ("resource.k8s.io", "DeviceClass") => TrackedObjectKind::DeviceClass,
            ("resource.k8s.io", "ResourceClaim") => TrackedObjectKind::ResourceClaim,
            ("resource.k8s.io", "ResourceSlice") => TrackedObjectKind::ResourceSlice,
            _ => return None,
        })
    }
}

// === impl TrackedObject ===

impl TrackedObject {
    pub(crate) fn read(kind: TrackedObjectKind, object: &Object) -> TrackedObject {
        let meta = object.meta();
        let details = match kind {
            TrackedObjectKind::PersistentVolumeClaim | TrackedObjectKind::ResourceSlice => {
                TrackedDetails::None
            }
            _ => read_details(kind, &object.value().unwrap_or(Value::Null)),
        };
        TrackedObject { namespace: meta.namespace.as_ref().into(), name: meta.name.as_ref().into(), details }
    }
}

fn read_details(kind: TrackedObjectKind, value: &Value) -> TrackedDetails {
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match kind {
        TrackedObjectKind::PersistentVolumeClaim | TrackedObjectKind::ResourceSlice => TrackedDetails::None,
        TrackedObjectKind::PersistentVolume => {
            let labels = value.pointer("/metadata/labels");
            let place = |label: &'static str| Some((label, zones(labels?.get(label)?.as_str()?)?));
            TrackedDetails::PersistentVolume {
                topology_labels: TOPOLOGY_LABELS.into_iter().filter_map(place).collect(),
            }
        }
        TrackedObjectKind::StorageClass => TrackedDetails::StorageClass {
            waits_for_consumer: text("/volumeBindingMode") == "WaitForFirstConsumer",
            allowed_topologies: match value.get("allowedTopologies") {
                // Absent and empty lists are equal.
                None | Some(Value::Null) => Value::Array(Vec::new()),
                Some(topologies) => topologies.clone(),
            },
        },
        TrackedObjectKind::CsiNode => {
            let drivers = value.pointer("/spec/drivers").and_then(Value::as_array);
            let limit = |driver: &Value| {
                let count = driver.pointer("/allocatable/count").and_then(Value::as_i64);
                Some((driver.get("name")?.as_str()?.to_owned(), count.unwrap_or(0)))
            };
            let annotation = value.pointer("/metadata/annotations").and_then(|all| all.get(MIGRATED_PLUGINS));
            TrackedDetails::CsiNode {
                limits: drivers.into_iter().flatten().filter_map(limit).collect(),
                migrated_plugins: annotation.and_then(Value::as_str).unwrap_or_default().to_owned(),
            }
        }
        TrackedObjectKind::CsiDriver => TrackedDetails::CsiDriver {
            tracks_capacity: value.pointer("/spec/storageCapacity").and_then(Value::as_bool).unwrap_or(false),
        },
        TrackedObjectKind::CsiStorageCapacity => {
            let size = |field: &str| Some(value.get(field)?.as_str()?.to_owned());
            let max_size = size("maximumVolumeSize").or_else(|| size("capacity"));
            let max_size = max_size.and_then(|size| Quantity::parse(&size).ok());
            TrackedDetails::CsiStorageCapacity { max_volume_size: max_size.map(|size| size.value()) }
        }
        TrackedObjectKind::VolumeAttachment => {
            TrackedDetails::VolumeAttachment { driver: text("/spec/attacher") }
        }
        TrackedObjectKind::DeviceClass => {
            let resource = value.pointer("/spec/extendedResourceName").and_then(Value::as_str);
            TrackedDetails::DeviceClass { extended_resource_name: resource.map(str::to_owned) }
        }
        TrackedObjectKind::ResourceClaim => TrackedDetails::ResourceClaim {
            is_allocated: value.pointer("/status/allocation").is_some_and(|allocation| !allocation.is_null()),
        },
    }
}

/// The zones of a label value such as `a__b`; `None` if one of them is empty.
fn zones(label: &str) -> Option<BTreeSet<String>> {
    let zones: BTreeSet<String> = label.split("__").map(|zone| zone.trim().to_owned()).collect();
    (!zones.contains("")).then_some(zones)
}

// === impl TrackedObjects ===

impl TrackedObjects {
    /// Updates or removes an object, and returns its previous version.
    pub(crate) fn set(
        &mut self,
        kind: TrackedObjectKind,
        object: &Object,
        tracked: Option<Arc<TrackedObject>>,
    ) -> Option<Arc<TrackedObject>> {
        let meta = object.meta();
        let key = (kind, meta.namespace.as_ref().into(), meta.name.as_ref().into());
        match tracked {
            Some(tracked) => self.0.insert(key, tracked),
            None => self.0.remove(&key),
        }
    }
}
