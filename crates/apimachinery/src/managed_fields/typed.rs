//! Validation of values by their type, and the set of the fields that a value has.

use std::fmt::{self, Write};

use kubernetes::go::text::{quote, type_of_json};
use serde_json::Value;

use super::field_set::FieldSet;
use super::merge_schema::{Atom, ListAtom, MapAtom, Scalar, Shape, TypeRef};
use super::path_element::PathElement;

/// The reasons why a value is not of its type.
#[derive(Debug, Default)]
pub(super) struct TypeErrors {
    /// Each with its path: `.spec.replicas: expected numeric (int or float), got string`.
    messages: Vec<String>,
}

/// The most reasons that are collected, and the length from which on there are no more: each has its path.
const MAX_ERRORS: usize = 100;
const MAX_ERROR_BYTES: usize = 64 << 10;

/// Checks the types of a value, and unless duplicates are allowed, that the entries of lists have different keys.
///
/// Of an object one field without a type is reported, as the original does.
pub(super) fn validate(type_: TypeRef<'_>, value: &Value, allow_duplicates: bool) -> Result<(), TypeErrors> {
    let mut validator = Validator { allow_duplicates, path: String::new(), errors: TypeErrors::default() };
    validator.validate(type_, value);
    if validator.errors.messages.is_empty() { Ok(()) } else { Err(validator.errors) }
}

/// The fields that a value has.
pub(super) fn field_set(type_: TypeRef<'_>, value: &Value) -> FieldSet {
    field_set_of(type_, value).1
}

struct Validator {
    allow_duplicates: bool,
    path: String,
    errors: TypeErrors,
}

// === impl Validator ===

impl Validator {
    /// Recursion follows the nesting, which the JSON parser bounds.
    fn validate(&mut self, type_: TypeRef<'_>, value: &Value) {
        let atom = type_.resolve();
        match (atom.shape_of(Some(value)), &atom) {
            (Shape::Map, Atom { map: Some(map), .. }) => self.validate_map(map, value),
            (Shape::List, Atom { list: Some(list), .. }) => self.validate_list(list, value),
            (_, Atom { scalar: Some(scalar), .. }) => self.validate_scalar(*scalar, value),
            _ => {}
        }
    }

    fn validate_scalar(&mut self, scalar: Scalar, value: &Value) {
        let expected = match (scalar, value) {
            (_, Value::Null)
            | (Scalar::Numeric, Value::Number(_))
            | (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Untyped, Value::Number(_) | Value::String(_) | Value::Bool(_)) => return,
            (Scalar::Numeric, _) => format!("expected numeric (int or float), got {}", type_of_json(value)),
            (Scalar::String, _) => {
                format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))
            }
            (Scalar::Boolean, _) => format!("expected boolean, got {}", wrapped(value)),
            (Scalar::Untyped, _) => format!("expected any scalar, got {}", wrapped(value)),
        };
        self.report(&expected);
    }

    fn validate_list(&mut self, list: &ListAtom<'_>, value: &Value) {
        let entries = match value {
            Value::Array(entries) => entries,
            Value::Null => return,
            _ => return self.report(&format!("expected list, got {}", wrapped(value))),
        };
        let mut seen = std::collections::BTreeSet::new();
        for (index, entry) in entries.iter().enumerate() {
            let element = if list.is_atomic() {
                PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
            } else {
                match list.path_element(entry) {
                    Ok(element) => element,
                    Err(why) => return self.report(&format!("element {index}: {why}")),
                }
            };
            let length = self.path.len();
            // Writing to a string cannot fail.
            let _ = write!(self.path, "{element}");
            self.validate(list.element, entry);
            self.path.truncate(length);
            if !list.is_atomic() && !self.allow_duplicates {
                let text = element.to_string();
                if !seen.insert(element) {
                    self.report(&format!("duplicate entries for key {text}"));
                }
            }
        }
    }

    fn validate_map(&mut self, map: &MapAtom<'_>, value: &Value) {
        let fields = match value {
            Value::Object(fields) => fields,
            Value::Null => return,
            _ => return self.report(&format!("expected map, got {}", wrapped(value))),
        };
        for (name, value) in fields {
            let length = self.path.len();
            self.path.extend([".", name]);
            let type_ = map.entry(name);
            match type_ {
                Some(type_) => self.validate(type_, value),
                None => self.report("field not declared in schema"),
            }
            self.path.truncate(length);
            if type_.is_none() {
                return;
            }
        }
    }

    fn report(&mut self, why: &str) {
        let bytes: usize = self.errors.messages.iter().map(String::len).sum();
        if self.errors.messages.len() < MAX_ERRORS && bytes < MAX_ERROR_BYTES {
            let separator = if self.path.is_empty() { "" } else { ": " };
            self.errors.messages.push(format!("{}{separator}{why}", self.path));
        }
    }
}

/// Whether the path to a value itself is in the set of its fields, and the paths behind it.
fn field_set_of(type_: TypeRef<'_>, value: &Value) -> (bool, FieldSet) {
    let mut set = FieldSet::default();
    let atom = type_.resolve();
    match (atom.shape_of(Some(value)), &atom) {
        (Shape::Map, Atom { map: Some(map), .. }) => {
            if map.is_atomic {
                return (true, set);
            }
            for (name, value) in value.as_object().into_iter().flatten() {
                let field = map.field(name);
                let Some(type_) = field.or(map.element) else { continue };
                let (is_member, children) = field_set_of(type_, value);
                let is_empty = value.is_null() || value.as_object().is_some_and(serde_json::Map::is_empty);
                set.push(PathElement::field(name), is_member || is_empty || field.is_none(), children);
            }
            (false, set)
        }
        (Shape::List, Atom { list: Some(list), .. }) => {
            if list.is_atomic() {
                return (true, set);
            }
            for (element, entries) in indexed(list, value.as_array().map_or(&[], Vec::as_slice)) {
                let children = match entries.as_slice() {
                    [entry] => field_set_of(list.element, entry).1,
                    // Of duplicates only the entries as a whole are known.
                    _ => FieldSet::default(),
                };
                set.push(element, true, children);
            }
            (false, set)
        }
        _ => (true, set),
    }
}

/// The entries of a list by their path element, sorted. Entries without one are left out.
pub(super) fn indexed<'v>(list: &ListAtom<'_>, entries: &'v [Value]) -> Vec<(PathElement, Vec<&'v Value>)> {
    let mut indexed: Vec<(PathElement, Vec<&Value>)> = Vec::with_capacity(entries.len());
    let mut elements: Vec<(PathElement, &Value)> =
        entries.iter().filter_map(|entry| Some((list.path_element(entry).ok()?, entry))).collect();
    elements.sort_by(|left, right| left.0.cmp(&right.0));
    for (element, entry) in elements {
        match indexed.last_mut() {
            Some((last, entries)) if *last == element => entries.push(entry),
            _ => indexed.push((element, vec![entry])),
        }
    }
    indexed
}

// === impl TypeErrors ===

impl fmt::Display for TypeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.messages.as_slice() {
            [message] => f.write_str(message),
            messages => {
                f.write_str("errors:")?;
                messages.iter().try_for_each(|message| write!(f, "\n  {message}"))
            }
        }
    }
}

/// A decoded value as Go's `%v` prints the wrapper around it.
fn wrapped(value: &Value) -> String {
    format!("&{{{}}}", kubernetes::go::text::format_value(value))
}

/// A decoded value as Go's `%#v` prints it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Bool(_) | Value::Number(_) => kubernetes::go::text::format_value(value),
        Value::String(text) => quote(text),
        Value::Array(entries) => {
            let entries: Vec<String> = entries.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> =
                fields.iter().map(|(name, value)| format!("{}:{}", quote(name), go_syntax(value))).collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
    }
}
