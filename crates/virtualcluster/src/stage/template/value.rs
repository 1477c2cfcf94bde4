//! Values in templates, with the truth, the equality and the text that Go gives them.

use std::borrow::Cow;

use serde_json::Value;

use super::TemplateError;

/// A value in a template.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TemplateValue<'v> {
    /// Nothing, or a field that does not exist.
    Nil,
    Json(Cow<'v, Value>),
    /// A number that the template computed; those of objects are texts to Go's templates.
    Integer(i64),
}

impl<'v> TemplateValue<'v> {
    pub(super) fn of(value: &'v Value) -> TemplateValue<'v> {
        if value.is_null() { TemplateValue::Nil } else { TemplateValue::Json(Cow::Borrowed(value)) }
    }

    pub(crate) fn owned(value: impl Into<Value>) -> TemplateValue<'static> {
        match value.into() {
            Value::Null => TemplateValue::Nil,
            value => TemplateValue::Json(Cow::Owned(value)),
        }
    }

    /// What `if`, `with`, `or` and `not` go by.
    pub(super) fn is_true(&self) -> bool {
        match self {
            TemplateValue::Nil => false,
            TemplateValue::Integer(number) => *number != 0,
            TemplateValue::Json(value) => match &**value {
                Value::Null => false,
                Value::Bool(is_true) => *is_true,
                Value::Number(_) => true,
                Value::String(text) => !text.is_empty(),
                Value::Array(items) => !items.is_empty(),
                Value::Object(fields) => !fields.is_empty(),
            },
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        match self {
            TemplateValue::Json(value) => value.as_str(),
            TemplateValue::Nil | TemplateValue::Integer(_) => None,
        }
    }

    /// The value as JSON.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            TemplateValue::Nil => Value::Null,
            TemplateValue::Json(value) => value.clone().into_owned(),
            TemplateValue::Integer(number) => (*number).into(),
        }
    }

    /// A field; nothing has only fields that do not exist.
    pub(super) fn field(&self, name: &str) -> Result<TemplateValue<'v>, TemplateError> {
        let fields = match self {
            TemplateValue::Nil => return Ok(TemplateValue::Nil),
            TemplateValue::Json(Cow::Borrowed(Value::Object(fields))) => {
                return Ok(fields.get(name).map_or(TemplateValue::Nil, TemplateValue::of));
            }
            TemplateValue::Json(Cow::Owned(Value::Object(fields))) => fields,
            TemplateValue::Json(_) | TemplateValue::Integer(_) => {
                return Err(TemplateError(format!("cannot evaluate field {name} of {}", self.describe())));
            }
        };
        Ok(fields.get(name).cloned().map_or(TemplateValue::Nil, TemplateValue::owned))
    }

    /// An element, as of the function `index`.
    pub(super) fn element(&self, index: &TemplateValue<'_>) -> Result<TemplateValue<'v>, TemplateError> {
        let TemplateValue::Json(container) = self else {
            return Err(TemplateError(format!("cannot index {}", self.describe())));
        };
        match (&**container, index) {
            (Value::Object(_), index) if index.as_text().is_some() => {
                self.field(index.as_text().unwrap_or_default())
            }
            (Value::Array(items), TemplateValue::Integer(number)) => {
                let position = usize::try_from(*number).ok().filter(|position| *position < items.len());
                let position = position.ok_or_else(|| {
                    TemplateError(format!("index {number} is out of range: there are {} items", items.len()))
                })?;
                Ok(match container {
                    Cow::Borrowed(Value::Array(items)) => TemplateValue::of(&items[position]),
                    Cow::Borrowed(_) | Cow::Owned(_) => TemplateValue::owned(items[position].clone()),
                })
            }
            _ => Err(TemplateError(format!("cannot index {} with {}", self.describe(), index.describe()))),
        }
    }

    /// Whether two values are equal, as of the function `eq`. Values of different types cannot be compared.
    pub(super) fn is_equal(&self, other: &TemplateValue<'_>) -> Result<bool, TemplateError> {
        match (self, other) {
            (TemplateValue::Nil, other) | (other, TemplateValue::Nil) => {
                Ok(matches!((self, other), (TemplateValue::Nil, TemplateValue::Nil)))
            }
            (TemplateValue::Integer(one), TemplateValue::Integer(other)) => Ok(one == other),
            (TemplateValue::Json(one), TemplateValue::Json(other)) => match (&**one, &**other) {
                (Value::Bool(one), Value::Bool(other)) => Ok(one == other),
                (Value::String(one), Value::String(other)) => Ok(one == other),
                (Value::Number(one), Value::Number(other)) => Ok(one == other),
                (Value::Number(number), Value::String(text))
                | (Value::String(text), Value::Number(number)) => Ok(number.to_string() == *text),
                _ => Err(self.incomparable(&TemplateValue::of(other))),
            },
            _ => Err(self.incomparable(other)),
        }
    }

    fn incomparable(&self, other: &TemplateValue<'_>) -> TemplateError {
        TemplateError(format!("cannot compare {} with {}", self.describe(), other.describe()))
    }

    /// The text that an action prints.
    pub(super) fn text(&self) -> Result<String, TemplateError> {
        match self {
            TemplateValue::Nil => Ok("<no value>".to_owned()),
            TemplateValue::Integer(number) => Ok(number.to_string()),
            TemplateValue::Json(value) => match &**value {
                Value::String(text) => Ok(text.clone()),
                Value::Array(_) | Value::Object(_) => {
                    Err(TemplateError(format!("cannot print {}: use YAML", self.describe())))
                }
                other => Ok(other.to_string()),
            },
        }
    }

    pub(super) fn describe(&self) -> &'static str {
        match self {
            TemplateValue::Nil => "nothing",
            TemplateValue::Integer(_) => "a number",
            TemplateValue::Json(value) => match &**value {
                Value::Null => "nothing",
                Value::Bool(_) => "a boolean",
                Value::Number(_) => "a number",
                Value::String(_) => "a text",
                Value::Array(_) => "a list",
                Value::Object(_) => "a map",
            },
        }
    }
}
