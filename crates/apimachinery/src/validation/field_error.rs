//! Errors about single fields of an object, with the texts of Kubernetes.

use std::borrow::Cow;
use std::fmt;

use kubernetes::go::text::quote;
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
    /// The value has another type than its schema.
    TypeInvalid,
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

/// The errors found so far, in the order of the API server. It keeps a limited number of them: a list with a
/// million wrong entries says no more than one with thousands.
#[derive(Default)]
pub(super) struct FieldErrors {
    errors: Vec<FieldError>,
    /// The length of all texts.
    text_length: usize,
}

/// A rejected value that a message contains. It is printed when it is certain that the message is kept.
pub(super) enum PrintedValue<'v> {
    Text(Cow<'v, str>),
    /// The JSON that Go prints for a value of this type; see [`go_values::json`].
    Go(&'static str, &'v Value),
    /// What is printed, as it is.
    Printed(String),
}

const MAX_ERRORS: usize = 10_000;
const MAX_TEXT_LENGTH: usize = 16 << 20;

// === impl FieldError ===

impl FieldError {
    /// A value that is out of range or taken: an error of checks that need other objects.
    pub fn invalid(field: String, value: &Value, detail: String) -> FieldError {
        let value = Some(PrintedValue::from(value).print());
        FieldError { field, error_type: FieldErrorType::Invalid, value, detail }
    }

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
            FieldErrorType::TypeInvalid => "FieldValueTypeInvalid",
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
            FieldErrorType::Invalid | FieldErrorType::TypeInvalid => "Invalid value",
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
    /// No path, as Go prints it.
    pub(super) const NIL: FieldPath<'static> = FieldPath::new("<nil>");

    /// A top-level field.
    pub(super) const fn new(name: &'p str) -> FieldPath<'p> {
        FieldPath { parent: None, element: PathElement::Name(name) }
    }

    pub(super) fn child<'c>(&'c self, name: &'c str) -> FieldPath<'c> {
        FieldPath { parent: Some(self), element: PathElement::Name(name) }
    }

    /// The same, where this may be no path at all.
    pub(super) fn child_of_any<'c>(&'c self, name: &'c str) -> FieldPath<'c> {
        match self.element {
            PathElement::Name("<nil>") if self.parent.is_none() => FieldPath::new(name),
            _ => self.child(name),
        }
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
        self.errors.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.errors.iter()
    }

    pub(super) fn len(&self) -> usize {
        self.errors.len()
    }

    /// Whether further errors are dropped.
    pub(super) fn is_full(&self) -> bool {
        self.errors.len() >= MAX_ERRORS || self.text_length >= MAX_TEXT_LENGTH
    }

    pub(super) fn extend(&mut self, errors: Vec<FieldError>) {
        for error in errors {
            self.push(error);
        }
    }

    pub(super) fn into_vec(self) -> Vec<FieldError> {
        self.errors
    }

    pub(super) fn required(&mut self, path: FieldPath<'_>, detail: impl Into<String>) {
        self.add(FieldErrorType::Required, path, None, detail.into());
    }

    pub(super) fn invalid<'v>(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue<'v>>,
        detail: impl Into<String>,
    ) {
        self.add(FieldErrorType::Invalid, path, Some(value.into()), detail.into());
    }

    /// A value of another type than its schema.
    pub(super) fn type_invalid<'v>(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue<'v>>,
        detail: impl Into<String>,
    ) {
        self.add(FieldErrorType::TypeInvalid, path, Some(value.into()), detail.into());
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

    pub(super) fn duplicate<'v>(&mut self, path: FieldPath<'_>, value: impl Into<PrintedValue<'v>>) {
        self.duplicate_because(path, value, "");
    }

    /// A repeated value that the message does not contain.
    pub(super) fn duplicate_omitted(&mut self, path: FieldPath<'_>) {
        self.add(FieldErrorType::Duplicate, path, None, String::new());
    }

    pub(super) fn duplicate_because<'v>(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue<'v>>,
        detail: &str,
    ) {
        self.add(FieldErrorType::Duplicate, path, Some(value.into()), detail.to_owned());
    }

    pub(super) fn not_found(&mut self, path: FieldPath<'_>, value: &str, detail: impl Into<String>) {
        self.add(FieldErrorType::NotFound, path, Some(value.into()), detail.into());
    }

    /// `supported` in the order in which Kubernetes lists the values.
    pub(super) fn not_supported<'v>(
        &mut self,
        path: FieldPath<'_>,
        value: impl Into<PrintedValue<'v>>,
        supported: &[&str],
    ) {
        let quoted: Vec<String> = supported.iter().map(|value| quote(value)).collect();
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
        value: Option<PrintedValue<'_>>,
        detail: String,
    ) {
        if self.is_full() {
            return;
        }
        let value = value.map(PrintedValue::print);
        self.push(FieldError { field: path.to_string(), error_type, value, detail });
    }

    fn push(&mut self, error: FieldError) {
        if !self.is_full() {
            self.text_length +=
                error.field.len() + error.detail.len() + error.value.as_ref().map_or(0, String::len);
            self.errors.push(error);
        }
    }
}

// === impl PrintedValue ===

impl<'v> PrintedValue<'v> {
    fn print(self) -> String {
        match self {
            PrintedValue::Text(text) => quote(&text),
            PrintedValue::Go(go_type, value) => go_values::json(go_type, value),
            PrintedValue::Printed(text) => text,
        }
    }
}

impl<'v> From<&'v str> for PrintedValue<'v> {
    fn from(text: &'v str) -> PrintedValue<'v> {
        PrintedValue::Text(text.into())
    }
}

impl<'v> From<&'v String> for PrintedValue<'v> {
    fn from(text: &'v String) -> PrintedValue<'v> {
        text.as_str().into()
    }
}

impl From<String> for PrintedValue<'_> {
    fn from(text: String) -> Self {
        PrintedValue::Text(text.into())
    }
}

impl From<i64> for PrintedValue<'_> {
    fn from(number: i64) -> Self {
        PrintedValue::Printed(number.to_string())
    }
}

impl From<bool> for PrintedValue<'_> {
    fn from(value: bool) -> Self {
        PrintedValue::Printed(value.to_string())
    }
}

impl<'v> From<&'v Value> for PrintedValue<'v> {
    /// Maps, lists and scalars; the fields of structs have another order, see [`PrintedValue::Go`].
    fn from(value: &'v Value) -> PrintedValue<'v> {
        match value {
            Value::String(text) => text.into(),
            _ => PrintedValue::Go("j", value),
        }
    }
}
