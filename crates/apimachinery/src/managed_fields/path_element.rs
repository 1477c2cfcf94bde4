//! The elements of field paths: their order, their text in messages, and their keys in `fieldsV1`.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use kubernetes::go::text::quote;
use serde_json::Value;

/// One step of a path into an object.
#[derive(Clone, Debug)]
pub(crate) enum PathElement {
    /// A field of a struct or an entry of a map.
    Field(Box<str>),
    /// An entry of a list with keys: their names and values, sorted by name.
    Key(Vec<(Box<str>, Value)>),
    /// An entry of a set.
    Value(Value),
    /// An entry by its position.
    Index(i64),
}

/// The reason why a key of `fieldsV1` is not a path element.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadPathElement {
    /// Of a type that is not known: it is ignored.
    #[error("unknown path element type")]
    UnknownType,
    #[error("{0}")]
    Invalid(String),
}

// === impl PathElement ===

impl PathElement {
    pub(crate) fn field(name: &str) -> PathElement {
        PathElement::Field(name.into())
    }

    /// Parses a key such as `f:spec`, `k:{"name":"c"}`, `v:"a"` and `i:0`.
    pub(crate) fn parse(key: &str) -> Result<PathElement, BadPathElement> {
        let invalid = |why: &str| BadPathElement::Invalid(why.to_owned());
        let json = |text: &str| serde_json::from_str(text).map_err(|error| invalid(&error.to_string()));
        if key.len() < 2 {
            return Err(invalid("key must be 2 characters long:"));
        }
        let (type_, rest) = match key.split_at_checked(2) {
            Some((type_, rest)) if type_.ends_with(':') => (type_, rest),
            _ => return Err(BadPathElement::Invalid(format!("missing colon: {key}"))),
        };
        match type_ {
            "f:" => Ok(PathElement::field(rest)),
            "v:" => Ok(PathElement::Value(json(rest)?)),
            "k:" => match json(rest)? {
                Value::Object(fields) => Ok(PathElement::Key(
                    fields.into_iter().map(|(name, value)| (name.into(), value)).collect(),
                )),
                _ => Err(invalid("the key of a list entry is not an object")),
            },
            "i:" => rest.parse().map(PathElement::Index).map_err(|_| invalid("invalid index")),
            _ => Err(BadPathElement::UnknownType),
        }
    }

    /// The key in `fieldsV1`.
    pub(crate) fn to_key(&self) -> String {
        match self {
            PathElement::Field(name) => ["f:", name].concat(),
            PathElement::Key(fields) => {
                let mut key = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    let before = if index == 0 { "\"" } else { ",\"" };
                    // Names of keys are names of fields. Writing to a string cannot fail.
                    let _ = write!(key, "{before}{name}\":{value}");
                }
                key.push('}');
                key
            }
            PathElement::Value(value) => format!("v:{value}"),
            PathElement::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            PathElement::Field(_) => 0,
            PathElement::Key(_) => 1,
            PathElement::Value(_) => 2,
            PathElement::Index(_) => 3,
        }
    }
}

impl Ord for PathElement {
    fn cmp(&self, other: &PathElement) -> Ordering {
        match (self, other) {
            (PathElement::Field(left), PathElement::Field(right)) => left.cmp(right),
            (PathElement::Key(left), PathElement::Key(right)) => {
                let by_field = left.iter().zip(right).map(|((left_name, left), (right_name, right))| {
                    left_name.cmp(right_name).then_with(|| compare_values(left, right))
                });
                by_field
                    .into_iter()
                    .find(|order| order.is_ne())
                    .unwrap_or_else(|| left.len().cmp(&right.len()))
            }
            (PathElement::Value(left), PathElement::Value(right)) => compare_values(left, right),
            (PathElement::Index(left), PathElement::Index(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PartialOrd for PathElement {
    fn partial_cmp(&self, other: &PathElement) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PathElement {
    fn eq(&self, other: &PathElement) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for PathElement {}

impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(fields) => {
                for (index, (name, value)) in fields.iter().enumerate() {
                    let before = if index == 0 { "[" } else { "," };
                    write!(f, "{before}{name}={}", text_of(value))?;
                }
                f.write_str(if fields.is_empty() { "[]" } else { "]" })
            }
            PathElement::Value(value) => write!(f, "[={}]", text_of(value)),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// Whether two values are equal: numbers by their value, whether they are integers or not.
pub(crate) fn are_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(_), Value::Number(_)) => compare_values(left, right).is_eq(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| are_equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            let equal = |((left_name, left), (right_name, right)): ((&String, &Value), (&String, &Value))| {
                left_name == right_name && are_equal(left, right)
            };
            left.len() == right.len() && left.iter().zip(right).all(equal)
        }
        _ => left == right,
    }
}

/// The order of values: numbers, strings, booleans, lists, maps, null.
pub(crate) fn compare_values(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => left.cmp(&right),
            _ => {
                let number = |number: &serde_json::Number| number.as_f64().unwrap_or(0.0);
                number(left).total_cmp(&number(right))
            }
        },
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let by_item = left.iter().zip(right).map(|(left, right)| compare_values(left, right));
            by_item.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => {
            let by_field = left.iter().zip(right).map(|((left_name, left), (right_name, right))| {
                left_name.cmp(right_name).then_with(|| compare_values(left, right))
            });
            by_field.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        _ => value_rank(left).cmp(&value_rank(right)),
    }
}

fn value_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}

/// A value as messages show it.
fn text_of(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(text_of).collect();
            format!("[{}]", items.join(","))
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| format!("{name}={}", text_of(value))).collect()
        }
    }
}
