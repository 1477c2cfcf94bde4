//! Checks of CustomResourceDefinitions: names, scope, versions, schemas, conversion.
//!
//! Kubernetes holds the parts that all versions have in common once, and reports their errors as those of the
//! definition.

mod conversion;
mod defaults;
mod expressions;
mod schemas;
mod structural_rules;
mod versions;

use std::collections::BTreeSet;

use kubernetes::go::text::quote;
use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values;
use super::json_fields::{annotation, boolean, get, list, set, text, texts};
use super::metadata::{check_any_metadata, check_any_metadata_update};
use crate::names::{NameRule, label_1035, subdomain_1123};
use conversion::check_conversion;
use expressions::ExpressionFindings;
use versions::{check_deprecation, check_version_part};

const VERSIONS: &str = "[]apiextensions.CustomResourceDefinitionVersion";
/// Parts of a version that Kubernetes holds once if they are equal in all versions, in the order of their checks.
const COMMON_PARTS: [&str; 4] = ["schema", "subresources", "additionalPrinterColumns", "selectableFields"];
const APPROVAL: &str = "api-approved.kubernetes.io";

/// Checks a new definition.
pub(super) fn check_definition(errors: &mut FieldErrors, definition: &Value, namespaced: bool) {
    let spec = &definition["spec"];
    let mut metadata = FieldErrors::default();
    check_any_metadata(&mut metadata, definition, namespaced, NameRule::Subdomain);
    check_name(errors, definition, metadata);
    check_spec(errors, spec);
    check_stored_versions(errors, &[], spec);
    check_approval(errors, definition, None);
    check_preserves(errors, spec, None);
}

/// What a user should know about a new definition: formats that mean nothing, and expressions that this server cannot
/// evaluate.
pub fn definition_warnings(definition: &Value) -> Vec<String> {
    let versions = list(&definition["spec"], "versions").iter();
    let schemas = versions.filter_map(|version| get(&version["schema"], "openAPIV3Schema"));
    let mut formats = Vec::new();
    schemas.for_each(|schema| schemas::unknown_formats(schema, &mut formats));
    let mut warnings: Vec<String> =
        formats.into_iter().map(|format| format!("unrecognized format {}", quote(format))).collect();
    warnings.extend(expression_warnings(definition));
    warnings
}

/// The warnings about the expressions of a definition, new or not, that this server cannot evaluate.
pub fn expression_warnings(definition: &Value) -> Vec<String> {
    let versions = FieldPath::SPEC.child("versions");
    let mut warnings = Vec::new();
    for (index, version) in list(&definition["spec"], "versions").iter().enumerate() {
        let Some(schema) = get(&version["schema"], "openAPIV3Schema") else { continue };
        let path = versions.index(index);
        let path = path.child("schema");
        let findings =
            ExpressionFindings::of_schema(schema, path.child("openAPIV3Schema"), &FieldErrors::default());
        warnings.extend(findings.warnings);
    }
    warnings
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
    check_approval(errors, new, Some(old));
    check_preserves(errors, new_spec, Some(old_spec));
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
    check_common_parts(errors, spec, path);
    check_conversion(errors, spec, path.child("conversion"));
}

/// Unknown fields are kept by schemas, and not by definitions any more.
fn check_preserves(errors: &mut FieldErrors, spec: &Value, old: Option<&Value>) {
    let preserves = |spec: &Value| boolean(spec, "preserveUnknownFields");
    if preserves(spec) && !old.is_some_and(preserves) {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        errors.invalid(FieldPath::SPEC.child("preserveUnknownFields"), true, detail);
    }
}

/// Groups of the Kubernetes community need an annotation, which an update may leave as it is.
fn check_approval(errors: &mut FieldErrors, definition: &Value, old: Option<&Value>) {
    let group = text(&definition["spec"], "group");
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let state = approval_state(definition);
    if !is_protected || old.map(approval_state) == Some(state) {
        return;
    }
    let path = FieldPath::METADATA.child("annotations");
    let (path, url) = (path.key(APPROVAL), "https://github.com/kubernetes/enhancements/pull/1111");
    match state {
        Approval::Given => {}
        Approval::Missing => {
            let detail = format!("protected groups must have approval annotation \"{APPROVAL}\", see {url}");
            errors.required(path, detail);
        }
        Approval::Invalid => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason \
                 starting with \"unapproved\", see {url}"
            );
            errors.invalid(path, annotation(definition, APPROVAL).unwrap_or_default(), detail);
        }
    }
}

/// Whether a definition has the annotation of protected groups.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Invalid,
    Given,
}

fn approval_state(definition: &Value) -> Approval {
    let value = annotation(definition, APPROVAL).unwrap_or_default();
    let is_url = value
        .split_once("://")
        .is_some_and(|(scheme, host)| !scheme.is_empty() && !host.is_empty() && !host.starts_with('/'));
    match value {
        "" => Approval::Missing,
        _ if is_url || value.starts_with("unapproved") => Approval::Given,
        _ => Approval::Invalid,
    }
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
    if boolean(spec, "preserveUnknownFields") {
        let schemas = versions.iter().filter_map(|version| get(&version["schema"], "openAPIV3Schema"));
        if schemas.into_iter().any(defaults::has_defaults) {
            let detail = "must be false in order to use defaults in the schema";
            errors.invalid(path.child("preserveUnknownFields"), true, detail);
        }
    }
    let common: Vec<&str> = COMMON_PARTS.into_iter().filter(|part| is_common(spec, part)).collect();
    for (index, version) in versions.iter().enumerate() {
        let path = versions_path.index(index);
        check_version_name(errors, text(version, "name"), path.child("name"));
        check_deprecation(errors, version, path);
        let has_status = get(&version["subresources"], "status").is_some();
        for part in COMMON_PARTS.into_iter().filter(|part| !common.contains(part)) {
            check_version_part(errors, version, part, has_status, path, part);
        }
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

/// Checks the parts that all versions have in common.
fn check_common_parts(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let versions = list(spec, "versions");
    let Some(first) = versions.first() else { return };
    let has_status = versions.iter().any(|version| get(&version["subresources"], "status").is_some());
    for part in COMMON_PARTS.into_iter().filter(|part| is_common(spec, part)) {
        let name = if part == "schema" { "validation" } else { part };
        check_version_part(errors, first, part, has_status, path, name);
    }
}

/// Whether a part is equal in all versions.
fn is_common(spec: &Value, part: &str) -> bool {
    list(spec, "versions").windows(2).all(|pair| get(&pair[0], part) == get(&pair[1], part))
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
        let is_common = is_common(spec, name);
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
