//! Decoding of objects and patches from JSON, with the errors of an API server of Kubernetes 1.36: values of a wrong
//! type, unknown fields and duplicate ones (`fieldValidation`).
//!
//! Parts of another decoder of Kubernetes are not checked: raw extensions, and schemas in the `items`,
//! `additionalProperties` and `dependencies` of a schema.

mod scalars;
#[cfg(test)]
mod tests;

use std::fmt;

use kubernetes::go::text::quote;
use model::Kind;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::schema::{self, StructId, Type};

/// A decoded document.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    /// Its value, without unknown fields. Of duplicate fields the last one counts; structs are merged.
    pub value: Value,
    /// What only strict decoding refuses: `unknown field "spec.foo"`, `duplicate field "data"`.
    pub strict_errors: Vec<String>,
}

/// The reason why a document cannot be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It is not JSON.
    #[error("{0}")]
    Syntax(#[source] serde_json::Error),
    /// A value has another type than its field.
    #[error("{0}")]
    Type(String),
}

/// The most strict errors that are reported.
const MAX_STRICT_ERRORS: usize = 100;

/// Decodes an object of a kind. Of a custom resource only the metadata has a type.
pub fn decode_object(kind: &Kind, text: &[u8]) -> Result<Decoded, DecodeError> {
    let Some(id) = schema::type_of(kind) else { return decode_custom(text) };
    let decoded = decode(&Type::Struct(id), text)?;
    if (&*kind.group, &*kind.kind) == ("apps", "DaemonSet") {
        check_template_generation(&decoded.value)?;
    }
    Ok(decoded)
}

/// Decodes a merge patch or a strategic merge patch.
pub fn decode_merge_patch(text: &[u8]) -> Result<Decoded, DecodeError> {
    decode(&Type::Map("string", Box::new(Type::Interface)), text)
}

/// Decodes a JSON patch. Its strict errors begin with `json patch`.
pub fn decode_json_patch(text: &[u8]) -> Result<Decoded, DecodeError> {
    let mut decoded = decode(&Type::List(Box::new(struct_type("handlers.jsonPatchOp"))), text)?;
    for error in &mut decoded.strict_errors {
        error.insert_str(0, "json patch ");
    }
    Ok(decoded)
}

/// Decodes the body of a deletion.
pub fn decode_delete_options(text: &[u8]) -> Result<Decoded, DecodeError> {
    decode(&struct_type("meta.DeleteOptions"), text)
}

/// Decodes any JSON.
pub fn decode_any(text: &[u8]) -> Result<Decoded, DecodeError> {
    decode(&Type::Interface, text)
}

/// Decodes the metadata of an object.
pub(crate) fn decode_object_meta(metadata: &Value) -> Result<Decoded, DecodeError> {
    decode(&struct_type("meta.ObjectMeta"), metadata.to_string().as_bytes())
}

/// The annotation of a DaemonSet that is a number in the server's own type.
fn check_template_generation(set: &Value) -> Result<(), DecodeError> {
    let annotation = &set["metadata"]["annotations"]["deprecated.daemonset.template.generation"];
    let Some(text) = annotation.as_str().filter(|text| text.parse::<i64>().is_err()) else { return Ok(()) };
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    Err(DecodeError::Type(format!("strconv.ParseInt: parsing {}: {why}", quote(text))))
}

fn struct_type(name: &str) -> Type {
    schema::named(name).map_or(Type::Interface, Type::Struct)
}

/// Decodes a custom resource: anything, then its metadata.
fn decode_custom(text: &[u8]) -> Result<Decoded, DecodeError> {
    let mut decoded = decode_merge_patch(text)?;
    if let Some(metadata) = decoded.value.get_mut("metadata").filter(|metadata| !metadata.is_null()) {
        let inner = decode_object_meta(metadata)?;
        *metadata = inner.value;
        // Each is `unknown field "name"`.
        let outer = inner.strict_errors.iter().map(|error| error.replacen('"', "\"metadata.", 1));
        decoded.strict_errors.extend(outer);
    }
    Ok(decoded)
}

fn decode(type_: &Type, text: &[u8]) -> Result<Decoded, DecodeError> {
    let mut decoder = Decoder::default();
    let mut json = serde_json::Deserializer::from_slice(text);
    let seed = TypeSeed { decoder: &mut decoder, type_ };
    let value = seed.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    let value = value.map_err(DecodeError::Syntax)?;
    match decoder.custom_error.or(decoder.type_error) {
        Some(error) => Err(DecodeError::Type(error)),
        None => Ok(Decoded { value, strict_errors: decoder.strict_errors }),
    }
}

/// The state of a decoder.
#[derive(Default)]
struct Decoder {
    strict_errors: Vec<String>,
    /// The first value of a wrong type.
    type_error: Option<String>,
    /// The first error of a type with a decoder of its own, which ends Go's decoding.
    custom_error: Option<String>,
    /// The path of the current value, as strict errors name it: `spec.containers[0]`.
    path: String,
    /// The fields of structs that lead to the current value, as type errors name them.
    field_stack: Vec<&'static str>,
    /// The innermost struct around the current value.
    struct_name: &'static str,
}

/// A value of a type that is to be decoded.
struct TypeSeed<'d> {
    decoder: &'d mut Decoder,
    type_: &'d Type,
}

/// Decodes structs, lists and maps.
struct ContainerVisitor<'d>(TypeSeed<'d>);

// === impl Decoder ===

impl Decoder {
    /// Decodes a value within another: `enter` extends the path.
    fn within<T>(&mut self, enter: impl FnOnce(&mut String), decode: impl FnOnce(&mut Decoder) -> T) -> T {
        let length = self.path.len();
        enter(&mut self.path);
        let decoded = decode(self);
        self.path.truncate(length);
        decoded
    }

    fn add_strict_error(&mut self, problem: &str, field: &str) {
        if self.strict_errors.len() >= MAX_STRICT_ERRORS {
            return;
        }
        let mut path = self.path.clone();
        push_field(&mut path, field);
        let error = format!("{problem} {}", quote(&path));
        if !self.strict_errors.contains(&error) {
            self.strict_errors.push(error);
        }
    }

    /// A value (`string`, `number 1.5`) of another type than the one expected.
    fn mismatch(&mut self, found: &str, go_type: &str) {
        if self.type_error.is_none() {
            self.type_error = Some(self.mismatch_message(found, go_type));
        }
    }

    fn add_custom_error(&mut self, error: String) {
        self.custom_error.get_or_insert(error);
    }

    fn mismatch_message(&self, found: &str, go_type: &str) -> String {
        match &self.field_stack[..] {
            [] => format!("json: cannot unmarshal {found} into Go value of type {go_type}"),
            fields => format!(
                "json: cannot unmarshal {found} into Go struct field {}.{} of type {go_type}",
                self.struct_name,
                fields.join(".")
            ),
        }
    }
}

fn push_field(path: &mut String, field: &str) {
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(field);
}

// === impl TypeSeed ===

impl<'de> DeserializeSeed<'de> for TypeSeed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        match self.type_ {
            Type::Pointer(inner) => {
                TypeSeed { decoder: self.decoder, type_: inner }.deserialize(deserializer)
            }
            Type::Struct(_) | Type::List(_) | Type::Map(..) | Type::Interface => {
                deserializer.deserialize_any(ContainerVisitor(self))
            }
            Type::Any | Type::SchemaOrBool(_) | Type::SchemaOrArray(_) | Type::SchemaOrStrings(_) => {
                serde::Deserialize::deserialize(deserializer)
            }
            Type::Text(_)
            | Type::Int32
            | Type::Int64
            | Type::Float
            | Type::Bool
            | Type::Quantity
            | Type::ResourceQuantity
            | Type::Time
            | Type::MicroTime
            | Type::IntOrString
            | Type::Bytes => {
                // The text of numbers is part of messages.
                let text: &RawValue = serde::Deserialize::deserialize(deserializer)?;
                scalars::decode(self.decoder, self.type_, text.get()).map_err(D::Error::custom)
            }
        }
    }
}

// === impl ContainerVisitor ===

impl ContainerVisitor<'_> {
    /// A scalar where a container is expected; any value of an `interface{}` is right.
    fn scalar(self, found: &str, value: Value) -> Value {
        if *self.0.type_ != Type::Interface {
            self.0.decoder.mismatch(found, &self.0.type_.go_type());
        }
        value
    }
}

impl<'de> Visitor<'de> for ContainerVisitor<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(self.scalar("bool", value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(self.scalar("number", value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(self.scalar("number", value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(self.scalar("number", value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(self.scalar("string", value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let TypeSeed { decoder, type_ } = self.0;
        let entry_type = match type_ {
            Type::List(entry_type) => Some(&**entry_type),
            other => Some(other).filter(|other| **other == Type::Interface),
        };
        let Some(entry_type) = entry_type else {
            decoder.mismatch("array", &type_.go_type());
            while entries.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(Value::Null);
        };
        let mut decoded = Vec::new();
        loop {
            let index = decoded.len();
            let entry = decoder.within(
                |path| path.push_str(&format!("[{index}]")),
                |decoder| entries.next_element_seed(TypeSeed { decoder, type_: entry_type }),
            )?;
            match entry {
                Some(entry) => decoded.push(entry),
                None => return Ok(decoded.into()),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let TypeSeed { decoder, type_ } = self.0;
        if let Type::Struct(id) = type_ {
            return decode_struct(decoder, *id, fields);
        }
        if let Type::Map(_, value_type) = type_ {
            return decode_map(decoder, value_type, fields);
        }
        if *type_ == Type::Interface {
            return decode_map(decoder, type_, fields);
        }
        decoder.mismatch("object", &type_.go_type());
        while fields.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Null)
    }
}

fn decode_map<'de, A: MapAccess<'de>>(
    decoder: &mut Decoder,
    value_type: &Type,
    mut entries: A,
) -> Result<Value, A::Error> {
    let mut decoded = Map::new();
    while let Some(key) = entries.next_key::<String>()? {
        if decoded.contains_key(&key) {
            decoder.add_strict_error("duplicate field", &key);
        }
        let value = decoder.within(
            |path| push_field(path, &key),
            |decoder| entries.next_value_seed(TypeSeed { decoder, type_: value_type }),
        )?;
        decoded.insert(key, value);
    }
    Ok(decoded.into())
}

fn decode_struct<'de, A: MapAccess<'de>>(
    decoder: &mut Decoder,
    id: StructId,
    mut fields: A,
) -> Result<Value, A::Error> {
    let struct_type = schema::get(id);
    let mut decoded = Map::new();
    while let Some(key) = fields.next_key::<String>()? {
        let Some(field) = struct_type.field(&key) else {
            decoder.add_strict_error("unknown field", &key);
            fields.next_value::<IgnoredAny>()?;
            continue;
        };
        let earlier = decoded.remove(&key);
        if earlier.is_some() {
            decoder.add_strict_error("duplicate field", &key);
        }
        let (depth, outer) = (decoder.field_stack.len(), decoder.struct_name);
        decoder.field_stack.extend(field.embedded.iter().chain([&field.name]));
        decoder.struct_name = struct_type.go_name();
        let value = decoder.within(
            |path| push_field(path, &key),
            |decoder| fields.next_value_seed(TypeSeed { decoder, type_: &field.type_ }),
        )?;
        decoder.field_stack.truncate(depth);
        decoder.struct_name = outer;
        let value = match earlier {
            Some(earlier) => merge_duplicate(&field.type_, earlier, value),
            None => value,
        };
        decoded.insert(key, value);
    }
    Ok(decoded.into())
}

/// The value of a field that occurs twice: Go decodes the second occurrence into the value of the first.
fn merge_duplicate(type_: &Type, earlier: Value, later: Value) -> Value {
    let is_optional = matches!(type_, Type::Pointer(_) | Type::List(_) | Type::Map(..));
    match (type_.pointee(), earlier, later) {
        (_, earlier, Value::Null) if !is_optional => earlier,
        (Type::Struct(id), Value::Object(mut earlier), Value::Object(later)) => {
            for (key, value) in later {
                let field = schema::get(*id).field(&key);
                let value = match (earlier.remove(&key), field) {
                    (Some(old), Some(field)) => merge_duplicate(&field.type_, old, value),
                    _ => value,
                };
                earlier.insert(key, value);
            }
            earlier.into()
        }
        (Type::List(entry_type), Value::Array(earlier), Value::Array(later)) => {
            let mut earlier = earlier.into_iter();
            let merged = later.into_iter().map(|entry| match earlier.next() {
                Some(old) => merge_duplicate(entry_type, old, entry),
                None => entry,
            });
            merged.collect()
        }
        (Type::Map(..), Value::Object(mut earlier), Value::Object(later)) => {
            earlier.extend(later);
            earlier.into()
        }
        (_, _, later) => later,
    }
}
