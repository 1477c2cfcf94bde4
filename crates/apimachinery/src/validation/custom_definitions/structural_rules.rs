//! Checks that the schema of a custom resource is structural: that each of its fields has one type, which alternatives do
//! not change.

use serde_json::Value;

use super::super::field_error::{FieldErrors, FieldPath};
use super::super::json_fields::{boolean, entries, get, list, text};
use crate::structural::check_pattern;

/// The place of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What alternatives may not say, in the order of Kubernetes.
const FORBIDDEN_IN_ALTERNATIVES: [(&str, &str); 12] = [
    ("type", "must be empty to be structural"),
    ("additionalProperties", "must be undefined to be structural"),
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
];
const ALTERNATIVES: [&str; 3] = ["anyOf", "allOf", "oneOf"];

/// Checks the schema of a version. The errors are sorted by their texts.
pub(super) fn check_structural(errors: &mut FieldErrors, schema: &Value, path: FieldPath<'_>) {
    let mut found = FieldErrors::default();
    check_invariants(&mut found, schema, Level::Root, path);
    check_alternatives_complete(&mut found, schema, Some(schema), path, path);
    let mut found = found.into_vec();
    found.sort_by_cached_key(ToString::to_string);
    errors.extend(found);
}

fn check_invariants(errors: &mut FieldErrors, schema: &Value, level: Level, path: FieldPath<'_>) {
    let value_type = text(schema, "type");
    match get(schema, "items") {
        Some(items) => check_invariants(errors, items, Level::Item, path.child("items")),
        None if value_type == "array" => errors.required(path.child("items"), "must be specified"),
        None => {}
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        check_invariants(errors, property, Level::Field, properties.key(name));
    }
    let additional = path.child("additionalProperties");
    if let Some(schema) = get(schema, "additionalProperties") {
        if level == Level::Root {
            errors.forbidden(additional, "must not be used at the root");
        }
        if schema.is_object() {
            check_invariants(errors, schema, Level::Field, additional);
        }
    }
    let (is_embedded, preserves) = (
        boolean(schema, "x-kubernetes-embedded-resource"),
        boolean(schema, "x-kubernetes-preserve-unknown-fields"),
    );
    let is_int_or_string = boolean(schema, "x-kubernetes-int-or-string");
    for (is_set, name) in
        [(preserves, "x-kubernetes-preserve-unknown-fields"), (is_embedded, "x-kubernetes-embedded-resource")]
    {
        if is_int_or_string && is_set {
            errors.invalid(path.child(name), true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
    let skips_all = list(schema, "allOf").first().is_some_and(is_int_or_string_choice);
    check_alternatives(errors, schema, is_int_or_string_choice(schema), skips_all, path);
    let type_path = path.child("type");
    if is_embedded && value_type != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match value_type {
            "" => errors.required(type_path, detail),
            other => errors.invalid(type_path, other, detail),
        }
    } else if value_type.is_empty() && !is_int_or_string && !preserves {
        errors.required(
            type_path,
            match level {
                Level::Root => "must not be empty at the root",
                Level::Item => "must not be empty for specified array items",
                Level::Field => "must not be empty for specified object fields",
            },
        );
    }
    if is_embedded && get(schema, "additionalProperties").is_some() {
        errors.forbidden(additional, "must not be used if x-kubernetes-embedded-resource is set");
    }
    if level == Level::Root && !value_type.is_empty() && value_type != "object" {
        errors.invalid(type_path, value_type, "must be object at the root");
    }
    check_meta_fields(errors, schema, level, properties);
    let has_properties = entries(schema, "properties").next().is_some();
    if is_embedded && !preserves && !has_properties {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.required(properties, detail);
    }
}

/// Checks the fields that every resource has, and that of the metadata of a resource no more is said than its name.
fn check_meta_fields(errors: &mut FieldErrors, schema: &Value, level: Level, properties: FieldPath<'_>) {
    let is_resource = level == Level::Root || boolean(schema, "x-kubernetes-embedded-resource");
    let fields = &schema["properties"];
    for name in ["kind", "apiVersion"] {
        let Some(field) = get(fields, name).filter(|_| is_resource) else { continue };
        if text(field, "type") != "string" {
            errors.invalid(properties.key(name).child("type"), text(field, "type"), "must be string");
        }
    }
    let Some(metadata) = get(fields, "metadata") else { return };
    let path = properties.key("metadata");
    if is_resource && text(metadata, "type") != "object" {
        errors.invalid(path.child("type"), text(metadata, "type"), "must be object");
    }
    let is_name = |(name, _): (&str, &Value)| matches!(name, "name" | "generateName");
    let is_allowed = |(name, value): (&String, &Value)| match name.as_str() {
        "type" | "default" => true,
        "properties" => entries(metadata, "properties").all(is_name),
        _ => is_empty(value),
    };
    if level == Level::Root && !metadata.as_object().into_iter().flatten().all(is_allowed) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly \
                      specified";
        errors.forbidden(path, detail);
    }
}

/// Whether the alternatives are an integer and a text, in this order, and nothing else is said of them.
fn is_int_or_string_choice(schema: &Value) -> bool {
    let is_type = |choice: &Value, expected: &str| {
        let mut fields = choice.as_object().into_iter().flatten();
        text(choice, "type") == expected && fields.all(|(name, value)| name == "type" || is_empty(value))
    };
    match list(schema, "anyOf") {
        [integer, string] => is_type(integer, "integer") && is_type(string, "string"),
        _ => false,
    }
}

fn check_alternatives(
    errors: &mut FieldErrors,
    schema: &Value,
    skips_any: bool,
    skips_first_all: bool,
    path: FieldPath<'_>,
) {
    for name in ALTERNATIVES {
        if name == "anyOf" && skips_any {
            continue;
        }
        let alternatives_path = path.child(name);
        for (index, alternative) in list(schema, name).iter().enumerate() {
            let skips_any = name == "allOf" && index == 0 && skips_first_all;
            check_alternative(errors, alternative, skips_any, alternatives_path.index(index));
        }
    }
    if let Some(not) = get(schema, "not") {
        check_alternative(errors, not, false, path.child("not"));
    }
    let pattern = text(schema, "pattern");
    if let Err(why) = check_pattern(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(path.child("pattern"), pattern, detail);
    }
}

fn check_alternative(errors: &mut FieldErrors, schema: &Value, skips_any: bool, path: FieldPath<'_>) {
    check_alternatives(errors, schema, skips_any, false, path);
    if let Some(items) = get(schema, "items") {
        check_alternative(errors, items, false, path.child("items"));
    }
    let properties = path.child("properties");
    for (name, property) in entries(schema, "properties") {
        check_alternative(errors, property, false, properties.key(name));
    }
    for (name, detail) in FORBIDDEN_IN_ALTERNATIVES {
        if get(schema, name).is_some_and(|value| !is_zero(value)) {
            errors.forbidden(path.child(name), detail);
        }
    }
    if !list(schema, "x-kubernetes-validations").is_empty() {
        errors.forbidden(path.child("x-kubernetes-validations"), "must be empty to be structural");
    }
    if get(&schema["properties"], "metadata").is_some() {
        errors.forbidden(properties.key("metadata"), "must not be specified in a nested context");
    }
}

/// Checks that what alternatives say is about fields that `structure` has.
fn check_alternatives_complete(
    errors: &mut FieldErrors,
    schema: &Value,
    structure: Option<&Value>,
    structure_path: FieldPath<'_>,
    path: FieldPath<'_>,
) {
    if let Some(not) = get(schema, "not") {
        check_complete(errors, not, structure, structure_path, path.child("not"));
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        let alternatives = path.child(name);
        for (index, alternative) in list(schema, name).iter().enumerate() {
            check_complete(errors, alternative, structure, structure_path, alternatives.index(index));
        }
    }
}

fn check_complete(
    errors: &mut FieldErrors,
    schema: &Value,
    structure: Option<&Value>,
    structure_path: FieldPath<'_>,
    path: FieldPath<'_>,
) {
    let Some(structure) = structure else {
        return errors.required(structure_path, format!("because it is defined in {path}"));
    };
    check_alternatives_complete(errors, schema, Some(structure), structure_path, path);
    if let Some(items) = get(schema, "items") {
        let inner = get(structure, "items");
        check_complete(errors, items, inner, structure_path.child("items"), path.child("items"));
    }
    let (structure_properties, properties) = (structure_path.child("properties"), path.child("properties"));
    for (name, property) in entries(schema, "properties") {
        let inner = get(&structure["properties"], name);
        check_complete(errors, property, inner, structure_properties.key(name), properties.key(name));
    }
}

/// Whether Go's decoding makes no difference between the value and none.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        value => is_zero(value),
    }
}

/// The same where empty lists and objects count.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Object(_) => false,
    }
}
