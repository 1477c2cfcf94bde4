//! Access to the fields of JSON objects.

use serde_json::{Map, Value};

/// The fields of a JSON object.
pub type Fields = Map<String, Value>;

/// Sets a field that is missing.
pub fn default_to(fields: &mut Fields, name: &str, value: impl Into<Value>) {
    if is_missing(fields, name) {
        fields.insert(name.to_owned(), value.into());
    }
}

/// Whether a field is missing or null.
pub fn is_missing(fields: &Fields, name: &str) -> bool {
    fields.get(name).is_none_or(Value::is_null)
}

/// A field's text; empty if it is missing.
pub fn text<'a>(fields: &'a Fields, name: &str) -> &'a str {
    fields.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A field that is a struct or map.
pub fn fields_of<'a>(fields: &'a Fields, name: &str) -> Option<&'a Fields> {
    fields.get(name).and_then(Value::as_object)
}

/// A field that is a struct or map, for changes.
pub fn fields_mut<'a>(fields: &'a mut Fields, name: &str) -> Option<&'a mut Fields> {
    fields.get_mut(name).and_then(Value::as_object_mut)
}

/// The entries of a list that are structs, for changes.
pub fn entries_mut<'a>(fields: &'a mut Fields, name: &str) -> impl Iterator<Item = &'a mut Fields> {
    let entries = fields.get_mut(name).and_then(Value::as_array_mut);
    entries.into_iter().flatten().filter_map(Value::as_object_mut)
}
