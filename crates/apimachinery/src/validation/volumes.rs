//! Checks of a pod's volumes and of the paths and references inside them.
//!
//! Of the deprecated cloud and network volumes only the number of sources is checked, and the fields that
//! identify the volume.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::claims::check_claim_spec;
use super::field_error::{FieldErrors, FieldPath};
use super::field_references::{check_field_reference, check_resource_field_reference};
use super::json_fields::{get, integer, list, optional_integer, optional_text, quantity, text};
use super::metadata::check_annotations;
use super::selectors::check_labels;
use crate::names::{NameRule, label_1123, subdomain_1123};

const ONE_SOURCE: &str = "may not specify more than 1 volume type";
const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
/// The sources of a volume, in the order in which Kubernetes checks them, each with the fields that it
/// requires.
const SOURCES: [(&str, &[&str]); 30] = [
    ("emptyDir", &[]),
    ("hostPath", &[]),
    ("gitRepo", &["repository"]),
    ("gcePersistentDisk", &[]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("secret", &["secretName"]),
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("quobyte", &[]),
    ("downwardAPI", &[]),
    ("fc", &[]),
    ("flexVolume", &["driver"]),
    ("configMap", &["name"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("storageos", &[]),
    ("projected", &[]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("csi", &[]),
    ("ephemeral", &[]),
    ("image", &[]),
];

/// The valid volumes of a pod, by name.
pub(super) type Volumes<'v> = BTreeMap<&'v str, &'v Value>;

/// Checks the volumes of a pod. `pod_name` is `None` for templates.
pub(super) fn check_volumes<'v>(
    errors: &mut FieldErrors,
    spec: &'v Value,
    pod_name: Option<&str>,
    path: FieldPath<'_>,
) -> Volumes<'v> {
    let path = path.child("volumes");
    let mut volumes = Volumes::new();
    let created_claims: BTreeSet<String> = pod_name
        .filter(|pod| !pod.is_empty())
        .into_iter()
        .flat_map(|pod| {
            let ephemeral = list(spec, "volumes").iter().filter(|volume| get(volume, "ephemeral").is_some());
            ephemeral.map(move |volume| format!("{pod}-{}", text(volume, "name")))
        })
        .collect();
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let path = path.index(index);
        let name = text(volume, "name");
        let mut found = FieldErrors::default();
        check_source(&mut found, volume, pod_name, path);
        if name.is_empty() {
            found.required(path.child("name"), "");
        } else {
            found.invalid_all(path.child("name"), name, label_1123(name));
        }
        if volumes.contains_key(name) {
            found.duplicate(path.child("name"), name);
        }
        if found.is_empty() {
            volumes.insert(name, volume);
        }
        errors.extend(found.into_vec());
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if !claim.is_empty() && created_claims.contains(claim) {
            let path = path.child("persistentVolumeClaim");
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(path.child("claimName"), claim, detail);
        }
    }
    volumes
}

fn check_source(errors: &mut FieldErrors, volume: &Value, pod_name: Option<&str>, path: FieldPath<'_>) {
    let mut has_source = false;
    for (name, required) in SOURCES {
        let Some(source) = get(volume, name) else { continue };
        if has_source {
            // Two names are misspelled in Kubernetes' messages.
            let name = match name {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                name => name,
            };
            errors.forbidden(path.child(name), ONE_SOURCE);
            continue;
        }
        has_source = true;
        let source_path = path.child(name);
        for field in required {
            let is_missing = text(source, field).is_empty() && list(source, field).is_empty();
            if is_missing {
                errors.required(source_path.child(field), "");
            }
        }
        match name {
            "emptyDir" => check_empty_dir(errors, source, source_path),
            "hostPath" => check_host_path(errors, source, source_path),
            "gcePersistentDisk" if text(source, "pdName").is_empty() => {
                errors.required(path.child("persistentDisk").child("pdName"), "");
            }
            "nfs" => {
                let nfs_path = text(source, "path");
                if !nfs_path.starts_with('/') {
                    errors.invalid(source_path.child("path"), nfs_path, "must be an absolute path");
                }
            }
            "secret" | "configMap" => {
                check_mode(errors, source, "defaultMode", source_path);
                check_items(errors, source, source_path);
            }
            "downwardAPI" => {
                check_mode(errors, source, "defaultMode", source_path);
                for file in list(source, "items") {
                    check_downward_file(errors, file, source_path);
                }
            }
            "projected" => check_projected(errors, source, source_path),
            "csi" => check_csi(errors, source, source_path),
            "ephemeral" => check_ephemeral(errors, source, text(volume, "name"), pod_name, path),
            "image" => check_image(errors, source, pod_name, source_path),
            _ => {}
        }
    }
    if !has_source {
        errors.required(path, "must specify a volume type");
    }
}

fn check_empty_dir(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    let limit = get(source, "sizeLimit").and_then(quantity);
    if limit.is_some_and(|limit| limit.sign() < 0) {
        errors.forbidden(path.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

/// Checks a directory or file of the node.
pub(super) fn check_host_path(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    let host_path = text(source, "path");
    if host_path.is_empty() {
        return errors.required(path.child("path"), "");
    }
    check_no_backsteps(errors, host_path, path.child("path"));
    if let Some(path_type) = optional_text(source, "type").filter(|path_type| !TYPES.contains(path_type)) {
        errors.not_supported(path.child("type"), path_type, &TYPES);
    }
}

fn check_image(errors: &mut FieldErrors, source: &Value, pod_name: Option<&str>, path: FieldPath<'_>) {
    if pod_name.is_some() && text(source, "reference").is_empty() {
        errors.required(path.child("reference"), "");
    }
    check_pull_policy(errors, source, "pullPolicy", path);
}

/// Checks when an image is pulled.
pub(super) fn check_pull_policy(errors: &mut FieldErrors, object: &Value, name: &str, path: FieldPath<'_>) {
    match text(object, name) {
        "Always" | "IfNotPresent" | "Never" => {}
        "" => errors.required(path.child(name), ""),
        other => errors.not_supported(path.child(name), other, &["Always", "IfNotPresent", "Never"]),
    }
}

fn check_csi(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    check_csi_driver(errors, text(source, "driver"), path.child("driver"));
    let Some(secret) = get(source, "nodePublishSecretRef") else { return };
    let name = text(secret, "name");
    if name.is_empty() {
        errors.required(path.child("nodePublishSecretRef").child("name"), "");
    } else {
        errors.invalid_all(path.child("name"), name, NameRule::Subdomain.check(name, false));
    }
}

/// Checks the name of a CSI driver.
pub(super) fn check_csi_driver(errors: &mut FieldErrors, name: &str, path: FieldPath<'_>) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > 63 {
        errors.too_long(path, 63);
    }
    errors.invalid_all(path, name, subdomain_1123(&name.to_lowercase()));
}

fn check_ephemeral(
    errors: &mut FieldErrors,
    source: &Value,
    volume: &str,
    pod_name: Option<&str>,
    path: FieldPath<'_>,
) {
    let ephemeral = path.child("ephemeral");
    let template_path = ephemeral.child("volumeClaimTemplate");
    match get(source, "volumeClaimTemplate") {
        None => errors.required(template_path, ""),
        Some(template) => {
            let metadata_path = template_path.child("metadata");
            let metadata = &template["metadata"];
            check_annotations(errors, metadata, metadata_path.child("annotations"));
            check_labels(errors, metadata, "labels", metadata_path.child("labels"));
            for (name, value) in metadata.as_object().into_iter().flatten() {
                if !["annotations", "labels"].contains(&name.as_str()) && !value.is_null() {
                    errors.forbidden(metadata_path.child(name), "cannot be set");
                }
            }
            check_claim_spec(errors, &template["spec"], template_path.child("spec"));
        }
    }
    if let Some(pod) = pod_name.filter(|pod| !pod.is_empty() && !volume.is_empty()) {
        let claim = format!("{pod}-{volume}");
        for message in NameRule::Subdomain.check(&claim, false) {
            errors.invalid(path.child("name"), volume, format!("PVC name {claim:?}: {message}"));
        }
    }
}

fn check_projected(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    const REPEATED: &str = "conflicting duplicate paths";
    check_mode(errors, source, "defaultMode", path);
    let sources = path.child("sources");
    let mut file_paths: BTreeSet<&str> = BTreeSet::new();
    let mut is_repeated = |file_path| !file_paths.insert(file_path) && !file_path.is_empty();
    for (index, projection) in list(source, "sources").iter().enumerate() {
        let source_path = sources.index(index);
        for name in ["secret", "configMap"] {
            let Some(part) = get(projection, name) else { continue };
            let part_path = source_path.child(name);
            if text(part, "name").is_empty() {
                errors.required(part_path.child("name"), "");
            }
            let items = part_path.child("items");
            for (index, item) in list(part, "items").iter().enumerate() {
                check_item(errors, item, items.index(index));
                if is_repeated(text(item, "path")) {
                    errors.invalid(path, text(part, "name"), REPEATED);
                }
            }
        }
        for file in list(&projection["downwardAPI"], "items") {
            check_downward_file(errors, file, source_path.child("downwardAPI"));
            if is_repeated(text(file, "path")) {
                errors.invalid(path, text(file, "path"), REPEATED);
            }
        }
        if let Some(token) = get(projection, "serviceAccountToken") {
            check_token(errors, token, path, source_path.child("serviceAccountToken"));
        }
        let parts = [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ];
        if parts.iter().filter(|name| get(projection, name).is_some()).count() > 1 {
            errors.forbidden(source_path, "may not specify more than 1 volume type per source");
        }
    }
}

fn check_token(errors: &mut FieldErrors, token: &Value, path: FieldPath<'_>, token_path: FieldPath<'_>) {
    let seconds = integer(token, "expirationSeconds");
    let seconds_path = token_path.child("expirationSeconds");
    if seconds < 10 * 60 {
        errors.invalid(seconds_path, seconds, "may not specify a duration less than 10 minutes");
    }
    if seconds > 1 << 32 {
        errors.invalid(seconds_path, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    match text(token, "path") {
        "" => errors.required(path.child("path"), ""),
        token_path => check_local_path(errors, token_path, path.child("path")),
    }
}

fn check_downward_file(errors: &mut FieldErrors, file: &Value, path: FieldPath<'_>) {
    let file_path = text(file, "path");
    if file_path.is_empty() {
        errors.required(path.child("path"), "");
    }
    check_local_path(errors, file_path, path.child("path"));
    match (get(file, "fieldRef"), get(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            check_field_reference(errors, field, path.child("fieldRef"), true);
            if resource.is_some() {
                let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(path, "resource", detail);
            }
        }
        (None, Some(resource)) => {
            check_resource_field_reference(errors, resource, path.child("resourceFieldRef"), true);
        }
        (None, None) => errors.required(path, "one of fieldRef and resourceFieldRef is required"),
    }
    check_mode(errors, file, "mode", path);
}

fn check_items(errors: &mut FieldErrors, source: &Value, path: FieldPath<'_>) {
    let path = path.child("items");
    for (index, item) in list(source, "items").iter().enumerate() {
        check_item(errors, item, path.index(index));
    }
}

fn check_item(errors: &mut FieldErrors, item: &Value, path: FieldPath<'_>) {
    for name in ["key", "path"] {
        if text(item, name).is_empty() {
            errors.required(path.child(name), "");
        }
    }
    check_local_path(errors, text(item, "path"), path.child("path"));
    check_mode(errors, item, "mode", path);
}

fn check_mode(errors: &mut FieldErrors, object: &Value, name: &str, path: FieldPath<'_>) {
    if let Some(mode) = optional_integer(object, name).filter(|mode| !(0..=0o777).contains(mode)) {
        errors.invalid(path.child(name), mode, FILE_MODE);
    }
}

/// Checks a relative path that may not begin with two dots.
fn check_local_path(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) {
    check_descending_path(errors, value, path);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.invalid(path, value, "must not start with '..'");
    }
}

/// Checks a relative path that does not leave its directory.
pub(super) fn check_descending_path(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) {
    if value.starts_with('/') {
        errors.invalid(path, value, "must be a relative path");
    }
    check_no_backsteps(errors, value, path);
}

/// Checks a path that does not contain `..`.
pub(super) fn check_no_backsteps(errors: &mut FieldErrors, value: &str, path: FieldPath<'_>) {
    if has_backsteps(value) {
        errors.invalid(path, value, "must not contain '..'");
    }
}

/// Whether a part of the path is `..`.
pub(super) fn has_backsteps(value: &str) -> bool {
    value.split('/').any(|part| part == "..")
}
