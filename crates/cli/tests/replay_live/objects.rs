//! Comparison of the objects of a recording with those of an API server.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value};
use testcluster::Kubectl;

use crate::common::run;

pub(crate) const RUN: &str = "replay.kinescope.io/run";
const UID: &str = "replay.kinescope.io/uid";
/// Fields of metadata that the API server or a rule sets.
const SERVER_FIELDS: [&str; 8] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "ownerReferences",
    "finalizers",
];
/// The kinds of the recordings that are applied.
pub(crate) const KINDS: [&str; 7] = [
    "namespaces",
    "priorityclasses.scheduling.k8s.io",
    "nodes",
    "persistentvolumes",
    "persistentvolumeclaims",
    "poddisruptionbudgets.policy",
    "pods",
];

/// The objects of a list by kind, namespace and name, without the fields that differ between clusters.
fn objects(list: &str) -> BTreeMap<String, Value> {
    let list: Value = serde_json::from_str(list).unwrap();
    let named = |mut object: Value| {
        let text =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = [text("/kind"), text("/metadata/namespace"), text("/metadata/name")].join(" ");
        strip(&mut object);
        (name, object)
    };
    list["items"].as_array().unwrap().iter().cloned().map(named).collect()
}

fn strip(object: &mut Value) {
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.retain(|field, _| !SERVER_FIELDS.contains(&field.as_str()));
    // The deletion timestamp comes from each server's clock.
    if let Some(deleted) = metadata.get_mut("deletionTimestamp") {
        *deleted = true.into();
    }
    for (field, mark) in [("labels", RUN), ("annotations", UID)] {
        if let Some(Value::Object(marks)) = metadata.get_mut(field) {
            marks.remove(mark);
            if marks.is_empty() {
                metadata.remove(field);
            }
        }
    }
    match object["kind"].as_str().unwrap() {
        "Pod" => {
            // The rules remove fields that refer to its node.
            if let Some(Value::Object(labels)) = object.pointer_mut("/metadata/labels") {
                labels.retain(|name, _| !name.starts_with("topology.kubernetes.io/"));
            }
            object.as_object_mut().unwrap().remove("status");
            let spec = object["spec"].as_object_mut().unwrap();
            for field in ["nodeName", "serviceAccountName", "serviceAccount"] {
                spec.remove(field);
            }
            strip_tokens(spec);
        }
        // The rules remove the selected node, and allow only volumes of the run.
        "PersistentVolumeClaim" => {
            if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
                annotations.remove("volume.kubernetes.io/selected-node");
            }
            if let Some(Value::Object(selected)) = object.pointer_mut("/spec/selector/matchLabels") {
                selected.remove(RUN);
                if selected.is_empty() {
                    object["spec"].as_object_mut().unwrap().remove("selector");
                }
            }
        }
        "Namespace" => {
            let object = object.as_object_mut().unwrap();
            object.remove("spec");
            object.remove("status");
        }
        "PersistentVolume" => {
            if let Some(Value::Object(claim)) = object.pointer_mut("/spec/claimRef") {
                claim.remove("uid");
                claim.remove("resourceVersion");
            }
            // The rules remove the volume handle, and set the reclaim policy to Retain.
            object["spec"].as_object_mut().unwrap().remove("persistentVolumeReclaimPolicy");
            if let Some(handle) = object.pointer_mut("/spec/csi/volumeHandle") {
                *handle = Value::Null;
            }
            // Set from the server's clock.
            object["status"].as_object_mut().unwrap().remove("lastPhaseTransitionTime");
        }
        _ => {}
    }
}

/// Removes the service account token volume that every pod gets.
fn strip_tokens(spec: &mut Map<String, Value>) {
    let without = |fields: &mut Map<String, Value>, list: &str| {
        let Some(Value::Array(members)) = fields.get_mut(list) else { return };
        members.retain(|member| !member["name"].as_str().unwrap().starts_with("kube-api-access-"));
        if members.is_empty() {
            fields.remove(list);
        }
    };
    without(spec, "volumes");
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            without(container.as_object_mut().unwrap(), "volumeMounts");
        }
    }
}

fn recorded_objects(folder: &Path, history: &str, kind: &str) -> BTreeMap<String, Value> {
    objects(&run(folder, &["get", kind, "-A", "-o", "json", "--history", history]).success())
}

pub(crate) fn server_objects(kubectl: &Kubectl, kind: &str) -> BTreeMap<String, Value> {
    let selector = format!("--selector={RUN}");
    objects(&kubectl.run(&["get", kind, "-A", "-o", "json", &selector]).unwrap())
}

/// Checks that all objects at the end of the recording are in the API server, and that no other object has the run's
/// label.
#[track_caller]
pub(crate) fn check(kubectl: &Kubectl, folder: &Path, history: &str, output: &str) {
    for kind in KINDS {
        let (mut recording, server) =
            (recorded_objects(folder, history, kind), server_objects(kubectl, kind));
        // Objects that every cluster has are not applied; a terminating pod without a node is removed at once.
        recording.retain(|name, object| {
            server.contains_key(name) || !(is_built_in(name) || is_terminating(object))
        });
        assert_eq!(
            recording.keys().collect::<Vec<_>>(),
            server.keys().collect::<Vec<_>>(),
            "{kind}\n{output}"
        );
        for (name, object) in &recording {
            assert_eq!(server[name], *object, "{name}");
        }
    }
}

fn is_terminating(object: &Value) -> bool {
    object["kind"] == "Pod" && object["metadata"].get("deletionTimestamp").is_some()
}

/// Whether every cluster has this object from its start.
fn is_built_in(name: &str) -> bool {
    let last = name.rsplit(' ').next().unwrap();
    matches!(last, "default" | "kube-system" | "kube-public" | "kube-node-lease")
        || last.starts_with("system-")
}
