//! Pods that a trace contains only as lifecycles, synthesized from their owners' templates.

use std::sync::Arc;

use kubernetes::pod_lifecycles::PodLifecycleData;
use model::{BadObject, Object};
use serde_json::{Map, Value, json};

use super::config::{Gvk, TrackedKind};
use super::lifecycle_timeline::start_time;
use super::outline::{PodLifecycle, PodOwner};
use super::pointer;
use super::stable_spec::stable_hash;

/// The annotation with the hash under which the pod's lifecycle was recorded.
pub(super) const HASH_ANNOTATION: &str = "kinescope.io/simkube-pod-hash";
/// The annotation with its index among the lifecycles with that hash.
pub(super) const SEQUENCE_ANNOTATION: &str = "kinescope.io/simkube-sequence";
/// The annotation with `namespace/name` of an owner whose kind the trace does not contain.
const OWNER_ANNOTATION: &str = "kinescope.io/simkube-owner";

/// The most template paths that are followed: no kind has more than a few.
const MAX_TEMPLATE_PATHS: usize = 16;

/// The possible pod specs of one owner, with their stable hashes.
pub(super) struct PodTemplates(Vec<(Option<u64>, Arc<Value>)>);

// === impl PodTemplates ===

impl PodTemplates {
    /// The specs of an owner's templates, as they are and with the API server's defaults.
    pub(super) fn of(owner: &Object, tracked: Option<&TrackedKind>) -> PodTemplates {
        let value = owner.value().unwrap_or_default();
        let template_paths = tracked.map_or(&[][..], |tracked| &tracked.pod_spec_template_paths);
        // SimKube's own path for ReplicaSets is wrong.
        let paths =
            template_paths.iter().map(String::as_str).take(MAX_TEMPLATE_PATHS).chain(["/spec/template"]);
        let mut specs = Vec::new();
        for path in paths {
            let templates = pointer::matches(&value, path).unwrap_or_default();
            for spec in
                templates.iter().filter_map(|template| template.get("spec")).filter(|spec| spec.is_object())
            {
                for spec in [spec.clone(), with_defaults(spec)] {
                    specs.push((stable_hash(&spec).ok(), Arc::new(spec)));
                }
            }
            if !specs.is_empty() {
                break;
            }
        }
        PodTemplates(specs)
    }

    /// The spec with this hash, or else the first one.
    pub(super) fn spec(&self, hash: u64) -> Option<Arc<Value>> {
        let exact = self.0.iter().find(|(found, _)| *found == Some(hash));
        exact.or(self.0.first()).map(|(_, spec)| spec.clone())
    }
}

/// A template's spec with the fields that an API server with default admission plugins sets in pods.
fn with_defaults(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(fields) = spec.as_object_mut() else { return spec };
    fields.entry("enableServiceLinks").or_insert(true.into());
    fields.entry("preemptionPolicy").or_insert("PreemptLowerPriority".into());
    fields.entry("priority").or_insert(0.into());
    if let Some(tolerations) = fields.entry("tolerations").or_insert_with(|| json!([])).as_array_mut() {
        for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
            let tolerated = |toleration: &Value| {
                let every = |field: &str, value: &str| {
                    toleration
                        .get(field)
                        .and_then(Value::as_str)
                        .is_none_or(|found| found.is_empty() || found == value)
                };
                every("key", key) && every("effect", "NoExecute")
            };
            if !tolerations.iter().any(tolerated) {
                tolerations.push(
                    json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}),
                );
            }
        }
    }
    spec
}

/// The pod of a lifecycle.
pub(super) fn synthesize_pod(
    owner: &PodOwner,
    gvk: Option<&Gvk>,
    lifecycle: &PodLifecycle,
    spec: Option<&Value>,
    data: PodLifecycleData,
) -> Result<Object, BadObject> {
    let unknown = json!({"containers": [{"image": "unknown", "name": "unknown"}]});
    let spec = spec.unwrap_or(&unknown);
    let mut annotations = Map::new();
    annotate(&mut annotations, lifecycle);
    let mut metadata = Map::new();
    let is_itself = gvk.is_some_and(Gvk::is_pod);
    if is_itself {
        metadata.insert("name".to_owned(), owner.name.clone().into());
    } else {
        // A Deployment and a StatefulSet may share a name, and their pods a spec.
        let kind = gvk.filter(|_| owner.shares_name).map(|gvk| format!("-{}", gvk.kind.to_lowercase()));
        let name =
            format!("{}{}-{:x}-{}", owner.name, kind.unwrap_or_default(), lifecycle.hash, lifecycle.sequence);
        metadata.insert("name".to_owned(), name.into());
    }
    if !owner.namespace.is_empty() {
        metadata.insert("namespace".to_owned(), owner.namespace.clone().into());
    }
    match gvk {
        _ if is_itself => {}
        Some(gvk) => {
            let reference = json!({"apiVersion": gvk.api_version, "controller": true, "kind": gvk.kind, "name": owner.name});
            metadata.insert("ownerReferences".to_owned(), json!([reference]));
        }
        None => {
            let name = format!("{}/{}", owner.namespace, owner.name);
            annotations.insert(OWNER_ANNOTATION.to_owned(), name.into());
        }
    }
    metadata.insert("annotations".to_owned(), annotations.into());
    let mut status = Map::new();
    set_status(&mut status, spec, data);
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status});
    Object::parse(&pod.to_string())
}

/// A pod with status and annotations from its lifecycle.
pub(super) fn with_lifecycle(
    pod: &Object,
    lifecycle: &PodLifecycle,
    data: PodLifecycleData,
) -> Result<Object, BadObject> {
    let mut value = pod.value()?;
    let spec = value.get("spec").cloned().unwrap_or_default();
    let fields = value.as_object_mut().expect("an object is a JSON object");
    set_status(map_field(fields, "status"), &spec, data);
    annotate(map_field(map_field(fields, "metadata"), "annotations"), lifecycle);
    Object::parse(&value.to_string())
}

/// The map in this field, created if needed.
fn map_field<'a>(fields: &'a mut Map<String, Value>, name: &str) -> &'a mut Map<String, Value> {
    let field = fields.entry(name).or_insert_with(|| json!({}));
    if !field.is_object() {
        *field = json!({});
    }
    field.as_object_mut().expect("the field was just made an object")
}

fn annotate(annotations: &mut Map<String, Value>, lifecycle: &PodLifecycle) {
    annotations.insert(HASH_ANNOTATION.to_owned(), lifecycle.hash.to_string().into());
    annotations.insert(SEQUENCE_ANNOTATION.to_owned(), lifecycle.sequence.to_string().into());
}

/// A finished pod has succeeded, as in SimKube: its traces do not contain how a pod ended.
fn set_status(status: &mut Map<String, Value>, spec: &Value, data: PodLifecycleData) {
    let (phase, state) = match data {
        PodLifecycleData::Empty => ("Pending", None),
        PodLifecycleData::Running(start) => {
            ("Running", Some(json!({"running": {"startedAt": start.to_string()}})))
        }
        PodLifecycleData::Finished(start, end) => {
            let times = (start.to_string(), end.to_string());
            let terminated =
                json!({"exitCode": 0, "finishedAt": times.1, "reason": "Completed", "startedAt": times.0});
            ("Succeeded", Some(json!({"terminated": terminated})))
        }
    };
    status.insert("phase".to_owned(), phase.into());
    let Some(state) = state else { return };
    let containers = spec.get("containers").and_then(Value::as_array);
    let of_each = containers.into_iter().flatten().map(|container| {
        json!({
            "image": container.get("image").and_then(Value::as_str).unwrap_or_default(),
            "imageID": "",
            "name": container.get("name").and_then(Value::as_str).unwrap_or_default(),
            "ready": phase == "Running",
            "restartCount": 0,
            "state": state,
        })
    });
    status.insert("containerStatuses".to_owned(), of_each.collect());
    status.insert("startTime".to_owned(), start_time(data).to_string().into());
}
