//! Conversions between types.

use std::sync::Arc;

use kubernetes::go::{duration, text::format_value};
use serde_json::Value as Json;

use super::super::value::{Failure, Outcome, Value};
use super::super::zoned_moment::ZonedMoment;
use super::costs::Meter;
use super::{Row, times};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "type",
        overloads: &["(A) -> type(A)"],
        run: |_, arguments| Ok(Value::CelType(Arc::from(arguments[0].type_name()))),
    },
    Row { name: "dyn", overloads: &["(A) -> dyn"], run: |_, arguments| Ok(arguments[0].clone()) },
    Row { name: "bool", overloads: &["(bool) -> bool", "(string) -> bool"], run: to_bool },
    Row { name: "bytes", overloads: &["(bytes) -> bytes", "(string) -> bytes"], run: to_bytes },
    Row {
        name: "double",
        overloads: &["(double) -> double", "(int) -> double", "(string) -> double", "(uint) -> double"],
        run: to_double,
    },
    Row {
        name: "duration",
        overloads: &["(duration) -> duration", "(int) -> duration", "(string) -> duration"],
        run: to_duration,
    },
    Row {
        name: "int",
        overloads: &[
            "(int) -> int",
            "(double) -> int",
            "(duration) -> int",
            "(string) -> int",
            "(timestamp) -> int",
            "(uint) -> int",
        ],
        run: to_int,
    },
    Row {
        name: "string",
        overloads: &[
            "(string) -> string",
            "(bool) -> string",
            "(bytes) -> string",
            "(double) -> string",
            "(duration) -> string",
            "(int) -> string",
            "(timestamp) -> string",
            "(uint) -> string",
            "(net.IP) -> string",
            "(net.CIDR) -> string",
        ],
        run: to_string,
    },
    Row {
        name: "timestamp",
        overloads: &["(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp"],
        run: to_timestamp,
    },
    Row {
        name: "uint",
        overloads: &["(uint) -> uint", "(double) -> uint", "(int) -> uint", "(string) -> uint"],
        run: to_uint,
    },
];

fn to_bool<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match &arguments[0] {
        Value::Bool(boolean) => Ok(Value::Bool(*boolean)),
        Value::String(text) => match &**text {
            "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(Value::Bool(false)),
            _ => Err(not_convertible("bool")),
        },
        _ => Err(Failure::NoOverload),
    }
}

fn to_bytes<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match &arguments[0] {
        Value::Bytes(bytes) => Ok(Value::Bytes(bytes.clone())),
        Value::String(text) => Ok(Value::Bytes(Arc::from(text.as_bytes()))),
        _ => Err(Failure::NoOverload),
    }
}

fn to_double<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    Ok(Value::Double(match &arguments[0] {
        Value::Double(number) => *number,
        Value::Int(number) => *number as f64,
        Value::Uint(number) => *number as f64,
        Value::String(text) => text.parse().map_err(|_| not_convertible("double"))?,
        _ => return Err(Failure::NoOverload),
    }))
}

fn to_duration<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    Ok(Value::Duration(match &arguments[0] {
        Value::Duration(nanos) | Value::Int(nanos) => *nanos,
        Value::String(text) => {
            duration::parse(text).ok_or_else(|| not_convertible("google.protobuf.Duration"))?
        }
        _ => return Err(Failure::NoOverload),
    }))
}

fn to_int<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match &arguments[0] {
        Value::Int(number) | Value::Duration(number) => Ok(Value::Int(*number)),
        // The limits themselves are refused too: as floating-point numbers they are not the integers.
        Value::Double(number) => int(Some(*number)
            .filter(|number| *number > i64::MIN as f64 && *number < i64::MAX as f64)
            .map(|number| number as i64)),
        Value::String(text) => parse_integer(text).map(Value::Int).ok_or_else(|| not_convertible("int")),
        Value::Timestamp(moment) => Ok(Value::Int(moment.seconds())),
        Value::Uint(number) => int(i64::try_from(*number).ok()),
        _ => Err(Failure::NoOverload),
    }
}

fn to_uint<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match &arguments[0] {
        Value::Uint(number) => Ok(Value::Uint(*number)),
        Value::Double(number) => uint(
            Some(*number)
                .filter(|number| *number >= 0.0 && *number < u64::MAX as f64)
                .map(|number| number as u64),
        ),
        Value::Int(number) => uint(u64::try_from(*number).ok()),
        Value::String(text) if !text.starts_with('+') => {
            text.parse().map(Value::Uint).map_err(|_| not_convertible("uint"))
        }
        Value::String(_) => Err(not_convertible("uint")),
        _ => Err(Failure::NoOverload),
    }
}

fn to_string<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match &arguments[0] {
        Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Value::string(text)),
            Err(_) => Err(Failure::error("invalid UTF-8 in bytes, cannot convert to string")),
        },
        value => match text_of(value) {
            Some(text) => Ok(Value::string(text)),
            None => Err(Failure::NoOverload),
        },
    }
}

fn to_timestamp<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match &arguments[0] {
        Value::Timestamp(moment) => Ok(Value::Timestamp(*moment)),
        Value::Int(seconds) => times::moment(ZonedMoment::new(i128::from(*seconds) * 1_000_000_000, 0)),
        Value::String(text) => ZonedMoment::parse(text)
            .map(Value::Timestamp)
            .ok_or_else(|| not_convertible("google.protobuf.Timestamp")),
        _ => Err(Failure::NoOverload),
    }
}

/// An integer, unless it overflows.
pub(super) fn int<'v>(number: Option<i64>) -> Outcome<Value<'v>> {
    number.map(Value::Int).ok_or_else(|| Failure::error("integer overflow"))
}

/// The same without a sign.
pub(super) fn uint<'v>(number: Option<u64>) -> Outcome<Value<'v>> {
    number.map(Value::Uint).ok_or_else(|| Failure::error("unsigned integer overflow"))
}

/// The text that a value is converted to; `None` if it cannot be.
pub(super) fn text_of(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Bool(boolean) => boolean.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Uint(number) => number.to_string(),
        Value::Double(number) => float_text(*number),
        Value::String(text) => (**text).to_owned(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Value::Duration(nanos) => times::seconds_text(*nanos),
        Value::Timestamp(moment) => moment.to_string(),
        Value::Ip(address) => super::addresses::ip_text(address),
        Value::Cidr(address, bits) => super::addresses::cidr_text(address, *bits),
        Value::CelType(name) => name.to_string(),
        _ => return None,
    })
}

/// A value as messages about it print it.
pub(super) fn printed(value: &Value<'_>) -> String {
    text_of(value).unwrap_or_else(|| value.type_name().to_owned())
}

/// A floating-point number as Go prints it with `%g`.
fn float_text(number: f64) -> String {
    match serde_json::Number::from_f64(number) {
        Some(number) => format_value(&Json::Number(number)),
        None if number.is_nan() => "NaN".to_owned(),
        None if number > 0.0 => "+Inf".to_owned(),
        None => "-Inf".to_owned(),
    }
}

fn parse_integer(text: &str) -> Option<i64> {
    text.parse().ok()
}

fn not_convertible(wanted: &str) -> Failure {
    Failure::Error(format!("type conversion error from 'string' to '{wanted}'"))
}
