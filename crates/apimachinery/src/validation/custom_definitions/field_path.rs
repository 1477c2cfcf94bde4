//! Paths to fields of a schema: `.spec.color`, `.spec['a.b']`.

use serde_json::Value;

use super::super::json_fields::get;

/// The schema of the field to which a path leads, and the names on the way. The error is that of Kubernetes.
pub(super) fn find_field<'s>(
    path: &str,
    schema: &'s Value,
    allows_brackets: bool,
) -> Result<(Vec<String>, &'s Value), String> {
    let (mut schema, mut names) = (schema, Vec::new());
    let mut tokens = tokens(path).into_iter();
    const END: &str = "unexpected end of JSON path";
    while let Some(token) = tokens.next() {
        let name = match token {
            "." => {
                let name = tokens.next().ok_or(END)?.to_owned();
                schema = inner(schema, &name)?;
                name
            }
            "[" if !allows_brackets => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let quoted = tokens.next().ok_or(END)?;
                let text = quoted.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
                let text = text.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                let name = unescaped(text).ok_or_else(|| format!("invalid string literal: {text}"))?;
                schema = inner(schema, &name)?;
                match tokens.next().ok_or(END)? {
                    "]" => name,
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        };
        names.push(name);
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

fn inner<'s>(schema: &'s Value, name: &str) -> Result<&'s Value, String> {
    let has_properties = schema["properties"].as_object().is_some_and(|properties| !properties.is_empty());
    let found = match has_properties {
        true => get(&schema["properties"], name),
        false => get(schema, "additionalProperties").filter(|additional| additional.is_object()),
    };
    found.ok_or_else(|| "does not refer to a valid field".to_owned())
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
