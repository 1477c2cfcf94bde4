//! Checks of PersistentVolumes and StorageClasses.
//!
//! Of the deprecated cloud and network volumes only the number of sources is checked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claims::{check_access_modes, check_class_name, check_volume_mode};
use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::go_values::{indented_json, semantic_equal};
use super::json_fields::{
    annotation, entries, get, list, optional_text, quantity, set, text, text_entries, texts,
};
use super::metadata::{check_metadata, check_metadata_update};
use super::resources::check_positive;
use super::selectors::{LabelValues, check_node_selector};
use super::unified_diff::unified_diff;
use super::volumes::{check_csi_driver, check_host_path, check_no_backsteps};
use crate::names::{NameRule, label_1123, qualified_name, subdomain_1123};

const VOLUME_SOURCE: &str = "core.PersistentVolumeSource";
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// The sources of a volume, in the order in which Kubernetes checks them.
const SOURCES: [&str; 22] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];
/// Sources whose volumes take mount options from an annotation.
const MOUNTABLE_SOURCES: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Checks a new volume.
pub(super) fn check_persistent_volume(errors: &mut FieldErrors, volume: &Value, namespaced: bool) {
    check_metadata_and_spec(errors, volume, namespaced);
    check_mount_options(errors, volume);
}

fn check_metadata_and_spec(errors: &mut FieldErrors, volume: &Value, namespaced: bool) {
    check_metadata(errors, volume, namespaced, NameRule::Subdomain);
    let (spec, path) = (&volume["spec"], FieldPath::SPEC);
    if list(spec, "accessModes").is_empty() {
        errors.required(path.child("accessModes"), "");
    }
    check_access_modes(errors, spec, path);
    check_capacity(errors, spec, path.child("capacity"));
    let (policy, policies) = (text(spec, "persistentVolumeReclaimPolicy"), ["Delete", "Recycle", "Retain"]);
    let policy_path = path.child("persistentVolumeReclaimPolicy");
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.not_supported(policy_path, policy, &policies);
    }
    check_node_affinity(errors, spec, path.child("nodeAffinity"));
    check_source(errors, spec, path);
    let host_path = text(&spec["hostPath"], "path");
    let is_root =
        host_path.starts_with('/') && host_path.split('/').all(|part| part.is_empty() || part == ".");
    if is_root && policy == "Recycle" {
        errors.forbidden(policy_path, "may not be 'recycle' for a hostPath mount of '/'");
    }
    check_class_name(errors, spec, "storageClassName", path);
    check_volume_mode(errors, spec, path);
    if let Some(class) = optional_text(spec, "volumeAttributesClassName") {
        if class.is_empty() {
            errors.required(path.child("volumeAttributesClassName"), "an empty string is disallowed");
        }
        check_class_name(errors, spec, "volumeAttributesClassName", path);
        if get(spec, "csi").is_none() {
            errors.required(path.child("csi"), "has to be specified when using volumeAttributesClassName");
        }
    }
}

fn check_capacity(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let count = entries(spec, "capacity").count();
    if count == 0 {
        errors.required(path, "");
    }
    if get(&spec["capacity"], "storage").is_none() || count > 1 {
        errors.not_supported(path, PrintedValue::Go("{}q", &spec["capacity"]), &["storage"]);
    }
    for (name, value) in entries(spec, "capacity") {
        if let Some(amount) = quantity(value).filter(|amount| amount.value() < 0) {
            errors.invalid(path.key(name), amount.value(), "must be a valid resource quantity");
        }
        check_positive(errors, value, path.key(name));
    }
}

fn check_node_affinity(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let Some(affinity) = get(spec, "nodeAffinity") else { return };
    match get(affinity, "required") {
        None => errors.required(path.child("required"), "must specify required node constraints"),
        Some(required) => {
            check_node_selector(errors, required, path.child("required"), LabelValues::Checked);
        }
    }
}

fn check_source(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let mut has_source = false;
    for name in SOURCES {
        let Some(source) = get(spec, name) else { continue };
        let source_path = path.child(name);
        if has_source {
            errors.forbidden(source_path, "may not specify more than 1 volume type");
            continue;
        }
        has_source = true;
        match name {
            "hostPath" => check_host_path(errors, source, source_path),
            "nfs" => check_nfs(errors, source, source_path),
            "local" => {
                match text(source, "path") {
                    "" => errors.required(source_path.child("path"), ""),
                    local => check_no_backsteps(errors, local, source_path.child("path")),
                }
                if get(spec, "nodeAffinity").is_none() {
                    errors.required(path.child("nodeAffinity"), "Local volume requires node affinity");
                }
            }
            "csi" => check_csi(errors, source, source_path),
            _ => {}
        }
    }
    if !has_source {
        errors.required(path, "must specify a volume type");
    }
}

fn check_nfs(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    for name in ["server", "path"] {
        if text(source, name).is_empty() {
            errors.required(path.child(name), "");
        }
    }
    let nfs_path = text(source, "path");
    if !nfs_path.starts_with('/') {
        errors.invalid(path.child("path"), nfs_path, "must be an absolute path");
    }
}

fn check_csi(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    check_csi_driver(errors, text(source, "driver"), path.child("driver"));
    if text(source, "volumeHandle").is_empty() {
        errors.required(path.child("volumeHandle"), "");
    }
    for name in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let Some(secret) = get(source, name) else { continue };
        let path = path.child(name);
        match text(secret, "name") {
            "" => errors.required(path.child("name"), ""),
            name => errors.invalid_all(path.child("name"), name, subdomain_1123(name)),
        }
        match text(secret, "namespace") {
            "" => errors.required(path.child("namespace"), ""),
            namespace => errors.invalid_all(path.child("namespace"), namespace, label_1123(namespace)),
        }
    }
}

fn check_mount_options(errors: &mut FieldErrors, volume: &Value) {
    let is_mountable = MOUNTABLE_SOURCES.iter().any(|name| get(&volume["spec"], name).is_some());
    if !is_mountable && annotation(volume, MOUNT_OPTIONS).is_some() {
        let path = FieldPath::METADATA.child("annotations");
        errors.forbidden(path.child(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
}

/// Checks the update of a volume. Kubernetes checks the new version twice.
pub(super) fn check_persistent_volume_update(
    errors: &mut FieldErrors,
    old: &Value,
    new: &Value,
    namespaced: bool,
) {
    check_persistent_volume(errors, new, namespaced);
    check_metadata_and_spec(errors, new, namespaced);
    let (old_spec, new_spec) = (&old["spec"], &new["spec"]);
    let mut kept = new_spec.clone();
    let secret = "controllerExpandSecretRef";
    if get(old_spec, "csi").is_some_and(|csi| get(csi, secret).is_none())
        && let Some(csi) = kept.get_mut("csi").and_then(Value::as_object_mut)
    {
        csi.remove(secret);
    }
    if !semantic_equal(VOLUME_SOURCE, old_spec, &kept) {
        let diff =
            unified_diff(&indented_json(VOLUME_SOURCE, old_spec), &indented_json(VOLUME_SOURCE, &kept));
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.forbidden(FieldPath::SPEC.child("persistentvolumesource"), detail);
    }
    if get(old_spec, "volumeMode") != get(new_spec, "volumeMode") {
        errors.invalid(FieldPath::new("volumeMode"), &new_spec["volumeMode"], "field is immutable");
    }
    check_node_affinity_update(errors, old_spec, new_spec);
    let class = "volumeAttributesClassName";
    if get(old_spec, class).is_some() && get(new_spec, class).is_none() {
        let detail = "update from non-nil value to nil is forbidden";
        errors.forbidden(FieldPath::SPEC.child(class), detail);
    }
}

fn check_node_affinity_update(errors: &mut FieldErrors, old: &Value, new: &Value) {
    const TYPE: &str = "*core.VolumeNodeAffinity";
    let Some(old_affinity) = get(old, "nodeAffinity") else { return };
    let mut expected = old_affinity.clone();
    rename_beta_labels(&mut expected, &new["nodeAffinity"]);
    if !semantic_equal(TYPE, &expected, &new["nodeAffinity"]) {
        let detail = "field is immutable, except for updating from beta label to GA";
        errors.invalid(FieldPath::new("nodeAffinity"), PrintedValue::Go(TYPE, &new["nodeAffinity"]), detail);
    }
}

/// Replaces beta labels by the current ones where the new version uses those.
fn rename_beta_labels(old: &mut Value, new: &Value) {
    const LABELS: [(&str, &str); 5] = [
        ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
        ("beta.kubernetes.io/os", "kubernetes.io/os"),
        ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
        ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ];
    let Some(terms) = old.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut) else {
        return;
    };
    for (term, new_term) in terms.iter_mut().zip(list(&new["required"], "nodeSelectorTerms")) {
        let expressions = term.get_mut("matchExpressions").and_then(Value::as_array_mut);
        let pairs = expressions.into_iter().flatten().zip(list(new_term, "matchExpressions"));
        for (expression, new_expression) in pairs {
            let keys = (text(expression, "key"), text(new_expression, "key"));
            if LABELS.contains(&keys) {
                set(expression, "key", new_expression["key"].clone());
            }
        }
    }
}

/// Checks a new storage class.
pub(super) fn check_storage_class(errors: &mut FieldErrors, class: &Value, namespaced: bool) {
    const MAX_PARAMETERS: usize = 512;
    const MAX_PARAMETERS_SIZE: usize = 256 << 10;
    check_metadata(errors, class, namespaced, NameRule::Subdomain);
    match text(class, "provisioner") {
        "" => errors.required(FieldPath::new("provisioner"), ""),
        name => {
            let name = name.to_lowercase();
            errors.invalid_all(FieldPath::new("provisioner"), &name, qualified_name(&name));
        }
    }
    let parameters = FieldPath::new("parameters");
    if entries(class, "parameters").count() > MAX_PARAMETERS {
        errors.too_long(parameters, MAX_PARAMETERS);
    } else {
        if text_entries(class, "parameters").any(|(key, _)| key.is_empty()) {
            errors.invalid(parameters, "", "field can not be empty.");
        }
        let size: usize = text_entries(class, "parameters").map(|(key, value)| key.len() + value.len()).sum();
        if size > MAX_PARAMETERS_SIZE {
            errors.too_long(parameters, MAX_PARAMETERS_SIZE);
        }
    }
    let (policy, policies) = (text(class, "reclaimPolicy"), ["Delete", "Retain"]);
    if !policy.is_empty() && !policies.contains(&policy) {
        errors.not_supported(FieldPath::new("reclaimPolicy"), policy, &policies);
    }
    let modes = ["Immediate", "WaitForFirstConsumer"];
    match optional_text(class, "volumeBindingMode") {
        None => errors.required(FieldPath::new("volumeBindingMode"), ""),
        Some(mode) if !modes.contains(&mode) => {
            errors.not_supported(FieldPath::new("volumeBindingMode"), mode, &modes);
        }
        Some(_) => {}
    }
    check_allowed_topologies(errors, class);
}

fn check_allowed_topologies(errors: &mut FieldErrors, class: &Value) {
    let path = FieldPath::new("allowedTopologies");
    let topologies = list(class, "allowedTopologies");
    // How often each term has occurred. Kubernetes compares with as many empty terms too.
    let mut terms: BTreeMap<BTreeSet<(&str, BTreeSet<&str>)>, usize> = BTreeMap::new();
    terms.insert(BTreeSet::new(), topologies.len());
    for (index, term) in topologies.iter().enumerate() {
        let path = path.index(index);
        let expressions_path = path.child("matchLabelExpressions");
        let expressions = list(term, "matchLabelExpressions");
        let mut keys = BTreeSet::new();
        for (index, expression) in expressions.iter().enumerate() {
            let path = expressions_path.index(index);
            let values: Vec<&str> = texts(expression, "values").collect();
            let values_path = path.child("values");
            if values.is_empty() {
                errors.required(values_path, "");
            }
            let mut seen = BTreeSet::new();
            for (index, value) in values.iter().enumerate() {
                if !seen.insert(value) {
                    errors.duplicate(values_path.index(index), *value);
                }
            }
            let key = text(expression, "key");
            errors.invalid_all(path.child("key"), key, qualified_name(key));
            if !keys.insert(key) {
                errors.duplicate(path.child("key"), key);
            }
        }
        let set = expressions.iter().map(|it| (text(it, "key"), texts(it, "values").collect())).collect();
        let count = terms.entry(set).or_insert(0);
        for _ in 0..*count {
            if errors.is_full() {
                return;
            }
            errors.duplicate(expressions_path, "");
        }
        *count += 1;
    }
}

/// Checks the update of a storage class.
pub(super) fn check_storage_class_update(
    errors: &mut FieldErrors,
    old: &Value,
    new: &Value,
    namespaced: bool,
) {
    check_storage_class(errors, new, namespaced);
    check_metadata_update(errors, old, new);
    for (name, go_type) in
        [("parameters", "{}s"), ("provisioner", "s"), ("reclaimPolicy", "*s"), ("volumeBindingMode", "*s")]
    {
        if !semantic_equal(go_type, &old[name], &new[name]) {
            errors.invalid(FieldPath::new(name), &new[name], "field is immutable");
        }
    }
}
