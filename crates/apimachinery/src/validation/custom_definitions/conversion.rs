//! Checks of the conversion between the versions of a CustomResourceDefinition.
//!
//! Certificates of webhooks are not checked.

use std::collections::HashSet;

use serde_json::Value;

use super::super::field_error::{FieldErrors, FieldPath};
use super::super::json_fields::{boolean, get, list, optional_integer, optional_text, text, texts};
use crate::names::{label_1035, subdomain_1123};

const URL_FORM: &str = "; desired format: https://host[/path]";

/// Checks the conversion of a definition.
pub(super) fn check_conversion(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let Some(conversion) = get(spec, "conversion") else { return };
    let strategy = text(conversion, "strategy");
    if boolean(spec, "preserveUnknownFields") && strategy != "None" {
        let detail = "must be None if spec.preserveUnknownFields is true";
        errors.invalid(path.child("strategy"), strategy, detail);
    }
    match strategy {
        "None" | "Webhook" => {}
        "" => errors.required(path.child("strategy"), ""),
        other => errors.not_supported(path.child("strategy"), other, &["None", "Webhook"]),
    }
    let (client_path, versions_path) =
        (path.child("webhookClientConfig"), path.child("conversionReviewVersions"));
    let webhook = &conversion["webhook"];
    let versions = list(webhook, "conversionReviewVersions");
    if strategy != "Webhook" {
        let detail = "should not be set when strategy is not set to Webhook";
        if get(webhook, "clientConfig").is_some() {
            errors.forbidden(client_path, detail);
        }
        if !versions.is_empty() {
            errors.forbidden(versions_path, detail);
        }
        return;
    }
    match get(webhook, "clientConfig") {
        None => errors.required(client_path, "required when strategy is set to Webhook"),
        Some(client) => match (optional_text(client, "url"), get(client, "service")) {
            (Some(url), None) => check_url(errors, url, client_path.child("url")),
            (None, Some(service)) => check_service(errors, service, client_path.child("service")),
            _ => errors.required(client_path, "exactly one of url or service is required"),
        },
    }
    check_review_versions(errors, webhook, versions_path);
}

fn check_url(errors: &mut FieldErrors, url: &str, path: FieldPath<'_>) {
    let (scheme, rest) = url.split_once(':').unwrap_or(("", url));
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{URL_FORM}");
        errors.invalid(path, scheme, detail);
    }
    let (rest, fragment) = rest.split_once('#').unwrap_or((rest, ""));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = rest.strip_prefix("//").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if host.is_empty() {
        errors.invalid(path, host, format!("host must be specified{URL_FORM}"));
    }
    if let Some(user) = user {
        errors.invalid(path, user, "user information is not permitted in the URL");
    }
    for (part, name) in [(fragment, "fragments"), (query, "query parameters")] {
        if !part.is_empty() {
            errors.invalid(path, part, format!("{name} are not permitted in the URL"));
        }
    }
}

fn check_service(errors: &mut FieldErrors, service: &Value, path: FieldPath<'_>) {
    for name in ["name", "namespace"] {
        if text(service, name).is_empty() {
            errors.required(path.child(name), "");
        }
    }
    let port = optional_integer(service, "port").unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        errors.invalid(path.child("port"), port, detail);
    }
    let (value, path) = (text(service, "path"), path.child("path"));
    match value {
        "" | "/" => return,
        "//" => return errors.invalid(path, value, "segment[0] may not be empty"),
        _ => {}
    }
    if !value.starts_with('/') {
        errors.invalid(path, value, "must start with a '/'");
    }
    // Kubernetes skips a byte.
    let steps = value.get(1..).unwrap_or_default();
    for (index, step) in steps.strip_suffix('/').unwrap_or(steps).split('/').enumerate() {
        if step.is_empty() {
            errors.invalid(path, value, format!("segment[{index}] may not be empty"));
            continue;
        }
        for message in subdomain_1123(step) {
            errors.invalid(path, value, format!("segment[{index}]: {message}"));
        }
    }
}

fn check_review_versions(errors: &mut FieldErrors, webhook: &Value, path: FieldPath<'_>) {
    let mut seen = HashSet::new();
    for (index, version) in texts(webhook, "conversionReviewVersions").enumerate() {
        if seen.insert(version) {
            errors.invalid_all(path.index(index), version, label_1035(version));
        } else {
            errors.invalid(path.index(index), version, "duplicate version");
        }
    }
    if seen.is_empty() {
        errors.required(path, "");
    } else if !seen.contains("v1") && !seen.contains("v1beta1") {
        let versions = &webhook["conversionReviewVersions"];
        errors.invalid(path, versions, "must include at least one of v1, v1beta1");
    }
}
