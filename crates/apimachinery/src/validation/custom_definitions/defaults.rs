//! Checks of the defaults in the schema of a custom resource: they are valid by their schema and have no unknown fields.
//!
//! Those inside the metadata of embedded resources are not checked against the type of metadata.

use serde_json::Value;

use super::super::custom_resources::{check_embedded_resources, check_schema};
use super::super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::super::json_fields::{entries, get};
use super::schemas::inner_schemas;
use crate::structural::Structural;

/// Checks the defaults of a schema and of all in it. Those of additional properties are not.
pub(super) fn check_defaults(errors: &mut FieldErrors, schema: &Value, path: FieldPath<'_>) {
    if let Some(default) = get(schema, "default") {
        check_default(errors, &Structural::parse(schema), default, path.child("default"));
    }
    if let Some(items) = get(schema, "items").filter(|items| items.is_object()) {
        check_defaults(errors, items, path.child("items"));
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        check_defaults(errors, property, properties.key(name));
    }
}

/// Whether a schema or one in it has a default.
pub(super) fn has_defaults(schema: &Value) -> bool {
    get(schema, "default").is_some() || inner_schemas(schema).any(has_defaults)
}

fn check_default(errors: &mut FieldErrors, schema: &Structural, default: &Value, path: FieldPath<'_>) {
    let mut coerced = default.clone();
    schema.prune(&mut coerced, schema.is_embedded_resource());
    if coerced != *default {
        errors.invalid(path, default, "must not have unknown fields");
    }
    coerced.clone_from(default);
    if let Err(error) = schema.coerce(&mut coerced) {
        let printed = PrintedValue::from(&error.value);
        return errors.invalid(path.child(&error.path), printed, error.why);
    }
    let before = errors.len();
    check_embedded_resources(errors, path, default, schema);
    if errors.len() == before {
        check_schema(errors, Some(path), schema, None, default);
    }
}
