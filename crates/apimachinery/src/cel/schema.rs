//! Schemas of JSON values, as expressions see them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::escaping::escape;
use super::types::{CelType, ObjectType};

/// The schema of a value, as far as expressions are concerned.
#[derive(Debug)]
pub struct CelSchema {
    /// The form of the values.
    pub form: SchemaForm,
    /// Whether the value may be null.
    pub nullable: bool,
}

/// What an expression is about: `self`, and `oldSelf` of the same type.
#[derive(Clone, Debug)]
pub struct CelScope {
    pub(super) self_type: CelType,
    /// Whether `oldSelf` is optional.
    pub(super) is_old_optional: bool,
}

/// The form of values.
#[derive(Debug)]
pub enum SchemaForm {
    /// An object with named fields, each by its own name.
    Object(BTreeMap<String, Arc<CelSchema>>),
    /// An object with values of one schema.
    Map(Arc<CelSchema>),
    /// A list.
    List(Arc<CelSchema>, ListForm),
    /// An integer or a text.
    IntOrString,
    /// A text.
    String,
    /// A text that is a duration.
    Duration,
    /// A text that is a date.
    Date,
    /// A text that is a moment.
    DateTime,
    /// A text that is base64.
    Bytes,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// True or false.
    Boolean,
    /// Any value, which expressions cannot reach, or only compare.
    Unknown,
}

/// What makes two lists equal.
#[derive(Debug)]
pub enum ListForm {
    /// Equal items in the same order.
    Atomic,
    /// Equal items.
    Set,
    /// Equal items by these keys.
    Map(Vec<String>),
}

// === impl CelSchema ===

impl CelSchema {
    /// The type of the values; `None` if expressions cannot reach them.
    ///
    /// Objects are named by where they are, which messages show.
    pub(super) fn to_type(&self, name: &str) -> Option<CelType> {
        Some(match &self.form {
            SchemaForm::Object(fields) => {
                let fields = fields.iter().filter_map(|(field, schema)| {
                    let field = escape(field)?;
                    let field_type = schema.to_type(&format!("{name}.{field}"))?;
                    Some((field, field_type))
                });
                CelType::Object(Arc::new(ObjectType { name: name.to_owned(), fields: fields.collect() }))
            }
            SchemaForm::Map(values) => {
                CelType::map(CelType::String, values.to_type(&format!("{name}.@elem"))?)
            }
            SchemaForm::List(items, _) => CelType::list(items.to_type(&format!("{name}.@idx"))?),
            SchemaForm::IntOrString => CelType::Dyn,
            SchemaForm::String => CelType::String,
            SchemaForm::Duration => CelType::Duration,
            SchemaForm::Date | SchemaForm::DateTime => CelType::Timestamp,
            SchemaForm::Bytes => CelType::Bytes,
            SchemaForm::Integer => CelType::Int,
            SchemaForm::Number => CelType::Double,
            SchemaForm::Boolean => CelType::Bool,
            SchemaForm::Unknown => return None,
        })
    }
}

// === impl CelScope ===

impl CelScope {
    /// The scope of the rules of a value; `None` if expressions cannot reach it.
    pub fn new(schema: &CelSchema, is_old_optional: bool) -> Option<CelScope> {
        Some(CelScope { self_type: schema.to_type("selfType")?, is_old_optional })
    }
}
