//! What the recorder keeps of an object: one type a table, made of an object or turned back into one.
//!
//! `of` follows the recorder field by field, its losses included. `object` gives what the recorder must have seen, so
//! that `of` finds the same in it again.

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
pub(crate) use hash::Hash;
pub use machine::MachineDeploymentInfo;
pub(crate) use machine::{MachineClassInfo, number_or_text};
pub use node::NodeInfo;
pub(crate) use node::{CsiNodeInfo, is_ready};
pub(crate) use pod::check_spec;
pub use pod::{PodInfo, ScheduleStatus};
pub use priority_class::PriorityClassInfo;
pub use settings::SettingsInfo;
pub(crate) use settings::{DEPLOYMENT, PRIORITIES, priorities_object};
pub use worker_pool::WorkerPoolInfo;

/// Why an object is not what the recorder needs, in words for the user.
pub(crate) type Fit<T> = std::result::Result<T, String>;

/// Labels by name.
pub type Labels = BTreeMap<String, String>;

/// Amounts by the name of the resource.
pub type Resources = BTreeMap<String, Quantity>;

/// What names an object and says how long it was there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// Its name.
    pub name: String,
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// When it was made.
    pub created: Option<Moment>,
    /// When its deletion is to be done, if that was asked for.
    pub deleted: Option<Moment>,
}

// === impl Meta ===

impl Meta {
    /// Reads the metadata of an object.
    pub(crate) fn of(object: &Value) -> Fit<Meta> {
        let metadata = &object["metadata"];
        Ok(Meta {
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

/// A text among the fields of a value; empty if there is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

/// The entries of a list; none where there is no list.
fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn time(value: &Value) -> Fit<Option<Moment>> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => text.parse().map(Some).map_err(|error: model::BadMoment| error.to_string()),
        other => Err(format!("{other} is no time")),
    }
}

/// The newest of a creation and the last changes of conditions: the recorder's idea of when an object became what it
/// is, which is not when it was seen.
fn changed(created: Option<Moment>, conditions: &Value) -> Fit<Option<Moment>> {
    let mut newest = created;
    for condition in list(conditions) {
        newest = newest.max(time(&condition["lastTransitionTime"])?);
    }
    Ok(newest)
}

/// Names with texts. `null` counts as none.
pub(crate) fn labels(value: &Value) -> Fit<Labels> {
    Ok(Option::<Labels>::deserialize_from(value)?.unwrap_or_default())
}

/// Names with amounts. `null` counts as none.
pub(crate) fn resources(value: &Value) -> Fit<Resources> {
    Ok(Option::<Resources>::deserialize_from(value)?.unwrap_or_default())
}

/// Taints as they are: a list of objects. `null` counts as none.
pub(crate) fn taints(value: &Value) -> Fit<Vec<Value>> {
    let taints = Option::<Vec<Map<String, Value>>>::deserialize_from(value)?.unwrap_or_default();
    Ok(taints.into_iter().map(Value::Object).collect())
}

/// Reading from a tree that stays where it is, with the reason as text.
trait DeserializeFrom: Sized {
    fn deserialize_from(value: &Value) -> Fit<Self>;
}

impl<T: for<'de> serde::Deserialize<'de>> DeserializeFrom for T {
    fn deserialize_from(value: &Value) -> Fit<T> {
        T::deserialize(value).map_err(|error| error.to_string())
    }
}

/// Puts a field into an object unless it would be empty: Go leaves those out.
fn put(object: &mut Value, field: &str, value: Value) {
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
