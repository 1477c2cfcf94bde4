//! Checks of the policies by which a Job fails or succeeds early.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{get, integer, list, optional_integer, optional_text, text};
use crate::names::qualified_name;

const MAX_RULES: usize = 20;
const MAX_EXIT_CODES: usize = 255;
const MAX_PATTERNS: usize = 20;
const MAX_INDEXES_LENGTH: usize = 64 << 10;

/// Checks the `podFailurePolicy` of a Job's spec.
pub(super) fn check_pod_failure_policy(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let rules = list(&spec["podFailurePolicy"], "rules");
    let path = path.child("rules");
    if rules.len() > MAX_RULES {
        errors.too_many(path, rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        match text(rule, "action") {
            "" => errors.required(path.child("action"), valid_values(&actions)),
            "FailIndex" if get(spec, "backoffLimitPerIndex").is_none() => {
                let detail = "requires the backoffLimitPerIndex to be set";
                errors.invalid(path.child("action"), "FailIndex", detail);
            }
            action if !actions.contains(&action) => {
                errors.not_supported(path.child("action"), action, &actions);
            }
            _ => {}
        }
        let exit_codes = get(rule, "onExitCodes");
        if let Some(exit_codes) = exit_codes {
            check_exit_codes(errors, exit_codes, spec, path.child("onExitCodes"));
        }
        let conditions = list(rule, "onPodConditions");
        check_pod_conditions(errors, conditions, path.child("onPodConditions"));
        match (exit_codes.is_some(), conditions.is_empty()) {
            (true, false) => {
                let detail = "specifying both OnExitCodes and OnPodConditions is not supported";
                errors.invalid_omitted(path, detail);
            }
            (false, true) => {
                let detail = "specifying one of OnExitCodes and OnPodConditions is required";
                errors.invalid_omitted(path, detail);
            }
            _ => {}
        }
    }
}

/// Go prints a list of quoted texts in brackets.
fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("{value:?}")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

fn check_exit_codes(errors: &mut FieldErrors, exit_codes: &Value, spec: &Value, path: FieldPath<'_>) {
    let operators = ["In", "NotIn"];
    let operator = text(exit_codes, "operator");
    if operator.is_empty() {
        errors.required(path.child("operator"), valid_values(&operators));
    } else if !operators.contains(&operator) {
        errors.not_supported(path.child("operator"), operator, &operators);
    }
    if let Some(name) = optional_text(exit_codes, "containerName") {
        let pod_spec = &spec["template"]["spec"];
        let mut containers = list(pod_spec, "containers").iter().chain(list(pod_spec, "initContainers"));
        if !containers.any(|container| text(container, "name") == name) {
            let detail = "must be one of the container or initContainer names in the pod template";
            errors.invalid(path.child("containerName"), name, detail);
        }
    }
    let values: Vec<i64> =
        list(exit_codes, "values").iter().map(|value| value.as_i64().unwrap_or_default()).collect();
    let path = path.child("values");
    if values.is_empty() {
        errors.invalid(path, &exit_codes["values"], "at least one value is required");
    } else if values.len() > MAX_EXIT_CODES {
        errors.too_many(path, values.len(), MAX_EXIT_CODES);
    }
    let mut seen = BTreeSet::new();
    for (index, value) in values.iter().enumerate() {
        if operator == "In" && *value == 0 {
            errors.invalid(path.index(index), 0, "must not be 0 for the In operator");
        }
        if !seen.insert(value) {
            errors.duplicate(path.index(index), *value);
        }
    }
    if !values.is_sorted() {
        errors.invalid(path, &exit_codes["values"], "must be ordered");
    }
}

fn check_pod_conditions(errors: &mut FieldErrors, patterns: &[Value], path: FieldPath<'_>) {
    let statuses = ["False", "True", "Unknown"];
    if patterns.len() > MAX_PATTERNS {
        errors.too_many(path, patterns.len(), MAX_PATTERNS);
    }
    for (index, pattern) in patterns.iter().enumerate() {
        let path = path.index(index);
        let (condition, status) = (text(pattern, "type"), text(pattern, "status"));
        errors.invalid_all(path.child("type"), condition, qualified_name(condition));
        if status.is_empty() {
            errors.required(path.child("status"), valid_values(&statuses));
        } else if !statuses.contains(&status) {
            errors.not_supported(path.child("status"), status, &statuses);
        }
    }
}

/// Checks the `successPolicy` of an indexed Job's spec.
pub(super) fn check_success_policy(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let rules = list(&spec["successPolicy"], "rules");
    let path = path.child("rules");
    if rules.is_empty() {
        let detail = "at least one rules must be specified when the successPolicy is specified";
        errors.required(path, detail);
    }
    if rules.len() > MAX_RULES {
        errors.too_many(path, rules.len(), MAX_RULES);
    }
    let completions = integer(spec, "completions");
    for (index, rule) in rules.iter().enumerate() {
        let path = path.index(index);
        let (indexes, count) =
            (optional_text(rule, "succeededIndexes"), optional_integer(rule, "succeededCount"));
        if indexes.is_none() && count.is_none() {
            let detail = "at least one of succeededCount or succeededIndexes must be specified";
            errors.required(path, detail);
        }
        let mut index_count = None;
        if let Some(indexes) = indexes {
            let path = path.child("succeededIndexes");
            if indexes.len() > MAX_INDEXES_LENGTH {
                errors.too_long(path, MAX_INDEXES_LENGTH);
            }
            let counted = count_indexes(indexes, completions);
            if let Err(why) = &counted {
                errors.invalid(path, indexes, format!("error parsing succeededIndexes: {why}"));
            }
            index_count = Some(counted.unwrap_or_default());
        }
        let Some(count) = count else { continue };
        let path = path.child("succeededCount");
        errors.negative(path, Some(count));
        if count > completions {
            let detail =
                format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.invalid(path, count, detail);
        }
        if let Some(total) = index_count.filter(|total| count > *total) {
            let detail = format!(
                "must be less than or equal to {total} (the number of indexes in the specified \
                 succeededIndexes field)"
            );
            errors.invalid(path, count, detail);
        }
    }
}

/// The number of indexes in a text such as `0,3-5`.
fn count_indexes(indexes: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last): (i64, Option<i64>) = (0, None);
    for interval in indexes.split(',').filter(|_| !indexes.is_empty()) {
        let ends: Vec<&str> = interval.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {interval:?} violates the requirement that an index interval can have at most \
                 two parts separated by '-'"
            ));
        }
        let mut numbers = Vec::new();
        for end in ends {
            let number: i64 =
                end.parse().map_err(|_| format!("cannot convert string to integer for index: {end:?}"))?;
            if number >= completions {
                return Err(format!("too large index: {end:?}"));
            }
            if let Some(first) = numbers.first().filter(|first| **first >= number) {
                return Err(format!("non-increasing order, previous: {first}, current: {number}"));
            }
            numbers.push(number);
        }
        let (first, end) = (numbers[0], numbers[numbers.len() - 1]);
        if let Some(last) = last.filter(|last| *last >= first) {
            return Err(format!("non-increasing order, previous: {last}, current: {first}"));
        }
        total += end - first + 1;
        last = Some(end);
    }
    Ok(total)
}
