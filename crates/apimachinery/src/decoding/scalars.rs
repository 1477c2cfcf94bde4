//! Decoding of values that are neither structs nor lists nor maps.

use kubernetes::go::base64;
use kubernetes::go::timestamp::{self, MICRO_TIME_LAYOUT, TIME_LAYOUT};
use kubernetes::quantity::{BadQuantityReason, Quantity};
use serde_json::Value;

use super::Decoder;
use crate::schema::Type;

/// Decodes a value from its text. Values of a wrong type are reported to the decoder; the error is that of a text with
/// an invalid escape.
pub(super) fn decode(decoder: &mut Decoder, type_: &Type, json: &str) -> serde_json::Result<Value> {
    if json == "null" {
        return Ok(Value::Null);
    }
    let value: Value = serde_json::from_str(json)?;
    let is_right_type = match type_ {
        Type::Int32 | Type::Int64 => return Ok(decode_integer(decoder, type_, json, value)),
        Type::Bytes => return Ok(decode_bytes(decoder, value)),
        Type::Text(_) => value.is_string(),
        Type::Float => value.is_number(),
        Type::Bool => value.is_boolean(),
        Type::Quantity | Type::ResourceQuantity => {
            check_quantity(decoder, json);
            true
        }
        Type::Time => {
            check_time(decoder, &value, TIME_LAYOUT);
            true
        }
        Type::MicroTime => {
            check_time(decoder, &value, MICRO_TIME_LAYOUT);
            true
        }
        Type::IntOrString => {
            check_int_or_string(decoder, json, &value);
            true
        }
        // No scalars.
        Type::Any
        | Type::Interface
        | Type::SchemaOrBool(_)
        | Type::SchemaOrArray(_)
        | Type::SchemaOrStrings(_)
        | Type::Struct(_)
        | Type::Pointer(_)
        | Type::List(_)
        | Type::Map(..) => true,
    };
    if !is_right_type {
        decoder.mismatch(type_name(&value), &type_.go_type());
    }
    Ok(value)
}

fn decode_integer(decoder: &mut Decoder, type_: &Type, json: &str, value: Value) -> Value {
    if !value.is_number() {
        decoder.mismatch(type_name(&value), &type_.go_type());
        return value;
    }
    // Neither a fraction nor an exponent is allowed, even if the number is whole.
    match json.parse::<i64>() {
        Ok(number) if *type_ == Type::Int64 || i32::try_from(number).is_ok() => number.into(),
        _ => {
            decoder.mismatch(&format!("number {json}"), &type_.go_type());
            value
        }
    }
}

/// Quantities read what is between the quotes, without unescaping it.
fn check_quantity(decoder: &mut Decoder, json: &str) {
    let inner = json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(json);
    if let Err(error) = Quantity::parse(inner.trim()) {
        decoder.add_custom_error(
            match error.why {
                BadQuantityReason::Format => {
                    "quantities must match the regular expression \
                     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                }
                BadQuantityReason::Digits => "unable to parse numeric part of quantity",
                BadQuantityReason::Suffix => "unable to parse quantity's suffix",
            }
            .to_owned(),
        );
    }
}

fn check_time(decoder: &mut Decoder, value: &Value, layout: &str) {
    match value.as_str() {
        Some(text) => {
            if let Err(error) = timestamp::check(text, layout) {
                decoder.add_custom_error(error);
            }
        }
        None => {
            let error = decoder.mismatch_message(type_name(value), "string");
            decoder.add_custom_error(error);
        }
    }
}

fn check_int_or_string(decoder: &mut Decoder, json: &str, value: &Value) {
    if value.is_string() || json.parse::<i32>().is_ok() {
        return;
    }
    let found = if value.is_number() { format!("number {json}") } else { type_name(value).to_owned() };
    let error = decoder.mismatch_message(&found, "int32");
    decoder.add_custom_error(error);
}

/// Bytes are a text in base64, or a list of numbers.
fn decode_bytes(decoder: &mut Decoder, value: Value) -> Value {
    match &value {
        Value::String(text) => {
            if let Some(position) = base64::corrupt_byte(text)
                && decoder.type_error.is_none()
            {
                decoder.type_error = Some(format!("illegal base64 data at input byte {position}"));
            }
            value
        }
        Value::Array(entries) => {
            let mut bytes = Vec::with_capacity(entries.len());
            for entry in entries {
                match entry.as_u64().map(u8::try_from) {
                    Some(Ok(byte)) => bytes.push(byte),
                    _ if entry.is_null() => bytes.push(0),
                    _ if entry.is_number() => decoder.mismatch(&format!("number {entry}"), "uint8"),
                    _ => decoder.mismatch(type_name(entry), "uint8"),
                }
            }
            base64::encode(&bytes).into()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            decoder.mismatch(type_name(&value), "[]uint8");
            value
        }
    }
}

/// The type of a JSON value in Go's messages.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
