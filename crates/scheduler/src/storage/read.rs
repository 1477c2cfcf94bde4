//! Fields of an object by their path. What is not of the type that Kubernetes wants is an error that names object and
//! field.

use std::sync::Arc;

use kubernetes::quantity::Quantity;
use serde::Deserialize;
use serde_json::Value;

/// Why an object cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{object}: {field}: {why}")]
pub(crate) struct Unreadable {
    /// `PersistentVolume disk-1`, `PersistentVolumeClaim shop/data`.
    pub(crate) object: String,
    /// `spec.capacity.storage`.
    pub(crate) field: String,
    /// What is wrong with it.
    pub(crate) why: String,
}

/// What is known of an object: what it says, or why that cannot be understood.
pub(crate) type Known<T> = Result<Arc<T>, Arc<Unreadable>>;

/// An object or a part of it, and what it is called.
#[derive(Clone)]
pub(super) struct Fields<'v> {
    value: &'v Value,
    object: &'v str,
    /// Where it is in the object; empty, or ends with a dot.
    place: String,
}

// === impl Fields ===

impl<'v> Fields<'v> {
    pub(super) fn of(value: &'v Value, object: &'v str) -> Fields<'v> {
        Fields { value, object, place: String::new() }
    }

    /// What is there; `None` if nothing is, or null.
    pub(super) fn find(&self, path: &str) -> Result<Option<&'v Value>, Unreadable> {
        let mut value = self.value;
        let mut walked = 0;
        for name in path.split('.') {
            match value {
                Value::Object(fields) => match fields.get(name) {
                    Some(next) => value = next,
                    None => return Ok(None),
                },
                Value::Null => return Ok(None),
                other => return Err(self.wrong(path[..walked].trim_end_matches('.'), other, "an object")),
            }
            walked += name.len() + 1;
        }
        Ok(Some(value).filter(|value| !value.is_null()))
    }

    pub(super) fn text(&self, path: &str) -> Result<Option<&'v str>, Unreadable> {
        self.scalar(path, "a string", Value::as_str)
    }

    /// The text, empty where there is none, to keep.
    pub(super) fn shared(&self, path: &str) -> Result<Arc<str>, Unreadable> {
        Ok(self.text(path)?.unwrap_or_default().into())
    }

    pub(super) fn flag(&self, path: &str) -> Result<bool, Unreadable> {
        Ok(self.scalar(path, "true or false", Value::as_bool)?.unwrap_or_default())
    }

    pub(super) fn number(&self, path: &str) -> Result<Option<i32>, Unreadable> {
        self.scalar(path, "a 32-bit integer", |value| i32::try_from(value.as_i64()?).ok())
    }

    pub(super) fn quantity(&self, path: &str) -> Result<Option<Quantity>, Unreadable> {
        self.parsed(path)
    }

    /// Something with a reader of its own.
    pub(super) fn parsed<T: Deserialize<'v>>(&self, path: &str) -> Result<Option<T>, Unreadable> {
        let Some(value) = self.find(path)? else { return Ok(None) };
        T::deserialize(value).map(Some).map_err(|error| self.bad(path, error.to_string()))
    }

    /// Texts in a list.
    pub(super) fn texts(&self, path: &str) -> Result<Vec<Arc<str>>, Unreadable> {
        Ok(self.parsed::<Vec<Arc<str>>>(path)?.unwrap_or_default())
    }

    /// The value of an annotation, whose name may have dots.
    pub(super) fn annotation(&self, name: &str) -> Result<Option<&'v str>, Unreadable> {
        match self.find("metadata.annotations")? {
            None => Ok(None),
            Some(Value::Object(annotations)) => match annotations.get(name) {
                None => Ok(None),
                Some(Value::Null) => Ok(Some("")),
                Some(Value::String(text)) => Ok(Some(text)),
                Some(other) => Err(self.wrong(&format!("metadata.annotations[{name}]"), other, "a string")),
            },
            Some(other) => Err(self.wrong("metadata.annotations", other, "an object")),
        }
    }

    /// What is in a list, each as fields of its own.
    pub(super) fn list(&self, path: &str) -> Result<Vec<Fields<'v>>, Unreadable> {
        match self.find(path)? {
            None => Ok(Vec::new()),
            Some(Value::Array(items)) => {
                let place = |index| format!("{}{path}[{index}].", self.place);
                let item = |(index, value)| Fields { value, object: self.object, place: place(index) };
                Ok(items.iter().enumerate().map(item).collect())
            }
            Some(other) => Err(self.wrong(path, other, "a list")),
        }
    }

    /// What is below a field, if it is there.
    pub(super) fn part(&self, path: &str) -> Result<Option<Fields<'v>>, Unreadable> {
        match self.find(path)? {
            None => Ok(None),
            Some(value @ Value::Object(_)) => {
                Ok(Some(Fields { value, object: self.object, place: format!("{}{path}.", self.place) }))
            }
            Some(other) => Err(self.wrong(path, other, "an object")),
        }
    }

    pub(super) fn bad(&self, path: &str, why: String) -> Unreadable {
        let field = format!("{}{path}", self.place);
        Unreadable { object: self.object.to_owned(), field: field.trim_end_matches('.').to_owned(), why }
    }

    fn scalar<T>(
        &self,
        path: &str,
        wanted: &str,
        read: impl Fn(&'v Value) -> Option<T>,
    ) -> Result<Option<T>, Unreadable> {
        let Some(value) = self.find(path)? else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(path, value, wanted))
    }

    fn wrong(&self, path: &str, found: &Value, wanted: &str) -> Unreadable {
        let found: String = found.to_string().chars().take(80).collect();
        self.bad(path, format!("{found} is not {wanted}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check<T: std::fmt::Debug>(found: Result<T, Unreadable>, expected: &str) {
        assert_eq!(found.unwrap_err().to_string(), expected);
    }

    #[test]
    fn an_error_names_object_and_field() {
        let value = json!({"spec": {"size": "1x", "list": [{"n": 1}, {"n": 3e9}], "modes": ["a", 2]},
            "metadata": {"annotations": {"a.b/c": 7}}});
        let fields = Fields::of(&value, "Thing a/b");
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
        assert!(error.starts_with("Thing a/b: spec.size: \"1x\" is not a quantity"), "{error}");
    }

    #[test]
    fn what_is_absent_or_null_is_nothing() {
        let value = json!({"spec": null, "status": {"phase": null}});
        let fields = Fields::of(&value, "Thing");
        assert_eq!(fields.text("spec.a.b"), Ok(None));
        assert_eq!(fields.text("status.phase"), Ok(None));
        assert_eq!(fields.flag("metadata.x"), Ok(false));
    }
}
