//! Errors about single fields of an object, with the texts of Kubernetes.

use std::fmt;

use serde_json::Value;

use super::go_values;

/// An error about one field, as an API server reports it in `Status.details.causes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    field: String,
    error_type: FieldErrorType,
    /// As Kubernetes prints it; `None` if the message does not contain it.
    value: Option<String>,
    detail: String,
}

/// The reason why a field is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldErrorType {
    /// A value that is referred to does not exist.
    NotFound,
    /// The value is missing.
    Required,
    /// A value that must be unique is repeated.
    Duplicate,
    /// The value is malformed or out of range.
    Invalid,
    /// The value is not one of a fixed set.
    NotSupported,
    /// The value is not permitted under these circumstances.
    Forbidden,
    /// The value is too long.
    TooLong,
    /// The list has too many items.
    TooMany,
    /// The server itself failed while it checked the value.
    Internal,
}

/// The path of a field: `spec.containers[0].resources.limits[cpu]`.
#[derive(Clone, Copy)]
pub(super) struct FieldPath<'p> {
    parent: Option<&'p FieldPath<'p>>,
    element: PathElement<'p>,
}

#[derive(Clone, Copy)]
enum PathElement<'p> {
    Name(&'p str),
    Index(usize),
    Key(&'p str),
}

/// The errors found so far, in the order of the API server.
#[derive(Default)]
pub(super) struct FieldErrors(Vec<FieldError>);

/// A rejected value as it is printed in a message.
pub(super) struct PrintedValue(String);

// === impl FieldError ===

impl FieldError {
    /// The path of the field, such as `spec.containers[0].image`.
    pub fn field(&self) -> &str {
        &self.field
    }

    /// The kind of error.
    pub fn error_type(&self) -> FieldErrorType {
        self.error_type
    }

    /// The `reason` of a cause in a `Status`.
    pub fn reason(&self) -> &'static str {
        match self.error_type {
            FieldErrorType::NotFound => "FieldValueNotFound",
            FieldErrorType::Required => "FieldValueRequired",
            FieldErrorType::Duplicate => "FieldValueDuplicate",
            FieldErrorType::Invalid => "FieldValueInvalid",
            FieldErrorType::NotSupported => "FieldValueNotSupported",
            FieldErrorType::Forbidden => "FieldValueForbidden",
            FieldErrorType::TooLong => "FieldValueTooLong",
            FieldErrorType::TooMany => "FieldValueTooMany",
            FieldErrorType::Internal => "InternalError",
        }
    }

    /// The text without the field: the `message` of a cause in a `Status`.
    pub fn message(&self) -> String {
        let mut text = self.error_type.to_string();
        for part in self.value.iter().chain(Some(&self.detail).filter(|detail| !detail.is_empty())) {
            text.push_str(": ");
            text.push_str(part);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message())
    }
}

// === impl FieldErrorType ===

impl fmt::Display for FieldErrorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FieldErrorType::NotFound => "Not found",
            FieldErrorType::Required => "Required value",
            FieldErrorType::Duplicate => "Duplicate value",
            FieldErrorType::Invalid => "Invalid value",
            FieldErrorType::NotSupported => "Unsupported value",
            FieldErrorType::Forbidden => "Forbidden",
            FieldErrorType::TooLong => "Too long",
            FieldErrorType::TooMany => "Too many",
            FieldErrorType::Internal => "Internal error",
        })
    }
}

// === impl FieldPath ===

impl<'p> FieldPath<'p> {
    pub(super) const METADATA: FieldPath<'static> = FieldPath::new("metadata");
    pub(super) const SPEC: FieldPath<'static> = FieldPath::new("spec");

    /// A top-level field.
    pub(super) const fn new(name: &'p str) -> FieldPath<'p> {
        FieldPath { parent: None, element: PathElement::Name(name) }
    }

    pub(super) fn child<'c>(&'c self, name: &'c str) -> FieldPath<'c> {
        FieldPath { parent: Some(self), element: PathElement::Name(name) }
    }

    pub(super) fn index(&self, index: usize) -> FieldPath<'_> {
        FieldPath { parent: Some(self), element: PathElement::Index(index) }
    }

    pub(super) fn key<'c>(&'c self, key: &'c str) -> FieldPath<'c> {
        FieldPath { parent: Some(self), element: PathElement::Key(key) }
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.element {
            // Kubernetes takes a path without a name for an index.
            PathElement::Name("") => f.write_str("[]"),
            PathElement::Name(name) if self.parent.is_some() => write!(f, ".{name}"),
            PathElement::Name(name) => f.write_str(name),
            PathElement::Index(index) => write!(f, "[{index}]"),
            PathElement::Key(key) => write!(f, "[{key}]"),
        }
    }
}

// === impl FieldErrors ===

impl FieldErrors {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn append(&mut self, mut other: FieldErrors) {
        self.0.append(&mut other.0);
    }

    pub(super) fn extend(&mut self, errors: Vec<FieldError>) {
        self.0.extend(errors);
    }

    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    pub(super) fn required(&mut self, path: FieldPath<'_>, detail: impl Into<String>) {
        self.add(FieldErrorType::Required, path, None, detail.into());
    }

    pub(super) fn invalid(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue>,
        detail: impl Into<String>,
    ) {
        self.add(FieldErrorType::Invalid, path, Some(value.into()), detail.into());
    }

    /// An invalid value that the message does not contain.
    pub(super) fn invalid_omitted(&mut self, path: FieldPath<'_>, detail: impl Into<String>) {
        self.add(FieldErrorType::Invalid, path, None, detail.into());
    }

    /// One error for each of the messages.
    pub(super) fn invalid_all(&mut self, path: FieldPath<'_>, value: &str, details: Vec<String>) {
        for detail in details {
            self.invalid(path, value, detail);
        }
    }

    pub(super) fn forbidden(&mut self, path: FieldPath<'_>, detail: impl Into<String>) {
        self.add(FieldErrorType::Forbidden, path, None, detail.into());
    }

    pub(super) fn duplicate(&mut self, path: FieldPath<'_>, value: impl Into<PrintedValue>) {
        self.duplicate_because(path, value, "");
    }

    pub(super) fn duplicate_because(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue>,
        detail: &str,
    ) {
        self.add(FieldErrorType::Duplicate, path, Some(value.into()), detail.to_owned());
    }

    pub(super) fn not_found(&mut self, path: FieldPath<'_>, value: &str, detail: impl Into<String>) {
        self.add(FieldErrorType::NotFound, path, Some(value.into()), detail.into());
    }

    /// `supported` in the order in which Kubernetes lists the values.
    pub(super) fn not_supported(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue>,
        supported: &[&str],
    ) {
        let quoted: Vec<String> = supported.iter().map(|value| go_values::quote(value)).collect();
        let detail = format!("supported values: {}", quoted.join(", "));
        self.add(FieldErrorType::NotSupported, path, Some(value.into()), detail);
    }

    pub(super) fn too_long(&mut self, path: FieldPath<'_>, max_bytes: usize) {
        let detail = format!("may not be more than {max_bytes} bytes");
        self.add(FieldErrorType::TooLong, path, None, detail);
    }

    pub(super) fn too_many(&mut self, path: FieldPath<'_>, count: usize, max: usize) {
        let detail = format!("must have at most {max} items");
        self.add(FieldErrorType::TooMany, path, Some((count as i64).into()), detail);
    }

    pub(super) fn internal(&mut self, path: FieldPath<'_>, detail: impl Into<String>) {
        self.add(FieldErrorType::Internal, path, None, detail.into());
    }

    /// An error if the number is negative.
    pub(super) fn negative(&mut self, path: FieldPath<'_>, value: Option<i64>) {
        if let Some(value) = value.filter(|value| *value < 0) {
            self.invalid(path, value, "must be greater than or equal to 0");
        }
    }

    fn add(
        &mut self,
        error_type: FieldErrorType,
        path: FieldPath<'_>,
        value: Option<PrintedValue>,
        detail: String,
    ) {
        let value = value.map(|value| value.0);
        self.0.push(FieldError { field: path.to_string(), error_type, value, detail });
    }
}

// === impl PrintedValue ===

impl PrintedValue {
    /// The JSON that Go prints for a struct; see [`go_values::json`].
    pub(super) fn go(go_type: &str, value: &Value) -> PrintedValue {
        PrintedValue(go_values::json(go_type, value))
    }
}

impl From<&str> for PrintedValue {
    fn from(text: &str) -> PrintedValue {
        PrintedValue(go_values::quote(text))
    }
}

impl From<&String> for PrintedValue {
    fn from(text: &String) -> PrintedValue {
        text.as_str().into()
    }
}

impl From<String> for PrintedValue {
    fn from(text: String) -> PrintedValue {
        text.as_str().into()
    }
}

impl From<i64> for PrintedValue {
    fn from(number: i64) -> PrintedValue {
        PrintedValue(number.to_string())
    }
}

impl From<bool> for PrintedValue {
    fn from(value: bool) -> PrintedValue {
        PrintedValue(value.to_string())
    }
}

impl From<&Value> for PrintedValue {
    /// Maps, lists and scalars; the fields of structs have another order, see [`PrintedValue::go`].
    fn from(value: &Value) -> PrintedValue {
        match value {
            Value::String(text) => text.into(),
            _ => PrintedValue::go("j", value),
        }
    }
}
