//! Values as Go prints them in messages, and Kubernetes' equality of objects (`equality.Semantic`).
//!
//! Three types of [`GO_TYPES`] are unions: `schemaOrBool`, `schemaOrArray` and `schemaOrStrings`, which Go
//! holds as a struct of the alternatives; `empty` is a struct without fields.

use std::borrow::Cow;
use std::fmt::Write;

use serde_json::Value;

use super::go_types::GO_TYPES;
use super::json_fields::quantity;

/// The JSON that Go prints for a value of this type on one line.
pub(super) fn json(go_type: &str, value: &Value) -> String {
    let mut printer = JsonPrinter { text: String::new(), depth: None };
    printer.print(go_type, value, &Value::Null);
    printer.text
}

/// The JSON that Go prints for a value of this type on several lines, each indented by one space for each
/// level.
pub(super) fn indented_json(go_type: &str, value: &Value) -> String {
    let mut printer = JsonPrinter { text: String::new(), depth: Some(0) };
    printer.print(go_type, value, &Value::Null);
    printer.text
}

/// Whether two values of this type are equal: empty lists and maps equal absent ones, and quantities are
/// compared by value.
pub(super) fn semantic_equal(go_type: &str, a: &Value, b: &Value) -> bool {
    // Most updates change little, so that most parts are equal as they are written.
    a == b || equal(go_type, (a, &Value::Null), (b, &Value::Null))
}

/// A field of a struct.
struct GoField {
    /// In the API: `dnsPolicy`, `metadata.labels`, `../hostNetwork`.
    source: &'static str,
    /// The name in Go's output; `None` if it is the source with a capital letter.
    printed: Option<&'static str>,
    omits_empty: bool,
    go_type: &'static str,
}

// === impl GoField ===

impl GoField {
    fn printed_name(&self) -> Cow<'static, str> {
        match self.printed {
            Some(printed) => printed.into(),
            None => {
                let mut letters = self.source.trim_start_matches("../").chars();
                letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect()
            }
        }
    }
}

/// The fields of a struct; `None` if the type is no struct.
fn fields(go_type: &str) -> Option<impl Iterator<Item = GoField>> {
    let index = GO_TYPES.binary_search_by(|(name, _)| (*name).cmp(go_type)).ok()?;
    Some(GO_TYPES[index].1.split(' ').map(|word| {
        let (name, go_type) = word.split_once(':').unwrap_or((word, "s"));
        if let Some(source) = name.strip_suffix(['?', '!']) {
            let printed = source.rsplit('.').next();
            return GoField { source, printed, omits_empty: name.ends_with('?'), go_type };
        }
        let (source, printed) = match name.split_once('=') {
            Some((source, printed)) => (source, Some(printed)),
            None => (name, None),
        };
        GoField { source, printed, omits_empty: false, go_type }
    }))
}

/// The value of a field in a struct whose enclosing struct is `outer`.
fn value_of<'v>(source: &str, value: &'v Value, outer: &'v Value) -> &'v Value {
    if let Some(name) = source.strip_prefix("../") {
        return &outer[name];
    }
    match source.strip_prefix("metadata.") {
        Some(name) => &value["metadata"][name],
        None => &value[source],
    }
}

fn equal(go_type: &str, (a, a_outer): (&Value, &Value), (b, b_outer): (&Value, &Value)) -> bool {
    if let Some(inner) = go_type.strip_prefix('*') {
        return a.is_null() == b.is_null() && (a.is_null() || equal(inner, (a, a_outer), (b, b_outer)));
    }
    if let Some(inner) = go_type.strip_prefix("[]") {
        let entries = |value| Value::as_array(value).map(Vec::as_slice).unwrap_or_default();
        let (a, b) = (entries(a), entries(b));
        return a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(inner, (a, a_outer), (b, b_outer)));
    }
    if let Some(inner) = go_type.strip_prefix("{}") {
        let count = |value| Value::as_object(value).map_or(0, |map| map.len());
        return count(a) == count(b)
            && a.as_object().into_iter().flatten().all(|(key, value)| {
                b.get(key).is_some_and(|other| equal(inner, (value, a_outer), (other, b_outer)))
            });
    }
    match go_type {
        "s" => a.as_str().unwrap_or_default() == b.as_str().unwrap_or_default(),
        "i" => a.as_i64().unwrap_or_default() == b.as_i64().unwrap_or_default(),
        "b" => a.as_bool().unwrap_or_default() == b.as_bool().unwrap_or_default(),
        "q" => quantity(a).unwrap_or_default() == quantity(b).unwrap_or_default(),
        "x" => a == b || (is_zero(a) && is_zero(b)),
        _ => match fields(go_type) {
            Some(mut fields) => fields.all(|field| {
                let a_field = value_of(field.source, a, a_outer);
                let b_field = value_of(field.source, b, b_outer);
                equal(field.go_type, (a_field, a), (b_field, b))
            }),
            None => a == b,
        },
    }
}

fn is_zero(value: &Value) -> bool {
    value.is_null() || *value == 0
}

/// Whether Go's `omitempty` omits a value of this type.
fn is_empty(go_type: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(entries) => entries.is_empty(),
        Value::Object(entries) => entries.is_empty() && go_type.starts_with("{}"),
        Value::String(text) => text.is_empty() && !go_type.starts_with('*'),
        Value::Number(_) => *value == 0 && !go_type.starts_with('*'),
        Value::Bool(value) => !value && !go_type.starts_with('*'),
    }
}

/// A printed value is cut at this length: an entry of a list may be printed with dozens of empty fields.
const MAX_LENGTH: usize = 4 << 20;

struct JsonPrinter {
    text: String,
    /// The number of spaces before a line; `None` if all is on one line.
    depth: Option<usize>,
}

// === impl JsonPrinter ===

impl JsonPrinter {
    fn print(&mut self, go_type: &str, value: &Value, outer: &Value) {
        if let Some(inner) = go_type.strip_prefix('*') {
            return if value.is_null() {
                self.text.push_str("null")
            } else {
                self.print(inner, value, outer)
            };
        }
        if let Some(inner) = go_type.strip_prefix("[]") {
            let Value::Array(entries) = value else { return self.text.push_str("null") };
            let each = entries.iter().map(|entry| (None, inner, entry));
            return self.print_all(['[', ']'], each, outer);
        }
        if let Some(inner) = go_type.strip_prefix("{}") {
            let Value::Object(entries) = value else { return self.text.push_str("null") };
            let each = entries.iter().map(|(key, entry)| (Some(key.as_str().into()), inner, entry));
            return self.print_all(['{', '}'], each, outer);
        }
        match go_type {
            "s" => self.print_text(value.as_str().unwrap_or_default()),
            "b" => self.text.push_str(if *value == true { "true" } else { "false" }),
            "i" | "f" if value.is_number() => self.text.push_str(&value.to_string()),
            "i" | "f" => self.text.push('0'),
            "q" => self.print_text(&quantity(value).unwrap_or_default().to_string()),
            "x" if value.is_null() => self.text.push('0'),
            "x" | "t" | "j" => self.print_json(value),
            "empty" => self.text.push_str("{}"),
            "schemaOrBool" | "schemaOrArray" | "schemaOrStrings" => self.print_union(go_type, value),
            _ => self.print_struct(go_type, value, outer),
        }
    }

    fn print_struct(&mut self, go_type: &str, value: &Value, outer: &Value) {
        let Some(fields) = fields(go_type) else { return self.print_json(value) };
        let parts = fields
            .map(|field| (value_of(field.source, value, outer), field))
            .filter(|(value, field)| !(field.omits_empty && is_empty(field.go_type, value)))
            .map(|(value, field)| (Some(field.printed_name()), field.go_type, value));
        self.print_all(['{', '}'], parts, value);
    }

    fn print_union(&mut self, go_type: &str, value: &Value) {
        const SCHEMA: &str = "*apiextensions.JSONSchemaProps";
        const SCHEMAS: &str = "[]apiextensions.JSONSchemaProps";
        if value.is_null() {
            return self.text.push_str("null");
        }
        let schema = if value.is_object() { value } else { &Value::Null };
        let allowed = Value::Bool(*value != false);
        let list = if value.is_array() { value } else { &Value::Null };
        let parts = match go_type {
            "schemaOrBool" => [("Allows", "b", &allowed), ("Schema", SCHEMA, schema)],
            "schemaOrArray" => [("Schema", SCHEMA, schema), ("JSONSchemas", SCHEMAS, list)],
            _ => [("Schema", SCHEMA, schema), ("Property", "[]s", list)],
        };
        let parts = parts.into_iter().map(|(name, go_type, value)| (Some(name.into()), go_type, value));
        self.print_all(['{', '}'], parts, &Value::Null);
    }

    fn print_json(&mut self, value: &Value) {
        match value {
            Value::Array(_) => self.print("[]j", value, &Value::Null),
            Value::Object(_) => self.print("{}j", value, &Value::Null),
            Value::String(text) => self.print_text(text),
            _ => self.text.push_str(&value.to_string()),
        }
    }

    /// Prints named or unnamed parts between brackets.
    fn print_all<'v>(
        &mut self,
        [open, close]: [char; 2],
        parts: impl Iterator<Item = (Option<Cow<'v, str>>, &'v str, &'v Value)>,
        outer: &Value,
    ) {
        self.text.push(open);
        let mut is_first = true;
        for (name, go_type, value) in parts {
            if self.text.len() > MAX_LENGTH {
                break;
            }
            if !is_first {
                self.text.push(',');
            }
            is_first = false;
            self.new_line(1);
            if let Some(name) = name {
                self.print_text(&name);
                self.text.push_str(if self.depth.is_some() { ": " } else { ":" });
            }
            self.depth = self.depth.map(|depth| depth + 1);
            self.print(go_type, value, outer);
            self.depth = self.depth.map(|depth| depth - 1);
        }
        if !is_first {
            self.new_line(0);
        }
        self.text.push(close);
    }

    fn new_line(&mut self, extra: usize) {
        if let Some(depth) = self.depth {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', depth + extra));
        }
    }

    /// Go escapes what could end a script element in HTML.
    fn print_text(&mut self, text: &str) {
        for letter in Value::from(text).to_string().chars() {
            match letter {
                '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                    let _ = write!(self.text, "\\u{:04x}", u32::from(letter));
                }
                _ => self.text.push(letter),
            }
        }
    }
}
