//! The built-in rules: kinds that are not applied, and fields that belong to the recorded cluster.

use model::{Kind, Object};
use serde_json::{Map, Value};

use super::templates::is_workload;
use super::{ExclusionReason, SimkubeMode, TranslateOptions, external, map_field, volumes};

/// The objects that are applied to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AppliedLevel {
    /// Every recorded pod, without workloads, which would create more.
    #[default]
    Pods,
    /// Workloads and bare pods. The target's controllers create the other pods.
    Workloads,
}

/// An object after the rules.
pub(super) struct TransformedObject {
    pub(super) object: Value,
    /// Its deletion was requested.
    pub(super) deletion: Option<Deletion>,
}

/// A requested deletion.
pub(super) struct Deletion {
    /// `None`: the object's own.
    pub(super) grace_period_seconds: Option<i64>,
}

/// Kinds that others need are created first.
const CREATED_FIRST: &[(&str, &str)] = &[
    ("", "Namespace"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("scheduling.k8s.io", "PriorityClass"),
    ("node.k8s.io", "RuntimeClass"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("resource.k8s.io", "DeviceClass"),
    ("", "Node"),
    ("", "PersistentVolumeClaim"),
    ("", "PersistentVolume"),
    ("", "Service"),
];

/// Metadata fields that the API server writes, and finalizers, whose components may not exist in the target.
const SERVER_METADATA_FIELDS: [&str; 9] = [
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
];

/// The name prefix of the service account token volume.
const TOKEN_VOLUME_PREFIX: &str = "kube-api-access-";
/// The annotation of a mirror pod.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";
/// Labels that the API server copies to a pod from the node that it is bound to.
const NODE_TOPOLOGY_LABELS: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/// Labels in the generated selector of a Job.
const JOB_SELECTOR_LABELS: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// Why objects of a kind are never applied; `None` if they may be.
fn excluded_kind_reason(kind: &Kind) -> Option<&'static str> {
    match (&*kind.group, &*kind.kind) {
        ("", "Event" | "Endpoints" | "ServiceAccount" | "ComponentStatus")
        | ("events.k8s.io", "Event")
        | ("coordination.k8s.io", "Lease")
        | ("discovery.k8s.io", "EndpointSlice")
        | ("apps", "ControllerRevision") => Some("kind created by the target's components"),
        ("", "ResourceQuota" | "LimitRange") | ("autoscaling", "HorizontalPodAutoscaler") => {
            Some("its effects are in the recorded pods and workloads")
        }
        ("storage.k8s.io", "VolumeAttachment")
        | ("karpenter.sh", "NodeClaim")
        | ("scheduling.run.ai", "BindRequest") => Some("placement is decided by the target's components"),
        ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration") => Some("a setting, not an API object"),
        (group, _) if group.ends_with("kinescope.io") => Some("written by Kinescope"),
        _ => None,
    }
}

/// The rank of a kind in the creation order.
pub(super) fn creation_rank(kind: &Kind) -> usize {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => CREATED_FIRST.len() + 1,
        named => CREATED_FIRST.iter().position(|first| *first == named).unwrap_or(CREATED_FIRST.len()),
    }
}

/// The object after the rules, or why it is excluded. `is_update`: it was translated before.
pub(super) fn transform(
    options: &TranslateOptions,
    kind: &Kind,
    recorded: &Object,
    is_update: bool,
) -> Result<TransformedObject, ExclusionReason> {
    let group_kind = (&*kind.group, &*kind.kind);
    if kubernetes::kinds::is_secret(kind) {
        return Err("a Secret".into());
    }
    if let Some(kinds) = &options.kinds {
        if !kinds.contains(kind) {
            return Err("kind not selected".into());
        }
    } else if let Some(reason) = excluded_kind_reason(kind) {
        return Err(reason.into());
    } else if options.simkube.is_some() && !SimkubeMode::includes_kind(&options.templates, kind) {
        return Err("kind not simulated by SimKube".into());
    } else if options.level == AppliedLevel::Pods && is_workload(kind) {
        return Err("a workload whose pods are applied".into());
    } else {
        external::check_kind(options, kind)?;
    }
    let mut object = recorded.value().map_err(|_| "not readable")?;
    if options.level == AppliedLevel::Workloads && is_created_by_workload(options, &object) {
        return Err("created by a controller".into());
    }
    let deletion = object.pointer("/metadata/deletionTimestamp").is_some().then(|| Deletion {
        grace_period_seconds: object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64),
    });
    if let Some(metadata) = map_field(&mut object, "metadata") {
        metadata.retain(|name, _| !SERVER_METADATA_FIELDS.contains(&name.as_str()));
    }
    if is_workload(kind) {
        if is_finished_job(&object) && !is_update {
            return Err("a finished Job".into());
        }
        remove_status(&mut object);
    }
    external::remove_external_fields(options, kind, &mut object)?;
    match group_kind {
        ("", "Pod") => transform_pod(options, &mut object, is_update)?,
        ("", "Service") => remove_cluster_ips(&mut object),
        ("", "Namespace") => {
            if let Some(object) = object.as_object_mut() {
                object.remove("spec");
                object.remove("status");
            }
        }
        ("batch", "Job") => transform_job(&mut object),
        ("resource.k8s.io", "ResourceClaim") if !options.keep_placement => remove_status(&mut object),
        ("", "Node") => volumes::remove_attached_volumes(&mut object),
        ("", "PersistentVolume") => volumes::transform_persistent_volume(options, &mut object)?,
        ("", "PersistentVolumeClaim") => volumes::transform_claim(options, &mut object),
        ("apps", "StatefulSet") => volumes::transform_claim_templates(options, &mut object),
        ("storage.k8s.io", "StorageClass") => volumes::transform_storage_class(options, &mut object),
        ("storage.k8s.io", "CSINode") => volumes::transform_csi_node(&mut object),
        _ => {}
    }
    options.templates.for_each(kind, &mut object, &mut |template| {
        if let Some(Value::Object(spec)) = template.get_mut("spec") {
            remove_service_account(spec);
            volumes::transform_pod_volumes(options, spec);
        }
        if let Some(Value::Object(metadata)) = template.get_mut("metadata")
            && !options.allow_external_effects
        {
            external::remove_external_annotations(metadata);
        }
    });
    Ok(TransformedObject { object, deletion })
}

fn remove_status(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
}

/// Whether a Job has finished.
fn is_finished_job(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_terminal = |condition: &Value| condition["type"] == "Complete" || condition["type"] == "Failed";
    object["kind"] == "Job" && conditions.filter(|it| is_terminal(it)).any(|it| it["status"] == "True")
}

/// Whether a controller of an applied workload creates the object. Objects of operators with custom kinds are applied:
/// the operators may be absent.
fn is_created_by_workload(options: &TranslateOptions, object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().filter(|owner| owner["controller"] == true).any(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        options.templates.has_kind(&Kind::of(text("apiVersion"), text("kind")))
    })
}

/// Turns a pod read from a server into one that can be created.
pub(crate) fn reset_for_create(pod: &mut Value) {
    if let Some(metadata) = map_field(pod, "metadata") {
        metadata.retain(|name, _| !SERVER_METADATA_FIELDS.contains(&name.as_str()));
    }
    if let Some(spec) = map_field(pod, "spec") {
        remove_service_account(spec);
        remove_token_volume(spec);
    }
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("status");
    }
}

fn transform_pod(
    options: &TranslateOptions,
    pod: &mut Value,
    is_update: bool,
) -> Result<(), ExclusionReason> {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned();
    let has_ended = matches!(phase.as_str(), "Succeeded" | "Failed");
    if has_ended && !is_update {
        return Err("a completed pod".into());
    }
    let is_mirror = remove_mirror_annotation(pod);
    if !options.keep_placement
        && !is_mirror
        && let Some(Value::Object(labels)) = pod.pointer_mut("/metadata/labels")
    {
        NODE_TOPOLOGY_LABELS.iter().for_each(|label| drop(labels.remove(*label)));
    }
    if let Some(spec) = map_field(pod, "spec") {
        if !options.keep_placement && !is_mirror {
            spec.remove("nodeName");
        }
        spec.remove("ephemeralContainers");
        remove_token_volume(spec);
    }
    if !options.keep_placement
        && let Some(pod) = pod.as_object_mut()
    {
        pod.remove("status");
        if has_ended {
            pod.insert("status".to_owned(), serde_json::json!({"phase": phase}));
        }
    }
    Ok(())
}

/// Service accounts are not applied, and a pod without its account is rejected.
fn remove_service_account(spec: &mut Map<String, Value>) {
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.remove(field);
    }
}

/// Removes the mirror annotation, with which the API server accepts no other pods; returns whether there was one. A
/// mirror pod keeps its node.
fn remove_mirror_annotation(pod: &mut Value) -> bool {
    let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return false;
    };
    annotations.remove(MIRROR_ANNOTATION).is_some()
}

fn remove_token_volume(spec: &mut Map<String, Value>) {
    let is_token =
        |entry: &Value| entry["name"].as_str().is_some_and(|name| name.starts_with(TOKEN_VOLUME_PREFIX));
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        volumes.retain(|volume| !is_token(volume));
        if volumes.is_empty() {
            spec.remove("volumes");
        }
    }
    for list in ["containers", "initContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else { continue };
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(Value::Array(mounts)) = container.get_mut("volumeMounts") {
                mounts.retain(|mount| !is_token(mount));
                if mounts.is_empty() {
                    container.remove("volumeMounts");
                }
            }
        }
    }
}

fn remove_cluster_ips(service: &mut Value) {
    let Some(spec) = map_field(service, "spec") else { return };
    // A headless service stays headless.
    if spec.get("clusterIP").is_none_or(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| drop(port.remove("nodePort")));
    }
}

fn transform_job(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(spec) = map_field(job, "spec") {
        spec.remove("selector");
    }
    for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
        if let Some(labels) = job.pointer_mut(labels).and_then(Value::as_object_mut) {
            JOB_SELECTOR_LABELS.iter().for_each(|label| drop(labels.remove(*label)));
        }
    }
}
