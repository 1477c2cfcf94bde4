//! Checks of labels and of the selectors that match them.

use kubernetes::selector::{LabelSelector, Selector};
use serde::Deserialize;
use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{entries, get, list, text, text_entries, texts};
use crate::names::{NameRule, label_value, qualified_name};

/// Whether values in expressions must be valid label values. Updates of objects that violate this already may
/// continue to do so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelValues {
    Checked,
    Any,
}

/// Checks a map of labels.
pub(super) fn check_labels(errors: &mut FieldErrors, object: &Value, name: &str, path: FieldPath<'_>) {
    for (key, value) in text_entries(object, name) {
        errors.invalid_all(path, key, qualified_name(key));
        errors.invalid_all(path, value, label_value(value));
    }
}

/// Checks a label selector, if there is one.
pub(super) fn check_label_selector(
    errors: &mut FieldErrors,
    object: &Value,
    name: &str,
    path: FieldPath<'_>,
    values: LabelValues,
) {
    let Some(selector) = get(object, name) else { return };
    check_labels(errors, selector, "matchLabels", path.child("matchLabels"));
    let expressions = path.child("matchExpressions");
    for (index, expression) in list(selector, "matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        check_operator(errors, expression, path, false);
        let key = text(expression, "key");
        errors.invalid_all(path.child("key"), key, qualified_name(key));
        check_values(errors, expression, path, values);
    }
}

/// The number of requirements of a label selector.
pub(super) fn requirement_count(selector: &Value) -> usize {
    entries(selector, "matchLabels").count() + list(selector, "matchExpressions").len()
}

/// The label selector of a field; `None` if it is invalid.
pub(super) fn parse_label_selector(value: &Value) -> Option<Selector> {
    let selector = Option::<LabelSelector>::deserialize(value).ok()?;
    Selector::of(selector.as_ref()).ok()
}

/// Whether a selector matches the labels of an object.
pub(super) fn matches_labels(selector: &Selector, metadata: &Value) -> bool {
    selector.matches(|key| metadata.get("labels")?.get(key)?.as_str())
}

/// Checks the terms of a node selector, of which there must be one.
pub(super) fn check_node_selector(
    errors: &mut FieldErrors,
    selector: &Value,
    path: FieldPath<'_>,
    values: LabelValues,
) {
    let terms = list(selector, "nodeSelectorTerms");
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        check_node_selector_term(errors, term, path.index(index), values);
    }
}

/// Checks one term of a node selector.
pub(super) fn check_node_selector_term(
    errors: &mut FieldErrors,
    term: &Value,
    path: FieldPath<'_>,
    values: LabelValues,
) {
    let expressions = path.child("matchExpressions");
    for (index, expression) in list(term, "matchExpressions").iter().enumerate() {
        let path = expressions.index(index);
        check_operator(errors, expression, path, true);
        let key = text(expression, "key");
        errors.invalid_all(path.child("key"), key, qualified_name(key));
        check_values(errors, expression, path, values);
    }
    let fields = path.child("matchFields");
    for (index, field) in list(term, "matchFields").iter().enumerate() {
        check_field_requirement(errors, field, fields.index(index));
    }
}

fn check_operator(errors: &mut FieldErrors, expression: &Value, path: FieldPath<'_>, compares: bool) {
    let values = list(expression, "values");
    match text(expression, "operator") {
        "In" | "NotIn" => {
            if values.is_empty() {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                errors.required(path.child("values"), detail);
            }
        }
        "Exists" | "DoesNotExist" => {
            if !values.is_empty() {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                errors.forbidden(path.child("values"), detail);
            }
        }
        "Gt" | "Lt" if compares => {
            if values.len() != 1 {
                let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                errors.required(path.child("values"), detail);
            }
        }
        other => errors.invalid(path.child("operator"), other, "not a valid selector operator"),
    }
}

fn check_values(errors: &mut FieldErrors, expression: &Value, path: FieldPath<'_>, values: LabelValues) {
    if values == LabelValues::Any {
        return;
    }
    let path = path.child("values");
    for (index, value) in texts(expression, "values").enumerate() {
        errors.invalid_all(path.index(index), value, label_value(value));
    }
}

fn check_field_requirement(errors: &mut FieldErrors, field: &Value, path: FieldPath<'_>) {
    match text(field, "operator") {
        "In" | "NotIn" => {
            if list(field, "values").len() != 1 {
                let detail =
                    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                errors.required(path.child("values"), detail);
            }
        }
        other => errors.invalid(path.child("operator"), other, "not a valid selector operator"),
    }
    let key = text(field, "key");
    if key != "metadata.name" {
        errors.invalid(path.child("key"), key, "not a valid field selector key");
        return;
    }
    let path = path.child("values");
    for (index, name) in texts(field, "values").enumerate() {
        errors.invalid_all(path.index(index), name, NameRule::Subdomain.check(name, false));
    }
}
