//! Checks of HorizontalPodAutoscalers in the form of `autoscaling/v2`.

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{get, integer, list, optional_integer, optional_text, quantity, text};
use super::metadata::{check_metadata, check_metadata_update};
use super::resources::{ResourceScope, check_resource_name};
use crate::names::{NameRule, label_1123, path_segment};

const MAX_PERIOD_SECONDS: i64 = 1800;
const MAX_WINDOW_SECONDS: i64 = 3600;
const SOURCE_TYPES: [&str; 5] = ["ContainerResource", "External", "Object", "Pods", "Resource"];

/// Checks a new autoscaler.
pub(super) fn check_autoscaler(errors: &mut FieldErrors, autoscaler: &Value, namespaced: bool) {
    check_metadata(errors, autoscaler, namespaced, NameRule::Subdomain);
    check_autoscaler_spec(errors, None, &autoscaler["spec"]);
}

/// Checks the update of an autoscaler.
pub(super) fn check_autoscaler_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_autoscaler_spec(errors, Some(&old["spec"]), &new["spec"]);
}

fn check_autoscaler_spec(errors: &mut FieldErrors, old: Option<&Value>, spec: &Value) {
    let path = FieldPath::SPEC;
    let (min, max) = (optional_integer(spec, "minReplicas"), integer(spec, "maxReplicas"));
    let lowest = i64::from(old.and_then(|old| optional_integer(old, "minReplicas")) != Some(0));
    if let Some(min) = min.filter(|min| *min < lowest) {
        errors.invalid(path.child("minReplicas"), min, format!("must be greater than or equal to {lowest}"));
    }
    if max == 0 {
        errors.required(path.child("maxReplicas"), "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(path.child("maxReplicas"), max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(path.child("maxReplicas"), max, "must be greater than or equal to `minReplicas`");
    }
    let target = &spec["scaleTargetRef"];
    let is_same_kind = old.is_some_and(|old| {
        let old = &old["scaleTargetRef"];
        ["apiVersion", "kind"].iter().all(|name| text(old, name) == text(target, name))
    });
    let group = if is_same_kind {
        GroupCheck::Any
    } else if text(target, "kind") == "ReplicationController" {
        GroupCheck::MayBeEmpty
    } else {
        GroupCheck::Required
    };
    check_object_reference(errors, target, path.child("scaleTargetRef"), group);
    check_metrics(errors, spec, path.child("metrics"));
    let behavior_path = path.child("behavior");
    for name in ["scaleUp", "scaleDown"] {
        if let Some(rules) = get(&spec["behavior"], name) {
            check_scaling_rules(errors, rules, behavior_path.child(name));
        }
    }
}

/// Whether a reference needs an API group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GroupCheck {
    Required,
    MayBeEmpty,
    Any,
}

fn check_object_reference(
    errors: &mut FieldErrors,
    reference: &Value,
    path: FieldPath<'_>,
    group: GroupCheck,
) {
    for name in ["kind", "name"] {
        match text(reference, name) {
            "" => errors.required(path.child(name), ""),
            value => errors.invalid_all(path.child(name), value, path_segment(value)),
        }
    }
    let version = text(reference, "apiVersion");
    if group == GroupCheck::Any {
        return;
    }
    if version.matches('/').count() > 1 {
        errors.invalid(
            path.child("apiVersion"),
            version,
            format!("unexpected GroupVersion string: {version}"),
        );
    } else if group == GroupCheck::Required
        && version.split_once('/').is_none_or(|(group, _)| group.is_empty())
    {
        errors.invalid(path.child("apiVersion"), version, "apiVersion must specify API group");
    }
}

fn check_metrics(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let metrics = list(spec, "metrics");
    for (index, metric) in metrics.iter().enumerate() {
        check_metric(errors, metric, path.index(index));
    }
    let is_external = |metric: &Value| ["Object", "External"].contains(&text(metric, "type"));
    if optional_integer(spec, "minReplicas") == Some(0) && !metrics.iter().any(is_external) {
        let detail =
            "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.forbidden(path, detail);
    }
}

fn check_metric(errors: &mut FieldErrors, metric: &Value, path: FieldPath<'_>) {
    let metric_type = text(metric, "type");
    if metric_type.is_empty() {
        errors.required(path.child("type"), "must specify a metric source type");
    }
    let is_known = SOURCE_TYPES.contains(&metric_type);
    if !is_known {
        errors.not_supported(path.child("type"), metric_type, &SOURCE_TYPES);
    }
    let names = ["object", "external", "pods", "resource", "containerResource"];
    let present: Vec<&str> = names.into_iter().filter(|name| get(metric, name).is_some()).collect();
    if let Some(name) = present.first() {
        check_source(errors, name, &metric[name], path.child(name));
    }
    let expected = names.into_iter().find(|name| name.eq_ignore_ascii_case(metric_type)).filter(|_| is_known);
    match expected {
        None => errors.not_supported(path.child("type"), metric_type, &SOURCE_TYPES),
        Some(name) if get(metric, name).is_none() => {
            errors.required(path.child(name), "must populate information for the given metric source");
        }
        Some(_) => {}
    }
    if present.len() != 1 {
        for name in present.into_iter().filter(|name| Some(*name) != expected) {
            errors.forbidden(path.child(name), "must populate the given metric source only");
        }
    }
}

fn check_source(errors: &mut FieldErrors, name: &str, source: &Value, path: FieldPath<'_>) {
    let target_path = path.child("target");
    let target = &source["target"];
    match name {
        "object" => {
            let described = path.child("describedObject");
            check_object_reference(errors, &source["describedObject"], described, GroupCheck::MayBeEmpty);
            check_metric_name(errors, source, path);
        }
        "external" | "pods" => check_metric_name(errors, source, path),
        _ => match text(source, "name") {
            "" => errors.required(path.child("name"), "must specify a resource name"),
            resource if name == "containerResource" => {
                check_resource_name(errors, resource, path.child("name"), ResourceScope::Container);
            }
            _ => {}
        },
    }
    if name == "containerResource" {
        match text(source, "container") {
            "" => errors.required(path.child("container"), "must specify a container"),
            container => errors.invalid_all(path.child("container"), container, label_1123(container)),
        }
    }
    check_target(errors, target, target_path);
    let [value, average, utilization] =
        ["value", "averageValue", "averageUtilization"].map(|name| get(target, name).is_some());
    let missing = match name {
        "object" if !value && !average => {
            Some(("averageValue", "must set either a target value or averageValue"))
        }
        "external" if !value && !average => {
            Some(("averageValue", "must set either a target value for metric or a per-pod target"))
        }
        "pods" if !average => Some(("averageValue", "must specify a positive target averageValue")),
        "resource" | "containerResource" if !utilization && !average => {
            Some(("averageUtilization", "must set either a target raw value or a target utilization"))
        }
        _ => None,
    };
    if let Some((field, detail)) = missing {
        errors.required(target_path.child(field), detail);
    }
    match name {
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.forbidden(target_path.child("value"), detail);
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.forbidden(target_path.child("averageValue"), detail);
        }
        _ => {}
    }
}

fn check_metric_name(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    let path = path.child("metric");
    match text(&source["metric"], "name") {
        "" => errors.required(path.child("name"), "must specify a metric name"),
        name => errors.invalid_all(path.child("name"), name, path_segment(name)),
    }
}

fn check_target(errors: &mut FieldErrors, target: &Value, path: FieldPath<'_>) {
    let target_type = text(target, "type");
    if target_type.is_empty() {
        errors.required(path.child("type"), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&target_type) {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.invalid(path.child("type"), target_type, detail);
    }
    for name in ["value", "averageValue"] {
        if let Some(amount) = get(target, name).and_then(quantity).filter(|amount| amount.sign() <= 0) {
            errors.invalid(path.child(name), amount.to_string(), "must be positive");
        }
    }
    if let Some(percent) = optional_integer(target, "averageUtilization").filter(|percent| *percent < 1) {
        errors.invalid(path.child("averageUtilization"), percent, "must be greater than 0");
    }
}

fn check_scaling_rules(errors: &mut FieldErrors, rules: &Value, path: FieldPath<'_>) {
    let window_path = path.child("stabilizationWindowSeconds");
    if let Some(seconds) = optional_integer(rules, "stabilizationWindowSeconds") {
        if seconds < 0 {
            errors.invalid(window_path, seconds, "must be greater than or equal to zero");
        }
        if seconds > MAX_WINDOW_SECONDS {
            let detail = format!("must be less than or equal to {MAX_WINDOW_SECONDS}");
            errors.invalid(window_path, seconds, detail);
        }
    }
    let choices = ["Disabled", "Max", "Min"];
    if let Some(choice) = optional_text(rules, "selectPolicy").filter(|choice| !choices.contains(choice)) {
        errors.not_supported(path.child("selectPolicy"), choice, &choices);
    }
    let policies = list(rules, "policies");
    let policies_path = path.child("policies");
    if policies.is_empty() {
        errors.required(policies_path, "must specify at least one Policy");
    }
    for (index, policy) in policies.iter().enumerate() {
        let path = policies_path.index(index);
        let (policy_type, types) = (text(policy, "type"), ["Percent", "Pods"]);
        if !types.contains(&policy_type) {
            errors.not_supported(path.child("type"), policy_type, &types);
        }
        for name in ["value", "periodSeconds"] {
            let value = integer(policy, name);
            if value <= 0 {
                errors.invalid(path.child(name), value, "must be greater than zero");
            }
        }
        let seconds = integer(policy, "periodSeconds");
        if seconds > MAX_PERIOD_SECONDS {
            let detail = format!("must be less than or equal to {MAX_PERIOD_SECONDS}");
            errors.invalid(path.child("periodSeconds"), seconds, detail);
        }
    }
    if let Some(amount) = get(rules, "tolerance").and_then(quantity).filter(|amount| amount.sign() < 0) {
        errors.invalid(path.child("tolerance"), amount.to_string(), "must be greater than or equal to 0");
    }
}
