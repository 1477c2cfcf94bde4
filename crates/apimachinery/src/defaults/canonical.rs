//! The canonical JSON of an object: what an API server writes after it has read the object into its Go type.
//!
//! Nulls, empty values and unknown fields disappear, missing structs and fields without `omitempty` appear,
//! and quantities and times get their canonical text.

use std::sync::LazyLock;

use kubernetes::quantity::{Format, Quantity};
use kubernetes::time::{micro_time, whole_second};
use model::Moment;
use serde_json::{Map, Value};

use crate::schema::{self, Presence, SchemaField, StructId, StructType, Type};

/// The fields of a struct type, for [`make_canonical`].
struct CanonicalFields {
    /// Sorted like the members of a JSON map.
    by_name: Vec<&'static SchemaField>,
    /// Those that appear if they are missing.
    always: Vec<&'static SchemaField>,
}

/// The fields of each struct type, by its id.
static FIELDS: LazyLock<Vec<CanonicalFields>> = LazyLock::new(|| {
    let of_type = |type_: &'static StructType| {
        let mut by_name: Vec<&SchemaField> = type_.fields.iter().collect();
        by_name.sort_by_key(|field| field.name);
        let always = type_.fields.iter().filter(|field| !is_omitted(field, &Value::Null)).collect();
        CanonicalFields { by_name, always }
    };
    schema::all().iter().map(of_type).collect()
});

/// Makes a value of a struct type canonical. What has another type than the schema says is left as it is.
///
/// Recursion follows the nesting of the value, which JSON parsers bound.
pub(crate) fn make_canonical(id: StructId, value: &mut Value) {
    let Value::Object(members) = value else { return };
    let CanonicalFields { by_name, always } = &FIELDS[id.index()];
    let mut remaining = &by_name[..];
    let mut omitted: Vec<String> = Vec::new();
    for (name, value) in members.iter_mut() {
        while let [field, rest @ ..] = remaining
            && field.name < &**name
        {
            remaining = rest;
        }
        match remaining.first().filter(|field| field.name == name && !is_omitted(field, value)) {
            Some(field) => make_field_canonical(field, value),
            None => omitted.push(name.clone()),
        }
    }
    // Few objects have such fields, and `retain` is slower than `remove` for these.
    for name in omitted {
        members.remove(&name);
    }
    for field in always {
        if !members.contains_key(field.name) {
            let mut value = Value::Null;
            make_field_canonical(field, &mut value);
            members.insert(field.name.to_owned(), value);
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

/// Whether a field with this value is not written.
fn is_omitted(field: &SchemaField, value: &Value) -> bool {
    match &field.type_ {
        Type::Pointer(inner)
            if matches!(**inner, Type::SchemaOrArray(_) | Type::SchemaOrStrings(_)) && !value.is_null() =>
        {
            !value.is_object() && !is_list(value)
        }
        Type::Pointer(_) => value.is_null() && field.presence != Presence::Always,
        // Storage does not distinguish empty lists, maps and bytes from missing ones.
        Type::List(_) | Type::Map(..) | Type::Bytes => is_empty(value) && field.presence != Presence::Always,
        Type::Time | Type::MicroTime => value.is_null() && field.presence == Presence::OmitZero,
        Type::Text(_) | Type::Int32 | Type::Int64 | Type::Float | Type::Bool => {
            is_zero(value) && field.presence != Presence::Always
        }
        Type::Struct(_)
        | Type::Quantity
        | Type::ResourceQuantity
        | Type::IntOrString
        | Type::Any
        | Type::Interface
        | Type::SchemaOrBool(_)
        | Type::SchemaOrArray(_)
        | Type::SchemaOrStrings(_) => false,
    }
}

/// Makes the value of a field canonical that is not omitted.
fn make_field_canonical(field: &SchemaField, value: &mut Value) {
    match &field.type_ {
        Type::Pointer(_) if value.is_null() => {}
        Type::List(_) | Type::Map(..) | Type::Bytes if is_empty(value) => *value = Value::Null,
        type_ => make_value_canonical(type_, value),
    }
}

/// Makes a value canonical where it cannot be omitted; null is the zero value.
fn make_value_canonical(type_: &Type, value: &mut Value) {
    match type_ {
        Type::Text(_) | Type::Bytes if value.is_null() => *value = "".into(),
        Type::Int32 | Type::Int64 | Type::IntOrString | Type::Float if value.is_null() => *value = 0.into(),
        Type::Bool if value.is_null() => *value = false.into(),
        Type::Quantity => make_quantity_canonical(value, false),
        Type::ResourceQuantity => make_quantity_canonical(value, true),
        Type::Time => make_time_canonical(value, |moment| whole_second(moment).to_string()),
        Type::MicroTime => make_time_canonical(value, micro_time),
        // Go's decoder ignores line breaks.
        Type::Bytes => {
            if let Value::String(text) = value {
                text.retain(|character| !['\r', '\n'].contains(&character));
            }
        }
        Type::Struct(id) => {
            if value.is_null() {
                *value = Value::Object(Map::new());
            }
            make_canonical(*id, value);
        }
        Type::SchemaOrBool(id) | Type::SchemaOrArray(id) | Type::SchemaOrStrings(id) => {
            for schema in value.as_array_mut().into_iter().flatten() {
                make_canonical(*id, schema);
            }
            make_canonical(*id, value);
        }
        Type::Pointer(inner) => make_value_canonical(inner, value),
        Type::List(inner) => {
            for entry in value.as_array_mut().into_iter().flatten() {
                make_value_canonical(inner, entry);
            }
        }
        Type::Map(_, inner) => {
            for entry in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
                make_value_canonical(inner, entry);
            }
        }
        Type::Text(_)
        | Type::Int32
        | Type::Int64
        | Type::IntOrString
        | Type::Float
        | Type::Bool
        | Type::Any
        | Type::Interface => {}
    }
}

fn make_quantity_canonical(value: &mut Value, round_up_to_milli: bool) {
    let parsed = match value {
        Value::Null => {
            *value = "0".into();
            return;
        }
        Value::String(text) => Quantity::parse(text.trim()),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => return,
    };
    let Ok(mut quantity) = parsed else { return };
    let limit = |value| Quantity::new(value, 15, Format::DecimalSi);
    // Larger numbers might not fit in thousandths.
    if round_up_to_milli && quantity > limit(-1) && quantity < limit(1) {
        let rounded = Quantity::new(quantity.milli_value(), -3, quantity.format());
        if rounded != quantity {
            quantity = rounded;
        }
    }
    *value = quantity.to_string().into();
}

fn make_time_canonical(value: &mut Value, text: impl Fn(Moment) -> String) {
    if let Some(moment) = value.as_str().and_then(|text| text.parse::<Moment>().ok()) {
        *value = text(moment).into();
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
