//! Checks of references to fields and resources of the pod itself (the downward API).

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{get, quantity, text};
use crate::names::qualified_name;

const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks a reference to a field, for a volume or for an environment variable.
pub(super) fn check_field_reference(
    errors: &mut FieldErrors,
    reference: &Value,
    path: FieldPath<'_>,
    in_volume: bool,
) {
    const VOLUME: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    const ENVIRONMENT: &[&str] = &[
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    ];
    const OTHERS: [&str; 4] =
        ["metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName"];
    let (version, field) = (text(reference, "apiVersion"), text(reference, "fieldPath"));
    if version.is_empty() {
        return errors.required(path.child("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(path.child("fieldPath"), "");
    }
    let cannot_convert = |errors: &mut FieldErrors, why: String| {
        errors.invalid(path.child("fieldPath"), field, format!("error converting fieldPath: {why}"));
    };
    if version != "v1" {
        return cannot_convert(errors, format!("unsupported pod version: {version}"));
    }
    if let Some((field_path, key)) = split_subscript(field) {
        return match field_path {
            "metadata.annotations" => {
                errors.invalid_all(path, &key.to_lowercase(), qualified_name(&key.to_lowercase()))
            }
            "metadata.labels" => errors.invalid_all(path, key, qualified_name(key)),
            _ => cannot_convert(errors, format!("field label does not support subscript: {field}")),
        };
    }
    let field = if field == "spec.host" { "spec.nodeName" } else { field };
    let known = if in_volume { VOLUME } else { ENVIRONMENT };
    if known.contains(&field) {
        return;
    }
    if ENVIRONMENT.contains(&field) || OTHERS.contains(&field) || field == "status.phase" {
        return errors.not_supported(path.child("fieldPath"), field, known);
    }
    cannot_convert(errors, format!("field label not supported: {field}"));
}

/// `metadata.labels['a']` without its subscript, and the subscript.
fn split_subscript(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['").filter(|(path, _)| !path.is_empty())
}

/// Checks a reference to a resource of a container, for a volume or for an environment variable.
pub(super) fn check_resource_field_reference(
    errors: &mut FieldErrors,
    reference: &Value,
    path: FieldPath<'_>,
    in_volume: bool,
) {
    let resource = text(reference, "resource");
    let is_huge_pages =
        ["requests.hugepages-", "limits.hugepages-"].iter().any(|it| resource.starts_with(it));
    if in_volume && text(reference, "containerName").is_empty() {
        errors.required(path.child("containerName"), "");
    } else if resource.is_empty() {
        errors.required(path.child("resource"), "");
    } else if !RESOURCES.contains(&resource) && !is_huge_pages {
        errors.not_supported(path.child("resource"), resource, &RESOURCES);
    }
    let divisor = get(reference, "divisor").and_then(quantity).unwrap_or_default();
    if divisor.is_zero() {
        return;
    }
    let divisor = divisor.to_string();
    let (known, what): (&[&str], &str) = match resource {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "cpu"),
        "limits.memory" | "requests.memory" => (&BYTE_DIVISORS, "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (&BYTE_DIVISORS, "local ephemeral storage")
        }
        _ if is_huge_pages => (&BYTE_DIVISORS, "hugepages"),
        _ => return,
    };
    if !known.contains(&divisor.as_str()) {
        let known = if what == "cpu" { "1m and 1".to_owned() } else { known.join(", ") };
        let detail = format!("only divisor's values {known} are supported with the {what} resource");
        errors.invalid(path.child("divisor"), resource, detail);
    }
}
