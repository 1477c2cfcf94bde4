//! Selectors of stages: labels, annotations, and requirements about the results of queries.

use std::collections::BTreeMap;

use serde_json::Value;

use super::jq::JqQuery;

/// The objects that a stage is about: all conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StageSelector {
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) requirements: Vec<Requirement>,
}

/// A requirement about the results of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Requirement {
    pub(super) query: JqQuery,
    pub(super) operator: RequirementOperator,
}

/// What the results of a query must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RequirementOperator {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl StageSelector {
    pub(super) fn matches(&self, object: &Value) -> bool {
        let metadata = &object["metadata"];
        let has_all = |wanted: &BTreeMap<String, String>, found: &Value| {
            wanted.iter().all(|(key, value)| found[key.as_str()] == **value)
        };
        has_all(&self.labels, &metadata["labels"])
            && has_all(&self.annotations, &metadata["annotations"])
            && self.requirements.iter().all(|requirement| requirement.holds(object))
    }
}

impl Requirement {
    /// A query that fails has no results.
    fn holds(&self, object: &Value) -> bool {
        let results = self.query.run(object).unwrap_or_default();
        let has_one_of = |values: &[String]| results.iter().any(|result| is_one_of(result, values));
        match &self.operator {
            RequirementOperator::In(values) => has_one_of(values),
            RequirementOperator::NotIn(values) => !has_one_of(values),
            RequirementOperator::Exists => !results.is_empty(),
            RequirementOperator::DoesNotExist => results.is_empty(),
        }
    }
}

/// Texts and booleans are compared; KWOK finds no number equal to a text.
fn is_one_of(result: &Value, values: &[String]) -> bool {
    let text = match result {
        Value::String(text) => text.as_str(),
        Value::Bool(true) => "true",
        Value::Bool(false) => "false",
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => return false,
    };
    values.iter().any(|value| value == text)
}
