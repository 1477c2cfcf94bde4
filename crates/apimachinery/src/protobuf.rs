//! Decoding of objects from the protobuf encoding of Kubernetes, which its own components write by default.
//!
//! The messages are the Go types of `schema`, with the field numbers of `schema::field_numbers`.

mod messages;
#[cfg(test)]
mod tests;
mod wire;

use jiff::Timestamp;
use kubernetes::go::base64;
use kubernetes::kinds;
use model::Kind;
use serde_json::{Map, Value, json};

use crate::schema::{self, StructId, Type};
use messages::{Message, MessageField, message};
use wire::{WireReader, WireValue};

/// The reason why an object cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtobufError {
    /// The document does not begin as every object does.
    #[error("provided data does not appear to be a protobuf message, expected prefix {:?}", MAGIC)]
    NoObject,
    /// The messages of this kind are not known.
    #[error("objects of the kind {kind} in version {api_version:?} cannot be decoded from protobuf")]
    UnknownKind {
        /// Its `apiVersion`.
        api_version: String,
        /// Its name.
        kind: String,
    },
    /// A field that version 1.36 of Kubernetes does not have.
    #[error("unknown field number {number} in {message}")]
    UnknownField {
        /// The message that contains it.
        message: &'static str,
        /// Its number.
        number: u32,
    },
    /// The bytes are no valid message.
    #[error("invalid protobuf message {message}: {why}")]
    Malformed {
        /// The message.
        message: &'static str,
        /// What is wrong with it.
        why: &'static str,
    },
}

/// The first bytes of every object.
const MAGIC: [u8; 4] = *b"k8s\0";
/// The nesting depth of messages that is accepted.
const MAX_DEPTH: usize = 100;

/// Decodes an object, with its `apiVersion` and `kind`. Fields without a value in Go, such as empty strings, may be there
/// or not.
pub fn decode_protobuf(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let envelope = bytes.strip_prefix(&MAGIC).ok_or(ProtobufError::NoObject)?;
    let Envelope { api_version, kind, raw } = Envelope::read(envelope)?;
    let Some(id) = struct_of(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut members = Map::new();
    decode_message(message(id), raw, 0, &mut members)?;
    members.insert("apiVersion".to_owned(), api_version.into());
    members.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(members))
}

/// The type of a kind in this version. Only the preferred version of each group is known, and those in which something
/// is only sent.
fn struct_of(api_version: &str, kind: &str) -> Option<StructId> {
    match (api_version, kind) {
        // Every group has it.
        (_, "DeleteOptions") => return schema::named("meta.DeleteOptions"),
        // Pods are evicted in both versions, and in this one by cluster-autoscaler. The messages are the same.
        ("policy/v1beta1", "Eviction") => return schema::named("policy.Eviction"),
        _ => {}
    }
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    let kind = Kind::of(api_version, kind);
    let preferred = kinds::of(&kind).and_then(|info| info.versions.first()).unwrap_or(&"v1");
    if *preferred == version { schema::type_of(&kind) } else { None }
}

/// The message around every object (`runtime.Unknown`).
struct Envelope<'a> {
    api_version: String,
    kind: String,
    raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    fn read(bytes: &'a [u8]) -> Result<Envelope<'a>, ProtobufError> {
        let name = "runtime.Unknown";
        let mut envelope = Envelope { api_version: String::new(), kind: String::new(), raw: &[] };
        let mut reader = WireReader::new(name, bytes);
        while let Some((number, value)) = reader.next()? {
            match number {
                1 => {
                    let mut type_meta = WireReader::new("runtime.TypeMeta", value.bytes(name)?);
                    while let Some((number, value)) = type_meta.next()? {
                        match number {
                            1 => envelope.api_version = value.text("runtime.TypeMeta")?.to_owned(),
                            2 => envelope.kind = value.text("runtime.TypeMeta")?.to_owned(),
                            number => {
                                return Err(ProtobufError::UnknownField {
                                    message: "runtime.TypeMeta",
                                    number,
                                });
                            }
                        }
                    }
                }
                2 => envelope.raw = value.bytes(name)?,
                // The encoding and the type of the content. Clients compress nothing here.
                3 | 4 if value.bytes(name)?.is_empty() => {}
                3 | 4 => {
                    return Err(ProtobufError::Malformed {
                        message: name,
                        why: "the content is encoded again",
                    });
                }
                number => return Err(ProtobufError::UnknownField { message: name, number }),
            }
        }
        Ok(envelope)
    }
}

/// Adds the fields of a message to those of its object.
fn decode_message(
    message: &'static Message,
    bytes: &[u8],
    depth: usize,
    members: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let name = message.name;
    if depth > MAX_DEPTH {
        return Err(ProtobufError::Malformed { message: name, why: "it is nested too deeply" });
    }
    let mut reader = WireReader::new(name, bytes);
    while let Some((number, value)) = reader.next()? {
        match message.fields.get(&number) {
            Some(MessageField::Field(field)) => {
                let slot = members.entry(field.name).or_insert(Value::Null);
                decode_field(name, &field.type_, value, depth, slot)?;
            }
            Some(MessageField::Embedded(inner)) => {
                decode_message(inner, value.bytes(name)?, depth + 1, members)?;
            }
            None => return Err(ProtobufError::UnknownField { message: name, number }),
        }
    }
    Ok(())
}

/// Adds one occurrence of a field: lists and maps have one for each entry, and messages are merged.
fn decode_field(
    message: &'static str,
    type_: &Type,
    value: WireValue<'_>,
    depth: usize,
    slot: &mut Value,
) -> Result<(), ProtobufError> {
    match type_ {
        Type::Pointer(inner) => decode_field(message, inner, value, depth, slot),
        Type::List(inner) => {
            let mut entry = Value::Null;
            decode_field(message, inner, value, depth, &mut entry)?;
            if slot.is_null() {
                *slot = json!([]);
            }
            slot.as_array_mut().expect("the slot of a list holds a list").push(entry);
            Ok(())
        }
        Type::Map(_, inner) => {
            let (key, entry) = decode_map_entry(message, inner, value.bytes(message)?, depth)?;
            object_in(slot).insert(key, entry);
            Ok(())
        }
        Type::Struct(id) => {
            decode_message(messages::message(*id), value.bytes(message)?, depth + 1, object_in(slot))
        }
        Type::SchemaOrBool(id) | Type::SchemaOrArray(id) | Type::SchemaOrStrings(id) => {
            *slot = decode_schema_or(type_, *id, value.bytes(message)?, depth + 1)?;
            Ok(())
        }
        Type::Text(_) => {
            *slot = value.text(message)?.into();
            Ok(())
        }
        // The sign is in the lower half.
        Type::Int32 => {
            *slot = (value.varint(message)? as i32).into();
            Ok(())
        }
        Type::Int64 => {
            *slot = (value.varint(message)? as i64).into();
            Ok(())
        }
        Type::Bool => {
            *slot = (value.varint(message)? != 0).into();
            Ok(())
        }
        Type::Float => {
            *slot = f64::from_bits(value.fixed64(message)?).into();
            Ok(())
        }
        Type::Bytes => {
            *slot = base64::encode(value.bytes(message)?).into();
            Ok(())
        }
        Type::Quantity | Type::ResourceQuantity => {
            let mut text = "0";
            for_each_field("resource.Quantity", value.bytes(message)?, |number, value| match number {
                1 => Some(value.text("resource.Quantity").map(|quantity| text = quantity)),
                _ => None,
            })?;
            *slot = text.into();
            Ok(())
        }
        Type::Time => {
            *slot = decode_time(value.bytes(message)?, "%Y-%m-%dT%H:%M:%SZ")?;
            Ok(())
        }
        Type::MicroTime => {
            *slot = decode_time(value.bytes(message)?, "%Y-%m-%dT%H:%M:%S.%6fZ")?;
            Ok(())
        }
        Type::IntOrString => {
            *slot = decode_int_or_string(value.bytes(message)?)?;
            Ok(())
        }
        Type::Any => {
            *slot = decode_raw_json(value.bytes(message)?)?;
            Ok(())
        }
        Type::Interface => {
            Err(ProtobufError::Malformed { message, why: "the field is not sent as protobuf" })
        }
    }
}

/// The object in a slot, which is made one if it is empty.
fn object_in(slot: &mut Value) -> &mut Map<String, Value> {
    if slot.is_null() {
        *slot = json!({});
    }
    slot.as_object_mut().expect("the slot of a message holds an object")
}

fn decode_map_entry(
    message: &'static str,
    type_: &Type,
    bytes: &[u8],
    depth: usize,
) -> Result<(String, Value), ProtobufError> {
    let (mut key, mut entry) = (String::new(), Value::Null);
    let mut reader = WireReader::new(message, bytes);
    while let Some((number, value)) = reader.next()? {
        match (number, type_) {
            (1, _) => key = value.text(message)?.to_owned(),
            // Protobuf has no maps of lists: each list is a message of its own.
            (2, Type::List(_)) => {
                for_each_field(message, value.bytes(message)?, |number, value| {
                    (number == 1).then(|| decode_field(message, type_, value, depth + 1, &mut entry))
                })?;
            }
            (2, _) => decode_field(message, type_, value, depth + 1, &mut entry)?,
            (number, _) => return Err(ProtobufError::UnknownField { message, number }),
        }
    }
    if entry.is_null() && !matches!(type_, Type::List(_)) {
        // Left out because it is empty.
        decode_field(message, type_, WireValue::Bytes(&[]), depth + 1, &mut entry)?;
    }
    Ok((key, entry))
}

fn decode_time(bytes: &[u8], layout: &str) -> Result<Value, ProtobufError> {
    let message = "meta.Time";
    let (mut seconds, mut nanos) = (0, 0);
    for_each_field(message, bytes, |number, value| match number {
        1 => Some(value.varint(message).map(|value| seconds = value as i64)),
        2 => Some(value.varint(message).map(|value| nanos = value as i32)),
        _ => None,
    })?;
    if (seconds, nanos) == (0, 0) {
        return Ok(Value::Null);
    }
    let time = Timestamp::new(seconds, nanos).ok().filter(|time| time.as_second() >= FIRST_SECOND);
    let time = time.ok_or(ProtobufError::Malformed { message, why: "the time is out of range" })?;
    Ok(time.strftime(layout).to_string().into())
}

/// The beginning of the year 0: Go writes no time before it.
const FIRST_SECOND: i64 = -62_167_219_200;

fn decode_int_or_string(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let message = "intstr.IntOrString";
    let (mut is_text, mut number, mut text) = (false, 0, "");
    for_each_field(message, bytes, |field, value| match field {
        1 => Some(value.varint(message).map(|kind| is_text = kind == 1)),
        2 => Some(value.varint(message).map(|value| number = value as i32)),
        3 => Some(value.text(message).map(|value| text = value)),
        _ => None,
    })?;
    Ok(if is_text { text.into() } else { number.into() })
}

/// JSON within protobuf: raw extensions, managed fields, default values of schemas.
fn decode_raw_json(bytes: &[u8]) -> Result<Value, ProtobufError> {
    let message = "runtime.RawExtension";
    let mut raw: &[u8] = b"";
    for_each_field(message, bytes, |number, value| match number {
        1 => Some(value.bytes(message).map(|value| raw = value)),
        _ => None,
    })?;
    if raw.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(raw).map_err(|_| ProtobufError::Malformed { message, why: "it holds no JSON" })
}

/// A schema or something else in its place.
fn decode_schema_or(type_: &Type, id: StructId, bytes: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    let message = "apiextensions.JSONSchemaProps";
    let schema = Type::Struct(id);
    let (mut is_allowed, mut single, mut list) = (false, Value::Null, Value::Null);
    for_each_field(message, bytes, |number, value| match (type_, number) {
        (Type::SchemaOrBool(_), 1) => Some(value.varint(message).map(|value| is_allowed = value != 0)),
        (Type::SchemaOrBool(_), 2) | (_, 1) => {
            Some(decode_field(message, &schema, value, depth, &mut single))
        }
        (Type::SchemaOrStrings(_), 2) => {
            let strings = Type::List(Box::new(Type::Text("string")));
            Some(decode_field(message, &strings, value, depth, &mut list))
        }
        (_, 2) => Some(decode_field(message, &Type::List(Box::new(schema.clone())), value, depth, &mut list)),
        _ => None,
    })?;
    Ok(match type_ {
        Type::SchemaOrBool(_) if single.is_null() => is_allowed.into(),
        _ if list.is_null() => single,
        _ => list,
    })
}

/// Calls `each` with every field of a small message. It returns `None` for an unknown field.
fn for_each_field<'a>(
    message: &'static str,
    bytes: &'a [u8],
    mut each: impl FnMut(u32, WireValue<'a>) -> Option<Result<(), ProtobufError>>,
) -> Result<(), ProtobufError> {
    let mut reader = WireReader::new(message, bytes);
    while let Some((number, value)) = reader.next()? {
        each(number, value).ok_or(ProtobufError::UnknownField { message, number })??;
    }
    Ok(())
}
