//! Checks of PodDisruptionBudgets, PriorityClasses, RuntimeClasses, Leases and Namespaces.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::json_fields::{boolean, get, integer, list, optional_integer, optional_text, text, texts};
use super::metadata::{
    check_any_metadata, check_any_metadata_update, check_finalizer_domain, check_metadata,
    check_metadata_update,
};
use super::pod::check_preemption_policy;
use super::resources::check_overhead;
use super::scheduling::check_tolerations;
use super::selectors::{LabelValues, check_label_selector, check_labels};
use super::workloads::{check_at_most_100_percent, check_int_or_percent};
use crate::names::{NameRule, label_1123, qualified_name};

const HIGHEST_USER_PRIORITY: i64 = 1_000_000_000;
const SYSTEM_CLASSES: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

/// Checks a PodDisruptionBudget. Its metadata is checked only if there is no other error.
pub(super) fn check_pod_disruption_budget(errors: &mut FieldErrors, budget: &Value) {
    let (spec, path) = (&budget["spec"], FieldPath::SPEC);
    let names = ["minAvailable", "maxUnavailable"];
    if names.iter().all(|name| get(spec, name).is_some()) {
        let printed = PrintedValue::Go("policy.PodDisruptionBudgetSpec", spec);
        errors.invalid(path, printed, "minAvailable and maxUnavailable cannot be both set");
    }
    for name in names {
        if let Some(value) = get(spec, name) {
            check_int_or_percent(errors, value, path.child(name));
            check_at_most_100_percent(errors, value, path.child(name));
        }
    }
    check_label_selector(errors, spec, "selector", path.child("selector"), LabelValues::Checked);
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    let policy = optional_text(spec, "unhealthyPodEvictionPolicy");
    if let Some(policy) = policy.filter(|policy| !policies.contains(policy)) {
        errors.not_supported(path.child("unhealthyPodEvictionPolicy"), policy, &policies);
    }
}

/// Checks a new PriorityClass.
pub(super) fn check_priority_class(errors: &mut FieldErrors, class: &Value, namespaced: bool) {
    check_metadata(errors, class, namespaced, NameRule::Subdomain);
    let (name, value) = (text(&class["metadata"], "name"), integer(class, "value"));
    if name.starts_with("system-") {
        let why = match SYSTEM_CLASSES.iter().find(|(known, _)| *known == name) {
            None => format!("{name} is not a known system priority class"),
            Some((_, known)) if *known != value => format!("value of {name} PriorityClass must be {known}"),
            Some(_) if boolean(class, "globalDefault") => {
                format!("globalDefault of {name} PriorityClass must be false")
            }
            Some(_) => String::new(),
        };
        if !why.is_empty() {
            let reserved = "priority class names with 'system-' prefix are reserved for system use only.";
            errors.forbidden(FieldPath::METADATA.child("name"), format!("{reserved} error: {why}"));
        }
    } else if value > HIGHEST_USER_PRIORITY {
        let detail = format!("maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}");
        errors.forbidden(FieldPath::new("value"), detail);
    }
    check_preemption_policy(errors, class, FieldPath::new("preemptionPolicy"));
}

/// Checks the update of a PriorityClass.
pub(super) fn check_priority_class_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_metadata_update(errors, old, new);
    if integer(old, "value") != integer(new, "value") {
        errors.forbidden(FieldPath::new("value"), "may not be changed in an update.");
    }
    if get(old, "preemptionPolicy") != get(new, "preemptionPolicy") {
        errors.invalid(FieldPath::new("preemptionPolicy"), &new["preemptionPolicy"], "field is immutable");
    }
}

/// Checks a new RuntimeClass.
pub(super) fn check_runtime_class(errors: &mut FieldErrors, class: &Value, namespaced: bool) {
    check_any_metadata(errors, class, namespaced, NameRule::Subdomain);
    let path = FieldPath::new("handler");
    match text(class, "handler") {
        "" => errors.required(path, ""),
        handler => errors.invalid_all(path, handler, label_1123(handler)),
    }
    if let Some(overhead) = get(class, "overhead") {
        check_overhead(errors, &overhead["podFixed"], FieldPath::new("overhead"));
    }
    let Some(scheduling) = get(class, "scheduling") else { return };
    let path = FieldPath::new("scheduling");
    check_labels(errors, scheduling, "nodeSelector", path.child("nodeSelector"));
    let tolerations = list(scheduling, "tolerations");
    let path = path.child("tolerations");
    check_tolerations(errors, tolerations, path);
    let mut seen = BTreeSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        if !seen.insert(["key", "operator", "value", "effect"].map(|name| text(toleration, name))) {
            errors.duplicate(path.index(index), PrintedValue::Go("core.Toleration", toleration));
        }
    }
}

/// Checks the update of a RuntimeClass.
pub(super) fn check_runtime_class_update(
    errors: &mut FieldErrors,
    old: &Value,
    new: &Value,
    namespaced: bool,
) {
    check_runtime_class(errors, new, namespaced);
    check_any_metadata_update(errors, old, new);
    if text(old, "handler") != text(new, "handler") {
        errors.invalid(FieldPath::new("handler"), text(new, "handler"), "field is immutable");
    }
}

/// Checks a new Lease.
pub(super) fn check_lease(errors: &mut FieldErrors, lease: &Value, namespaced: bool) {
    check_any_metadata(errors, lease, namespaced, NameRule::Subdomain);
    check_lease_spec(errors, &lease["spec"]);
}

/// Checks the update of a Lease.
pub(super) fn check_lease_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_any_metadata_update(errors, old, new);
    check_lease_spec(errors, &new["spec"]);
}

fn check_lease_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = FieldPath::SPEC;
    if let Some(seconds) = optional_integer(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(path.child("leaseDurationSeconds"), seconds, "must be greater than 0");
    }
    errors.negative(path.child("leaseTransitions"), optional_integer(spec, "leaseTransitions"));
    let strategy = optional_text(spec, "strategy");
    if let Some(strategy) = strategy {
        let outer = path.child("strategy");
        let path = outer.child("strategy");
        if strategy.contains('/') {
            errors.invalid_all(path, strategy, qualified_name(strategy));
        } else if strategy != "OldestEmulationVersion" {
            errors.not_supported(path, strategy, &["OldestEmulationVersion"]);
        }
    }
    if !text(spec, "preferredHolder").is_empty() && strategy.unwrap_or_default().is_empty() {
        let detail = "may only be specified if `strategy` is defined";
        errors.forbidden(path.child("preferredHolder"), detail);
    }
}

/// Checks a new Namespace.
pub(super) fn check_namespace(errors: &mut FieldErrors, namespace: &Value, namespaced: bool) {
    check_metadata(errors, namespace, namespaced, NameRule::Label);
    let path = FieldPath::SPEC.child("finalizers");
    for finalizer in texts(&namespace["spec"], "finalizers") {
        errors.invalid_all(path, finalizer, qualified_name(finalizer));
        check_finalizer_domain(errors, finalizer, path);
    }
}

/// Checks the update of a Namespace.
pub(super) fn check_namespace_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    check_namespace(errors, new, namespaced);
    check_metadata_update(errors, old, new);
}
