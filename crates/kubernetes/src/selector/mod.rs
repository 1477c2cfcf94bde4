//! Label selectors, node selectors and field selectors, parsed, printed and matched as in Kubernetes.
//!
//! Each is validated once when it is created; matching then cannot fail.

mod field;
mod label_match;
mod node;
mod parse;
mod required;

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;

pub use field::FieldSelector;
pub use label_match::matches_labels;
pub use node::{NodeSelector, NodeSelectorTerm};
pub use required::RequiredNodeAffinity;

/// Requirements on labels, all of which must hold, sorted by key; or the selector that selects nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Selector {
    /// `None` selects nothing, an empty list everything.
    requirements: Option<Vec<Requirement>>,
}

/// The label selector of an API object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    /// Labels and the values they must have.
    #[serde(default)]
    pub match_labels: Option<BTreeMap<String, String>>,
    /// Further requirements, which must hold too.
    #[serde(default)]
    pub match_expressions: Option<Vec<Expression>>,
}

/// One requirement as in an API object, not validated yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Expression {
    /// The name of the label or field.
    #[serde(default)]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`; for nodes also `Gt` and `Lt`.
    #[serde(default)]
    pub operator: String,
    /// The values to compare with.
    #[serde(default)]
    pub values: Option<Vec<String>>,
}

/// The reason why a selector is invalid.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("invalid selector: {why} ({place})")]
pub struct BadSelector {
    /// The position in the selector.
    pub place: String,
    /// The problem, and what would be valid.
    pub why: String,
}

// === impl Selector ===

impl Selector {
    /// Selects every object.
    pub const EVERYTHING: Selector = Selector { requirements: Some(Vec::new()) };

    /// Selects no object.
    pub const NOTHING: Selector = Selector { requirements: None };

    /// Parses the text given to `kubectl -l`: `a=b,c!=d,e in (f,g),h notin (i),j,!k,l>5`. An empty text selects
    /// everything.
    pub fn parse(text: &str) -> Result<Selector, BadSelector> {
        parse::parse(text).map(Selector::all)
    }

    /// The selector of an API object. An absent one selects nothing, an empty one everything.
    pub fn of(selector: Option<&LabelSelector>) -> Result<Selector, BadSelector> {
        let Some(selector) = selector else { return Ok(Selector::NOTHING) };
        let labels = selector.match_labels.iter().flatten().map(|(key, value)| {
            Requirement::new(key, Operator::Equals, vec![value.clone()])
                .map_err(|why| BadSelector { place: format!("matchLabels[{key}]"), why })
        });
        let expressions =
            selector.match_expressions.iter().flatten().enumerate().map(|(index, expression)| {
                expression
                    .requirement(ExpressionContext::Labels)
                    .map_err(|why| BadSelector { place: format!("matchExpressions[{index}]"), why })
            });
        labels.chain(expressions).collect::<Result<_, _>>().map(Selector::all)
    }

    /// The selector of a plain map such as a pod's `nodeSelector`. Its names and values are not validated: an invalid
    /// one just matches nothing.
    pub fn of_labels<'l>(labels: impl IntoIterator<Item = (&'l str, &'l str)>) -> Selector {
        let equals = |(key, value): (&str, &str)| Requirement {
            key: key.to_owned(),
            operator: Operator::Equals,
            values: vec![value.to_owned()],
            threshold: 0,
        };
        Selector::all(labels.into_iter().map(equals).collect())
    }

    /// Whether it selects an object; `label` looks up its labels.
    pub fn matches<'l>(&self, label: impl Fn(&str) -> Option<&'l str>) -> bool {
        match &self.requirements {
            Some(requirements) => {
                requirements.iter().all(|requirement| requirement.matches(label(&requirement.key)))
            }
            None => false,
        }
    }

    /// Whether it has no requirement, so that it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.as_ref().is_some_and(Vec::is_empty)
    }

    /// Whether it selects no object at all.
    pub fn is_nothing(&self) -> bool {
        self.requirements.is_none()
    }

    /// The labels, with their values, that every selected object must have.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let fixed = |requirement: &&Requirement| {
            matches!(requirement.operator, Operator::Equals | Operator::DoubleEquals)
        };
        let requirements = self.requirements.iter().flatten().filter(fixed);
        requirements.flat_map(|it| it.values.iter().map(|value| (it.key.as_str(), value.as_str())))
    }

    /// The selector of objects that both select.
    pub fn and(&self, other: &Selector) -> Selector {
        match (&self.requirements, &other.requirements) {
            (Some(mine), Some(theirs)) => Selector::all(mine.iter().chain(theirs).cloned().collect()),
            _ => Selector::NOTHING,
        }
    }

    fn all(mut requirements: Vec<Requirement>) -> Selector {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Selector { requirements: Some(requirements) }
    }
}

impl fmt::Display for Selector {
    /// A text that parses to the same selector. It is empty both for everything and for nothing.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().flatten().enumerate() {
            write!(f, "{}{requirement}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Requirement {
    key: String,
    operator: Operator,
    values: Vec<String>,
    /// The number for `>` and `<`; zero for all others.
    threshold: i64,
}

/// The operator of a requirement. The three spellings of "equal" differ only when printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operator {
    /// `a=b`
    Equals,
    /// `a==b`
    DoubleEquals,
    /// `a in (b,c)`
    In,
    /// `a!=b`; true without the label
    NotEquals,
    /// `a notin (b,c)`; true without the label
    NotIn,
    /// `a`
    Exists,
    /// `!a`
    DoesNotExist,
    /// `a>5`; false without the label or if it is no integer
    GreaterThan,
    /// `a<5`; false without the label or if it is no integer
    LessThan,
}

impl Requirement {
    /// Validates a requirement. The error says what would be valid.
    fn new(key: &str, operator: Operator, values: Vec<String>) -> Result<Requirement, String> {
        check_key(key)?;
        let (has_valid_count, needed) = match operator {
            Operator::In | Operator::NotIn => (!values.is_empty(), "at least one value"),
            Operator::Exists | Operator::DoesNotExist => (values.is_empty(), "no values"),
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals => {
                (values.len() == 1, "exactly one value")
            }
            Operator::GreaterThan | Operator::LessThan => (values.len() == 1, "exactly one value"),
        };
        if !has_valid_count {
            return Err(format!("the operator on {key:?} requires {needed}, got {}", values.len()));
        }
        let threshold = match operator {
            Operator::GreaterThan | Operator::LessThan => values[0].parse().map_err(|_| {
                format!("{:?} is not an integer: {key:?} can only be compared with one", values[0])
            })?,
            _ => 0,
        };
        values.iter().try_for_each(|value| check_value(value))?;
        Ok(Requirement { key: key.to_owned(), operator, values, threshold })
    }

    fn matches(&self, label: Option<&str>) -> bool {
        let is_listed = |value: &str| self.values.iter().any(|other| other == value);
        let number = |value: &str| value.parse::<i64>().ok();
        match self.operator {
            Operator::Equals | Operator::DoubleEquals | Operator::In => label.is_some_and(is_listed),
            Operator::NotEquals | Operator::NotIn => !label.is_some_and(is_listed),
            Operator::Exists => label.is_some(),
            Operator::DoesNotExist => label.is_none(),
            Operator::GreaterThan => label.and_then(number).is_some_and(|number| number > self.threshold),
            Operator::LessThan => label.and_then(number).is_some_and(|number| number < self.threshold),
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut values: Vec<&str> = self.values.iter().map(String::as_str).collect();
        values.sort_unstable();
        let (key, values) = (&self.key, values.join(","));
        match self.operator {
            Operator::Equals => write!(f, "{key}={values}"),
            Operator::DoubleEquals => write!(f, "{key}=={values}"),
            Operator::In => write!(f, "{key} in ({values})"),
            Operator::NotEquals => write!(f, "{key}!={values}"),
            Operator::NotIn => write!(f, "{key} notin ({values})"),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::GreaterThan => write!(f, "{key}>{values}"),
            Operator::LessThan => write!(f, "{key}<{values}"),
        }
    }
}

/// The context of an expression, which determines the allowed operators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpressionContext {
    Labels,
    Nodes,
}

impl Expression {
    fn requirement(&self, context: ExpressionContext) -> Result<Requirement, String> {
        let operator = match (self.operator.as_str(), context) {
            ("In", _) => Operator::In,
            ("NotIn", _) => Operator::NotIn,
            ("Exists", _) => Operator::Exists,
            ("DoesNotExist", _) => Operator::DoesNotExist,
            ("Gt", ExpressionContext::Nodes) => Operator::GreaterThan,
            ("Lt", ExpressionContext::Nodes) => Operator::LessThan,
            (other, _) => {
                let more = if context == ExpressionContext::Nodes { ", Gt, Lt" } else { "" };
                return Err(format!(
                    "unknown operator {other:?}: expected In, NotIn, Exists, DoesNotExist{more}"
                ));
            }
        };
        Requirement::new(&self.key, operator, self.values.clone().unwrap_or_default())
    }
}

/// A label's name: at most 63 letters, digits, `-`, `_` and `.`, after an optional DNS name and `/`.
pub fn check_key(key: &str) -> Result<(), String> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if prefix.is_some_and(|prefix| !is_dns_name(prefix)) {
        return Err(format!(
            "invalid label key {key:?}: the part before the slash must be a DNS name such as example.com"
        ));
    }
    if name.is_empty() || !is_label_text(name) {
        return Err(format!(
            "invalid label key {key:?}: expected 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
        ));
    }
    Ok(())
}

/// A label's value: up to 63 letters, digits, `-`, `_` and `.`.
pub fn check_value(value: &str) -> Result<(), String> {
    if is_label_text(value) {
        return Ok(());
    }
    Err(format!(
        "invalid label value {value:?}: expected up to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit"
    ))
}

fn is_label_text(text: &str) -> bool {
    let is_inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    text.len() <= 63 && text.bytes().all(is_inner) && has_valid_ends(text, |b| b.is_ascii_alphanumeric())
}

fn is_dns_name(text: &str) -> bool {
    let end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| end(b) || b == b'-') && has_valid_ends(part, end)
    };
    text.len() <= 253 && text.split('.').all(is_part)
}

/// Whether the first and the last byte, if any, satisfy a condition.
fn has_valid_ends(text: &str, sort: impl Fn(u8) -> bool) -> bool {
    text.bytes().next().is_none_or(&sort) && text.bytes().next_back().is_none_or(&sort)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    pub(super) const VECTORS: &str = include_str!("../../../../testdata/kubernetes/selectors.jsonl");

    /// The rows that have this field, and the first row, which holds the labels that all are applied to.
    pub(super) fn rows(field: &str) -> (Value, Vec<Value>) {
        let mut rows = VECTORS.lines().map(|line| serde_json::from_str(line).unwrap());
        let subjects = rows.next().unwrap();
        (subjects, rows.filter(|row: &Value| row.get(field).is_some()).collect())
    }

    #[track_caller]
    fn check(selector: Result<Selector, BadSelector>, row: &Value, subjects: &Value) {
        if row.get("error").is_some() {
            assert!(selector.is_err(), "should be refused: {row}");
            return;
        }
        let selector = selector.unwrap_or_else(|error| panic!("{error} in {row}"));
        assert_eq!(selector.to_string(), row["string"].as_str().unwrap(), "{row}");
        let label_sets = subjects["labelSets"].as_array().unwrap();
        let found: String = label_sets
            .iter()
            .map(|labels| if selector.matches(|key| labels.get(key)?.as_str()) { '1' } else { '0' })
            .collect();
        assert_eq!(found, row["matches"].as_str().unwrap(), "{row}");
    }

    #[test]
    fn labels_required_of_every_selected_object_are_listed() {
        let selector = Selector::parse("b==2,a=1,c in (3),d!=4,e,!f,g>5").unwrap();
        assert_eq!(selector.labels().collect::<Vec<_>>(), [("a", "1"), ("b", "2")]);
        assert_eq!(Selector::NOTHING.labels().count() + Selector::EVERYTHING.labels().count(), 0);
    }

    #[test]
    fn texts_select_what_kubernetes_selects() {
        let (subjects, rows) = rows("text");
        assert!(rows.len() > 300);
        for row in rows {
            let text = row["text"].as_str().unwrap();
            check(Selector::parse(text), &row, &subjects);
            if let Ok(selector) = Selector::parse(text) {
                assert_eq!(Selector::parse(&selector.to_string()), Ok(selector), "{row}");
            }
        }
    }

    #[test]
    fn selectors_of_objects_select_what_kubernetes_selects() {
        let (subjects, rows) = rows("labelSelector");
        assert!(rows.len() > 70);
        for row in rows {
            let selector: Option<LabelSelector> =
                serde_json::from_value(row["labelSelector"].clone()).unwrap();
            check(Selector::of(selector.as_ref()), &row, &subjects);
        }
    }

    #[test]
    fn a_plain_map_is_not_checked() {
        let selector = Selector::of_labels([("zone", "not a label!"), ("a", "b")]);
        assert_eq!(selector.to_string(), "a=b,zone=not a label!");
        assert!(selector.matches(|key| if key == "a" { Some("b") } else { Some("not a label!") }));
        assert_eq!(Selector::of_labels([]), Selector::EVERYTHING);
        assert!(Selector::EVERYTHING.matches(|_| None));
        assert!(!Selector::NOTHING.matches(|_| None));
    }

    #[test]
    fn two_selectors_together_select_what_both_select() {
        let both = Selector::parse("b=1").unwrap().and(&Selector::parse("a in (x,y)").unwrap());
        assert_eq!(both.to_string(), "a in (x,y),b=1");
        assert!(both.and(&Selector::NOTHING).is_nothing());
        assert!(Selector::EVERYTHING.and(&Selector::EVERYTHING).is_everything());
        assert!(!Selector::NOTHING.is_everything());
    }

    #[track_caller]
    fn refused(text: &str, expected: &str) {
        assert_eq!(Selector::parse(text).unwrap_err().to_string(), expected);
    }

    #[test]
    fn a_refusal_says_where() {
        refused(
            "a in (b",
            r#"invalid selector: expected ',' or ')', found the end (at character 8 of "a in (b")"#,
        );
        refused(
            "a=b c",
            r#"invalid selector: expected ',' or the end, found 'c' (at character 5 of "a=b c")"#,
        );
        refused(
            "ä!b",
            r#"invalid selector: invalid label key "ä": expected 1 to 63 letters, digits, '-', '_' or '.', beginning and ending with a letter or digit (at character 1 of "ä!b")"#,
        );
        refused(
            "a=b,n>x",
            r#"invalid selector: "x" is not an integer: "n" can only be compared with one (at character 5 of "a=b,n>x")"#,
        );
    }
}
