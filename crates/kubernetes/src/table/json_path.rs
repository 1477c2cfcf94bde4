//! The JSONPath dialect of CustomResourceDefinition columns.
//!
//! Fields, indexes, slices, wildcards and filters are evaluated as in Kubernetes, errors included. Recursive descent,
//! unions and ranges are not supported and match nothing.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::Value;

/// A parsed path.
#[derive(Clone, Debug)]
pub(super) struct JsonPath(Vec<PathStep>);

/// The error for an invalid path.
#[derive(Debug)]
pub(super) struct BadPath;

/// The error for a path that does not fit the object.
#[derive(Debug)]
pub(super) struct NoMatch;

#[derive(Clone, Debug)]
enum PathStep {
    Field(String),
    Wildcard,
    Slice(Slice),
    Filter(Filter),
    Literal(Value),
    /// Supported or rejected by Kubernetes during evaluation; not supported here.
    Unsupported,
}

#[derive(Clone, Debug)]
struct Slice {
    from: Option<i64>,
    to: Option<i64>,
    /// Whether the end was omitted: a single index.
    single: bool,
    stride: Option<i64>,
}

#[derive(Clone, Debug)]
struct Filter {
    left: Vec<PathStep>,
    /// Without a comparison the entry passes if the left side matches anything.
    comparison: Option<(String, Vec<PathStep>)>,
}

type Matches<'a> = Vec<Cow<'a, Value>>;

// === impl JsonPath ===

impl JsonPath {
    pub(super) fn parse(text: &str) -> Result<JsonPath, BadPath> {
        parse_steps(text, true).map(JsonPath)
    }

    /// The first value that the path matches, if any.
    pub(super) fn first<'a>(&self, value: &'a Value) -> Option<Cow<'a, Value>> {
        evaluate(&self.0, vec![Cow::Borrowed(value)]).ok()?.into_iter().next()
    }
}

/// Parses a path or one side of a comparison, where no further filter is allowed.
fn parse_steps(text: &str, filters: bool) -> Result<Vec<PathStep>, BadPath> {
    let mut steps = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some(filter) = rest.strip_prefix("[?(") {
            let (expression, after) = filter_text(filter).filter(|_| filters).ok_or(BadPath)?;
            steps.push(PathStep::Filter(parse_filter(expression)?));
            rest = after;
            continue;
        }
        if rest.starts_with("..") || first == '}' {
            return Ok(vec![PathStep::Unsupported]);
        }
        let after = &rest[first.len_utf8()..];
        match first {
            ' ' | '@' | '$' => rest = after,
            '[' => {
                let (expression, after) = after.split_once(']').ok_or(BadPath)?;
                parse_bracket(expression, &mut steps)?;
                rest = after;
            }
            '"' | '\'' => {
                let (text, after) = quoted(after, first).ok_or(BadPath)?;
                steps.push(PathStep::Literal(Value::from(text)));
                rest = after;
            }
            '.' => {
                let (name, after) = field(after);
                steps.push(if name == "*" {
                    PathStep::Wildcard
                } else {
                    PathStep::Field(name.replace('\\', ""))
                });
                rest = after;
            }
            '+' | '-' | '0'..='9' => {
                let end = after.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(after.len());
                steps.push(PathStep::Literal(number(&rest[..end + 1])?));
                rest = &after[end..];
            }
            _ if first == '_' || first.is_alphanumeric() => {
                let end = rest.find(ends_name).unwrap_or(rest.len());
                steps.push(match &rest[..end] {
                    "true" => PathStep::Literal(Value::from(true)),
                    "false" => PathStep::Literal(Value::from(false)),
                    _ => PathStep::Unsupported,
                });
                rest = &rest[end..];
            }
            _ => return Err(BadPath),
        }
    }
    Ok(steps)
}

/// Parses the text between brackets: a quoted name, which may be a path itself, or an index or a slice.
fn parse_bracket(inside: &str, into: &mut Vec<PathStep>) -> Result<(), BadPath> {
    if inside.contains(',') {
        into.push(PathStep::Unsupported);
        return Ok(());
    }
    let name = inside
        .strip_prefix('\'')
        .and_then(|name| name.strip_suffix('\''))
        .filter(|name| !name.contains('\''));
    if let Some(name) = name {
        into.extend(parse_steps(&format!(".{name}"), false)?);
        return Ok(());
    }
    let parts: Vec<&str> = if inside == "*" { vec!["", ""] } else { inside.split(':').collect() };
    let index = |at: usize| match parts.get(at) {
        None | Some(&"") => Ok(None),
        Some(part) if part.starts_with('+') => Err(BadPath),
        Some(part) => part.parse::<i64>().map(Some).map_err(|_| BadPath),
    };
    let single = parts.len() == 1;
    let from = index(0)?;
    let to = if single { Some(from.unwrap_or(0).saturating_add(1)) } else { index(1)? };
    if parts.len() > 3 {
        return Err(BadPath);
    }
    into.push(PathStep::Slice(Slice { from, to, single, stride: index(2)? }));
    Ok(())
}

/// The text of a filter and the text after `)]`. A parenthesis inside its one quoted string does not end it.
fn filter_text(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut closed = false;
    let mut before = '(';
    for (at, c) in text.char_indices() {
        match (c, quote) {
            ('"' | '\'', None) => quote = Some(c),
            ('"' | '\'', Some(open)) => closed |= c == open && before != '\\',
            (')', _) if quote.is_some() == closed => {
                return Some((&text[..at], text[at + 1..].strip_prefix(']')?));
            }
            _ => {}
        }
        before = c;
    }
    None
}

fn parse_filter(text: &str) -> Result<Filter, BadPath> {
    let signs = ['!', '<', '>', '='];
    let start = text.find(signs).filter(|start| *start > 0);
    let Some(start) = start else {
        return Ok(Filter { left: parse_steps(text, false)?, comparison: None });
    };
    let length = text[start..].find(|c| !signs.contains(&c)).ok_or(BadPath)?;
    let (operator, right) = text[start..].split_at(length);
    Ok(Filter {
        left: parse_steps(&text[..start], false)?,
        comparison: Some((operator.to_owned(), parse_steps(right, false)?)),
    })
}

/// A field's name up to the next delimiter that has no backslash before it.
fn field(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if !escaped && ends_name(c) {
            return text.split_at(at);
        }
        escaped = !escaped && c == '\\';
    }
    (text, "")
}

fn ends_name(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n' | '.' | ',' | '[' | ']' | '$' | '@' | '{' | '}')
}

fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut found = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => found.push(characters.next()?.1),
            _ if c == quote => return Some((found, &text[at + 1..])),
            _ => found.push(c),
        }
    }
    None
}

fn number(text: &str) -> Result<Value, BadPath> {
    text.parse::<i64>()
        .map(Value::from)
        .or_else(|_| text.parse::<f64>().map(Value::from))
        .map_err(|_| BadPath)
}

fn evaluate<'a>(steps: &[PathStep], start: Matches<'a>) -> Result<Matches<'a>, NoMatch> {
    steps.iter().try_fold(start, |values, step| {
        let mut found = Vec::new();
        for value in values {
            // A value that is not borrowed is a literal, which has no parts.
            let Cow::Borrowed(value) = value else { return Err(NoMatch) };
            match step {
                PathStep::Field(name) => found.extend(value.get(name.as_str()).map(Cow::Borrowed)),
                PathStep::Wildcard => match value {
                    Value::Array(list) => found.extend(list.iter().map(Cow::Borrowed)),
                    Value::Object(map) => found.extend(map.values().map(Cow::Borrowed)),
                    _ => {}
                },
                PathStep::Slice(slice) => match value {
                    // Null matches nothing, but is no error.
                    Value::Null => {}
                    Value::Array(list) => found.extend(slice.of(list)?.map(Cow::Borrowed)),
                    _ => return Err(NoMatch),
                },
                PathStep::Filter(filter) => {
                    for entry in value.as_array().ok_or(NoMatch)? {
                        if filter.passes(entry)? {
                            found.push(Cow::Borrowed(entry));
                        }
                    }
                }
                PathStep::Literal(literal) => found.push(Cow::Owned(literal.clone())),
                PathStep::Unsupported => return Err(NoMatch),
            }
        }
        Ok(found)
    })
}

// === impl Slice ===

impl Slice {
    fn of<'a>(&self, list: &'a [Value]) -> Result<impl Iterator<Item = &'a Value>, NoMatch> {
        let length = i64::try_from(list.len()).map_err(|_| NoMatch)?;
        let from = self.from.unwrap_or(0);
        let from = if from < 0 { from.saturating_add(length) } else { from };
        let to = self.to.unwrap_or(length);
        let to = if to < 0 || (to == 0 && self.single) { to.saturating_add(length) } else { to };
        let stride = self.stride.unwrap_or(1);
        let range = if from == to { 0..0 } else { from..to };
        if range.start < 0 || range.start > range.end || range.end > length || stride <= 0 {
            return Err(NoMatch);
        }
        let place = |index: i64| usize::try_from(index).map_err(|_| NoMatch);
        Ok(list[place(range.start)?..place(range.end)?].iter().step_by(place(stride)?))
    }
}

// === impl Filter ===

impl Filter {
    fn passes(&self, entry: &Value) -> Result<bool, NoMatch> {
        let left = evaluate(&self.left, vec![Cow::Borrowed(entry)]);
        let Some((operator, right)) = &self.comparison else {
            return Ok(left.is_ok_and(|found| !found.is_empty()));
        };
        let (left, right) = (left?, evaluate(right, vec![Cow::Borrowed(entry)])?);
        let ([left], [right]) = (&left[..], &right[..]) else {
            return if left.len() > 1 || right.len() > 1 { Err(NoMatch) } else { Ok(false) };
        };
        let order = compare(left, right)?;
        match operator.as_str() {
            "==" => Ok(order.is_eq()),
            "!=" => Ok(order.is_ne()),
            // Booleans have no order.
            _ if left.is_boolean() => Err(NoMatch),
            "<" => Ok(order.is_lt()),
            "<=" => Ok(order.is_le()),
            ">" => Ok(order.is_gt()),
            ">=" => Ok(order.is_ge()),
            _ => Err(NoMatch),
        }
    }
}

/// Only values of one type compare; integers and floats are different types.
fn compare(left: &Value, right: &Value) -> Result<Ordering, NoMatch> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Ok(left.cmp(right)),
        (Value::Bool(left), Value::Bool(right)) => Ok(left.cmp(right)),
        (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
            (Some(left), Some(right)) => Ok(left.cmp(&right)),
            (None, None) => left.as_f64().partial_cmp(&right.as_f64()).ok_or(NoMatch),
            _ => Err(NoMatch),
        },
        _ => Err(NoMatch),
    }
}
