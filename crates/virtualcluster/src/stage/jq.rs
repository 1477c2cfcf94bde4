//! The subset of jq that KWOK's stages use: paths, iteration, and `select` by a text.

use serde_json::Value;

/// A query of a JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JqQuery {
    filters: Vec<JqFilter>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum JqFilter {
    Path(Vec<PathStep>),
    /// `select( PATH == "TEXT" )`.
    Select {
        path: Vec<PathStep>,
        text: String,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Field(String),
    /// `[]`.
    Iterate,
}

/// A query beyond the subset.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not supported at {rest:?}: expected paths such as .a.b[\"c\"] and .a.[], and \
    select( .a == \"b\" ), separated by |"
)]
pub(super) struct UnsupportedJq {
    text: String,
    rest: String,
}

/// A value of another type than the path expects: jq's error.
struct TypeMismatch;

// === impl JqQuery ===

impl JqQuery {
    pub(super) fn parse(text: &str) -> Result<JqQuery, UnsupportedJq> {
        let mut parser = JqParser { rest: text };
        let mut filters = Vec::new();
        let query = loop {
            let Some(filter) = parser.filter() else { break None };
            filters.push(filter);
            parser.skip_spaces();
            if parser.rest.is_empty() {
                break Some(JqQuery { filters });
            }
            if !parser.take("|") {
                break None;
            }
        };
        query.ok_or_else(|| UnsupportedJq { text: text.to_owned(), rest: parser.rest.to_owned() })
    }

    /// The results that are not null; `None` if the query fails.
    pub(super) fn run<'v>(&self, value: &'v Value) -> Option<Vec<&'v Value>> {
        let mut values = vec![value];
        for filter in &self.filters {
            let mut results = Vec::new();
            for value in values {
                match filter {
                    JqFilter::Path(path) => results.extend(follow(value, path).ok()?),
                    JqFilter::Select { path, text } => {
                        let found = follow(value, path).ok()?;
                        let equal = found.into_iter().filter(|found| found.as_str() == Some(text));
                        results.extend(equal.map(|_| value));
                    }
                }
            }
            values = results;
        }
        values.retain(|value| !value.is_null());
        Some(values)
    }
}

/// The values at a path.
fn follow<'v>(value: &'v Value, path: &[PathStep]) -> Result<Vec<&'v Value>, TypeMismatch> {
    let mut values = vec![value];
    for step in path {
        let mut next = Vec::new();
        for value in values {
            match (step, value) {
                (PathStep::Field(name), Value::Object(fields)) => {
                    next.push(fields.get(name).unwrap_or(&Value::Null));
                }
                (PathStep::Field(_), Value::Null) => next.push(&Value::Null),
                (PathStep::Iterate, Value::Array(items)) => next.extend(items),
                (PathStep::Iterate, Value::Object(fields)) => next.extend(fields.values()),
                (PathStep::Field(_) | PathStep::Iterate, _) => return Err(TypeMismatch),
            }
        }
        values = next;
    }
    Ok(values)
}

struct JqParser<'t> {
    rest: &'t str,
}

impl JqParser<'_> {
    fn filter(&mut self) -> Option<JqFilter> {
        self.skip_spaces();
        if !self.rest.starts_with("select") {
            return self.path().map(JqFilter::Path);
        }
        self.rest = &self.rest["select".len()..];
        self.expect("(")?;
        self.skip_spaces();
        let path = self.path()?;
        self.expect("==")?;
        self.skip_spaces();
        let text = self.quoted()?;
        self.expect(")")?;
        Some(JqFilter::Select { path, text })
    }

    fn path(&mut self) -> Option<Vec<PathStep>> {
        let mut steps = Vec::new();
        if !self.rest.starts_with('.') {
            return None;
        }
        loop {
            if self.take("[]") {
                steps.push(PathStep::Iterate);
            } else if self.rest.starts_with("[\"") {
                self.rest = &self.rest[1..];
                steps.push(PathStep::Field(self.quoted()?));
                self.take("]").then_some(())?;
            } else if self.take(".") {
                match self.rest.chars().next() {
                    Some('"') => steps.push(PathStep::Field(self.quoted()?)),
                    Some(first) if first.is_ascii_alphabetic() || first == '_' => {
                        steps.push(PathStep::Field(self.identifier()));
                    }
                    Some('[') => {}
                    // The object itself.
                    _ if steps.is_empty() => return Some(steps),
                    _ => return None,
                }
            } else {
                return Some(steps);
            }
        }
    }

    fn identifier(&mut self) -> String {
        let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = self.rest.find(|letter| !is_part(letter)).unwrap_or(self.rest.len());
        let (name, rest) = self.rest.split_at(end);
        self.rest = rest;
        name.to_owned()
    }

    /// A text in double quotes, as in JSON.
    fn quoted(&mut self) -> Option<String> {
        let mut texts = serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
        let text = texts.next()?.ok()?;
        self.rest = &self.rest[texts.byte_offset()..];
        Some(text)
    }

    fn expect(&mut self, token: &str) -> Option<()> {
        self.skip_spaces();
        self.take(token).then_some(())
    }

    fn take(&mut self, token: &str) -> bool {
        match self.rest.strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn skip_spaces(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(query: &str, value: &Value, expected: Option<Value>) {
        let found = JqQuery::parse(query).unwrap();
        let found = found.run(value).map(|found| found.into_iter().cloned().collect::<Value>());
        assert_eq!(found, expected, "{query}");
    }

    #[test]
    fn paths_find_what_jq_finds() {
        let pod = json!({
            "metadata": {"annotations": {"a.b/c": "x"}, "ownerReferences": [{"kind": "Job"}, {"kind": "Other"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
        });
        check(".metadata.annotations[\"a.b/c\"]", &pod, Some(json!(["x"])));
        check(".metadata.ownerReferences.[].kind", &pod, Some(json!(["Job", "Other"])));
        check(".status.conditions[] | select(.type==\"Ready\") | .status", &pod, Some(json!(["True"])));
        check(".status.conditions.[] | select( .type == \"None\" ) | .status", &pod, Some(json!([])));
        check(".spec.nothing.here", &pod, Some(json!([])));
        // Iterating over nothing is an error in jq.
        check(".spec.list.[].name", &pod, None);
        check(".status.conditions.type", &pod, None);
        check(".", &json!("x"), Some(json!(["x"])));
    }

    #[test]
    fn other_queries_are_refused() {
        for query in
            ["", ".a + 1", "length", ".a | select(.b > 1)", ".a[0]", ".a..b", ".a | ", "now", ".a as $x | $x"]
        {
            assert!(JqQuery::parse(query).is_err(), "{query}");
        }
        let error = JqQuery::parse(".a | length").unwrap_err().to_string();
        assert!(error.starts_with("\".a | length\" is not supported at \"length\""), "{error}");
    }
}
