//! Checks of ConfigMaps and Secrets. The contents of Docker configurations are not parsed.

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::go_values::semantic_equal;
use super::json_fields::{annotation, boolean, get, text, text_entries};
use super::metadata::{check_metadata, check_metadata_update};
use crate::names::{NameRule, config_map_key};

const MAX_SIZE: usize = 1 << 20;
const IMMUTABLE: &str = "field is immutable when `immutable` is set";
const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Checks a new ConfigMap.
pub(super) fn check_config_map(errors: &mut FieldErrors, map: &Value, namespaced: bool) {
    check_metadata(errors, map, namespaced, NameRule::Subdomain);
    let (data, binary_data) = (FieldPath::new("data"), FieldPath::new("binaryData"));
    let mut size = 0;
    for (key, value) in text_entries(map, "data") {
        errors.invalid_all(data.key(key), key, config_map_key(key));
        if get(&map["binaryData"], key).is_some() {
            errors.invalid(data.key(key), key, "duplicate of key present in binaryData");
        }
        size += value.len();
    }
    for (key, value) in text_entries(map, "binaryData") {
        errors.invalid_all(binary_data.key(key), key, config_map_key(key));
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        errors.too_long(FieldPath::new(""), MAX_SIZE);
    }
}

/// Checks the update of a ConfigMap.
pub(super) fn check_config_map_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    check_metadata_update(errors, old, new);
    check_immutable(errors, old, new, &["data", "binaryData"]);
    check_config_map(errors, new, namespaced);
}

fn check_immutable(errors: &mut FieldErrors, old: &Value, new: &Value, names: &[&str]) {
    if !boolean(old, "immutable") {
        return;
    }
    if !boolean(new, "immutable") {
        errors.forbidden(FieldPath::new("immutable"), IMMUTABLE);
    }
    for name in names {
        if !semantic_equal("{}s", &old[name], &new[name]) {
            errors.forbidden(FieldPath::new(name), IMMUTABLE);
        }
    }
}

/// The number of bytes that a base64 text stands for.
fn decoded_length(text: &str) -> usize {
    text.trim_end_matches('=').len() * 3 / 4
}

/// Checks a new Secret.
pub(super) fn check_secret(errors: &mut FieldErrors, secret: &Value, namespaced: bool) {
    check_metadata(errors, secret, namespaced, NameRule::Subdomain);
    let path = FieldPath::new("data");
    let mut size = 0;
    for (key, value) in text_entries(secret, "data") {
        errors.invalid_all(path.key(key), key, config_map_key(key));
        size += decoded_length(value);
    }
    if size > MAX_SIZE {
        errors.too_long(path, MAX_SIZE);
    }
    let has = |key: &str| secret["data"].get(key).or_else(|| secret["stringData"].get(key)).is_some();
    let required: &[&str] = match text(secret, "type") {
        "kubernetes.io/service-account-token" => {
            if annotation(secret, ACCOUNT_NAME).unwrap_or_default().is_empty() {
                let path = FieldPath::METADATA.child("annotations");
                errors.required(path.key(ACCOUNT_NAME), "");
            }
            &[]
        }
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/basic-auth" if !has("username") && !has("password") => &["username", "password"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        _ => &[],
    };
    for key in required.iter().filter(|key| !has(key)) {
        errors.required(path.key(key), "");
    }
}

/// Checks the update of a Secret.
pub(super) fn check_secret_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    check_metadata_update(errors, old, new);
    if text(old, "type") != text(new, "type") {
        errors.invalid(FieldPath::new("type"), text(new, "type"), "field is immutable");
    }
    check_immutable(errors, old, new, &["data"]);
    check_secret(errors, new, namespaced);
}
