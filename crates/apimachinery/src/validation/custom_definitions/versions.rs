//! Checks of the versions of a CustomResourceDefinition: schema, subresources, columns, selectable fields, deprecation.

use std::collections::HashSet;

use kubernetes::go::text::quote;
use serde_json::Value;

use super::super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::super::json_fields::{boolean, get, list, optional_text, text};
use super::super::schema_path::find_field;
use super::defaults::check_defaults;
use super::expressions::ExpressionFindings;
use super::schemas::{SchemaContext, check_schema_rules, unsupported_part};
use super::structural_rules::check_structural;

/// The fields of a schema, with their names in Go, that the schema of a kind with the subresource `status` may have.
const ROOT_FIELDS: [(&str, &str); 22] = [
    ("description", "Description"),
    ("type", "Type"),
    ("format", "Format"),
    ("title", "Title"),
    ("maximum", "Maximum"),
    ("exclusiveMaximum", "ExclusiveMaximum"),
    ("minimum", "Minimum"),
    ("exclusiveMinimum", "ExclusiveMinimum"),
    ("maxLength", "MaxLength"),
    ("minLength", "MinLength"),
    ("pattern", "Pattern"),
    ("maxItems", "MaxItems"),
    ("minItems", "MinItems"),
    ("uniqueItems", "UniqueItems"),
    ("multipleOf", "MultipleOf"),
    ("required", "Required"),
    ("items", "Items"),
    ("properties", "Properties"),
    ("externalDocs", "ExternalDocs"),
    ("example", "Example"),
    ("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields"),
    ("x-kubernetes-validations", "XValidations"),
];
const COLUMN_TYPES: &str = "boolean,date,integer,number,string";
const COLUMN_FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
const MAX_SELECTABLE_FIELDS: usize = 8;
const MAX_WARNING_LENGTH: usize = 256;

/// Checks a part of a version, whose path is `path` and `name`.
pub(super) fn check_version_part(
    errors: &mut FieldErrors,
    version: &Value,
    part: &str,
    has_status: bool,
    path: FieldPath<'_>,
    name: &str,
) {
    let path = path.child(name);
    match part {
        "schema" => {
            if let Some(schema) = get(&version["schema"], "openAPIV3Schema") {
                check_schema(errors, schema, has_status, path);
            }
        }
        "subresources" => check_scale(errors, &version["subresources"]["scale"], path),
        "additionalPrinterColumns" => {
            for (index, column) in list(version, part).iter().enumerate() {
                check_column(errors, column, path.index(index));
            }
        }
        _ => check_selectable_fields(errors, version, path),
    }
}

/// Checks the warning about a deprecated version.
pub(super) fn check_deprecation(errors: &mut FieldErrors, version: &Value, path: FieldPath<'_>) {
    let Some(warning) = optional_text(version, "deprecationWarning") else { return };
    let path = path.child("deprecationWarning");
    if !boolean(version, "deprecated") {
        return errors.invalid(path, warning, "can only be set for deprecated versions");
    }
    if warning.len() > MAX_WARNING_LENGTH {
        errors.invalid(path, warning, "must be <= 256 characters long");
    }
    if warning.is_empty() {
        errors.invalid(path, warning, "must not be an empty string");
    }
    // What Go does not print is what it escapes.
    let is_printed = |letter: char| {
        matches!(letter, '"' | '\\') || quote(letter.encode_utf8(&mut [0; 4])).len() == letter.len_utf8() + 2
    };
    if let Some((at, _)) = warning.char_indices().find(|(_, letter)| !is_printed(*letter)) {
        let detail = format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {at}"
        );
        errors.invalid(path, warning, detail);
    }
}

fn check_schema(errors: &mut FieldErrors, schema: &Value, has_status: bool, path: FieldPath<'_>) {
    let before = errors.len();
    let path = path.child("openAPIV3Schema");
    if has_status {
        check_root_fields(errors, schema, path);
    }
    if boolean(schema, "nullable") {
        errors.forbidden(path.child("nullable"), "nullable cannot be true at the root");
    }
    let unsupported = unsupported_part(schema);
    let mut is_structural = unsupported.is_none();
    if is_structural {
        let before = errors.len();
        check_structural(errors, schema, path);
        if errors.len() == before {
            check_defaults(errors, schema, path);
        }
        is_structural = errors.len() == before;
    }
    let mut found = FieldErrors::default();
    check_schema_rules(&mut found, schema, SchemaContext::ROOT, path);
    let expressions = is_structural.then(|| ExpressionFindings::of_schema(schema, path, &found));
    errors.extend(found.into_vec());
    errors.extend(expressions.map(|findings| findings.errors.into_vec()).unwrap_or_default());
    // It is reported if nothing else says what is wrong.
    if let Some(why) = unsupported.filter(|_| errors.len() == before) {
        errors.invalid(path, "", why);
    }
}

/// A status is validated by its own part of the schema: nothing may be said outside of it that could be about it.
fn check_root_fields(errors: &mut FieldErrors, schema: &Value, path: FieldPath<'_>) {
    let is_zero = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Bool(true) | Value::Number(_) | Value::Array(_) | Value::Object(_) => false,
    };
    let value_type = text(schema, "type");
    if !value_type.is_empty() && value_type != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource \
                      is enabled";
        errors.invalid(path.child("type"), value_type, detail);
        return;
    }
    let is_allowed = |name: &str| ROOT_FIELDS.iter().any(|(allowed, _)| *allowed == name);
    let mut fields = schema.as_object().into_iter().flatten();
    if fields.any(|(name, value)| !is_zero(value) && !is_allowed(name)) {
        let names: Vec<&str> = ROOT_FIELDS.iter().map(|(_, name)| *name).collect();
        let detail = format!(
            "only [{}] fields are allowed at the root of the schema if the status subresource is enabled",
            names.join(" ")
        );
        errors.invalid(path, PrintedValue::Go("apiextensions.JSONSchemaProps", schema), detail);
    }
}

fn check_scale(errors: &mut FieldErrors, scale: &Value, path: FieldPath<'_>) {
    if scale.is_null() {
        return;
    }
    let path = path.child("scale");
    for (name, parent) in [("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")] {
        let (value, path) = (text(scale, name), path.child(name));
        if value.is_empty() {
            errors.required(path, "");
        } else if check_json_path(errors, value, path) && !value.starts_with(parent) {
            let parent = parent.trim_end_matches('.');
            errors.invalid(path, value, format!("should be a json path under {parent}"));
        }
    }
    let (value, path) = (text(scale, "labelSelectorPath"), path.child("labelSelectorPath"));
    let is_under = |parent: &&str| value.starts_with(*parent);
    if !value.is_empty()
        && check_json_path(errors, value, path)
        && ![".spec.", ".status."].iter().any(is_under)
    {
        errors.invalid(path, value, "should be a json path under either .spec or .status");
    }
}

/// Checks that a path begins with a point, and returns whether it does.
fn check_json_path(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) -> bool {
    let is_valid = value.starts_with('.');
    if !is_valid {
        errors.invalid(path, value, "must be a simple json path starting with .");
    }
    is_valid
}

fn check_column(errors: &mut FieldErrors, column: &Value, path: FieldPath<'_>) {
    if text(column, "name").is_empty() {
        errors.required(path.child("name"), "");
    }
    for (name, supported) in [("type", COLUMN_TYPES), ("format", COLUMN_FORMATS)] {
        let (value, detail) = (text(column, name), format!("must be one of {supported}"));
        if value.is_empty() && name == "type" {
            errors.required(path.child(name), detail);
        } else if !value.is_empty() && !supported.split(',').any(|one| one == value) {
            errors.invalid(path.child(name), value, detail);
        }
    }
    let (value, path) = (text(column, "jsonPath"), path.child("JSONPath"));
    if value.is_empty() {
        errors.required(path, "");
    } else {
        check_json_path(errors, value, path);
    }
}

fn check_selectable_fields(errors: &mut FieldErrors, version: &Value, path: FieldPath<'_>) {
    let fields = list(version, "selectableFields");
    if fields.is_empty() {
        return;
    }
    let Some(schema) = get(&version["schema"], "openAPIV3Schema") else {
        let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
        return errors.invalid(path, "", detail);
    };
    let mut seen = HashSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index);
        let (json_path, path) = (text(field, "jsonPath"), path.child("jsonPath"));
        if json_path.is_empty() {
            errors.required(path, "");
            continue;
        }
        let (names, found) = match find_field(json_path, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(path, json_path, format!("is an invalid path: {why}"));
                continue;
            }
        };
        if names.first().is_some_and(|field| field.name == "metadata") {
            errors.invalid(path, json_path, "must not point to fields in metadata");
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings \
                          with formats are allowed.";
            errors.invalid(path, json_path, detail);
        }
        if !seen.insert(names) {
            errors.duplicate(path, json_path);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.too_many(path, seen.len(), MAX_SELECTABLE_FIELDS);
    }
}
