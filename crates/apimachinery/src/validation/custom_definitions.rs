//! Checks of CustomResourceDefinitions: names, scope, versions. Schemas and conversions are not checked.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values;
use super::json_fields::{boolean, get, list, set, text, texts};
use super::metadata::{check_any_metadata, check_any_metadata_update};
use super::names::{NameRule, label_1035, subdomain_1123};

const VERSIONS: &str = "[]apiextensions.CustomResourceDefinitionVersion";
/// Parts of a version that Kubernetes holds once if they are equal in all versions.
const COMMON_PARTS: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];

/// Checks a new definition.
pub(super) fn check_definition(errors: &mut FieldErrors, definition: &Value, namespaced: bool) {
    let spec = &definition["spec"];
    let mut metadata = FieldErrors::default();
    check_any_metadata(&mut metadata, definition, namespaced, NameRule::Subdomain);
    check_name(errors, definition, metadata);
    check_spec(errors, spec);
    check_stored_versions(errors, &[], spec);
}

/// The name is plural and group.
fn check_name(errors: &mut FieldErrors, definition: &Value, metadata: FieldErrors) {
    let spec = &definition["spec"];
    let name = text(&definition["metadata"], "name");
    let expected = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let (of_name, others): (Vec<_>, Vec<_>) =
        metadata.into_vec().into_iter().partition(|error| error.field() == "metadata.name");
    errors.extend(of_name);
    if !name.is_empty() && name != expected {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        errors.invalid(FieldPath::METADATA.child("name"), name, detail);
    }
    errors.extend(others);
}

/// Checks the update of a definition.
pub(super) fn check_definition_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    check_any_metadata_update(errors, old, new);
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    check_spec(errors, new_spec);
    let is_established = list(&old["status"], "conditions")
        .iter()
        .any(|condition| text(condition, "type") == "Established" && text(condition, "status") == "True");
    let path = FieldPath::SPEC;
    let mut immutable = |path: FieldPath<'_>, old: &Value, new: &Value, name: &str| {
        if text(old, name) != text(new, name) {
            errors.invalid(path.child(name), text(new, name), "field is immutable");
        }
    };
    let names = path.child("names");
    if is_established {
        immutable(path, old_spec, new_spec, "scope");
        immutable(names, &old_spec["names"], &new_spec["names"], "kind");
    }
    immutable(path, old_spec, new_spec, "group");
    immutable(names, &old_spec["names"], &new_spec["names"], "plural");
    let stored: Vec<&str> = texts(&old["status"], "storedVersions").collect();
    check_stored_versions(errors, &stored, new_spec);
}

fn check_spec(errors: &mut FieldErrors, spec: &Value) {
    let path = FieldPath::SPEC;
    let group = text(spec, "group");
    let messages = subdomain_1123(group);
    if group.is_empty() {
        errors.required(path.child("group"), "");
    } else if !messages.is_empty() {
        errors.invalid(path.child("group"), group, messages.join(","));
    } else if !group.contains('.') {
        errors.invalid(path.child("group"), group, "should be a domain with at least one dot");
    }
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => errors.required(path.child("scope"), ""),
        other => errors.not_supported(path.child("scope"), other, &["Cluster", "Namespaced"]),
    }
    check_versions(errors, spec, path);
    let names_path = path.child("names");
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], name).is_empty() {
            errors.required(names_path.child(name), "");
        }
    }
    check_names(errors, &spec["names"], names_path);
}

fn check_versions(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let versions = list(spec, "versions");
    let versions_path = path.child("versions");
    for (index, version) in versions.iter().enumerate() {
        if get(&version["schema"], "openAPIV3Schema").is_none() {
            let path = versions_path.index(index);
            errors.required(path.child("schema").child("openAPIV3Schema"), "");
        }
    }
    for (index, version) in versions.iter().enumerate() {
        check_version_name(errors, text(version, "name"), versions_path.index(index).child("name"));
    }
    let names: BTreeSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    if names.len() < versions.len() {
        errors.invalid(versions_path, printed_versions(spec), "must contain unique version names");
    }
    if versions.iter().filter(|version| boolean(version, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        errors.invalid(versions_path, printed_versions(spec), detail);
    }
    if let Some(first) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty())
    {
        check_version_name(errors, first, path.child("version"));
    }
}

fn check_version_name(errors: &mut FieldErrors, name: &str, path: FieldPath<'_>) {
    let messages = label_1035(name);
    if !messages.is_empty() {
        errors.invalid(path, name, messages.join(","));
    }
}

fn printed_versions(spec: &Value) -> PrintedValue<'static> {
    let mut versions = spec["versions"].clone();
    for name in COMMON_PARTS {
        let is_common =
            list(spec, "versions").windows(2).all(|pair| get(&pair[0], name) == get(&pair[1], name));
        for version in versions.as_array_mut().into_iter().flatten().filter(|_| is_common) {
            set(version, name, Value::Null);
        }
    }
    PrintedValue::Printed(go_values::json(VERSIONS, &versions))
}

fn check_names(errors: &mut FieldErrors, names: &Value, path: FieldPath<'_>) {
    for name in ["plural", "singular"] {
        let (value, messages) = (text(names, name), label_1035(text(names, name)));
        if !value.is_empty() && !messages.is_empty() {
            errors.invalid(path.child(name), value, messages.join(","));
        }
    }
    let (kind, list_kind) = (text(names, "kind"), text(names, "listKind"));
    for (name, value) in [("kind", kind), ("listKind", list_kind)] {
        let messages = label_1035(&value.to_lowercase());
        if !value.is_empty() && !messages.is_empty() {
            let detail = format!("may have mixed case, but should otherwise match: {}", messages.join(","));
            errors.invalid(path.child(name), value, detail);
        }
    }
    let short_names = path.child("shortNames");
    for (index, name) in texts(names, "shortNames").enumerate() {
        check_version_name(errors, name, short_names.index(index));
    }
    if !kind.is_empty() && kind == list_kind {
        errors.invalid(path.child("listKind"), list_kind, "kind and listKind may not be the same");
    }
    let categories = path.child("categories");
    for (index, category) in texts(names, "categories").enumerate() {
        check_version_name(errors, category, categories.index(index));
    }
}

/// Checks that versions in which objects may be stored still exist. The new storage version is added to them
/// first.
fn check_stored_versions(errors: &mut FieldErrors, stored: &[&str], spec: &Value) {
    let status = FieldPath::new("status");
    let path = status.child("storedVersions");
    let versions = list(spec, "versions");
    let mut stored = stored.to_vec();
    let storage = versions.iter().find(|version| boolean(version, "storage")).map(|it| text(it, "name"));
    stored.extend(storage.filter(|storage| !stored.contains(storage)));
    if stored.is_empty() {
        return errors.invalid(path, &Value::Null, "must have at least one stored version");
    }
    for version in versions.iter().filter(|version| boolean(version, "storage")) {
        let name = text(version, "name");
        if !stored.contains(&name) {
            let detail = format!("must have the storage version {name}");
            errors.invalid(path, &serde_json::json!(stored), detail);
        }
    }
    for (index, name) in stored.iter().enumerate() {
        if !versions.iter().any(|version| text(version, "name") == *name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and \
                 removes {name} from status.storedVersions"
            );
            errors.invalid(path.index(index), *name, detail);
        }
    }
}
