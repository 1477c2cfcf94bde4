//! Access to the fields of an object by path. A value of the wrong type is an error that names object and field.

use std::sync::Arc;

use kubernetes::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

/// An unreadable object: which field, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {why}")]
pub(crate) struct UnreadableObject {
    /// `PersistentVolume disk-1`, `PersistentVolumeClaim shop/data`.
    pub(crate) object: String,
    /// `spec.capacity.storage`.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) why: String,
}

/// An object, or the error if it is unreadable.
pub(crate) type ReadResult<T> = Result<Arc<T>, Arc<UnreadableObject>>;

/// An object or a part of it, with its name for errors.
#[derive(Clone)]
pub(super) struct ObjectFields<'v> {
    value: &'v Value,
    object: &'v str,
    /// The path of the part in the object; empty, or ends with a dot.
    path_prefix: String,
}

// === impl ObjectFields ===

impl<'v> ObjectFields<'v> {
    pub(super) fn of(value: &'v Value, object: &'v str) -> ObjectFields<'v> {
        ObjectFields { value, object, path_prefix: String::new() }
    }

    /// The value at a path; `None` if it is absent or null.
    pub(super) fn get(&self, path: &str) -> Result<Option<&'v Value>, UnreadableObject> {
        let mut value = self.value;
        let mut walked = 0;
        for name in path.split('.') {
            match value {
                Value::Object(fields) => match fields.get(name) {
                    Some(next) => value = next,
                    None => return Ok(None),
                },
                Value::Null => return Ok(None),
                other => {
                    return Err(self.type_error(path[..walked].trim_end_matches('.'), other, "an object"));
                }
            }
            walked += name.len() + 1;
        }
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    pub(super) fn text(&self, path: &str) -> Result<Option<&'v str>, UnreadableObject> {
        self.scalar(path, "a string", Value::as_str)
    }

    /// A string, empty if absent.
    pub(super) fn shared_text(&self, path: &str) -> Result<Arc<str>, UnreadableObject> {
        Ok(self.text(path)?.unwrap_or_default().into())
    }

    pub(super) fn flag(&self, path: &str) -> Result<bool, UnreadableObject> {
        Ok(self.scalar(path, "true or false", Value::as_bool)?.unwrap_or_default())
    }

    pub(super) fn number(&self, path: &str) -> Result<Option<i32>, UnreadableObject> {
        self.scalar(path, "a 32-bit integer", |value| i32::try_from(value.as_i64()?).ok())
    }

    pub(super) fn quantity(&self, path: &str) -> Result<Option<Quantity>, UnreadableObject> {
        self.parsed(path)
    }

    /// A value deserialized by serde.
    pub(super) fn parsed<T: Deserialize<'v>>(&self, path: &str) -> Result<Option<T>, UnreadableObject> {
        let Some(value) = self.get(path)? else { return Ok(None) };
        T::deserialize(value).map(Some).map_err(|error| self.error(path, error.to_string()))
    }

    /// A list of strings.
    pub(super) fn texts(&self, path: &str) -> Result<Vec<Arc<str>>, UnreadableObject> {
        Ok(self.parsed::<Vec<Arc<str>>>(path)?.unwrap_or_default())
    }

    /// The value of an annotation, whose name may have dots.
    pub(super) fn annotation(&self, name: &str) -> Result<Option<&'v str>, UnreadableObject> {
        match self.get("metadata.annotations")? {
            None => Ok(None),
            Some(Value::Object(annotations)) => match annotations.get(name) {
                None => Ok(None),
                Some(Value::Null) => Ok(Some("")),
                Some(Value::String(text)) => Ok(Some(text)),
                Some(other) => {
                    Err(self.type_error(&format!("metadata.annotations[{name}]"), other, "a string"))
                }
            },
            Some(other) => Err(self.type_error("metadata.annotations", other, "an object")),
        }
    }

    /// The elements of a list of objects.
    pub(super) fn list(&self, path: &str) -> Result<Vec<ObjectFields<'v>>, UnreadableObject> {
        match self.get(path)? {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let item_prefix = |index| format!("{}{path}[{index}].", self.path_prefix);
                let item = |(index, value)| ObjectFields {
                    value,
                    object: self.object,
                    path_prefix: item_prefix(index),
                };
                Ok(items.iter().enumerate().map(item).collect())
            }
            Some(other) => Err(self.type_error(path, other, "a list")),
        }
    }

    /// The object at a path, if it is present.
    pub(super) fn object(&self, path: &str) -> Result<Option<ObjectFields<'v>>, UnreadableObject> {
        match self.get(path)? {
            None => Ok(None),
            Some(value @ Value::Object(_)) => Ok(Some(ObjectFields {
                value,
                object: self.object,
                path_prefix: format!("{}{path}.", self.path_prefix),
            })),
            Some(other) => Err(self.type_error(path, other, "an object")),
        }
    }

    pub(super) fn error(&self, path: &str, why: String) -> UnreadableObject {
        let field = format!("{}{path}", self.path_prefix);
        UnreadableObject {
            object: self.object.to_owned(),
            field: field.trim_end_matches('.').to_owned(),
            why,
        }
    }

    fn scalar<T>(
        &self,
        path: &str,
        expected: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Result<Option<T>, UnreadableObject> {
        let Some(value) = self.get(path)? else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.type_error(path, value, expected))
    }

    fn type_error(&self, path: &str, found: &Value, expected: &str) -> UnreadableObject {
        let found: String = found.to_string().chars().take(80).collect();
        self.error(path, format!("{found} is not {expected}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check<T: std::fmt::Debug>(found: Result<T, UnreadableObject>, expected: &str) {
        assert_eq!(found.unwrap_err().to_string(), expected);
    }

    #[test]
    fn an_error_names_object_and_field() {
        let value = json!({"spec": {"size": "1x", "list": [{"n": 1}, {"n": 3e9}], "modes": ["a", 2]},
            "metadata": {"annotations": {"a.b/c": 7}}});
        let fields = ObjectFields::of(&value, "Thing a/b");
        let list = fields.list("spec.list").unwrap();
        assert_eq!(list[0].number("n"), Ok(Some(1)));
        check(list[1].number("n"), "Thing a/b: spec.list[1].n: 3000000000.0 is not a 32-bit integer");
        check(fields.text("spec.size.unit"), "Thing a/b: spec.size: \"1x\" is not an object");
        check(
            fields.texts("spec.modes"),
            "Thing a/b: spec.modes: invalid type: integer `2`, expected a string",
        );
        check(fields.annotation("a.b/c"), "Thing a/b: metadata.annotations[a.b/c]: 7 is not a string");
        let error = fields.quantity("spec.size").unwrap_err().to_string();
        assert!(error.starts_with("Thing a/b: spec.size: invalid quantity \"1x\""), "{error}");
    }

    #[test]
    fn absent_and_null_fields_read_as_none() {
        let value = json!({"spec": null, "status": {"phase": null}});
        let fields = ObjectFields::of(&value, "Thing");
        assert_eq!(fields.text("spec.a.b"), Ok(None));
        assert_eq!(fields.text("status.phase"), Ok(None));
        assert_eq!(fields.flag("metadata.x"), Ok(false));
    }
}
