//! Checks of the schemas of custom resources: the rules of OpenAPI in version 3 that Kubernetes supports, and its own
//! extensions.
//!
//! Of expressions (`x-kubernetes-validations`) only the form is checked here.

use std::collections::HashSet;

use serde_json::Value;

use super::super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::super::json_fields::{boolean, entries, get, list, optional_text, text, texts};
use super::super::schema_path::find_field;
use crate::structural::is_known_format;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["metadata", "kind", "apiVersion"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const SCHEMA_LISTS: [&str; 3] = ["allOf", "oneOf", "anyOf"];

/// The place of a schema.
#[derive(Clone, Copy)]
pub(super) struct SchemaContext<'c> {
    is_root: bool,
    /// Whether it is that of a resource's type or metadata.
    is_in_metadata: bool,
    /// Where defaults are forbidden; `None` if they are not.
    no_defaults: Option<&'c str>,
}

// === impl SchemaContext ===

impl SchemaContext<'_> {
    /// The schema of a version.
    pub(super) const ROOT: SchemaContext<'static> =
        SchemaContext { is_root: true, is_in_metadata: false, no_defaults: None };
}

/// Checks a schema and all in it.
pub(super) fn check_schema_rules(
    errors: &mut FieldErrors,
    schema: &Value,
    context: SchemaContext<'_>,
    path: FieldPath<'_>,
) {
    check_openapi(errors, schema, context, path);
    let inner = SchemaContext { is_root: false, ..context };
    if boolean(schema, "uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(path.child("uniqueItems"), detail);
    }
    let properties = path.child("properties");
    let has_properties = entries(schema, "properties").next().is_some();
    if let Some(additional) = get(schema, "additionalProperties") {
        let additional_path = path.child("additionalProperties");
        if has_properties && *additional != true {
            let detail = "additionalProperties and properties are mutual exclusive";
            errors.forbidden(additional_path, detail);
        }
        let no_defaults = Some("inside additionalProperties applying to object metadata");
        let inner = if context.is_in_metadata { SchemaContext { no_defaults, ..inner } } else { inner };
        if additional.is_object() {
            check_schema_rules(errors, additional, inner, additional_path);
        }
    }
    let is_resource = context.is_root || boolean(schema, "x-kubernetes-embedded-resource");
    for (name, property) in entries(schema, "properties") {
        let in_top_level = format!("in top-level {name}");
        let mut inner = inner;
        if is_resource && META_FIELDS.contains(&name) {
            inner.is_in_metadata = true;
            if context.is_root {
                inner.no_defaults = Some(&in_top_level);
            }
        }
        check_schema_rules(errors, property, inner, properties.key(name));
    }
    if let Some(schema) = get(schema, "not") {
        check_schema_rules(errors, schema, inner, path.child("not"));
    }
    for name in SCHEMA_LISTS {
        let alternatives = path.child(name);
        for (index, schema) in list(schema, name).iter().enumerate() {
            check_schema_rules(errors, schema, inner, alternatives.index(index));
        }
    }
    let definitions = path.child("definitions");
    for (name, schema) in entries(schema, "definitions") {
        check_schema_rules(errors, schema, inner, definitions.key(name));
    }
    let items = path.child("items");
    match get(schema, "items") {
        Some(Value::Array(schemas)) => {
            for (index, schema) in schemas.iter().enumerate() {
                check_schema_rules(errors, schema, inner, items.index(index));
            }
        }
        Some(schema) => check_schema_rules(errors, schema, inner, items),
        None => {}
    }
    let dependencies = path.child("dependencies");
    for (name, dependency) in entries(schema, "dependencies").filter(|(_, schema)| schema.is_object()) {
        check_schema_rules(errors, dependency, inner, dependencies.key(name));
    }
    check_map_and_list_types(errors, schema, path);
    check_rules(errors, schema, path);
}

/// Why a schema cannot be made a structural one at all; `None` if it can.
pub(super) fn unsupported_part(schema: &Value) -> Option<&'static str> {
    let is_set = |name: &str| match get(schema, name) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
        None => false,
    };
    for (name, why) in [
        ("id", "OpenAPIV3Schema 'id' is not supported"),
        ("$schema", "OpenAPIV3Schema 'schema' is not supported"),
        ("$ref", "OpenAPIV3Schema '$ref' is not supported"),
        ("patternProperties", "OpenAPIV3Schema 'patternProperties' is not supported"),
        ("dependencies", "OpenAPIV3Schema 'dependencies' is not supported"),
        ("additionalItems", "OpenAPIV3Schema 'additionalItems' is not supported"),
        ("definitions", "OpenAPIV3Schema 'definitions' is not supported"),
    ] {
        if is_set(name) {
            return Some(why);
        }
    }
    if get(schema, "items").is_some_and(Value::is_array) {
        return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
    }
    if get(schema, "x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    inner_schemas(schema).find_map(unsupported_part)
}

/// The formats in a schema that values are not checked against, in the order of Kubernetes but for that of fields.
pub(super) fn unknown_formats<'s>(schema: &'s Value, found: &mut Vec<&'s str>) {
    let format = text(schema, "format");
    if !format.is_empty() && !is_known_format(text(schema, "type"), format) {
        found.push(format);
    }
    for inner in inner_schemas(schema) {
        unknown_formats(inner, found);
    }
}

/// Whether a schema or one in it has expressions.
pub(super) fn has_rules(schema: &Value) -> bool {
    !list(schema, "x-kubernetes-validations").is_empty() || inner_schemas(schema).any(has_rules)
}

/// The schemas in a schema.
pub(super) fn inner_schemas(schema: &Value) -> impl Iterator<Item = &Value> {
    let lists = SCHEMA_LISTS.into_iter().flat_map(|name| list(schema, name));
    let properties = entries(schema, "properties").map(|(_, schema)| schema);
    let additional = get(schema, "additionalProperties").filter(|schema| schema.is_object());
    get(schema, "items")
        .into_iter()
        .chain(lists)
        .chain(get(schema, "not"))
        .chain(properties)
        .chain(additional)
}

fn check_openapi(errors: &mut FieldErrors, schema: &Value, context: SchemaContext<'_>, path: FieldPath<'_>) {
    let value_type = text(schema, "type");
    if !value_type.is_empty() && !TYPES.contains(&value_type) {
        errors.not_supported(path.child("type"), value_type, &TYPES);
    }
    if let Some(place) = context.no_defaults.filter(|_| get(schema, "default").is_some()) {
        errors.forbidden(path.child("default"), format!("must not be set {place}"));
    }
    if !text(schema, "id").is_empty() {
        errors.forbidden(path.child("id"), "id is not supported");
    }
    for name in ["additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let is_set = get(schema, name).is_some_and(|value| {
            let is_empty = value.as_object().is_some_and(|fields| fields.is_empty());
            !is_empty || !matches!(name, "patternProperties" | "definitions")
        });
        if is_set {
            errors.forbidden(path.child(name), format!("{name} is not supported"));
        }
    }
    if value_type == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.forbidden(path.child("type"), detail);
    }
    if get(schema, "items").and_then(Value::as_array).is_some_and(|items| !items.is_empty()) {
        errors.forbidden(path.child("items"), "items must be a schema object and not an array");
    }
    if context.is_in_metadata && boolean(schema, "x-kubernetes-embedded-resource") {
        let path = path.child("x-kubernetes-embedded-resource");
        errors.forbidden(path, "must not be used inside of resource meta");
    }
}

fn check_map_and_list_types(errors: &mut FieldErrors, schema: &Value, path: FieldPath<'_>) {
    if get(schema, "x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let path = path.child("x-kubernetes-preserve-unknown-fields");
        errors.invalid(path, false, "must be true or undefined");
    }
    let value_type = text(schema, "type");
    let list_type = optional_text(schema, "x-kubernetes-list-type");
    let map_type = optional_text(schema, "x-kubernetes-map-type");
    let (list_path, map_path) = (path.child("x-kubernetes-list-type"), path.child("x-kubernetes-map-type"));
    let items = get(schema, "items").filter(|items| items.is_object());
    let check_type = |errors: &mut FieldErrors, expected: &str, extension: &str| {
        let detail = format!("must be {expected} if {extension} is specified");
        match value_type {
            "" => errors.required(path.child("type"), detail),
            other => errors.invalid(path.child("type"), other, detail),
        }
    };
    if map_type.is_some() && value_type != "object" {
        check_type(errors, "object", "x-kubernetes-map-type");
    }
    if let Some(map_type) = map_type.filter(|map_type| !matches!(*map_type, "atomic" | "granular")) {
        errors.not_supported(map_path, map_type, &["atomic", "granular"]);
    }
    if list_type.is_some() && value_type != "array" {
        check_type(errors, "array", "x-kubernetes-list-type");
    } else if list_type == Some("set")
        && let Some(items) = items
    {
        let item_list_type = optional_text(items, "x-kubernetes-list-type");
        let is_granular = optional_text(items, "x-kubernetes-map-type") != Some("atomic");
        let extension = match text(items, "type") {
            "array" if item_list_type.is_some_and(|list_type| list_type != "atomic") => {
                Some("x-kubernetes-list-type")
            }
            "object" if is_granular => Some("x-kubernetes-map-type"),
            _ => None,
        };
        if let Some(extension) = extension {
            let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
            errors.invalid(path.child("items").child(extension), &Value::from(item_list_type), detail);
        }
    }
    if let Some(list_type) = list_type.filter(|list_type| !matches!(*list_type, "atomic" | "set" | "map")) {
        errors.not_supported(list_path, list_type, &["atomic", "set", "map"]);
    }
    let has_keys = !list(schema, "x-kubernetes-list-map-keys").is_empty();
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    match list_type {
        None if has_keys => errors.required(list_path, detail),
        Some(list_type) if has_keys && list_type != "map" => errors.invalid(list_path, list_type, detail),
        _ => {}
    }
    if list_type == Some("map") {
        check_list_map(errors, schema, path);
    }
    if matches!(list_type, Some("set" | "map"))
        && let Some(items) = items
    {
        check_nullable_items(errors, schema, items, path);
    }
}

fn check_list_map(errors: &mut FieldErrors, schema: &Value, path: FieldPath<'_>) {
    let (keys_path, items_path) = (path.child("x-kubernetes-list-map-keys"), path.child("items"));
    let keys = &schema["x-kubernetes-list-map-keys"];
    if list(schema, "x-kubernetes-list-map-keys").is_empty() {
        errors.required(keys_path, "must not be empty if x-kubernetes-list-type is map");
    }
    let items = match get(schema, "items") {
        None => return errors.required(items_path, "must have a schema if x-kubernetes-list-type is map"),
        Some(items) if !items.is_object() => {
            let printed = PrintedValue::Go("schemaOrArray", items);
            let detail = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.invalid(items_path, printed, detail);
        }
        Some(items) => items,
    };
    let item_type = text(items, "type");
    if item_type != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(items_path.child("type"), item_type, detail);
    }
    let properties = items_path.child("properties");
    let mut seen = HashSet::new();
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        match get(&items["properties"], key) {
            None => errors.invalid(keys_path, keys, "entries must all be names of item properties"),
            Some(property) if matches!(text(property, "type"), "array" | "object") => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(properties.key(key).child("type"), item_type, detail);
            }
            Some(_) => {}
        }
        if !seen.insert(key) {
            errors.invalid(keys_path, keys, "must not contain duplicate entries");
        }
    }
}

/// Checks that the items of a set or map are not null, and that the keys of a map are set.
fn check_nullable_items(errors: &mut FieldErrors, schema: &Value, items: &Value, path: FieldPath<'_>) {
    let items_path = path.child("items");
    let list_type = text(schema, "x-kubernetes-list-type");
    if boolean(items, "nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(items_path.child("nullable"), detail);
    }
    if list_type != "map" {
        return;
    }
    let required: HashSet<&str> = texts(items, "required").collect();
    let properties = items_path.child("properties");
    for key in texts(schema, "x-kubernetes-list-map-keys") {
        let Some(property) = get(&items["properties"], key) else { continue };
        let path = properties.key(key);
        if !required.contains(key) && get(property, "default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a \
                          required property";
            errors.required(path.child("default"), detail);
        }
        if boolean(property, "nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(path.child("nullable"), detail);
        }
    }
}

fn check_rules(errors: &mut FieldErrors, schema: &Value, path: FieldPath<'_>) {
    let path = path.child("x-kubernetes-validations");
    let has_line_break = |text: &str| text.contains(['\n', '\r']);
    for (index, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let path = path.index(index);
        let (expression, message) = (text(rule, "rule").trim(), text(rule, "message"));
        let message_path = path.child("message");
        if expression.is_empty() {
            errors.required(path.child("rule"), "rule is not specified");
        } else if !message.is_empty() && message.trim().is_empty() {
            errors.invalid(message_path, message, "must be non-empty if specified");
        } else if has_line_break(message.trim()) {
            errors.invalid(message_path, message, "must not contain line breaks");
        } else if has_line_break(expression) && message.is_empty() {
            errors.required(message_path, "message must be specified if rule contains line breaks");
        }
        let message_expression = text(rule, "messageExpression");
        if !message_expression.is_empty() && message_expression.trim().is_empty() {
            let detail = "messageExpression must be non-empty if specified";
            errors.required(path.child("messageExpression"), detail);
        }
        if let Some(reason) = optional_text(rule, "reason").filter(|reason| !REASONS.contains(reason)) {
            errors.not_supported(path.child("reason"), reason, &REASONS);
        }
        let field_path = text(rule, "fieldPath");
        let path = path.child("fieldPath");
        if !field_path.is_empty() && field_path.trim().is_empty() {
            errors.invalid(path, field_path, "must be non-empty if specified");
        }
        if has_line_break(field_path) {
            errors.invalid(path, field_path, "must not contain line breaks");
        }
        let is_valid = || unsupported_part(schema).is_some() || find_field(field_path, schema, true).is_ok();
        if !field_path.is_empty() && !is_valid() {
            errors.invalid(path, field_path, "must be a valid path");
        }
    }
}
