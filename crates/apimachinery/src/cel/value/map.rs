//! Maps and objects: fields of JSON, which are read when they are used, or entries of an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::{Failure, Outcome, Text, Value};
use crate::cel::escaping::{escape, unescape};
use crate::cel::schema::{CelSchema, SchemaForm};

/// A map, or an object.
#[derive(Clone, Debug)]
pub(in crate::cel) enum Map<'v> {
    /// An object with the schema of all of it.
    Json(&'v JsonMap<String, Json>, &'v CelSchema),
    Owned(Arc<BTreeMap<Key, Value<'v>>>),
}

/// The key of a map. Numbers that are equal are equal keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::cel) enum Key {
    Bool(bool),
    Number(i128),
    String(Arc<str>),
}

// === impl Map ===

impl<'v> Map<'v> {
    pub(in crate::cel) fn new(entries: BTreeMap<Key, Value<'v>>) -> Map<'v> {
        Map::Owned(Arc::new(entries))
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self, Map::Json(..))
    }

    pub(in crate::cel) fn len(&self) -> usize {
        match self {
            Map::Json(fields, _) => fields.len(),
            Map::Owned(entries) => entries.len(),
        }
    }

    /// The value of a key; `None` if there is none. Fields that are null count as absent.
    pub(in crate::cel) fn find(&self, key: &Value<'v>) -> Outcome<Option<Value<'v>>> {
        match (self, key) {
            (Map::Json(..), Value::String(name)) => self.field(name),
            (Map::Json(..), _) => Err(Failure::no_such_overload()),
            (Map::Owned(entries), key) => Ok(key.to_key().and_then(|key| entries.get(&key).cloned())),
        }
    }

    /// The value of a field, by its identifier.
    pub(in crate::cel) fn field(&self, identifier: &str) -> Outcome<Option<Value<'v>>> {
        match self {
            Map::Json(fields, schema) => match &schema.form {
                SchemaForm::Object(properties) => {
                    let Some(name) = unescape(identifier) else { return Ok(None) };
                    match (fields.get(&name), properties.get(&name)) {
                        (Some(value), Some(schema)) if !value.is_null() => {
                            Value::read(value, schema).map(Some)
                        }
                        _ => Ok(None),
                    }
                }
                SchemaForm::Map(values) => {
                    fields.get(identifier).map(|value| Value::read(value, values)).transpose()
                }
                _ => Ok(None),
            },
            Map::Owned(entries) => Ok(entries.get(&Key::String(Arc::from(identifier))).cloned()),
        }
    }

    pub(in crate::cel) fn keys(&self) -> Vec<Value<'v>> {
        match self {
            Map::Json(fields, schema) => match &schema.form {
                SchemaForm::Object(properties) => {
                    let names = fields.keys().filter(|name| properties.contains_key(*name));
                    names.map(|name| Value::string(escape(name).unwrap_or_else(|| name.clone()))).collect()
                }
                _ => fields.keys().map(|name| Value::from(name.as_str())).collect(),
            },
            Map::Owned(entries) => entries.keys().map(Key::to_value).collect(),
        }
    }

    /// Adds an entry, in place if nothing else refers to the map. Returns whether there was none.
    pub(in crate::cel) fn insert(&mut self, key: Key, value: Value<'v>) -> bool {
        if let Map::Owned(entries) = self {
            return Arc::make_mut(entries).insert(key, value).is_none();
        }
        false
    }

    pub(super) fn equals(&self, other: &Map<'v>) -> Outcome<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        if let (Map::Json(fields, schema), Map::Json(other_fields, _)) = (self, other)
            && let SchemaForm::Object(properties) = &schema.form
        {
            for (name, value) in *fields {
                match properties.get(name) {
                    Some(schema) => {
                        let present = |value: &&'v Json| !value.is_null();
                        let found = Some(value).filter(present);
                        match (found, other_fields.get(name).filter(present)) {
                            (Some(one), Some(other)) => {
                                if !Value::read(one, schema)?.equals(&Value::read(other, schema)?)? {
                                    return Ok(false);
                                }
                            }
                            (None, None) => {}
                            _ => return Ok(false),
                        }
                    }
                    // An unknown field that the other lacks is ignored.
                    None if other_fields.get(name).is_some_and(|other| other != value) => return Ok(false),
                    None => {}
                }
            }
            return Ok(true);
        }
        for key in self.keys() {
            match (self.find(&key)?, other.find(&key)?) {
                (Some(one), Some(other)) if one.equals(&other)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

// === impl Key ===

impl Key {
    pub(in crate::cel) fn to_value<'v>(&self) -> Value<'v> {
        match self {
            Key::Bool(boolean) => Value::Bool(*boolean),
            Key::Number(number) => match i64::try_from(*number) {
                Ok(number) => Value::Int(number),
                Err(_) => Value::Uint(u64::try_from(*number).unwrap_or_default()),
            },
            Key::String(text) => Value::String(Text::Shared(text.clone())),
        }
    }
}
