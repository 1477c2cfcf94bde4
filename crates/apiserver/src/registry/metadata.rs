//! The metadata that only the server writes.

use std::borrow::Cow;

use kubernetes::time::whole_second;
use model::{Moment, Object};
use rand::{Rng, RngExt};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Fields that clients cannot set when they create an object.
const SERVER_FIELDS: [&str; 6] = [
    "resourceVersion",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "uid",
    "creationTimestamp",
];
/// Fields that an update keeps.
const KEPT_FIELDS: [&str; 5] =
    ["uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"];

/// The alphabet of generated names: no vowels, and no letters that look alike.
const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
/// Prefixes are truncated to this length, so that a name fits into a label.
const MAX_GENERATED_PREFIX: usize = 58;
const SUFFIX_LENGTH: usize = 5;

/// The metadata of an object, which is added if it is missing.
pub(super) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = Map::new().into();
    }
    object["metadata"].as_object_mut().expect("it was just set")
}

/// The text of a field of the metadata; empty if it is missing.
pub(super) fn metadata_text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// The managers that an object of a request has; they are removed from it.
pub(super) fn take_managed_fields(object: &mut Value) -> Option<Value> {
    metadata_mut(object).remove("managedFields")
}

/// Fills in the metadata of a new object.
pub(super) fn prepare_new(object: &mut Value, namespace: &str, uid: String, now: Moment) {
    let metadata = metadata_mut(object);
    for field in SERVER_FIELDS {
        metadata.remove(field);
    }
    if namespace.is_empty() {
        metadata.remove("namespace");
    } else {
        metadata.insert("namespace".to_owned(), namespace.into());
    }
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), whole_second(now).to_string().into());
    remove_empty(metadata);
}

/// Restores the metadata that an update cannot change.
pub(super) fn prepare_updated(object: &mut Value, old: &Value) {
    let metadata = metadata_mut(object);
    for field in KEPT_FIELDS {
        match old["metadata"].get(field) {
            Some(value) => metadata.insert(field.to_owned(), value.clone()),
            None => metadata.remove(field),
        };
    }
    metadata.remove("selfLink");
    // Generations are the strategies' business; where there are none, there is nothing to change.
    match old["metadata"].get("generation") {
        Some(generation) => metadata.insert("generation".to_owned(), generation.clone()),
        None => metadata.remove("generation"),
    };
    remove_empty(metadata);
}

/// Empty maps and lists are not written, as Go omits them.
fn remove_empty(metadata: &mut Map<String, Value>) {
    metadata.retain(|_, value| match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    });
}

/// A name with this prefix.
pub(super) fn generated_name(prefix: &str, rng: &mut impl Rng) -> String {
    let mut end = prefix.len().min(MAX_GENERATED_PREFIX);
    while !prefix.is_char_boundary(end) {
        end -= 1;
    }
    let suffix =
        (0..SUFFIX_LENGTH).map(|_| char::from(NAME_LETTERS[rng.random_range(0..NAME_LETTERS.len())]));
    prefix[..end].chars().chain(suffix).collect()
}

/// Whether an object has finalizers.
pub(super) fn has_finalizers(object: &Value) -> bool {
    object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty())
}

/// Whether the deletion of an object has begun.
pub(super) fn is_terminating(object: &Value) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

/// The same of an object that is not parsed.
pub(super) fn is_terminating_object(object: &Object) -> bool {
    #[derive(Deserialize)]
    struct View<'a> {
        #[serde(borrow)]
        metadata: Metadata<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Metadata<'a> {
        #[serde(borrow)]
        deletion_timestamp: Option<Cow<'a, str>>,
    }
    object.view::<View<'_>>().is_ok_and(|view| view.metadata.deletion_timestamp.is_some())
}
