//! Checks of Roles and their bindings.

use serde_json::{Value, json};

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::json_fields::{get, list, text};
use super::metadata::{check_metadata, check_metadata_update};
use super::selectors::{LabelValues, check_label_selector, parse_label_selector};
use crate::names::{NameRule, path_segment};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Checks a new Role or ClusterRole.
pub(super) fn check_role(errors: &mut FieldErrors, role: &Value, namespaced: bool) {
    check_metadata(errors, role, namespaced, NameRule::PathSegment);
    let path = FieldPath::new("rules");
    for (index, rule) in list(role, "rules").iter().enumerate() {
        check_rule(errors, rule, namespaced, path.index(index));
    }
    let Some(aggregation) = get(role, "aggregationRule").filter(|_| !namespaced) else { return };
    let aggregation_path = FieldPath::new("aggregationRule");
    let path = aggregation_path.child("clusterRoleSelectors");
    let selectors = list(aggregation, "clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (index, selector) in selectors.iter().enumerate() {
        let wrapped = json!({"selector": selector});
        check_label_selector(errors, &wrapped, "selector", path.index(index), LabelValues::Checked);
        if parse_label_selector(selector).is_none() {
            errors.invalid(path.index(index), &Value::Null, "invalid label selector.");
        }
    }
}

/// Checks the update of a Role or ClusterRole.
pub(super) fn check_role_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    check_role(errors, new, namespaced);
    check_metadata_update(errors, old, new);
}

fn check_rule(errors: &mut FieldErrors, rule: &Value, namespaced: bool, path: FieldPath<'_>) {
    if list(rule, "verbs").is_empty() {
        errors.required(path.child("verbs"), "verbs must contain at least one value");
    }
    if !list(rule, "nonResourceURLs").is_empty() {
        let (urls, path) = (&rule["nonResourceURLs"], path.child("nonResourceURLs"));
        if namespaced {
            errors.invalid(path, urls, "namespaced rules cannot apply to non-resource URLs");
        }
        if ["apiGroups", "resources", "resourceNames"].iter().any(|name| !list(rule, name).is_empty()) {
            errors.invalid(path, urls, "rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    for (name, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if list(rule, name).is_empty() {
            errors.required(path.child(name), format!("resource rules must supply at least one {what}"));
        }
    }
}

/// Checks a new RoleBinding or ClusterRoleBinding.
pub(super) fn check_role_binding(errors: &mut FieldErrors, binding: &Value, namespaced: bool) {
    check_metadata(errors, binding, namespaced, NameRule::PathSegment);
    let (role, path) = (&binding["roleRef"], FieldPath::new("roleRef"));
    if text(role, "apiGroup") != GROUP {
        errors.not_supported(path.child("apiGroup"), text(role, "apiGroup"), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&text(role, "kind")) {
        errors.not_supported(path.child("kind"), text(role, "kind"), kinds);
    }
    match text(role, "name") {
        "" => errors.required(path.child("name"), ""),
        name => errors.invalid_all(path.child("name"), name, path_segment(name)),
    }
    let path = FieldPath::new("subjects");
    for (index, subject) in list(binding, "subjects").iter().enumerate() {
        check_subject(errors, subject, namespaced, path.index(index));
    }
}

fn check_subject(errors: &mut FieldErrors, subject: &Value, namespaced: bool, path: FieldPath<'_>) {
    let (name, group) = (text(subject, "name"), text(subject, "apiGroup"));
    if name.is_empty() {
        errors.required(path.child("name"), "");
    }
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.invalid_all(path.child("name"), name, NameRule::Subdomain.check(name, false));
            }
            if !group.is_empty() {
                errors.not_supported(path.child("apiGroup"), group, &[""]);
            }
            if !namespaced && text(subject, "namespace").is_empty() {
                errors.required(path.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

/// Checks the update of a RoleBinding or ClusterRoleBinding.
pub(super) fn check_role_binding_update(
    errors: &mut FieldErrors,
    old: &Value,
    new: &Value,
    namespaced: bool,
) {
    check_role_binding(errors, new, namespaced);
    check_metadata_update(errors, old, new);
    let (old, new) = (&old["roleRef"], &new["roleRef"]);
    if ["apiGroup", "kind", "name"].iter().any(|name| text(old, name) != text(new, name)) {
        errors.invalid(
            FieldPath::new("roleRef"),
            PrintedValue::Go("rbac.RoleRef", new),
            "cannot change roleRef",
        );
    }
}
