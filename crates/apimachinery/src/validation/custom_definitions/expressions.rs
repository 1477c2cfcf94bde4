//! Checks of the expressions of schemas (`x-kubernetes-validations`): what kube-apiserver cannot compile is refused, and
//! what only this server cannot evaluate is a warning.

use serde_json::Value;

use super::super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::super::json_fields::{entries, get, list, optional_text, text};
use super::super::schema_rules::compile_own_rules;
use crate::cel::CompileError;
use crate::structural::{AdditionalProperties, Structural};

/// What is found in the expressions of a definition.
#[derive(Default)]
pub(super) struct ExpressionFindings {
    pub(super) errors: FieldErrors,
    /// What cannot be evaluated.
    pub(super) warnings: Vec<String>,
}

/// Where expressions are.
#[derive(Clone, Copy)]
struct SchemaPosition<'p> {
    path: FieldPath<'p>,
    is_root: bool,
    /// The schema around it whose values have no old ones; `None` if those of all do.
    uncorrelatable: Option<&'p str>,
}

// === impl ExpressionFindings ===

impl ExpressionFindings {
    /// Checks the expressions of a valid schema and of all in it. Those of a schema with other errors are not looked at.
    pub(super) fn of_schema(schema: &Value, path: FieldPath<'_>, others: &FieldErrors) -> ExpressionFindings {
        let mut findings = ExpressionFindings::default();
        if super::schemas::has_rules(schema) {
            let position = SchemaPosition { path, is_root: true, uncorrelatable: None };
            findings.check(schema, &Structural::parse(schema), position, others);
        }
        findings
    }

    fn check(
        &mut self,
        schema: &Value,
        structural: &Structural,
        position: SchemaPosition<'_>,
        others: &FieldErrors,
    ) {
        let SchemaPosition { path, uncorrelatable, .. } = position;
        if let (Some(items), Some(structural)) = (get(schema, "items"), structural.items()) {
            let own = path.to_string();
            let is_map = optional_text(schema, "x-kubernetes-list-type") == Some("map");
            let uncorrelatable = if is_map { uncorrelatable } else { uncorrelatable.or(Some(&own)) };
            self.check(
                items,
                structural,
                SchemaPosition { path: path.child("items"), is_root: false, uncorrelatable },
                others,
            );
        }
        if let (Some(values), Some(AdditionalProperties::Schema(structural))) =
            (get(schema, "additionalProperties"), structural.additional_properties())
        {
            let position =
                SchemaPosition { path: path.child("additionalProperties"), is_root: false, uncorrelatable };
            self.check(values, structural, position, others);
        }
        let properties = path.child("properties");
        for (name, property) in entries(schema, "properties") {
            if let Some(structural) = structural.property(name) {
                self.check(
                    property,
                    structural,
                    SchemaPosition { path: properties.key(name), is_root: false, uncorrelatable },
                    others,
                );
            }
        }
        self.check_own(schema, structural, position, others);
    }

    /// Checks the expressions of a schema itself.
    fn check_own(
        &mut self,
        schema: &Value,
        structural: &Structural,
        position: SchemaPosition<'_>,
        others: &FieldErrors,
    ) {
        let rules = list(schema, "x-kubernetes-validations");
        let own = position.path.to_string();
        let is_within = |field: &str| {
            field.strip_prefix(&*own).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if rules.is_empty() || others.iter().any(|error| is_within(error.field())) {
            return;
        }
        let path = position.path.child("x-kubernetes-validations");
        let is_resource = position.is_root || structural.is_embedded_resource();
        let Some(compiled) = compile_own_rules(structural, is_resource) else {
            let detail = "internal error: failed to construct type information for x-kubernetes-validations rules: \
                          unable to convert structural schema to CEL declarations";
            return self.errors.internal(path, detail);
        };
        for (index, (rule, compiled)) in rules.iter().zip(&compiled).enumerate() {
            let path = path.index(index);
            let printed = || PrintedValue::Go("apiextensions.ValidationRule", rule);
            let mut uses_old_self = false;
            match &compiled.program {
                Some(Ok(program)) => uses_old_self = program.uses_old_self(),
                Some(Err(error)) => match detail_of(error, "", "cel expression must evaluate to a bool") {
                    Some(detail) => self.errors.invalid(path.child("rule"), printed(), detail),
                    None => {
                        self.warn(path.child("rule"), error);
                        continue;
                    }
                },
                None => {}
            }
            if let Some(Err(error)) = &compiled.message {
                let expected = "messageExpression must evaluate to a string";
                let path = path.child("messageExpression");
                match detail_of(error, "messageExpression ", expected) {
                    Some(detail) => self.errors.invalid(path, printed(), detail),
                    None => self.warn(path, error),
                }
            }
            let is_optional = get(rule, "optionalOldSelf").and_then(Value::as_bool);
            match (uses_old_self, position.uncorrelatable, is_optional) {
                (true, Some(around), _) => {
                    let detail = format!(
                        "oldSelf cannot be used on the uncorrelatable portion of the schema within {around}"
                    );
                    self.errors.invalid(path.child("rule"), text(rule, "rule"), detail);
                }
                (false, _, Some(is_optional)) => {
                    let detail = "may not be set if oldSelf is not used in rule";
                    self.errors.invalid(path.child("optionalOldSelf"), is_optional, detail);
                }
                _ => {}
            }
        }
    }

    fn warn(&mut self, path: FieldPath<'_>, error: &CompileError) {
        if let CompileError::Unsupported(what) = error {
            self.warnings.push(format!("{path}: this server does not evaluate it: {what}"));
        }
    }
}

/// Why an API server would refuse an expression; `None` if it would not.
fn detail_of(error: &CompileError, prefix: &str, expected: &str) -> Option<String> {
    match error {
        CompileError::Issues(issues) => Some(format!("{prefix}compilation failed: {issues}")),
        CompileError::WrongType => Some(expected.to_owned()),
        CompileError::Constant(why) if prefix.is_empty() => {
            Some(format!("program instantiation failed: {why}"))
        }
        CompileError::Constant(why) => Some(format!("{prefix}instantiation failed: {why}")),
        CompileError::Unsupported(_) => None,
    }
}
