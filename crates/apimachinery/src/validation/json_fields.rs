//! Access to the fields of a JSON object where absent, null and mistyped fields are empty values, as after
//! Kubernetes' own decoding.

use kubernetes::quantity::Quantity;
use serde_json::{Map, Value};

/// A field that is present and not null.
pub(super) fn get<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    object.get(name).filter(|value| !value.is_null())
}

/// A text; empty if absent.
pub(super) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    optional_text(object, name).unwrap_or_default()
}

/// A text.
pub(super) fn optional_text<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get(name)?.as_str()
}

/// An integer; zero if absent.
pub(super) fn integer(object: &Value, name: &str) -> i64 {
    optional_integer(object, name).unwrap_or_default()
}

/// An integer.
pub(super) fn optional_integer(object: &Value, name: &str) -> Option<i64> {
    object.get(name)?.as_i64()
}

/// A boolean; false if absent.
pub(super) fn boolean(object: &Value, name: &str) -> bool {
    object.get(name).and_then(Value::as_bool).unwrap_or_default()
}

/// A list; empty if absent.
pub(super) fn list<'v>(object: &'v Value, name: &str) -> &'v [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// A list of texts.
pub(super) fn texts<'v>(object: &'v Value, name: &str) -> impl Iterator<Item = &'v str> + Clone + use<'v> {
    list(object, name).iter().map(|entry| entry.as_str().unwrap_or_default())
}

/// A map, sorted by key.
pub(super) fn entries<'v>(
    object: &'v Value,
    name: &str,
) -> impl Iterator<Item = (&'v str, &'v Value)> + use<'v> {
    object
        .get(name)
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.as_str(), value))
}

/// A map of texts, sorted by key.
pub(super) fn text_entries<'v>(
    object: &'v Value,
    name: &str,
) -> impl Iterator<Item = (&'v str, &'v str)> + use<'v> {
    entries(object, name).map(|(key, value)| (key, value.as_str().unwrap_or_default()))
}

/// Sets a field. A value that is not an object has none.
pub(super) fn set(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

/// Sets a field of an object in a field, which is created if it is absent.
pub(super) fn set_in(object: &mut Value, outer: &str, name: &str, value: Value) {
    if get(object, outer).is_none() {
        set(object, outer, Value::Object(Map::new()));
    }
    if let Some(inner) = object.get_mut(outer) {
        set(inner, name, value);
    }
}

/// The text of an annotation.
pub(super) fn annotation<'v>(object: &'v Value, name: &str) -> Option<&'v str> {
    object.get("metadata")?.get("annotations")?.get(name)?.as_str()
}

/// A quantity, written as a text or as a number.
pub(super) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}
