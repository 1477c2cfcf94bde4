//! Violations of a schema, with the texts of kube-openapi.

use std::collections::HashSet;

use kubernetes::go::text::{format_value, quote};
use serde_json::Value;

use super::numbers::GoNumber;

/// A value that violates its schema.
#[derive(Clone, Debug, PartialEq)]
pub struct SchemaViolation {
    /// The path of the value; `None` if the violation is reported without one.
    pub path: Option<String>,
    /// The rule that it violates.
    pub rule: ViolatedRule,
    /// What is reported as the value.
    pub value: Value,
    /// The text.
    pub message: String,
}

/// A rule of a schema that has a kind of error of its own.
#[derive(Clone, Debug, PartialEq)]
pub enum ViolatedRule {
    /// A field is missing.
    Required,
    /// The value is not one of these.
    Enum(Vec<Value>),
    /// The text is longer than this.
    MaxLength(i64),
    /// A list or map has more entries than this.
    MaxCount(i64),
    /// The type or the format is another one.
    Type,
    /// Any other.
    Other,
}

/// The result of a validation.
#[derive(Default)]
pub(super) struct ValidationResult {
    violations: Vec<SchemaViolation>,
    messages: HashSet<String>,
    /// How much of the schema fits: of several alternatives, the violations of the best one are reported.
    pub(super) match_count: usize,
}

// === impl ValidationResult ===

impl ValidationResult {
    pub(super) fn is_valid(&self) -> bool {
        self.violations.is_empty()
    }

    /// Adds a violation, unless there is one of the same text.
    pub(super) fn add(&mut self, violation: SchemaViolation) {
        if self.messages.insert(violation.message.clone()) {
            self.violations.push(violation);
        }
    }

    pub(super) fn merge(&mut self, other: ValidationResult) {
        self.match_count += other.match_count;
        for violation in other.violations {
            self.add(violation);
        }
    }

    /// Forgets the violations.
    pub(super) fn clear(&mut self) {
        self.violations.clear();
        self.messages.clear();
    }

    pub(super) fn into_violations(self) -> Vec<SchemaViolation> {
        self.violations
    }
}

// === impl SchemaViolation ===

impl SchemaViolation {
    /// The length of its texts.
    pub(super) fn size(&self) -> usize {
        let value = self.value.as_str().map_or(16, str::len);
        self.path.as_ref().map_or(0, String::len) + self.message.len() + value
    }

    /// A violation that is reported without a path.
    pub(super) fn without_path(message: String) -> SchemaViolation {
        SchemaViolation { path: None, rule: ViolatedRule::Other, value: "".into(), message }
    }

    /// A violation about a value at a path, whose message begins with the path.
    fn at(path: &str, rule: ViolatedRule, value: Value, rest: String) -> SchemaViolation {
        let message = format!("{path} in body {rest}");
        let path = path.strip_prefix('.').unwrap_or(path);
        let path = Some(path).filter(|path| !path.is_empty()).map(str::to_owned);
        SchemaViolation { path, rule, value, message }
    }

    /// A number that can have no multiples.
    pub(super) fn bad_factor(path: &str, factor: GoNumber) -> SchemaViolation {
        let value = match factor {
            GoNumber::Integer(factor) => factor.into(),
            GoNumber::Float(factor) => factor.into(),
        };
        let mut violation = SchemaViolation::at(path, ViolatedRule::Other, value, String::new());
        violation.message =
            format!("factor MultipleOf declared for {path} must be positive: {}", factor.text());
        violation
    }

    pub(super) fn wrong_type(path: &str, expected: &str, found: &str) -> SchemaViolation {
        let rest = format!("must be of type {expected}: {}", quote(found));
        SchemaViolation::at(path, ViolatedRule::Type, found.into(), rest)
    }

    pub(super) fn required(path: &str, field: &str) -> SchemaViolation {
        let path = format!("{path}.{field}");
        SchemaViolation::at(&path, ViolatedRule::Required, Value::Null, "is required".to_owned())
    }

    pub(super) fn not_allowed(path: &str, value: &Value, allowed: &[Value]) -> SchemaViolation {
        let texts: Vec<String> = allowed.iter().map(format_value).collect();
        let rest = format!("should be one of [{}]", texts.join(" "));
        SchemaViolation::at(path, ViolatedRule::Enum(allowed.to_vec()), value.clone(), rest)
    }

    pub(super) fn forbidden_property(path: &str, name: &str) -> SchemaViolation {
        let mut violation = SchemaViolation::at(path, ViolatedRule::Other, name.into(), String::new());
        violation.message = format!("{path}.{name} in body is a forbidden property");
        violation
    }

    pub(super) fn too_long(path: &str, text: &str, limit: i64) -> SchemaViolation {
        let rest = format!("should be at most {limit} chars long");
        SchemaViolation::at(path, ViolatedRule::MaxLength(limit), text.into(), rest)
    }

    pub(super) fn too_short(path: &str, text: &str, limit: i64) -> SchemaViolation {
        let rest = format!("should be at least {limit} chars long");
        SchemaViolation::at(path, ViolatedRule::Other, text.into(), rest)
    }

    pub(super) fn no_match(path: &str, text: &str, pattern: &str) -> SchemaViolation {
        let rest = format!("should match '{pattern}'");
        SchemaViolation::at(path, ViolatedRule::Other, text.into(), rest)
    }

    /// More or fewer `things` (`items`, `properties`) than allowed.
    pub(super) fn wrong_count(
        path: &str,
        things: &str,
        count: usize,
        limit: i64,
        is_too_many: bool,
    ) -> SchemaViolation {
        let (rule, bound) = match is_too_many {
            true => (ViolatedRule::MaxCount(limit), "most"),
            false => (ViolatedRule::Other, "least"),
        };
        SchemaViolation::at(path, rule, count.into(), format!("should have at {bound} {limit} {things}"))
    }

    /// A number that is not `less than` or `a multiple of` another.
    pub(super) fn wrong_number(
        path: &str,
        value: &Value,
        relation: &str,
        limit: GoNumber,
    ) -> SchemaViolation {
        let rest = format!("should be {relation} {}", limit.text());
        SchemaViolation::at(path, ViolatedRule::Other, value.clone(), rest)
    }
}
