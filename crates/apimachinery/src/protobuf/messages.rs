//! The protobuf messages of the struct types: which number each field has.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::schema::{self, SchemaField, StructId, StructType, field_numbers};

/// A message.
pub(super) struct Message {
    /// Its name in the table of types: `core.PodSpec`.
    pub(super) name: &'static str,
    pub(super) fields: FxHashMap<u32, MessageField>,
}

/// A field of a message.
pub(super) enum MessageField {
    /// One of its struct.
    Field(&'static SchemaField),
    /// A struct that is embedded in JSON, and a message in protobuf.
    Embedded(Message),
}

/// The message of a struct type.
pub(super) fn message(id: StructId) -> &'static Message {
    static MESSAGES: LazyLock<Vec<Message>> = LazyLock::new(|| {
        schema::all().iter().map(|type_| message_of(type_, type_.name, &mut Vec::new())).collect()
    });
    &MESSAGES[id.index()]
}

/// The message of a type, or of a struct that is embedded in it at this path.
fn message_of(type_: &'static StructType, name: &'static str, path: &mut Vec<&'static str>) -> Message {
    let (group, _) = name.split_once('.').unwrap_or((name, ""));
    let mut message = Message { name, fields: FxHashMap::default() };
    for (field_name, number) in field_numbers::of(name) {
        let in_struct = type_.fields.iter().find(|field| field.name == field_name && field.embedded == *path);
        let embedded = field_numbers::name_of(group, field_name);
        let field = match (in_struct, embedded) {
            (Some(field), _) => MessageField::Field(field),
            (None, Some(embedded)) => {
                path.push(field_name);
                let inner = message_of(type_, embedded, path);
                path.pop();
                MessageField::Embedded(inner)
            }
            (None, None) => continue,
        };
        message.fields.insert(number, field);
    }
    message
}
