//! Checks of custom resources by their schema: types and values, lists, embedded resources, and the fields that the
//! subresource `scale` reads.

use kubernetes::go::text::{format_value, quote, type_of_json};
use model::Kind;
use serde_json::Value;

use super::field_error::{FieldError, FieldErrorType, FieldErrors, FieldPath, PrintedValue};
use super::json_fields::{get, text};
use super::metadata::{
    STANDARD_FINALIZERS, check_any_metadata, check_any_metadata_update, check_metadata_at,
};
use super::schema_rules::SchemaRules;
use crate::decoding::decode_object_meta;
use crate::names::{NameRule, label_1035};
use crate::structural::{
    AdditionalProperties, ListTypeViolation, SchemaValidator, SchemaViolation, Structural, ViolatedRule,
};

/// A version of a custom kind, as far as its objects are validated.
#[derive(Clone, Copy, Debug)]
pub struct CustomResourceRules<'r> {
    /// Group and kind.
    pub kind: &'r Kind,
    /// `example.com/v1`
    pub api_version: &'r str,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// Its schema; `None` if it has none.
    pub schema: Option<&'r Structural>,
    /// The expressions of its schema.
    pub rules: Option<&'r SchemaRules>,
    /// The fields of the subresource `scale`.
    pub scale: Option<&'r ScalePaths>,
}

/// The paths of the fields of a custom resource from which its Scale is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    /// `.spec.replicas`
    pub spec_replicas: String,
    /// `.status.replicas`
    pub status_replicas: String,
    /// `.status.selector`
    pub label_selector: Option<String>,
}

/// A field that a path leads to through objects, and has the expected type. The error is that of Kubernetes.
type FoundField<T> = Result<Option<T>, String>;

// === impl CustomResourceRules ===

impl CustomResourceRules<'_> {
    /// The errors for which an API server would reject a new custom resource.
    pub fn validate_create(&self, object: &Value) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        if self.check_type(&mut errors, object) {
            check_any_metadata(&mut errors, object, self.namespaced, NameRule::Subdomain);
            if let Some(schema) = self.schema {
                check_schema(&mut errors, None, schema, None, object);
            }
            self.check_scale_spec(&mut errors, object);
            self.check_scale_status(&mut errors, object);
        }
        if let Some(schema) = self.schema {
            check_embedded_resources(&mut errors, FieldPath::NIL, object, schema);
            add_list_violations(&mut errors, schema.check_list_types(object));
        }
        self.check_expressions(&mut errors, &mut Vec::new(), None, object);
        errors.into_vec()
    }

    /// The errors for which an API server would reject a new version of a custom resource. What would be errors, but is
    /// about values that are not changed, is added to the warnings.
    pub fn validate_update(&self, old: &Value, new: &Value, warnings: &mut Vec<String>) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        if self.check_type(&mut errors, new) {
            check_any_metadata_update(&mut errors, old, new);
            if let Some(schema) = self.schema {
                check_schema(&mut errors, None, schema, Some(old), new);
            }
            self.check_scale_spec(&mut errors, new);
            self.check_scale_status(&mut errors, new);
        }
        if let Some(schema) = self.schema {
            check_embedded_resources(&mut errors, FieldPath::NIL, new, schema);
            self.check_changed_lists(&mut errors, schema, old, new);
        }
        self.check_expressions(&mut errors, warnings, Some(old), new);
        errors.into_vec()
    }

    /// The errors for which an API server would reject a new status of a custom resource, and warnings.
    pub fn validate_status_update(
        &self,
        old: &Value,
        new: &Value,
        warnings: &mut Vec<String>,
    ) -> Vec<FieldError> {
        let mut errors = FieldErrors::default();
        if self.check_type(&mut errors, new) {
            check_any_metadata_update(&mut errors, old, new);
            let schema = self.schema.and_then(|schema| schema.property("status"));
            if let (Some(schema), Some(status)) = (schema, new.get("status")) {
                let old = old.get("status").unwrap_or(&Value::Null);
                check_schema(&mut errors, Some(FieldPath::new("status")), schema, Some(old), status);
            }
            self.check_scale_status(&mut errors, new);
        }
        if let Some(schema) = self.schema {
            self.check_changed_lists(&mut errors, schema, old, new);
        }
        self.check_expressions(&mut errors, warnings, Some(old), new);
        errors.into_vec()
    }

    fn check_type(&self, errors: &mut FieldErrors, object: &Value) -> bool {
        for (name, expected) in [("kind", &*self.kind.kind), ("apiVersion", self.api_version)] {
            if text(object, name) != expected {
                errors.invalid(FieldPath::new(name), text(object, name), format!("must be {expected}"));
            }
        }
        errors.is_empty()
    }

    /// Lists whose items were not valid before need not be now.
    fn check_changed_lists(&self, errors: &mut FieldErrors, schema: &Structural, old: &Value, new: &Value) {
        let found = schema.check_list_types(new);
        if !found.is_empty() && schema.check_list_types(old).is_empty() {
            add_list_violations(errors, found);
        }
    }

    /// Evaluates expressions, unless the object has certain errors, which is an error too.
    fn check_expressions(
        &self,
        errors: &mut FieldErrors,
        warnings: &mut Vec<String>,
        old: Option<&Value>,
        object: &Value,
    ) {
        let Some(schema) = self.schema.filter(|schema| schema.has_rules()) else { return };
        let blocks = |error: &FieldError| {
            matches!(
                error.error_type(),
                FieldErrorType::NotSupported
                    | FieldErrorType::Required
                    | FieldErrorType::TooLong
                    | FieldErrorType::TooMany
                    | FieldErrorType::TypeInvalid
            )
        };
        if errors.iter().any(blocks) {
            let detail = "some validation rules were not checked because the object was invalid; correct the existing \
                          errors to complete validation";
            errors.invalid(FieldPath::NIL, &Value::Null, detail);
        } else if let Some(rules) = self.rules {
            rules.check(errors, warnings, schema, old, object);
        }
    }

    fn check_scale_spec(&self, errors: &mut FieldErrors, object: &Value) {
        if let Some(scale) = self.scale {
            check_replicas(errors, object, &scale.spec_replicas);
        }
    }

    fn check_scale_status(&self, errors: &mut FieldErrors, object: &Value) {
        let Some(scale) = self.scale else { return };
        check_replicas(errors, object, &scale.status_replicas);
        if let Some(path) = &scale.label_selector
            && let Err(why) = nested_text(object, path)
        {
            errors.invalid(FieldPath::new(path), "", why);
        }
    }
}

// === impl ScalePaths ===

impl ScalePaths {
    /// The wanted number of replicas.
    pub fn spec_replicas(&self, object: &Value) -> FoundField<i64> {
        nested_integer(object, &self.spec_replicas)
    }

    /// The present number of replicas.
    pub fn status_replicas(&self, object: &Value) -> FoundField<i64> {
        nested_integer(object, &self.status_replicas)
    }

    /// The selector of the replicas.
    pub fn label_selector(&self, object: &Value) -> FoundField<String> {
        self.label_selector.as_ref().map_or(Ok(None), |path| nested_text(object, path))
    }

    /// The names of the fields that lead to the wanted number.
    pub fn spec_replicas_fields(&self) -> impl Iterator<Item = &str> {
        names_of(&self.spec_replicas)
    }
}

/// Checks a value by its schema. Without a path it is a whole object.
pub(super) fn check_schema(
    errors: &mut FieldErrors,
    path: Option<FieldPath<'_>>,
    schema: &Structural,
    old: Option<&Value>,
    value: &Value,
) {
    let found = match old {
        Some(old) => SchemaValidator::validate_update(schema, old, value),
        None => SchemaValidator::validate(schema, value),
    };
    for SchemaViolation { path: found_path, rule, value, message } in &found {
        let found_path = found_path.as_deref();
        let path = match (&path, found_path) {
            (Some(path), Some(found)) => path.child(found),
            (Some(path), None) => *path,
            (None, Some(found)) => FieldPath::new(found),
            (None, None) => FieldPath::NIL,
        };
        match rule {
            ViolatedRule::Required => errors.required(path, ""),
            ViolatedRule::Enum(allowed) => {
                let texts: Vec<String> = allowed.iter().map(text_of).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                errors.not_supported(path, printed(value), &texts);
            }
            ViolatedRule::MaxLength(limit) => errors.too_long(path, usize::try_from(*limit).unwrap_or(0)),
            ViolatedRule::MaxCount(limit) => {
                let count = value.as_u64().and_then(|count| usize::try_from(count).ok()).unwrap_or(0);
                errors.too_many(path, count, usize::try_from(*limit).unwrap_or(0));
            }
            ViolatedRule::Type => errors.type_invalid(path, printed(value), message),
            ViolatedRule::Other => errors.invalid(path, printed(value), message),
        }
    }
}

/// Checks the type and the metadata of embedded resources.
pub(super) fn check_embedded_resources(
    errors: &mut FieldErrors,
    path: FieldPath<'_>,
    value: &Value,
    schema: &Structural,
) {
    if errors.is_full() {
        return;
    }
    match value {
        Value::Object(fields) => {
            if schema.is_embedded_resource() {
                check_embedded_resource(errors, path, value);
            }
            for (name, value) in fields {
                match (schema.property(name), schema.additional_properties()) {
                    (Some(schema), _) => {
                        check_embedded_resources(errors, path.child_of_any(name), value, schema);
                    }
                    (None, Some(AdditionalProperties::Schema(schema))) => {
                        check_embedded_resources(errors, path.key(name), value, schema);
                    }
                    (None, Some(AdditionalProperties::Allowed(_)) | None) => {}
                }
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.items() else { return };
            for (index, item) in items.iter().enumerate() {
                check_embedded_resources(errors, path.index(index), item, schema);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_embedded_resource(errors: &mut FieldErrors, path: FieldPath<'_>, object: &Value) {
    for name in ["apiVersion", "kind"] {
        if object.get(name).is_none() {
            errors.required(path.child(name), "");
        }
    }
    for name in ["apiVersion", "kind"] {
        let Some(value) = object.get(name) else { continue };
        let path = path.child(name);
        let Some(text) = value.as_str() else {
            errors.invalid(path, value, "must be a string");
            continue;
        };
        if text.is_empty() {
            errors.invalid(path, text, "must not be empty");
        } else if name == "apiVersion" && text.matches('/').count() > 1 {
            errors.invalid(path, text, format!("unexpected GroupVersion string: {text}"));
        } else if name == "kind" {
            let messages = label_1035(&text.to_lowercase());
            if !messages.is_empty() {
                let detail =
                    format!("may have mixed case, but should otherwise match: {}", messages.join(","));
                errors.invalid(path, text, detail);
            }
        }
    }
    let Some(metadata) = get(object, "metadata") else { return };
    let path = path.child("metadata");
    match decode_object_meta(metadata) {
        Err(error) => errors.invalid(path, metadata, error.to_string()),
        Ok(decoded) => {
            let mut metadata = decoded.value;
            let namespaced = !text(&metadata, "namespace").is_empty();
            if text(&metadata, "name").is_empty() {
                metadata["name"] = "fakename".into();
            }
            check_metadata_at(errors, &metadata, path, namespaced, NameRule::PathSegment);
        }
    }
}

fn add_list_violations(errors: &mut FieldErrors, found: Vec<ListTypeViolation>) {
    for ListTypeViolation { path, value, is_duplicate } in found {
        let path = FieldPath::new(&path);
        if is_duplicate {
            errors.duplicate(path, printed(&value));
        } else {
            errors.invalid(path, printed(&value), "must be an object for an array of list-type map");
        }
    }
}

fn check_replicas(errors: &mut FieldErrors, object: &Value, path: &str) {
    let (replicas, why) = match nested_integer(object, path) {
        Err(why) => (0, why),
        Ok(Some(replicas)) if replicas < 0 => (replicas, "should be a non-negative integer".to_owned()),
        Ok(Some(replicas)) if replicas > i64::from(i32::MAX) => {
            (replicas, format!("should be less than or equal to {}", i32::MAX))
        }
        Ok(_) => return,
    };
    errors.invalid(FieldPath::new(path), replicas, why);
}

fn nested_integer(object: &Value, path: &str) -> FoundField<i64> {
    let Some(value) = nested_field(object, path)? else { return Ok(None) };
    value.as_i64().map(Some).ok_or_else(|| wrong_type(names_of(path), value, "int64"))
}

fn nested_text(object: &Value, path: &str) -> FoundField<String> {
    let Some(value) = nested_field(object, path)? else { return Ok(None) };
    let text = value.as_str().map(str::to_owned);
    text.map(Some).ok_or_else(|| wrong_type(names_of(path), value, "string"))
}

fn nested_field<'v>(object: &'v Value, path: &str) -> FoundField<&'v Value> {
    let mut value = object;
    for (count, name) in names_of(path).enumerate() {
        let Some(fields) = value.as_object() else {
            // Kubernetes names the field that was looked for in it.
            return Err(wrong_type(names_of(path).take(count + 1), value, "map[string]interface{}"));
        };
        match fields.get(name) {
            Some(inner) => value = inner,
            None => return Ok(None),
        }
    }
    Ok(Some(value))
}

fn names_of(path: &str) -> impl Iterator<Item = &str> {
    path.strip_prefix('.').unwrap_or(path).split('.')
}

fn wrong_type<'n>(names: impl Iterator<Item = &'n str>, value: &Value, expected: &str) -> String {
    let path: String = names.map(|name| format!(".{name}")).collect();
    let go_type = type_of_json(value);
    format!("{path} accessor error: {} is of the type {go_type}, expected {expected}", format_value(value))
}

/// Values as Go prints them: numbers with `%v`, which gives them exponents.
fn printed(value: &Value) -> PrintedValue<'_> {
    match value {
        Value::Number(_) => PrintedValue::Printed(format_value(value)),
        Value::String(text) => PrintedValue::Printed(quote(text)),
        value => value.into(),
    }
}

/// A value among those that are allowed: texts as they are, others in JSON.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The warning about a finalizer of a custom resource; `None` if its name tells whose it is.
pub fn finalizer_warning(finalizer: &str) -> Option<String> {
    if finalizer.contains('/') || STANDARD_FINALIZERS.contains(&finalizer) {
        return None;
    }
    let name = match finalizer.contains('.') {
        true => "finalizer name including a path (/)",
        false => "finalizer name",
    };
    Some(format!(
        "metadata.finalizers: {}: prefer a domain-qualified {name} to avoid accidental conflicts with other finalizer \
         writers",
        quote(finalizer)
    ))
}
