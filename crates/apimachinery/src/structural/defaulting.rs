//! Defaults of custom resources, by their schema.

use serde_json::Value;

use super::{AdditionalProperties, Structural};

/// The error for an object that its defaults would make larger than any that is stored.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the defaults of the schema make the object larger than {MAX_ADDED_BYTES} bytes")]
pub struct TooManyDefaults;

/// The most bytes that defaults add to an object.
const MAX_ADDED_BYTES: usize = 16 << 20;

// === impl Structural ===

impl Structural {
    /// Sets the fields that are missing, or null where they may not be, to their defaults.
    pub fn set_defaults(&self, value: &mut Value) -> Result<(), TooManyDefaults> {
        self.add_defaults(value, &mut 0)
    }

    fn add_defaults(&self, value: &mut Value, added: &mut usize) -> Result<(), TooManyDefaults> {
        match value {
            Value::Object(fields) => {
                for (name, schema) in &self.properties {
                    let Some(default) = &schema.default else { continue };
                    let value = fields.get(name);
                    if value.is_none_or(|value| value.is_null() && !schema.nullable) {
                        fields.insert(name.clone(), counted(default, added)?);
                    }
                }
                for (name, value) in fields {
                    let schema = match (self.property(name), &self.additional_properties) {
                        (Some(schema), _) => schema,
                        (None, Some(AdditionalProperties::Schema(schema))) => {
                            schema.replace_null(value, added)?;
                            schema
                        }
                        (None, Some(AdditionalProperties::Allowed(_)) | None) => continue,
                    };
                    schema.add_defaults(value, added)?;
                }
            }
            Value::Array(items) => {
                let Some(schema) = &self.items else { return Ok(()) };
                for item in items {
                    schema.replace_null(item, added)?;
                    schema.add_defaults(item, added)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    /// Replaces a null that may not be one by the default.
    fn replace_null(&self, value: &mut Value, added: &mut usize) -> Result<(), TooManyDefaults> {
        if let Some(default) = self.default.as_ref().filter(|_| value.is_null() && !self.nullable) {
            *value = counted(default, added)?;
        }
        Ok(())
    }
}

/// A copy of a default, if it is not too much.
fn counted(default: &Value, added: &mut usize) -> Result<Value, TooManyDefaults> {
    *added += size_of(default);
    if *added > MAX_ADDED_BYTES { Err(TooManyDefaults) } else { Ok(default.clone()) }
}

/// About the number of bytes of a value as JSON.
fn size_of(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(size_of).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + size_of(value)).sum::<usize>()
        }
    }
}
