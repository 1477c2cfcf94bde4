//! The recorder's `…Info` types: one type per table, converted from an object or back into one.
//!
//! `of` follows the recorder field by field, including what it loses. `object` is the inverse: it returns an object
//! from which `of` makes the same info again.

use std::collections::BTreeMap;

use kubernetes::quantity::Quantity;
use model::Moment;
use serde_json::{Map, Value, json};

mod event;
mod hash;
mod machine;
mod node;
mod pod;
mod priority_class;
mod settings;
mod worker_pool;

pub(crate) use event::EventInfo;
pub(crate) use hash::InfoHasher;
pub use machine::MachineDeploymentInfo;
pub(crate) use machine::{MachineClassInfo, int_or_string};
pub use node::NodeInfo;
pub(crate) use node::{CsiNodeInfo, is_ready};
pub(crate) use pod::check_spec;
pub use pod::{PodInfo, ScheduleStatus};
pub use priority_class::PriorityClassInfo;
pub use settings::SettingsInfo;
pub(crate) use settings::{AUTOSCALER_DEPLOYMENT, PRIORITIES_CONFIG_MAP, priorities_config_map};
pub use worker_pool::WorkerPoolInfo;

/// The error is a message for the user: why the recorder cannot use the object.
pub(crate) type InfoResult<T> = std::result::Result<T, String>;

/// Label values by key.
pub type Labels = BTreeMap<String, String>;

/// Amounts by resource name.
pub type Resources = BTreeMap<String, Quantity>;

/// An object's name and times.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// Its name.
    pub name: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// When it was created.
    pub created: Option<Moment>,
    /// Its `deletionTimestamp`, if it is being deleted.
    pub deleted: Option<Moment>,
}

// === impl SnapshotMeta ===

impl SnapshotMeta {
    /// Reads the metadata of an object.
    pub(crate) fn of(object: &Value) -> InfoResult<SnapshotMeta> {
        let metadata = &object["metadata"];
        Ok(SnapshotMeta {
            name: text(metadata, "name").to_owned(),
            namespace: text(metadata, "namespace").to_owned(),
            created: time(&metadata["creationTimestamp"])?,
            deleted: time(&metadata["deletionTimestamp"])?,
        })
    }

    /// An object with this metadata and nothing else yet.
    fn object(&self, api_version: &str, kind: &str) -> Value {
        let mut metadata = Map::new();
        metadata.insert("name".to_owned(), json!(self.name));
        if !self.namespace.is_empty() {
            metadata.insert("namespace".to_owned(), json!(self.namespace));
        }
        for (field, time) in [("creationTimestamp", self.created), ("deletionTimestamp", self.deleted)] {
            if let Some(time) = time {
                metadata.insert(field.to_owned(), json!(time.to_string()));
            }
        }
        json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata })
    }
}

/// A string field; empty if there is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The entries of a list; empty if the value is not a list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn time(value: &Value) -> InfoResult<Option<Moment>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => text.parse().map(Some).map_err(|error: model::BadMoment| error.to_string()),
        other => Err(format!("invalid time {other}")),
    }
}

/// The latest of the creation and the conditions' last transitions: the recorder's `SnapshotTimestamp`, which is not
/// the time of observation.
fn last_changed(created: Option<Moment>, conditions: &Value) -> InfoResult<Option<Moment>> {
    let mut newest = created;
    for condition in list(conditions) {
        newest = newest.max(time(&condition["lastTransitionTime"])?);
    }
    Ok(newest)
}

/// Parses labels. `null` counts as none.
pub(crate) fn labels(value: &Value) -> InfoResult<Labels> {
    Ok(Option::<Labels>::deserialize_from(value)?.unwrap_or_default())
}

/// Parses resource amounts. `null` counts as none.
pub(crate) fn resources(value: &Value) -> InfoResult<Resources> {
    Ok(Option::<Resources>::deserialize_from(value)?.unwrap_or_default())
}

/// Taints as a list of JSON objects. `null` counts as none.
pub(crate) fn taints(value: &Value) -> InfoResult<Vec<Value>> {
    let taints = Option::<Vec<Map<String, Value>>>::deserialize_from(value)?.unwrap_or_default();
    Ok(taints.into_iter().map(Value::Object).collect())
}

/// Deserialization from a borrowed value, with the error as a text.
trait DeserializeFrom: Sized {
    fn deserialize_from(value: &Value) -> InfoResult<Self>;
}

impl<T: for<'de> serde::Deserialize<'de>> DeserializeFrom for T {
    fn deserialize_from(value: &Value) -> InfoResult<T> {
        T::deserialize(value).map_err(|error| error.to_string())
    }
}

/// Sets a field unless the value is empty: Go omits empty fields.
fn set_if_not_empty(object: &mut Value, field: &str, value: Value) {
    let empty = match &value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    if !empty {
        object[field] = value;
    }
}
