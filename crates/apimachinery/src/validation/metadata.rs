//! Checks of `metadata`, common to all kinds.

use std::collections::BTreeSet;

use kubernetes::go::text::quote;
use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::json_fields::{boolean, entries, get, list, text, text_entries, texts};
use super::selectors::check_labels;
use crate::names::{NameRule, qualified_name};

const MAX_ANNOTATIONS_SIZE: usize = 256 << 10;
/// Finalizers of Kubernetes itself, which have no domain.
pub(super) const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// Checks the metadata of a new object, and for built-in kinds that every finalizer has a domain.
pub(super) fn check_metadata(errors: &mut FieldErrors, object: &Value, namespaced: bool, rule: NameRule) {
    check_any_metadata(errors, object, namespaced, rule);
    check_finalizer_domains(errors, object);
}

/// Checks metadata as for custom resources, whose finalizers need no domain.
pub(super) fn check_any_metadata(errors: &mut FieldErrors, object: &Value, namespaced: bool, rule: NameRule) {
    check_metadata_at(errors, &object["metadata"], FieldPath::METADATA, namespaced, rule);
}

/// The same for metadata at a path.
pub(super) fn check_metadata_at(
    errors: &mut FieldErrors,
    metadata: &Value,
    path: FieldPath<'_>,
    namespaced: bool,
    rule: NameRule,
) {
    let (name, generate_name) = (text(metadata, "name"), text(metadata, "generateName"));
    if !generate_name.is_empty() {
        errors.invalid_all(path.child("generateName"), generate_name, rule.check(generate_name, true));
    }
    if !name.is_empty() {
        errors.invalid_all(path.child("name"), name, rule.check(name, false));
    } else if generate_name.is_empty() {
        errors.required(path.child("name"), "name or generateName is required");
    }
    let namespace = text(metadata, "namespace");
    if !namespaced {
        if !namespace.is_empty() {
            errors.forbidden(path.child("namespace"), "not allowed on this type");
        }
    } else if namespace.is_empty() {
        errors.required(path.child("namespace"), "");
    } else {
        errors.invalid_all(path.child("namespace"), namespace, NameRule::Label.check(namespace, false));
    }
    check_labels(errors, metadata, "labels", path.child("labels"));
    check_annotations(errors, metadata, path.child("annotations"));
    check_owner_references(errors, metadata, path.child("ownerReferences"));
    check_finalizers(errors, metadata, path.child("finalizers"));
}

/// Checks a new version of an object against the old one. Kubernetes itself restores the uid, if absent, and
/// the time of creation.
pub(super) fn check_any_metadata_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    let path = FieldPath::METADATA;
    let was_deleted = get(old, "deletionTimestamp").is_some();
    if was_deleted {
        check_no_new_finalizers(errors, old, new);
    }
    for name in ["name", "namespace", "uid"] {
        let value = text(new, name);
        if value != text(old, name) && (name != "uid" || !value.is_empty()) {
            errors.invalid(path.child(name), value, "field is immutable");
        }
    }
    if !was_deleted && let Some(time) = get(new, "deletionTimestamp") {
        errors.invalid(path.child("deletionTimestamp"), time, "field is immutable");
    }
    let seconds = "deletionGracePeriodSeconds";
    if let Some(value) = get(new, seconds).filter(|value| get(old, seconds) != Some(value)) {
        errors.invalid(path.child(seconds), value, "field is immutable");
    }
    check_labels(errors, new, "labels", path.child("labels"));
    check_annotations(errors, new, path.child("annotations"));
    check_owner_references(errors, new, path.child("ownerReferences"));
}

/// The same for built-in kinds, whose finalizers need a domain.
pub(super) fn check_metadata_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_any_metadata_update(errors, old, new);
    check_finalizer_domains(errors, new);
}

/// Checks the keys and the size of annotations.
pub(super) fn check_annotations(errors: &mut FieldErrors, metadata: &Value, path: FieldPath<'_>) {
    for (key, _) in entries(metadata, "annotations") {
        errors.invalid_all(path, key, qualified_name(&key.to_lowercase()));
    }
    let size: usize = text_entries(metadata, "annotations").map(|(key, value)| key.len() + value.len()).sum();
    if size > MAX_ANNOTATIONS_SIZE {
        errors.too_long(path, MAX_ANNOTATIONS_SIZE);
    }
}

/// Checks that a finalizer without a domain is one of Kubernetes' own.
pub(super) fn check_finalizer_domain(errors: &mut FieldErrors, finalizer: &str, path: FieldPath<'_>) {
    if !finalizer.contains('/') && !STANDARD_FINALIZERS.contains(&finalizer) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        errors.invalid(path, finalizer, detail);
    }
}

fn check_finalizer_domains(errors: &mut FieldErrors, object: &Value) {
    let path = FieldPath::METADATA.child("finalizers");
    for (index, finalizer) in texts(&object["metadata"], "finalizers").enumerate() {
        check_finalizer_domain(errors, finalizer, path.index(index));
    }
}

fn check_finalizers(errors: &mut FieldErrors, metadata: &Value, path: FieldPath<'_>) {
    for finalizer in texts(metadata, "finalizers") {
        errors.invalid_all(path, finalizer, qualified_name(finalizer));
    }
    let has = |name: &str| texts(metadata, "finalizers").any(|finalizer| finalizer == name);
    if has("orphan") && has("foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.invalid(path, &metadata["finalizers"], detail);
    }
}

fn check_no_new_finalizers(errors: &mut FieldErrors, old: &Value, new: &Value) {
    let old: BTreeSet<&str> = texts(old, "finalizers").collect();
    let new: BTreeSet<&str> = texts(new, "finalizers").collect();
    let added: Vec<&str> = new.difference(&old).copied().collect();
    if added.is_empty() {
        return;
    }
    let quoted: Vec<String> = added.into_iter().map(quote).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
        quoted.join(", ")
    );
    errors.forbidden(FieldPath::METADATA.child("finalizers"), detail);
}

fn check_owner_references(errors: &mut FieldErrors, metadata: &Value, path: FieldPath<'_>) {
    const TYPE: &str = "meta.OwnerReference";
    let mut controller: Option<String> = None;
    for reference in list(metadata, "ownerReferences") {
        let (api_version, kind) = (text(reference, "apiVersion"), text(reference, "kind"));
        let version = match api_version.split_once('/') {
            None => api_version,
            Some((_, version)) if !version.contains('/') => version,
            Some(_) => "",
        };
        if version.is_empty() {
            errors.invalid(path.child("apiVersion"), api_version, "version must not be empty");
        }
        for name in ["kind", "name", "uid"] {
            if text(reference, name).is_empty() {
                errors.invalid(path.child(name), "", "must not be empty");
            }
        }
        if (api_version, kind) == ("v1", "Event") {
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            errors.invalid(path, PrintedValue::Go(TYPE, reference), detail);
        }
        if boolean(reference, "controller") {
            let name = format!("{kind}/{}", text(reference, "name"));
            match &controller {
                Some(first) => {
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references \
                         for {first} and {name}"
                    );
                    let references = PrintedValue::Go("[]meta.OwnerReference", &metadata["ownerReferences"]);
                    errors.invalid(path, references, detail);
                }
                None => controller = Some(name),
            }
        }
    }
}
