//! The rules that hold for every recording: what is not carried over, and what of an object is its cluster's own.

use model::{Kind, Object};
use serde_json::{Map, Value};

use super::templates::is_workload;
use super::{LeftOut, Manner, Simkube, external, fields, volumes};

/// What is given to the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// Every pod that was recorded. What would make pods by itself is not given.
    #[default]
    Pods,
    /// What people asked for: workloads and pods that nobody else makes. The target's controllers make the others.
    Workloads,
}

/// What the rules leave of an object, and if it is being deleted the seconds that it gets, if it says how many.
pub(super) type Shaped = (Value, Option<Option<i64>>);

/// What is never given: it comes of other objects, belongs to a component, or is nobody else's business.
const OWN_TO_A_CLUSTER: &[(&str, &str)] = &[
    ("", "Event"),
    ("events.k8s.io", "Event"),
    ("coordination.k8s.io", "Lease"),
    ("", "Endpoints"),
    ("discovery.k8s.io", "EndpointSlice"),
    ("", "ServiceAccount"),
    ("", "ComponentStatus"),
    ("apps", "ControllerRevision"),
    ("", "ResourceQuota"),
    ("", "LimitRange"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("karpenter.sh", "NodeClaim"),
    ("scheduling.run.ai", "BindRequest"),
];

/// What others need comes first.
const FIRST: &[(&str, &str)] = &[
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

/// Written by an API server, anew for every object; or binding it to who is not there.
const WRITTEN: [&str; 9] = [
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

/// How the volume of a pod's token begins.
const TOKEN_VOLUME: &str = "kube-api-access-";
/// Marks a pod that a kubelet made of a file.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// Labels that the API server copies to a pod from the node that it is bound to.
const OF_PLACE: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/// Labels by which a Job finds its pods.
const OF_JOB: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// The place of a kind among others at the beginning.
pub(super) fn rank(kind: &Kind) -> usize {
    match (&*kind.group, &*kind.kind) {
        ("", "Pod") => FIRST.len() + 1,
        named => FIRST.iter().position(|first| *first == named).unwrap_or(FIRST.len()),
    }
}

/// What the rules leave of an object, or why it is not carried over.
/// `is_known` if it has been already.
pub(super) fn shape(
    manner: &Manner,
    kind: &Kind,
    recorded: &Object,
    is_known: bool,
) -> Result<Shaped, LeftOut> {
    let named = (&*kind.group, &*kind.kind);
    if kubernetes::kinds::is_secret(kind) {
        return Err("a Secret, which is never given".into());
    }
    if let Some(kinds) = &manner.kinds {
        if !kinds.contains(kind) {
            return Err("not of a kind that was chosen".into());
        }
    } else if OWN_TO_A_CLUSTER.contains(&named) || kind.group.ends_with("kinescope.io") {
        return Err("of a kind that a cluster makes by itself".into());
    } else if manner.simkube.is_some() && !Simkube::takes(&manner.templates, kind) {
        return Err("of a kind that SimKube does not give".into());
    } else if manner.level == Level::Pods && is_workload(kind) {
        return Err("a workload, whose pods are given".into());
    } else {
        external::check_kind(manner, kind)?;
    }
    let mut object = recorded.value().map_err(|_| "not to be read")?;
    if manner.level == Level::Workloads && has_maker(manner, &object) {
        return Err("made by a controller".into());
    }
    let leaving = object
        .pointer("/metadata/deletionTimestamp")
        .is_some()
        .then(|| object.pointer("/metadata/deletionGracePeriodSeconds").and_then(Value::as_i64));
    if let Some(metadata) = fields(&mut object, "metadata") {
        metadata.retain(|name, _| !WRITTEN.contains(&name.as_str()));
    }
    if is_workload(kind) {
        if has_ended(&object) && !is_known {
            return Err("a Job that had ended".into());
        }
        without_status(&mut object);
    }
    external::shape(manner, kind, &mut object)?;
    match named {
        ("", "Pod") => shape_pod(manner, &mut object, is_known)?,
        ("", "Service") => shape_service(&mut object),
        ("", "Namespace") => {
            if let Some(object) = object.as_object_mut() {
                object.remove("spec");
                object.remove("status");
            }
        }
        ("batch", "Job") => shape_job(&mut object),
        ("resource.k8s.io", "ResourceClaim") if !manner.keep_placement => without_status(&mut object),
        ("", "Node") => volumes::shape_node(&mut object),
        ("", "PersistentVolume") => volumes::shape_volume(manner, &mut object)?,
        ("", "PersistentVolumeClaim") => volumes::shape_claim(manner, &mut object),
        ("apps", "StatefulSet") => volumes::shape_claim_templates(manner, &mut object),
        ("storage.k8s.io", "StorageClass") => volumes::shape_class(manner, &mut object),
        ("storage.k8s.io", "CSINode") => volumes::shape_csi_node(&mut object),
        _ => {}
    }
    manner.templates.each(kind, &mut object, &mut |template| {
        if let Some(Value::Object(spec)) = template.get_mut("spec") {
            without_account(spec);
            volumes::shape_pod_volumes(manner, spec);
        }
        if let Some(Value::Object(metadata)) = template.get_mut("metadata")
            && !manner.allow_external_effects
        {
            external::without_external_annotations(metadata);
        }
    });
    Ok((object, leaving))
}

fn without_status(object: &mut Value) {
    if let Some(object) = object.as_object_mut() {
        object.remove("status");
    }
}

/// Whether a Job says that it has ended.
fn has_ended(object: &Value) -> bool {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let is_end = |condition: &Value| condition["type"] == "Complete" || condition["type"] == "Failed";
    object["kind"] == "Job" && conditions.filter(|it| is_end(it)).any(|it| it["status"] == "True")
}

/// Whether one that is given makes it. What operators make of objects of their own kinds is given: they may not be there.
fn has_maker(manner: &Manner, object: &Value) -> bool {
    let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().filter(|owner| owner["controller"] == true).any(|owner| {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        manner.templates.are_in(&Kind::of(text("apiVersion"), text("kind")))
    })
}

/// A pod of a server as one that is to be created.
pub(crate) fn as_new(pod: &mut Value) {
    if let Some(metadata) = fields(pod, "metadata") {
        metadata.retain(|name, _| !WRITTEN.contains(&name.as_str()));
    }
    if let Some(spec) = fields(pod, "spec") {
        without_account(spec);
        take_token(spec);
    }
    if let Some(pod) = pod.as_object_mut() {
        pod.remove("status");
    }
}

fn shape_pod(manner: &Manner, pod: &mut Value, is_known: bool) -> Result<(), LeftOut> {
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default().to_owned();
    let has_ended = matches!(phase.as_str(), "Succeeded" | "Failed");
    if has_ended && !is_known {
        return Err("a pod that had ended".into());
    }
    let is_mirror = take_mirror_marks(pod);
    if !manner.keep_placement
        && !is_mirror
        && let Some(Value::Object(labels)) = pod.pointer_mut("/metadata/labels")
    {
        OF_PLACE.iter().for_each(|label| drop(labels.remove(*label)));
    }
    if let Some(spec) = fields(pod, "spec") {
        if !manner.keep_placement && !is_mirror {
            spec.remove("nodeName");
        }
        spec.remove("ephemeralContainers");
        take_token(spec);
    }
    if !manner.keep_placement
        && let Some(pod) = pod.as_object_mut()
    {
        pod.remove("status");
        if has_ended {
            pod.insert("status".to_owned(), serde_json::json!({"phase": phase}));
        }
    }
    Ok(())
}

/// The accounts are not applied, and nobody takes a pod whose account is not there.
fn without_account(spec: &mut Map<String, Value>) {
    for field in ["serviceAccountName", "serviceAccount"] {
        spec.remove(field);
    }
}

/// Pods of a kubelet's own files come with their node. The API server takes no other pods that claim to be such.
fn take_mirror_marks(pod: &mut Value) -> bool {
    let Some(annotations) = pod.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return false;
    };
    annotations.remove(MIRROR).is_some()
}

fn take_token(spec: &mut Map<String, Value>) {
    let is_token = |named: &Value| named["name"].as_str().is_some_and(|name| name.starts_with(TOKEN_VOLUME));
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

fn shape_service(service: &mut Value) {
    let Some(spec) = fields(service, "spec") else { return };
    // A service without an address stays one.
    if spec.get("clusterIP").is_none_or(|address| address != "None") {
        spec.remove("clusterIP");
        spec.remove("clusterIPs");
    }
    spec.remove("healthCheckNodePort");
    if let Some(Value::Array(ports)) = spec.get_mut("ports") {
        ports.iter_mut().filter_map(Value::as_object_mut).for_each(|port| drop(port.remove("nodePort")));
    }
}

fn shape_job(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&Value::Bool(true)) {
        return;
    }
    if let Some(spec) = fields(job, "spec") {
        spec.remove("selector");
    }
    for labels in ["/metadata/labels", "/spec/template/metadata/labels"] {
        if let Some(labels) = job.pointer_mut(labels).and_then(Value::as_object_mut) {
            OF_JOB.iter().for_each(|label| drop(labels.remove(*label)));
        }
    }
}
