//! Coercion of custom resources to their schema: unknown fields are removed, nulls where none is allowed, and the metadata
//! of embedded resources is decoded.

use std::fmt;

use serde_json::{Map, Value};

use super::{AdditionalProperties, Structural};
use crate::decoding::decode_object_meta;

/// An embedded resource whose type or metadata cannot be decoded.
#[derive(Debug, PartialEq)]
pub struct CoercionError {
    /// The path of the field.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// What is wrong with it.
    pub why: String,
}

/// The fields that every resource has.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The most unknown fields that are reported, and the length of their paths.
const MAX_UNKNOWN_FIELDS: usize = 10_000;
const MAX_PATHS_LENGTH: usize = 1 << 20;

/// The paths of the fields that were removed.
#[derive(Default)]
struct UnknownFields {
    found: Vec<String>,
    length: usize,
    /// That of the current value.
    path: String,
}

// === impl Structural ===

impl Structural {
    /// Removes from a custom resource what its schema does not have. Returns the paths of these fields, sorted; those in
    /// the metadata of embedded resources follow. The resource's own metadata stays as it is.
    pub fn coerce(&self, object: &mut Value) -> Result<Vec<String>, CoercionError> {
        self.prune_nulls(object);
        self.coerce_applied(object)
    }

    /// The same for an object that server-side apply has made. An API server decodes only the configuration, as an object
    /// without a schema: its nulls stay, and are refused where none is allowed.
    pub fn coerce_applied(&self, object: &mut Value) -> Result<Vec<String>, CoercionError> {
        let mut unknown = self.prune(object, true);
        let mut in_metadata = UnknownFields::default();
        self.coerce_embedded(object, &mut in_metadata)?;
        in_metadata.found.sort_unstable();
        unknown.extend(in_metadata.found);
        Ok(unknown)
    }

    /// Removes unknown fields from a value, and returns their paths, sorted.
    pub fn prune(&self, value: &mut Value, is_resource: bool) -> Vec<String> {
        let mut unknown = UnknownFields::default();
        prune(value, Some(self), is_resource || self.is_embedded_resource, &mut unknown);
        unknown.found.sort_unstable();
        unknown.found
    }

    /// Removes the fields that are null, may not be, and have no default.
    pub fn prune_nulls(&self, value: &mut Value) {
        match value {
            Value::Object(fields) => fields.retain(|name, value| {
                let Some(schema) = self.field(name) else { return true };
                if value.is_null() && !schema.nullable && schema.default.is_none() {
                    return false;
                }
                schema.prune_nulls(value);
                true
            }),
            Value::Array(items) => {
                if let Some(schema) = &self.items {
                    items.iter_mut().for_each(|item| schema.prune_nulls(item));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn coerce_embedded(&self, value: &mut Value, unknown: &mut UnknownFields) -> Result<(), CoercionError> {
        match value {
            Value::Object(fields) => {
                if self.is_embedded_resource {
                    coerce_type_and_metadata(fields, unknown)?;
                }
                for (name, value) in fields {
                    let Some(schema) = self.field(name) else { continue };
                    // Those that are named are fields, the others entries of a map.
                    let is_entry = self.property(name).is_none();
                    let enter = |path: &mut String| {
                        if is_entry { push_key(path, name) } else { push_field(path, name) }
                    };
                    unknown.within(enter, |unknown| schema.coerce_embedded(value, unknown))?;
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return Ok(()) };
                for (index, item) in items.iter_mut().enumerate() {
                    let enter = |path: &mut String| push_index(path, index);
                    unknown.within(enter, |unknown| schema.coerce_embedded(item, unknown))?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }
}

fn coerce_type_and_metadata(
    fields: &mut Map<String, Value>,
    unknown: &mut UnknownFields,
) -> Result<(), CoercionError> {
    let error = |unknown: &UnknownFields, name: &str, value: &Value, why: String| {
        let mut path = unknown.path.clone();
        push_field(&mut path, name);
        CoercionError { path, value: value.clone(), why }
    };
    for name in ["apiVersion", "kind"] {
        if let Some(value) = fields.get(name).filter(|value| !value.is_string()) {
            return Err(error(unknown, name, value, "must be a string".to_owned()));
        }
    }
    let Some(metadata) = fields.get_mut("metadata") else { return Ok(()) };
    let decoded =
        decode_object_meta(metadata).map_err(|why| error(unknown, "metadata", metadata, why.to_string()))?;
    for strict_error in decoded.strict_errors {
        // Each is `unknown field "name"`.
        if let Some(name) = strict_error.split('"').nth(1) {
            unknown.within(|path| push_field(path, "metadata"), |unknown| unknown.record(name));
        }
    }
    *metadata = decoded.value;
    if let Value::Object(metadata) = metadata {
        metadata.retain(|_, value| match value {
            Value::Null => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => true,
        });
    }
    Ok(())
}

fn prune(value: &mut Value, schema: Option<&Structural>, is_resource: bool, unknown: &mut UnknownFields) {
    if let Some(schema) = schema.filter(|schema| schema.preserves_unknown_fields) {
        return prune_known(value, Some(schema), is_resource, unknown);
    }
    match value {
        Value::Object(fields) => fields.retain(|name, value| {
            let Some(schema) = schema else {
                unknown.record(name);
                return false;
            };
            let is_meta = META_FIELDS.contains(&name.as_str());
            if is_resource && is_meta {
                return true;
            }
            let inner = match (schema.property(name), &schema.additional_properties) {
                (Some(property), _) => Some(property),
                (None, Some(AdditionalProperties::Schema(schema))) => Some(&**schema),
                (None, Some(AdditionalProperties::Allowed(_))) => None,
                (None, None) => {
                    if !is_meta || !unknown.path.is_empty() {
                        unknown.record(name);
                    }
                    return false;
                }
            };
            unknown.within(|path| push_field(path, name), |unknown| prune_value(value, inner, unknown));
            true
        }),
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let inner = schema.and_then(Structural::items);
                unknown.within(|path| push_index(path, index), |unknown| prune_value(item, inner, unknown));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn prune_value(value: &mut Value, schema: Option<&Structural>, unknown: &mut UnknownFields) {
    prune(value, schema, schema.is_some_and(Structural::is_embedded_resource), unknown);
}

/// Prunes the fields that have a schema, of a value whose other fields are kept.
fn prune_known(
    value: &mut Value,
    schema: Option<&Structural>,
    is_resource: bool,
    unknown: &mut UnknownFields,
) {
    let Some(schema) = schema else { return };
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if is_resource && META_FIELDS.contains(&name.as_str()) {
                    continue;
                }
                let inner = match (schema.property(name), &schema.additional_properties) {
                    (Some(property), _) => Some(property),
                    (None, Some(AdditionalProperties::Schema(schema))) => Some(&**schema),
                    (None, Some(AdditionalProperties::Allowed(_))) => None,
                    (None, None) => continue,
                };
                unknown.within(|path| push_field(path, name), |unknown| prune_value(value, inner, unknown));
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let (inner, enter) = (schema.items(), |path: &mut String| push_index(path, index));
                let is_resource = inner.is_some_and(Structural::is_embedded_resource);
                unknown.within(enter, |unknown| prune_known(item, inner, is_resource, unknown));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

// === impl UnknownFields ===

impl UnknownFields {
    fn record(&mut self, name: &str) {
        if self.found.len() < MAX_UNKNOWN_FIELDS && self.length < MAX_PATHS_LENGTH {
            let mut path = self.path.clone();
            push_field(&mut path, name);
            self.length += path.len();
            self.found.push(path);
        }
    }

    fn within<T>(
        &mut self,
        enter: impl FnOnce(&mut String),
        visit: impl FnOnce(&mut UnknownFields) -> T,
    ) -> T {
        let length = self.path.len();
        enter(&mut self.path);
        let visited = visit(self);
        self.path.truncate(length);
        visited
    }
}

// === impl CoercionError ===

impl fmt::Display for CoercionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: Invalid value: {}: {}", self.path, self.value, self.why)
    }
}

pub(super) fn push_field(path: &mut String, name: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(name);
}

pub(super) fn push_index(path: &mut String, index: usize) {
    path.push_str(&format!("[{index}]"));
}

pub(super) fn push_key(path: &mut String, key: &str) {
    path.push_str(&format!("[{key}]"));
}
