//! Paths to fields of a schema: `.spec.color`, `.spec['a.b']`.

use serde_json::Value;

use super::json_fields::get;
use crate::structural::{AdditionalProperties, Structural};

/// A schema in which fields are looked up.
pub(super) trait SchemaFields {
    /// The schema of a field, and whether it is named rather than the key of a map.
    fn inner(&self, name: &str) -> Option<(&Self, bool)>;
}

/// A field on the way of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct PathField {
    pub(super) name: String,
    /// Whether it is the key of a map.
    is_key: bool,
}

// === impl SchemaFields ===

impl SchemaFields for Value {
    fn inner(&self, name: &str) -> Option<(&Value, bool)> {
        match self["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
            true => get(&self["properties"], name).map(|found| (found, true)),
            false => {
                let additional =
                    get(self, "additionalProperties").filter(|additional| additional.is_object());
                additional.map(|found| (found, false))
            }
        }
    }
}

impl SchemaFields for Structural {
    fn inner(&self, name: &str) -> Option<(&Structural, bool)> {
        match (self.properties().next(), self.additional_properties()) {
            (Some(_), _) => self.property(name).map(|found| (found, true)),
            (None, Some(AdditionalProperties::Schema(found))) => Some((found, false)),
            (None, Some(AdditionalProperties::Allowed(_)) | None) => None,
        }
    }
}

/// Fields as Kubernetes prints them as a path.
pub(super) fn print_path(fields: &[PathField]) -> String {
    let mut path = String::new();
    for PathField { name, is_key } in fields {
        match is_key {
            true => path.push_str(&format!("[{name}]")),
            false if path.is_empty() => path.push_str(name),
            false => path.push_str(&format!(".{name}")),
        }
    }
    path
}

/// The schema of the field to which a path leads, and the fields on the way. The error is that of Kubernetes.
pub(super) fn find_field<'s, S: SchemaFields>(
    path: &str,
    schema: &'s S,
    allows_brackets: bool,
) -> Result<(Vec<PathField>, &'s S), String> {
    let (mut schema, mut names) = (schema, Vec::new());
    let mut tokens = tokens(path).into_iter();
    const END: &str = "unexpected end of JSON path";
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => tokens.next().ok_or(END)?.to_owned(),
            "[" if !allows_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let text = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
                let text = text.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescaped(text).ok_or_else(|| format!("invalid string literal: {text}"))?;
                match tokens.next().ok_or(END)? {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        let found = schema.inner(&name).ok_or("does not refer to a valid field")?;
        schema = found.0;
        names.push(PathField { name, is_key: !found.1 });
    }
    Ok((names, schema))
}

/// The names, each point and each bracket; a text in quotes is one.
fn tokens(path: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let end = if first == '\'' {
            let mut escaped = false;
            let end = rest.char_indices().skip(1).find(|(_, letter)| {
                let is_end = *letter == '\'' && !escaped;
                escaped = *letter == '\\';
                is_end
            });
            end.map_or(rest.len(), |(at, _)| at + 1)
        } else {
            rest.find(['.', '[', ']']).unwrap_or(rest.len()).max(usize::from(".[]".contains(first)))
        };
        found.push(&rest[..end]);
        rest = &rest[end..];
    }
    found
}

fn unescaped(text: &str) -> Option<String> {
    let mut unescaped = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        unescaped.push(match letter {
            '\\' => letters.next().filter(|letter| matches!(letter, '\'' | '\\'))?,
            letter => letter,
        });
    }
    Some(unescaped)
}
