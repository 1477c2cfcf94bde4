//! Checks of probes and lifecycle handlers of containers.

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::json_fields::{get, integer, list, optional_integer, text};
use crate::names::{http_header, port_name, port_number};

/// Checks the probes of a container.
pub(super) fn check_probes(errors: &mut FieldErrors, container: &Value, spec: &Value, path: FieldPath<'_>) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = get(container, name) else { continue };
        let path = path.child(name);
        check_handler(errors, probe, &["exec", "httpGet", "tcpSocket", "grpc"], spec, path);
        for field in
            ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            errors.negative(path.child(field), optional_integer(probe, field));
        }
        let grace_period = optional_integer(probe, "terminationGracePeriodSeconds");
        let grace_path = path.child("terminationGracePeriodSeconds");
        if let Some(seconds) = grace_period.filter(|seconds| *seconds <= 0) {
            errors.invalid(grace_path, seconds, "must be greater than 0");
        }
        let successes = integer(probe, "successThreshold");
        if name == "readinessProbe" {
            if let Some(seconds) = grace_period {
                errors.invalid(grace_path, seconds, "must not be set for readinessProbes");
            }
        } else if successes != 1 {
            errors.invalid(path.child("successThreshold"), successes, "must be 1");
        }
    }
}

/// Checks the lifecycle handlers of a container.
pub(super) fn check_lifecycle(
    errors: &mut FieldErrors,
    container: &Value,
    spec: &Value,
    path: FieldPath<'_>,
) {
    let Some(lifecycle) = get(container, "lifecycle") else { return };
    let path = path.child("lifecycle");
    for name in ["postStart", "preStop"] {
        if let Some(handler) = get(lifecycle, name) {
            let kinds = ["exec", "httpGet", "tcpSocket", "sleep"];
            check_handler(errors, handler, &kinds, spec, path.child(name));
        }
    }
}

fn check_handler(
    errors: &mut FieldErrors,
    handler: &Value,
    kinds: &[&str],
    spec: &Value,
    path: FieldPath<'_>,
) {
    let mut has_kind = false;
    for kind in kinds {
        let Some(action) = get(handler, kind) else { continue };
        let path = path.child(kind);
        if has_kind {
            errors.forbidden(path, "may not specify more than 1 handler type");
            continue;
        }
        has_kind = true;
        match *kind {
            "exec" => {
                if list(action, "command").is_empty() {
                    errors.required(path.child("command"), "");
                }
            }
            "httpGet" => check_http_get(errors, action, path),
            "sleep" => check_sleep(errors, action, spec, path),
            _ => check_port(errors, &action["port"], path.child("port")),
        }
    }
    if !has_kind {
        errors.required(path, "must specify a handler type");
    }
}

fn check_http_get(errors: &mut FieldErrors, action: &Value, path: FieldPath<'_>) {
    if text(action, "path").is_empty() {
        errors.required(path.child("path"), "");
    }
    check_port(errors, &action["port"], path.child("port"));
    let (scheme, schemes) = (text(action, "scheme"), ["HTTP", "HTTPS"]);
    if !schemes.contains(&scheme) {
        errors.not_supported(path.child("scheme"), scheme, &schemes);
    }
    for header in list(action, "httpHeaders") {
        let name = text(header, "name");
        errors.invalid_all(path.child("httpHeaders"), name, http_header(name));
    }
}

fn check_sleep(errors: &mut FieldErrors, action: &Value, spec: &Value, path: FieldPath<'_>) {
    let seconds = integer(action, "seconds");
    let Some(grace_period) = optional_integer(spec, "terminationGracePeriodSeconds") else { return };
    if seconds < 0 || seconds > grace_period {
        let detail =
            format!("must be non-negative and less than terminationGracePeriodSeconds ({grace_period})");
        errors.invalid(path, seconds, detail);
    }
}

/// Checks a port number or name.
pub(super) fn check_port(errors: &mut FieldErrors, port: &Value, path: FieldPath<'_>) {
    match port.as_str() {
        Some(name) => errors.invalid_all(path, name, port_name(name)),
        None => {
            let number = port.as_i64().unwrap_or_default();
            for message in port_number(number) {
                errors.invalid(path, number, message);
            }
        }
    }
}
