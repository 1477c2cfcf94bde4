//! Fields that an API server sets or keeps in namespaces, claims, accounts, certificate requests, definitions and
//! devices.

use std::collections::BTreeSet;

use kubernetes::fields::{Fields, default_to, entries_mut, fields_mut, text};
use serde_json::{Map, Value, json};

pub(super) fn add_kubernetes_finalizer(namespace: &mut Fields) {
    let Some(spec) = fields_mut(namespace, "spec") else { return };
    default_to(spec, "finalizers", json!([]));
    if let Some(Value::Array(finalizers)) = spec.get_mut("finalizers")
        && !finalizers.iter().any(|finalizer| finalizer == "kubernetes")
    {
        finalizers.push("kubernetes".into());
    }
}

/// Copies `dataSource` to `dataSourceRef` or back. Sources that are neither claims nor snapshots are ignored
/// in the older field.
pub(super) fn normalize_data_source(claim: &mut Fields, old: Option<&Value>) {
    let Some(spec) = fields_mut(claim, "spec") else { return };
    let is_used = old.is_some_and(|old| {
        old["spec"].get("dataSource").is_some() || old["spec"].get("dataSourceRef").is_some()
    });
    let is_known = |source: &Value| {
        let group = source["apiGroup"].as_str().unwrap_or_default();
        matches!(
            (group, source["kind"].as_str().unwrap_or_default()),
            ("", "PersistentVolumeClaim") | ("snapshot.storage.k8s.io", "VolumeSnapshot")
        )
    };
    if !is_used
        && spec.get("dataSourceRef").is_none()
        && spec.get("dataSource").is_some_and(|source| !is_known(source))
    {
        spec.remove("dataSource");
    }
    match (spec.get("dataSource").cloned(), spec.get("dataSourceRef").cloned()) {
        (Some(source), None) => _ = spec.insert("dataSourceRef".to_owned(), source),
        (None, Some(mut reference)) => {
            if reference["namespace"].as_str().unwrap_or_default().is_empty()
                && let Some(fields) = reference.as_object_mut()
            {
                fields.remove("namespace");
                spec.insert("dataSource".to_owned(), reference);
            }
        }
        _ => {}
    }
}

/// Of the Secrets of a ServiceAccount only the names are stored.
pub(super) fn clean_secret_references(account: &mut Fields) {
    for secret in entries_mut(account, "secrets") {
        secret.retain(|field, _| field == "name");
    }
}

/// An APIService that the API server itself serves is available at once.
pub(super) fn set_local_condition(service: &mut Fields) {
    if service.get("spec").is_some_and(|spec| spec.get("service").is_none_or(Value::is_null)) {
        let condition = json!({
            "type": "Available", "status": "True", "reason": "Local",
            "message": "Local APIServices are always available",
        });
        service.insert("status".to_owned(), json!({"conditions": [condition]}));
    }
}

/// The user of a CertificateSigningRequest is the one that creates it: the caller sets it.
pub(super) fn remove_user(request: &mut Fields) {
    let Some(spec) = fields_mut(request, "spec") else { return };
    for field in ["username", "uid", "groups", "extra"] {
        spec.remove(field);
    }
}

/// Approvals and denials are not changed through the status, as long as their number is the same.
pub(super) fn keep_decisions(old: &Value, new: &mut Fields) {
    let Some(status) = fields_mut(new, "status") else { return };
    let old = old["status"]["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    for decision in ["Approved", "Denied"] {
        let old: Vec<&Value> = old.iter().filter(|condition| condition["type"] == decision).collect();
        let new: Vec<&mut Fields> = entries_mut(status, "conditions")
            .filter(|condition| text(condition, "type") == decision)
            .collect();
        if old.len() == new.len() {
            for (new, old) in new.into_iter().zip(old) {
                new.clone_from(old.as_object().unwrap_or(&Map::new()));
            }
        }
    }
}

pub(super) fn set_condition_times(old: Option<&Value>, request: &mut Fields, now: &Value) {
    let Some(status) = fields_mut(request, "status") else { return };
    let old = old.and_then(|old| old["status"]["conditions"].as_array());
    for condition in entries_mut(status, "conditions") {
        default_to(condition, "lastUpdateTime", now.clone());
        let before = old.into_iter().flatten().find(|old| {
            Some(&old["type"]) == condition.get("type")
                && Some(&old["status"]) == condition.get("status")
                && !old["lastTransitionTime"].is_null()
        });
        let time = before.map_or(now, |old| &old["lastTransitionTime"]).clone();
        default_to(condition, "lastTransitionTime", time);
    }
}

/// The version in which custom resources are now stored becomes one of those in which some may be stored.
pub(super) fn add_stored_version(definition: &mut Fields) {
    let versions = definition.get("spec").and_then(|spec| spec["versions"].as_array());
    let stored = versions.into_iter().flatten().find(|version| version["storage"] == true);
    let Some(name) = stored.map(|version| version["name"].clone()) else { return };
    let Some(status) = fields_mut(definition, "status") else { return };
    default_to(status, "storedVersions", json!([]));
    if let Some(Value::Array(names)) = status.get_mut("storedVersions")
        && !names.contains(&name)
    {
        names.push(name);
    }
}

/// The status of devices that this update deallocates is removed.
pub(super) fn remove_deallocated_devices(old: &Value, claim: &mut Fields) {
    let device_of = |entry: &Value| {
        ["driver", "pool", "device", "shareID"]
            .map(|field| entry[field].as_str().unwrap_or_default().to_owned())
    };
    let allocated = |status: &Value| -> BTreeSet<[String; 4]> {
        let results = status.pointer("/allocation/devices/results").and_then(Value::as_array);
        results.into_iter().flatten().map(device_of).collect()
    };
    let before = allocated(&old["status"]);
    let Some(status) = claim.get_mut("status") else { return };
    let after = allocated(status);
    let Some(fields) = status.as_object_mut() else { return };
    let Some(Value::Array(devices)) = fields.get_mut("devices") else { return };
    devices.retain(|entry| {
        let device = device_of(entry);
        !before.contains(&device) || after.contains(&device)
    });
    if devices.is_empty() {
        fields.remove("devices");
    }
}
