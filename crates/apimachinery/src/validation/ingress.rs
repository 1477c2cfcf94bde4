//! Checks of Ingresses.

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::ip_address::is_ipv6;
use super::json_fields::{annotation, get, integer, list, optional_text, text, texts};
use super::metadata::{check_metadata, check_metadata_update};
use crate::names::{NameRule, path_segment, port_name, port_number, subdomain_1123, wildcard_subdomain};

const CLASS: &str = "kubernetes.io/ingress.class";
const INVALID_SEQUENCES: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
const INVALID_SUFFIXES: [&str; 2] = ["/..", "/."];

/// Checks a new Ingress.
pub(super) fn check_ingress(errors: &mut FieldErrors, ingress: &Value, namespaced: bool) {
    check_metadata(errors, ingress, namespaced, NameRule::Subdomain);
    check_ingress_spec(errors, &ingress["spec"]);
    let class = optional_text(&ingress["spec"], "ingressClassName");
    if let Some((old, _)) = annotation(ingress, CLASS).zip(class).filter(|(old, new)| old != new) {
        let path = FieldPath::new("annotations");
        errors.invalid(path.child(CLASS), old, "must match `ingressClassName` when both are specified");
    }
}

/// Checks the update of an Ingress.
pub(super) fn check_ingress_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    check_metadata_update(errors, old, new);
    check_metadata(errors, new, namespaced, NameRule::Subdomain);
    check_ingress_spec(errors, &new["spec"]);
}

fn check_ingress_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = FieldPath::SPEC;
    let rules = list(spec, "rules");
    let backend = get(spec, "defaultBackend");
    if rules.is_empty() && backend.is_none() {
        let printed = PrintedValue::Go("[]j", &spec["rules"]);
        errors.invalid(path, printed, "either `defaultBackend` or `rules` must be specified");
    }
    if let Some(backend) = backend {
        check_backend(errors, backend, path.child("defaultBackend"));
    }
    let rules_path = path.child("rules");
    for (index, rule) in rules.iter().enumerate() {
        let path = rules_path.index(index);
        let host = text(rule, "host");
        if is_ipv6(host).is_some() {
            errors.invalid(path.child("host"), host, "must be a DNS name, not an IP address");
        }
        if !host.is_empty() {
            errors.invalid_all(path.child("host"), host, check_host(host));
        }
        if let Some(http) = get(rule, "http") {
            check_http(errors, http, path.child("http"));
        }
    }
    let tls_path = path.child("tls");
    for (index, tls) in list(spec, "tls").iter().enumerate() {
        let path = tls_path.index(index);
        let hosts = path.child("hosts");
        for (index, host) in texts(tls, "hosts").enumerate() {
            errors.invalid_all(hosts.index(index), host, check_host(host));
        }
        let secret = text(tls, "secretName");
        if !secret.is_empty() {
            errors.invalid_all(path.child("secretName"), secret, NameRule::Subdomain.check(secret, false));
        }
    }
    if let Some(class) = optional_text(spec, "ingressClassName") {
        errors.invalid_all(path.child("ingressClassName"), class, NameRule::Subdomain.check(class, false));
    }
}

fn check_host(host: &str) -> Vec<String> {
    if host.contains('*') { wildcard_subdomain(host) } else { subdomain_1123(host) }
}

fn check_http(errors: &mut FieldErrors, http: &Value, path: FieldPath<'_>) {
    let path = path.child("paths");
    let paths = list(http, "paths");
    if paths.is_empty() {
        errors.required(path, "");
    }
    for (index, rule) in paths.iter().enumerate() {
        let path = path.index(index);
        let url_path = text(rule, "path");
        let value_path = path.child("path");
        let Some(path_type) = optional_text(rule, "pathType") else {
            errors.required(path.child("pathType"), "pathType must be specified");
            continue;
        };
        let is_absolute = url_path.starts_with('/');
        match path_type {
            "Exact" | "Prefix" => {
                if !is_absolute {
                    errors.invalid(value_path, url_path, "must be an absolute path");
                }
                for sequence in INVALID_SEQUENCES.iter().filter(|it| url_path.contains(**it)) {
                    errors.invalid(value_path, url_path, format!("must not contain '{sequence}'"));
                }
                for suffix in INVALID_SUFFIXES.iter().filter(|it| url_path.ends_with(**it)) {
                    errors.invalid(value_path, url_path, format!("cannot end with '{suffix}'"));
                }
            }
            "ImplementationSpecific" => {
                if !url_path.is_empty() && !is_absolute {
                    errors.invalid(value_path, url_path, "must be an absolute path");
                }
            }
            other => {
                let known = ["Exact", "ImplementationSpecific", "Prefix"];
                errors.not_supported(path.child("pathType"), other, &known);
            }
        }
        check_backend(errors, &rule["backend"], path.child("backend"));
    }
}

fn check_backend(errors: &mut FieldErrors, backend: &Value, path: FieldPath<'_>) {
    let (resource, service) = (get(backend, "resource"), get(backend, "service"));
    match (resource, service) {
        (Some(_), Some(_)) => errors.invalid(path, "", "cannot set both resource and service backends"),
        (None, None) => errors.invalid(path, "", "resource or service backend is required"),
        (Some(resource), None) => {
            let path = path.child("resource");
            if let Some(group) = optional_text(resource, "apiGroup") {
                errors.invalid_all(path.child("apiGroup"), group, subdomain_1123(group));
            }
            for name in ["kind", "name"] {
                match text(resource, name) {
                    "" => errors.required(path.child(name), ""),
                    value => errors.invalid_all(path.child(name), value, path_segment(value)),
                }
            }
        }
        (None, Some(service)) => {
            let service_path = path.child("service");
            match text(service, "name") {
                "" => errors.required(service_path.child("name"), ""),
                name => {
                    errors.invalid_all(service_path.child("name"), name, NameRule::Label.check(name, false));
                }
            }
            let port_path = service_path.child("port");
            match (text(&service["port"], "name"), integer(&service["port"], "number")) {
                ("", 0) => errors.required(path, "port name or number is required"),
                ("", number) => {
                    for message in port_number(number) {
                        errors.invalid(port_path.child("number"), number, message);
                    }
                }
                (name, 0) => errors.invalid_all(port_path.child("name"), name, port_name(name)),
                _ => errors.invalid(path, "", "cannot set both port name & port number"),
            }
        }
    }
}
