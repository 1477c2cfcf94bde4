//! The fields of a JSON object and its path in the report.

use std::borrow::Cow;
use std::collections::BTreeMap;

use model::Moment;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{Error, Result};

/// The fields of one object. `null` counts as missing: Go prints it for empty fields.
pub(super) struct ReportFields<'a> {
    file: &'a str,
    pub(super) path: String,
    fields: BTreeMap<Cow<'a, str>, &'a RawValue>,
}

// === impl ReportFields ===

impl<'a> ReportFields<'a> {
    pub(super) fn parse(file: &'a str, path: &str, text: &'a str) -> Result<ReportFields<'a>> {
        match serde_json::from_str(text) {
            Ok(fields) => Ok(ReportFields { file, path: path.to_owned(), fields }),
            Err(error) if path.is_empty() => Err(Error::invalid_file(file, format!("not a report: {error}"))),
            Err(error) => Err(Error::invalid_at(file, path, error.to_string())),
        }
    }

    pub(super) fn has(&self, field: &str) -> bool {
        self.raw(field).is_some()
    }

    /// A value of the given type; `None` if it is missing.
    pub(super) fn get<T: Deserialize<'a>>(&self, field: &str) -> Result<Option<T>> {
        let read = |raw: &'a RawValue| serde_json::from_str(raw.get());
        self.raw(field).map(read).transpose().map_err(|error| self.field_error(field, error.to_string()))
    }

    /// A text; empty if it is missing.
    pub(super) fn text(&self, field: &str) -> Result<String> {
        Ok(self.get(field)?.unwrap_or_default())
    }

    /// An integer; zero if it is missing.
    pub(super) fn number(&self, field: &str) -> Result<i64> {
        Ok(self.get(field)?.unwrap_or_default())
    }

    /// An IntOrString as a text; empty if it is missing.
    pub(super) fn int_or_string_text(&self, field: &str) -> Result<String> {
        match self.get(field)? {
            None => Ok(String::new()),
            Some(Value::String(text)) => Ok(text),
            Some(Value::Number(number)) if number.is_i64() => Ok(number.to_string()),
            Some(_) => Err(self.field_error(field, "neither an integer nor a string")),
        }
    }

    /// A time; `None` if it is missing or Go's zero time.
    pub(super) fn time(&self, field: &str) -> Result<Option<Moment>> {
        match self.get::<Cow<'_, str>>(field)? {
            None => Ok(None),
            Some(text) if text.starts_with("0001-01-01T00:00:00") => Ok(None),
            Some(text) => text
                .parse()
                .map(Some)
                .map_err(|error: model::BadMoment| self.field_error(field, error.to_string())),
        }
    }

    /// A value parsed by `read`, which gets `null` if it is missing.
    pub(super) fn parse_with<T>(
        &self,
        field: &str,
        read: impl Fn(&Value) -> std::result::Result<T, String>,
    ) -> Result<T> {
        let value = self.get::<Value>(field)?.unwrap_or_default();
        read(&value).map_err(|why| self.field_error(field, why))
    }

    pub(super) fn object(&self, field: &str) -> Result<Option<ReportFields<'a>>> {
        let path = self.path_of(field);
        self.raw(field).map(|raw| ReportFields::parse(self.file, &path, raw.get())).transpose()
    }

    /// The objects of a list; none if it is missing.
    pub(super) fn list(&self, field: &str) -> Result<Vec<ReportFields<'a>>> {
        let entries: Vec<&'a RawValue> = self.get(field)?.unwrap_or_default();
        let path = self.path_of(field);
        let read = |(index, raw): (usize, &&'a RawValue)| {
            ReportFields::parse(self.file, &format!("{path}[{index}]"), raw.get())
        };
        entries.iter().enumerate().map(read).collect()
    }

    /// The objects of a map by name; none if it is missing.
    pub(super) fn map(&self, field: &str) -> Result<Vec<(String, ReportFields<'a>)>> {
        let entries: BTreeMap<String, &'a RawValue> = self.get(field)?.unwrap_or_default();
        let path = self.path_of(field);
        let read = |(name, raw): (String, &'a RawValue)| {
            let fields = ReportFields::parse(self.file, &format!("{path}.{name}"), raw.get())?;
            Ok((name, fields))
        };
        entries.into_iter().map(read).collect()
    }

    /// All fields, parsed.
    pub(super) fn values(&self) -> Result<serde_json::Map<String, Value>> {
        let read = |(name, raw): (&Cow<'a, str>, &&'a RawValue)| {
            let value =
                serde_json::from_str(raw.get()).map_err(|error| self.field_error(name, error.to_string()))?;
            Ok((name.clone().into_owned(), value))
        };
        self.fields.iter().map(read).collect()
    }

    pub(super) fn field_error(&self, field: &str, why: impl Into<String>) -> Error {
        Error::invalid_at(self.file, self.path_of(field), why)
    }

    /// An error about the object as a whole.
    pub(super) fn object_error(&self, why: impl Into<String>) -> Error {
        Error::invalid_at(self.file, &self.path, why)
    }

    fn raw(&self, field: &str) -> Option<&'a RawValue> {
        self.fields.get(field).copied().filter(|raw| raw.get() != "null")
    }

    fn path_of(&self, field: &str) -> String {
        if self.path.is_empty() { field.to_owned() } else { format!("{}.{field}", self.path) }
    }
}
