//! Checks of LimitRanges and ResourceQuotas.

use std::collections::BTreeSet;

use kubernetes::quantity::{Format, Quantity};
use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::json_fields::{entries, get, list, quantity, text, texts};
use super::metadata::{check_metadata, check_metadata_update};
use super::resources::{
    ResourceScope, check_name_and_quantity, check_resource_name, is_quota_resource, may_overcommit,
};
use crate::names::{NameRule, qualified_name};

/// Amounts in milli-units above this would overflow.
const MAX_MILLI_VALUE: i64 = i64::MAX / 1000;
const SCOPES: [&str; 7] = [
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "VolumeAttributesClass",
    "CrossNamespacePodAffinity",
];
const CONFLICTING_SCOPES: [[&str; 2]; 2] =
    [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];

/// Checks a new LimitRange. An update is checked in the same way.
pub(super) fn check_limit_range(errors: &mut FieldErrors, range: &Value, namespaced: bool) {
    check_metadata(errors, range, namespaced, NameRule::Subdomain);
    let path = FieldPath::SPEC.child("limits");
    let mut types = BTreeSet::new();
    for (index, limit) in list(&range["spec"], "limits").iter().enumerate() {
        let path = path.index(index);
        let limit_type = text(limit, "type");
        check_limit_type(errors, limit_type, path.child("type"));
        if !types.insert(limit_type) {
            errors.duplicate(path.child("type"), limit_type);
        }
        check_limit_names(errors, limit, path);
        let parts = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
        let names: BTreeSet<&str> = parts
            .into_iter()
            .filter(|part| limit_type != "Pod" || !part.starts_with("default"))
            .flat_map(|part| entries(limit, part).map(|(name, _)| name))
            .collect();
        for name in names {
            check_limit_amounts(errors, limit, name, path);
        }
    }
}

fn check_limit_type(errors: &mut FieldErrors, limit_type: &str, path: FieldPath<'_>) {
    let messages = qualified_name(limit_type);
    let is_standard = ["Pod", "Container", "PersistentVolumeClaim"].contains(&limit_type);
    if messages.is_empty() && !limit_type.contains('/') && !is_standard {
        errors.invalid(path, limit_type, "must be a standard limit type or fully qualified");
    }
    errors.invalid_all(path, limit_type, messages);
}

fn check_limit_names(errors: &mut FieldErrors, limit: &Value, path: FieldPath<'_>) {
    let limit_type = text(limit, "type");
    let scope = match limit_type {
        "Pod" | "Container" => ResourceScope::Container,
        _ => ResourceScope::Any,
    };
    for part in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
        if part == "maxLimitRequestRatio"
            && limit_type == "PersistentVolumeClaim"
            && ["min", "max"].iter().all(|part| get(&limit[part], "storage").is_none())
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.required(path.child("limits"), detail);
        }
        let path = path.child(part);
        if limit_type == "Pod" && part.starts_with("default") {
            if entries(limit, part).next().is_some() {
                errors.forbidden(path, "may not be specified when `type` is 'Pod'");
            }
            continue;
        }
        for (name, _) in entries(limit, part) {
            check_resource_name(errors, name, path.key(name), scope);
        }
    }
}

fn check_limit_amounts(errors: &mut FieldErrors, limit: &Value, name: &str, path: FieldPath<'_>) {
    let is_pod = text(limit, "type") == "Pod";
    let amount = |part: &str| {
        if is_pod && part.starts_with("default") {
            return None;
        }
        get(&limit[part], name).and_then(quantity)
    };
    let [min, max, default, request, ratio] =
        ["min", "max", "default", "defaultRequest", "maxLimitRequestRatio"].map(amount);
    let mut order = |part: &str, shown: &Option<Quantity>, [low, high]: [(&Option<Quantity>, &str); 2]| {
        let ((Some(low), low_name), (Some(high), high_name)) = (low, high) else { return };
        let Some(shown) = shown.as_ref().filter(|_| low > high) else { return };
        let detail = format!("{low_name} value {low} is greater than {high_name} value {high}");
        let part = path.child(part);
        errors.invalid(part.key(name), shown.to_string(), detail);
    };
    order("min", &min, [(&min, "min"), (&max, "max")]);
    order("defaultRequest", &request, [(&min, "min"), (&request, "default request")]);
    order("defaultRequest", &request, [(&request, "default request"), (&max, "max")]);
    order("defaultRequest", &request, [(&request, "default request"), (&default, "default limit")]);
    order("default", &min, [(&min, "min"), (&default, "default")]);
    order("default", &max, [(&default, "default"), (&max, "max")]);
    if let Some(ratio) = &ratio {
        let part = path.child("maxLimitRequestRatio");
        if *ratio < Quantity::new(1, 0, Format::DecimalSi) {
            errors.invalid(part.key(name), ratio.to_string(), format!("ratio {ratio} is less than 1"));
        }
        if let Some((min, max)) = min.as_ref().zip(max.as_ref()) {
            let are_small = [ratio, min, max].iter().all(|amount| amount.value() < MAX_MILLI_VALUE);
            let (value, highest) = if are_small {
                (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
            } else {
                (ratio.value() as f64, max.value() as f64 / min.value() as f64)
            };
            if value > highest {
                let detail = format!("ratio {ratio} is greater than max/min = {highest:.6}");
                errors.invalid(part.key(name), ratio.to_string(), detail);
            }
        }
    }
    if let Some((default, request)) = default.zip(request).filter(|(default, request)| default != request)
        && !may_overcommit(name)
    {
        let part = path.child("defaultRequest");
        let detail =
            format!("default value {default} must equal to defaultRequest value {request} in {name}");
        errors.invalid(part.key(name), request.to_string(), detail);
    }
}

/// Checks a new ResourceQuota, which has no status yet.
pub(super) fn check_resource_quota(errors: &mut FieldErrors, quota: &Value, namespaced: bool) {
    check_metadata(errors, quota, namespaced, NameRule::Subdomain);
    check_quota_spec(errors, &quota["spec"]);
}

/// Checks the update of a ResourceQuota.
pub(super) fn check_resource_quota_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    check_quota_spec(errors, &new["spec"]);
    let scopes = |quota| texts(quota, "scopes").collect::<BTreeSet<&str>>();
    if scopes(&old["spec"]) != scopes(&new["spec"]) {
        errors.invalid(FieldPath::SPEC.child("scopes"), &new["spec"]["scopes"], "field is immutable");
    }
}

fn check_quota_spec(errors: &mut FieldErrors, spec: &Value) {
    let hard = FieldPath::SPEC.child("hard");
    for (name, value) in entries(spec, "hard") {
        check_name_and_quantity(errors, name, value, hard.key(name), ResourceScope::Quota);
    }
    let path = FieldPath::SPEC.child("scopes");
    for scope in texts(spec, "scopes") {
        if !SCOPES.contains(&scope) {
            errors.invalid(path, &spec["scopes"], "unsupported scope");
        }
        for _ in unsuitable_resources(spec, scope) {
            errors.invalid(path, &spec["scopes"], "unsupported scope applied to resource");
        }
    }
    check_conflicts(errors, spec, texts(spec, "scopes").collect(), path);
    if let Some(selector) = get(spec, "scopeSelector") {
        check_scope_selector(errors, spec, selector);
    }
}

fn check_conflicts(errors: &mut FieldErrors, spec: &Value, scopes: BTreeSet<&str>, path: FieldPath<'_>) {
    for pair in CONFLICTING_SCOPES {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(path, &spec["scopes"], "conflicting scopes");
        }
    }
}

/// The limited resources that a scope cannot select.
fn unsuitable_resources<'v>(spec: &'v Value, scope: &str) -> impl Iterator<Item = &'v str> {
    const COMPUTE: [&str; 6] =
        ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
    let (pods, compute, claims) = match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => (true, true, false),
        "BestEffort" => (true, false, false),
        "VolumeAttributesClass" => (false, false, true),
        _ => (true, true, true),
    };
    let is_any = pods && compute && claims;
    let is_suitable = move |name: &str| {
        is_any
            || (pods && name == "pods")
            || (compute && COMPUTE.contains(&name))
            || (claims && ["persistentvolumeclaims", "requests.storage"].contains(&name))
    };
    let names = entries(spec, "hard").map(|(name, _)| name);
    names.filter(move |name| is_quota_resource(name) && !is_suitable(name))
}

fn check_scope_selector(errors: &mut FieldErrors, spec: &Value, selector: &Value) {
    let selector_path = FieldPath::SPEC.child("scopeSelector");
    let path = selector_path.child("matchExpressions");
    for expression in list(selector, "matchExpressions") {
        let (scope, operator) = (text(expression, "scopeName"), text(expression, "operator"));
        if !SCOPES.contains(&scope) {
            errors.invalid(path.child("scopeName"), scope, "unsupported scope");
        }
        for _ in unsuitable_resources(spec, scope) {
            let printed = PrintedValue::Go("core.ScopeSelector", selector);
            errors.invalid(path, printed, "unsupported scope applied to resource");
        }
        let only_exists =
            !["PriorityClass", "VolumeAttributesClass"].contains(&scope) && SCOPES.contains(&scope);
        if only_exists && operator != "Exists" {
            let detail = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, \
                          ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, \
                          ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";
            errors.invalid(path.child("operator"), operator, detail);
        }
        let has_values = !list(expression, "values").is_empty();
        match operator {
            "In" | "NotIn" if !has_values => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.required(path.child("values"), detail);
            }
            "Exists" | "DoesNotExist" if has_values => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.invalid(path.child("values"), &expression["values"], detail);
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.invalid(path.child("operator"), other, "not a valid selector operator"),
        }
    }
    let scopes = list(selector, "matchExpressions").iter().map(|it| text(it, "scopeName")).collect();
    check_conflicts(errors, spec, scopes, path);
}
