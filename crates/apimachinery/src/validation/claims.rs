//! Checks of PersistentVolumeClaims and of the claims inside templates.

use serde_json::{Value, json};

use super::field_error::{FieldErrors, FieldPath};
use super::go_values::{indented_json, semantic_equal};
use super::json_fields::{annotation, get, list, optional_text, quantity, set, text, texts};
use super::metadata::{check_metadata, check_metadata_update};
use super::resources::{check_positive, check_quantity};
use super::selectors::{LabelValues, check_label_selector};
use super::unified_diff::unified_diff;
use crate::names::{NameRule, subdomain_1123};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const CLAIM_SPEC: &str = "core.PersistentVolumeClaimSpec";

/// Checks a new claim.
pub(super) fn check_claim(errors: &mut FieldErrors, claim: &Value, namespaced: bool) {
    check_metadata(errors, claim, namespaced, NameRule::Subdomain);
    check_claim_spec(errors, &claim["spec"], FieldPath::SPEC);
}

/// Checks the spec of a claim.
pub(super) fn check_claim_spec(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    if list(spec, "accessModes").is_empty() {
        errors.required(path.child("accessModes"), "at least 1 access mode is required");
    }
    check_label_selector(errors, spec, "selector", path.child("selector"), LabelValues::Checked);
    check_access_modes(errors, spec, path);
    let resources = path.child("resources");
    match get(&spec["resources"]["requests"], "storage") {
        None => errors.required(resources.key("storage"), ""),
        Some(value) => {
            let before = errors.len();
            check_positive(errors, value, resources.key("storage"));
            if errors.len() == before {
                check_quantity(errors, "storage", value, resources.key("storage"));
            }
        }
    }
    check_class_name(errors, spec, "storageClassName", path);
    check_volume_mode(errors, spec, path);
    for name in ["dataSource", "dataSourceRef"] {
        if let Some(source) = get(spec, name) {
            check_data_source(errors, source, path.child(name));
        }
    }
    check_data_sources_match(errors, spec, path);
    check_class_name(errors, spec, "volumeAttributesClassName", path);
}

/// Checks the access modes of a claim or volume.
pub(super) fn check_access_modes(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let path = path.child("accessModes");
    for mode in texts(spec, "accessModes").filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(path, mode, &ACCESS_MODES);
    }
    let known = texts(spec, "accessModes").filter(|mode| ACCESS_MODES.contains(mode));
    let is_exclusive = |mode: &str| mode == "ReadWriteOncePod";
    if known.clone().any(is_exclusive) && !known.clone().all(is_exclusive) {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

/// Checks whether a volume is a device or a file system.
pub(super) fn check_volume_mode(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let modes = ["Block", "Filesystem"];
    if let Some(mode) = optional_text(spec, "volumeMode").filter(|mode| !modes.contains(mode)) {
        errors.not_supported(path.child("volumeMode"), mode, &modes);
    }
}

/// Checks the name of a class, unless it is empty.
pub(super) fn check_class_name(errors: &mut FieldErrors, spec: &Value, name: &str, path: FieldPath<'_>) {
    let class = text(spec, name);
    if !class.is_empty() {
        errors.invalid_all(path.child(name), class, NameRule::Subdomain.check(class, false));
    }
}

fn check_data_source(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    for name in ["name", "kind"] {
        if text(source, name).is_empty() {
            errors.required(path.child(name), "");
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(path, kind, detail);
    }
    if !group.is_empty() {
        errors.invalid_all(path.child("apiGroup"), group, subdomain_1123(group));
    }
    let namespace = text(source, "namespace");
    if !namespace.is_empty() {
        errors.invalid_all(path.child("namespace"), namespace, NameRule::Label.check(namespace, false));
    }
}

fn check_data_sources_match(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let Some((source, reference)) = get(spec, "dataSource").zip(get(spec, "dataSourceRef")) else { return };
    // Kubernetes prints its path type here, whose fields are private.
    let printed = json!({});
    if !text(reference, "namespace").is_empty() {
        let detail = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(path, &printed, detail);
    } else if !["apiGroup", "kind", "name"].iter().all(|name| get(source, name) == get(reference, name)) {
        errors.invalid(path, &printed, "must match dataSourceRef");
    }
}

/// Checks the update of a claim. Its status is that of the old version.
pub(super) fn check_claim_update(errors: &mut FieldErrors, old: &Value, new: &Value, namespaced: bool) {
    check_metadata_update(errors, old, new);
    check_claim(errors, new, namespaced);
    let (old_spec, new_spec, status) = (&old["spec"], &new["spec"], &old["status"]);
    let (mut old_kept, mut new_kept) = (old_spec.clone(), new_spec.clone());
    if text(old_spec, "volumeName").is_empty() {
        set(&mut old_kept, "volumeName", new_spec["volumeName"].clone());
    }
    check_class_update(errors, old, new, &mut new_kept);
    let is_bound = text(status, "phase") == "Bound";
    if is_bound && let Some(requests) = new_kept.pointer_mut("/resources/requests") {
        set(requests, "storage", old_spec["resources"]["requests"]["storage"].clone());
    }
    let attributes_class = "volumeAttributesClassName";
    if is_bound {
        set(&mut new_kept, attributes_class, old_spec[attributes_class].clone());
    }
    if !semantic_equal(CLAIM_SPEC, &old_kept, &new_kept) {
        let diff = unified_diff(&indented_json(CLAIM_SPEC, &old_kept), &indented_json(CLAIM_SPEC, &new_kept));
        let detail = "spec is immutable after creation except resources.requests and \
                      volumeAttributesClassName for bound claims";
        errors.forbidden(FieldPath::SPEC, format!("{detail}\n{diff}"));
    }
    check_size_update(errors, old_spec, new_spec, status);
    if get(old_spec, "volumeMode") != get(new_spec, "volumeMode") {
        errors.invalid(FieldPath::new("volumeMode"), &new_spec["volumeMode"], "field is immutable");
    }
    let has_attributes = get(status, "currentVolumeAttributesClassName").is_some();
    if has_attributes && get(old_spec, attributes_class) != get(new_spec, attributes_class) {
        let what = match optional_text(new_spec, attributes_class) {
            None => "nil",
            Some("") => "empty string",
            Some(_) => return,
        };
        let detail =
            format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
        errors.forbidden(FieldPath::SPEC.child(attributes_class), detail);
    }
}

/// The class may move from the beta annotation to the field, and an absent one may be set.
fn check_class_update(errors: &mut FieldErrors, old: &Value, new: &Value, kept: &mut Value) {
    let name = "storageClassName";
    let (old_class, new_class) = (optional_text(&old["spec"], name), optional_text(&new["spec"], name));
    let (old_beta, new_beta) = (annotation(old, BETA_CLASS), annotation(new, BETA_CLASS));
    let is_moved = old_beta.is_some()
        && old_class.is_none()
        && new_class == old_beta
        && new_beta.is_none_or(|class| Some(class) == old_beta);
    if is_moved {
        set(kept, name, Value::Null);
        return;
    }
    if old_beta.unwrap_or_default() != new_beta.unwrap_or_default() {
        let path = FieldPath::METADATA.child("annotations");
        errors.invalid(path.child(BETA_CLASS), new_beta.unwrap_or_default(), "field is immutable");
    }
    let is_set =
        old_class.is_none() && new_class.is_some() && old_beta.is_none_or(|beta| new_class == Some(beta));
    if is_set {
        set(kept, name, Value::Null);
    }
}

fn check_size_update(errors: &mut FieldErrors, old: &Value, new: &Value, status: &Value) {
    let size = |spec: &Value| quantity(&spec["resources"]["requests"]["storage"]).unwrap_or_default();
    let capacity = quantity(&status["capacity"]["storage"]).unwrap_or_default();
    if size(new) < size(old) && size(new) <= capacity {
        let resources = FieldPath::SPEC.child("resources");
        let requests = resources.child("requests");
        errors.forbidden(requests.child("storage"), "field can not be less than status.capacity");
    }
}
