//! The canonical JSON of an object: what an API server writes after it has read the object into its Go type.
//!
//! Nulls, empty values and unknown fields disappear, missing structs and fields without `omitempty` appear,
//! and quantities and times get their canonical text.

use model::Moment;
use serde_json::{Map, Value};

use crate::quantity::{Format, Quantity};
use crate::schema::{self, Presence, SchemaField, StructId, Type};
use crate::time::{micro_time, whole_second};

/// Makes a value of a struct type canonical. What has another type than the schema says is left as it is.
///
/// Recursion follows the nesting of the value, which JSON parsers bound.
pub(super) fn make_canonical(id: StructId, value: &mut Value) {
    let Value::Object(fields) = value else { return };
    let mut given = std::mem::take(fields);
    for field in &schema::get(id).fields {
        let (name, value) = given.remove_entry(field.name).unwrap_or_else(|| (String::new(), Value::Null));
        if let Some(value) = written(field, value) {
            fields.insert(if name.is_empty() { field.name.to_owned() } else { name }, value);
        }
    }
}

/// Whether two canonical values are equal as Kubernetes compares them: quantities by their number.
pub(super) fn semantically_equal(type_: &Type, left: &Value, right: &Value) -> bool {
    if left == right {
        return true;
    }
    match (type_, left, right) {
        (Type::Pointer(inner), _, _) => semantically_equal(inner, left, right),
        (Type::Quantity | Type::ResourceQuantity, Value::String(left), Value::String(right)) => {
            match (Quantity::parse(left), Quantity::parse(right)) {
                (Ok(left), Ok(right)) => left == right,
                _ => false,
            }
        }
        (Type::Struct(id), Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && schema::get(*id).fields.iter().all(|field| {
                    match (left.get(field.name), right.get(field.name)) {
                        (Some(left), Some(right)) => semantically_equal(&field.type_, left, right),
                        (None, None) => true,
                        _ => false,
                    }
                })
        }
        (Type::List(inner), Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| semantically_equal(inner, left, right))
        }
        (Type::Map(_, inner), Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|((left_key, left), (right_key, right))| {
                    left_key == right_key && semantically_equal(inner, left, right)
                })
        }
        _ => false,
    }
}

/// What is written of a field; `None` if it is omitted.
fn written(field: &SchemaField, value: Value) -> Option<Value> {
    let empty = match &field.type_ {
        Type::Pointer(_) if value.is_null() => {
            return (field.presence == Presence::Always).then_some(Value::Null);
        }
        Type::Pointer(inner)
            if matches!(**inner, Type::SchemaOrArray(_)) && (!value.is_object() && !is_list(&value)) =>
        {
            return None;
        }
        // Storage does not distinguish empty lists, maps and bytes from missing ones.
        Type::List(_) | Type::Map(..) | Type::Bytes if is_empty(&value) => {
            return (field.presence == Presence::Always).then_some(Value::Null);
        }
        Type::Time | Type::MicroTime => value.is_null() && field.presence == Presence::OmitZero,
        Type::Text(_) | Type::Int32 | Type::Int64 | Type::Float | Type::Bool => {
            is_zero(&value) && field.presence != Presence::Always
        }
        Type::Pointer(_)
        | Type::List(_)
        | Type::Map(..)
        | Type::Bytes
        | Type::Struct(_)
        | Type::Quantity
        | Type::ResourceQuantity
        | Type::IntOrString
        | Type::Any
        | Type::Interface
        | Type::SchemaOrBool(_)
        | Type::SchemaOrArray(_) => false,
    };
    (!empty).then(|| canonical(&field.type_, value))
}

/// A value as it is written where it cannot be omitted; null is the zero value.
fn canonical(type_: &Type, mut value: Value) -> Value {
    match type_ {
        Type::Text(_) | Type::Bytes if value.is_null() => "".into(),
        Type::Int32 | Type::Int64 | Type::IntOrString | Type::Float if value.is_null() => 0.into(),
        Type::Bool if value.is_null() => false.into(),
        Type::Quantity => quantity(value, false),
        Type::ResourceQuantity => quantity(value, true),
        Type::Time => time(value, |moment| whole_second(moment).to_string()),
        Type::MicroTime => time(value, micro_time),
        Type::Bytes => match value {
            // Go's decoder ignores line breaks.
            Value::String(text) => text.replace(['\r', '\n'], "").into(),
            other => other,
        },
        Type::Struct(id) => {
            if value.is_null() {
                value = Value::Object(Map::new());
            }
            make_canonical(*id, &mut value);
            value
        }
        Type::SchemaOrBool(id) | Type::SchemaOrArray(id) => {
            for schema in value.as_array_mut().into_iter().flatten() {
                make_canonical(*id, schema);
            }
            make_canonical(*id, &mut value);
            value
        }
        Type::Pointer(inner) => canonical(inner, value),
        Type::List(inner) => match value {
            Value::Array(entries) => entries.into_iter().map(|entry| canonical(inner, entry)).collect(),
            other => other,
        },
        Type::Map(_, inner) => match value {
            Value::Object(entries) => {
                entries.into_iter().map(|(key, entry)| (key, canonical(inner, entry))).collect()
            }
            other => other,
        },
        Type::Text(_)
        | Type::Int32
        | Type::Int64
        | Type::IntOrString
        | Type::Float
        | Type::Bool
        | Type::Any
        | Type::Interface => value,
    }
}

fn quantity(value: Value, round_up_to_milli: bool) -> Value {
    let text = match &value {
        Value::Null => return "0".into(),
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => return value,
    };
    let Ok(mut quantity) = Quantity::parse(&text) else { return value };
    let limit = |value| Quantity::new(value, 15, Format::DecimalSi);
    // Larger numbers might not fit in thousandths.
    if round_up_to_milli && quantity > limit(-1) && quantity < limit(1) {
        let rounded = Quantity::new(quantity.milli_value(), -3, quantity.format());
        if rounded != quantity {
            quantity = rounded;
        }
    }
    quantity.to_string().into()
}

fn time(value: Value, text: impl Fn(Moment) -> String) -> Value {
    match value.as_str().and_then(|text| text.parse::<Moment>().ok()) {
        Some(moment) => text(moment).into(),
        None => value,
    }
}

fn is_list(value: &Value) -> bool {
    value.as_array().is_some_and(|entries| !entries.is_empty())
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(entries) => entries.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}
