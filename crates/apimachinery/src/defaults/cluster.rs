//! Defaults of namespaces, nodes, limits, Secrets, priorities, roles and flow control.

use kubernetes::fields::{Fields, default_to, fields_mut, fields_of, is_missing, text};
use kubernetes::go::base64;
use serde_json::{Value, json};

pub(super) fn namespace(namespace: &mut Fields) {
    let Some(metadata) = fields_mut(namespace, "metadata") else { return };
    let name = text(metadata, "name").to_owned();
    // The name is missing while it has yet to be generated.
    if name.is_empty() {
        return;
    }
    default_to(metadata, "labels", json!({}));
    if let Some(labels) = fields_mut(metadata, "labels") {
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.into());
    }
}

pub(super) fn namespace_status(status: &mut Fields) {
    default_to(status, "phase", "Active");
}

pub(super) fn node_spec(spec: &mut Fields) {
    let first = spec.get("podCIDRs").and_then(|ranges| ranges.get(0)).cloned();
    match (spec.get("podCIDR").cloned(), first) {
        (Some(range), first) if first.as_ref() != Some(&range) => {
            spec.insert("podCIDRs".to_owned(), json!([range]));
        }
        (None, Some(first)) => {
            spec.insert("podCIDR".to_owned(), first);
        }
        _ => {}
    }
}

pub(super) fn node_status(status: &mut Fields) {
    if let Some(capacity) = status.get("capacity").cloned() {
        default_to(status, "allocatable", capacity);
    }
}

pub(super) fn limit_range_item(item: &mut Fields) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest")] {
        let Some(from) = fields_of(item, from).cloned() else { continue };
        default_to(item, to, json!({}));
        let Some(to) = fields_mut(item, to) else { continue };
        for (name, quantity) in from {
            to.entry(name).or_insert(quantity);
        }
    }
}

pub(super) fn secret(secret: &mut Fields) {
    default_to(secret, "type", "Opaque");
    let Some(Value::Object(texts)) = secret.remove("stringData") else { return };
    default_to(secret, "data", json!({}));
    let Some(data) = fields_mut(secret, "data") else { return };
    for (key, value) in texts {
        data.insert(key, base64::encode(value.as_str().unwrap_or_default().as_bytes()).into());
    }
}

pub(super) fn priority_class(class: &mut Fields) {
    default_to(class, "preemptionPolicy", "PreemptLowerPriority");
}

pub(super) fn role_binding(binding: &mut Fields) {
    if let Some(role) = fields_mut(binding, "roleRef")
        && text(role, "apiGroup").is_empty()
    {
        role.insert("apiGroup".to_owned(), RBAC.into());
    }
}

pub(super) fn rbac_subject(subject: &mut Fields) {
    if matches!(text(subject, "kind"), "User" | "Group") && is_missing(subject, "apiGroup") {
        subject.insert("apiGroup".to_owned(), RBAC.into());
    }
}

pub(super) fn flow_schema_spec(spec: &mut Fields) {
    if spec.get("matchingPrecedence").is_none_or(|precedence| *precedence == 0) {
        spec.insert("matchingPrecedence".to_owned(), 1000.into());
    }
}

pub(super) fn exempt_priority_level(level: &mut Fields) {
    default_to(level, "nominalConcurrencyShares", 0);
    default_to(level, "lendablePercent", 0);
}

pub(super) fn limited_priority_level(level: &mut Fields) {
    default_to(level, "nominalConcurrencyShares", 30);
    default_to(level, "lendablePercent", 0);
}

pub(super) fn queuing(queuing: &mut Fields) {
    for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
        if queuing.get(field).is_none_or(|number| *number == 0) {
            queuing.insert(field.to_owned(), value.into());
        }
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";
