//! Values of expressions. Those of a JSON value are read when they are used, by its schema.

mod list;
mod map;

use std::cmp::Ordering;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use kubernetes::quantity::Quantity;
use serde_json::Value as Json;

use super::json_texts;
use super::named_format::NamedFormat;
use super::schema::{CelSchema, SchemaForm};
use super::semver::Semver;
use super::url::Url;
use super::zoned_moment::ZonedMoment;
use crate::structural::Pattern;

pub(super) use list::List;
pub(super) use map::{Key, Map};

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Value<'v> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'v>),
    /// A constant text that is only used as a regular expression.
    Pattern(Arc<Pattern>),
    Bytes(Arc<[u8]>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(ZonedMoment),
    List(List<'v>),
    Map(Map<'v>),
    /// A type, by its name.
    CelType(Arc<str>),
    Optional(Option<Arc<Value<'v>>>),
    Quantity(Arc<Quantity>),
    Ip(IpAddr),
    /// An address and the number of bits of its network.
    Cidr(IpAddr, u8),
    Url(Arc<Url>),
    Semver(Arc<Semver>),
    Format(&'static NamedFormat),
    /// A value without a schema, which can only be compared.
    Unknown(&'v Json),
}

#[derive(Clone, Debug)]
pub(super) enum Text<'v> {
    Borrowed(&'v str),
    Shared(Arc<str>),
}

/// Why there is no value.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// An error, with its text.
    Error(String),
    /// A function that does not accept the values; another one of its name may.
    NoOverload,
    /// The limit of costs.
    CostLimit,
}

pub(super) type Outcome<T> = Result<T, Failure>;

// === impl Value ===

impl<'v> Value<'v> {
    /// The value of JSON.
    pub(super) fn read(json: &'v Json, schema: &'v CelSchema) -> Outcome<Value<'v>> {
        if json.is_null() {
            return match schema.nullable {
                true => Ok(Value::Null),
                false => Err(Failure::error("invalid data, got null for schema with nullable=false")),
            };
        }
        let wrong = |expected: &str| {
            Err(Failure::Error(format!("invalid data, expected {expected}, got {}", go_type(json))))
        };
        match &schema.form {
            SchemaForm::Object(_) | SchemaForm::Map(_) => match json {
                Json::Object(fields) => Ok(Value::Map(Map::Json(fields, schema))),
                _ => Err(Failure::error(
                    "invalid data, expected a map for the provided schema with type=object",
                )),
            },
            SchemaForm::List(items, form) => match json {
                Json::Array(list) => Ok(Value::List(List::of_json(list, items, form))),
                _ => Err(Failure::error(
                    "invalid data, expected an array for the provided schema with type=array",
                )),
            },
            SchemaForm::IntOrString => match json {
                Json::String(text) => Ok(Value::from(text.as_str())),
                Json::Number(number) if number.is_i64() => {
                    Ok(Value::Int(number.as_i64().unwrap_or_default()))
                }
                _ => Err(Failure::error(
                    "invalid data, expected XIntOrString value to be either a string or integer",
                )),
            },
            SchemaForm::Integer => json.as_i64().map(Value::Int).map_or_else(|| wrong("int"), Ok),
            SchemaForm::Number => match json {
                Json::Number(number) => Ok(Value::Double(number.as_f64().unwrap_or_default())),
                _ => wrong("float"),
            },
            SchemaForm::Boolean => json.as_bool().map(Value::Bool).map_or_else(|| wrong("bool"), Ok),
            SchemaForm::String
            | SchemaForm::Duration
            | SchemaForm::Date
            | SchemaForm::DateTime
            | SchemaForm::Bytes => match json {
                Json::String(text) => Value::read_text(text, &schema.form),
                _ => wrong("string"),
            },
            SchemaForm::Unknown => Ok(Value::Unknown(json)),
        }
    }

    /// The value of a text, which may be that of another type.
    fn read_text(text: &'v str, form: &SchemaForm) -> Outcome<Value<'v>> {
        let read = match form {
            SchemaForm::Duration => json_texts::duration(text).map(Value::Duration),
            SchemaForm::Date => json_texts::date(text).map(Value::Timestamp),
            SchemaForm::DateTime => json_texts::date_time(text).map(Value::Timestamp),
            SchemaForm::Bytes => json_texts::bytes(text).map(|bytes| Value::Bytes(Arc::from(bytes))),
            _ => Ok(Value::from(text)),
        };
        read.map_err(Failure::Error)
    }

    pub(super) fn string(text: impl Into<Arc<str>>) -> Value<'v> {
        Value::String(Text::Shared(text.into()))
    }

    pub(super) fn list(items: Vec<Value<'v>>) -> Value<'v> {
        Value::List(List::new(items))
    }

    pub(super) fn some(value: Value<'v>) -> Value<'v> {
        Value::Optional(Some(Arc::new(value)))
    }

    /// The name of its type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) | Value::Pattern(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::CelType(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Quantity(_) => "kubernetes.Quantity",
            Value::Ip(_) => "net.IP",
            Value::Cidr(..) => "net.CIDR",
            Value::Url(_) => "kubernetes.URL",
            Value::Semver(_) => "kubernetes.Semver",
            Value::Format(_) => "kubernetes.NamedFormat",
            Value::Unknown(_) => "unknown",
        }
    }

    /// Its size for the computation of costs.
    pub(super) fn cost_size(&self) -> u64 {
        let length = match self {
            Value::String(text) => text.chars().count(),
            Value::Pattern(pattern) => pattern.as_str().chars().count(),
            Value::Bytes(bytes) => bytes.len(),
            Value::List(list) => list.len(),
            Value::Map(map) => map.len(),
            Value::Optional(Some(value)) => return value.cost_size(),
            Value::Ip(address) => address_size(address),
            Value::Cidr(address, _) => address_size(address),
            _ => 1,
        };
        length as u64
    }

    /// Whether two values are equal. Values of different types are not.
    pub(super) fn equals(&self, other: &Value<'v>) -> Outcome<bool> {
        Ok(match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Null, _) | (_, Value::Null) => false,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::String(one), Value::String(other)) => **one == **other,
            (Value::Bytes(one), Value::Bytes(other)) => one == other,
            (Value::Duration(one), Value::Duration(other)) => one == other,
            (Value::Timestamp(one), Value::Timestamp(other)) => one.nanos() == other.nanos(),
            (Value::List(one), other) => match other {
                Value::List(other) => one.equals(other)?,
                _ if one.is_json() => return Err(Failure::no_such_overload()),
                _ => false,
            },
            (Value::Map(one), other) => match other {
                Value::Map(other) => one.equals(other)?,
                _ if one.is_json() => return Err(Failure::no_such_overload()),
                _ => false,
            },
            (Value::CelType(one), Value::CelType(other)) => one == other,
            (Value::Optional(one), Value::Optional(other)) => match (one, other) {
                (Some(one), Some(other)) => one.equals(other)?,
                (one, other) => one.is_none() && other.is_none(),
            },
            (Value::Quantity(one), Value::Quantity(other)) => one == other,
            (Value::Ip(one), Value::Ip(other)) => one == other,
            (Value::Cidr(one, bits), Value::Cidr(other, other_bits)) => (one, bits) == (other, other_bits),
            (Value::Url(one), Value::Url(other)) => one == other,
            (Value::Semver(one), Value::Semver(other)) => one.compare(other).is_eq(),
            (Value::Format(one), Value::Format(other)) => one.name == other.name,
            (Value::Unknown(one), Value::Unknown(other)) => one == other,
            (one, other) => compare_numbers(one, other).is_some_and(Ordering::is_eq),
        })
    }

    /// The order of two values; `None` if they have none.
    pub(super) fn compare(&self, other: &Value<'v>) -> Option<Ordering> {
        match (self, other) {
            (Value::Bool(one), Value::Bool(other)) => Some(one.cmp(other)),
            (Value::String(one), Value::String(other)) => Some((**one).cmp(&**other)),
            (Value::Bytes(one), Value::Bytes(other)) => Some(one.cmp(other)),
            (Value::Duration(one), Value::Duration(other)) => Some(one.cmp(other)),
            (Value::Timestamp(one), Value::Timestamp(other)) => Some(one.nanos().cmp(&other.nanos())),
            (one, other) => compare_numbers(one, other),
        }
    }

    pub(super) fn is_nan(&self) -> bool {
        matches!(self, Value::Double(number) if number.is_nan())
    }

    /// The key of a map that it is.
    pub(super) fn to_key(&self) -> Option<Key> {
        Some(match self {
            Value::Bool(boolean) => Key::Bool(*boolean),
            Value::Int(number) => Key::Number((*number).into()),
            Value::Uint(number) => Key::Number((*number).into()),
            Value::Double(number) if number.fract() == 0.0 && number.abs() < 1e19 => {
                Key::Number(*number as i128)
            }
            Value::String(text) => Key::String(Arc::from(&**text)),
            _ => return None,
        })
    }

    /// What identifies it among values of its type.
    fn to_identity(&self) -> Key {
        match self {
            Value::Unknown(json) => Key::String(Arc::from(json.to_string())),
            Value::Map(Map::Json(fields, _)) => {
                Key::String(Arc::from(serde_json::to_string(fields).unwrap_or_default()))
            }
            other => other.to_key().unwrap_or_else(|| Key::String(Arc::from(format!("{other:?}")))),
        }
    }

    /// Whether it is what a field without a value has.
    pub(super) fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(boolean) => !boolean,
            Value::Int(number) => *number == 0,
            Value::Uint(number) => *number == 0,
            Value::Double(number) => *number == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::Duration(nanos) => *nanos == 0,
            Value::List(list) => list.len() == 0,
            Value::Map(map) => map.len() == 0,
            Value::Optional(value) => value.as_ref().is_none_or(|value| value.is_zero()),
            _ => false,
        }
    }
}

impl<'v> From<&'v str> for Value<'v> {
    fn from(text: &'v str) -> Value<'v> {
        Value::String(Text::Borrowed(text))
    }
}

// === impl Text ===

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Text::Borrowed(text) => text,
            Text::Shared(text) => text,
        }
    }
}

// === impl Failure ===

impl Failure {
    pub(super) fn error(text: &str) -> Failure {
        Failure::Error(text.to_owned())
    }

    pub(super) fn no_such_overload() -> Failure {
        Failure::error("no such overload")
    }

    /// No function of a name accepts the values.
    pub(super) fn no_overload_for(function: &str, arguments: &[Value<'_>]) -> Failure {
        let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
        Failure::Error(format!("no such overload: {function}({})", types.join(", ")))
    }
}

fn compare_numbers(one: &Value<'_>, other: &Value<'_>) -> Option<Ordering> {
    enum Number {
        Integer(i128),
        Float(f64),
    }
    let number = |value: &Value<'_>| match value {
        Value::Int(number) => Some(Number::Integer((*number).into())),
        Value::Uint(number) => Some(Number::Integer((*number).into())),
        Value::Double(number) => Some(Number::Float(*number)),
        _ => None,
    };
    match (number(one)?, number(other)?) {
        (Number::Integer(one), Number::Integer(other)) => Some(one.cmp(&other)),
        (Number::Float(one), Number::Float(other)) => one.partial_cmp(&other),
        (Number::Integer(one), Number::Float(other)) => (one as f64).partial_cmp(&other),
        (Number::Float(one), Number::Integer(other)) => one.partial_cmp(&(other as f64)),
    }
}

fn address_size(address: &IpAddr) -> usize {
    match address {
        IpAddr::V4(_) => 4,
        IpAddr::V6(_) => 16,
    }
}

/// The Go type of a decoded JSON value.
fn go_type(json: &Json) -> &'static str {
    kubernetes::go::text::type_of_json(json)
}
