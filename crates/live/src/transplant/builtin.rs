//! The rules that hold for every recording: what is not carried over, and what of an object is its cluster's own.

use kubernetes::rules::Description;
use model::{Kind, Object};
use serde_json::{Map, Value};

use super::templates::is_workload;
use super::{LeftOut, Manner, Simkube, fields};

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
    ("", "Secret"),
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
/// The node that a scheduler chose for a claim that waits for its pod.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
/// By these a claim is known to be bound.
const BOUND: [&str; 2] = ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"];
/// Labels that the API server copies to a pod from the node that it is bound to.
const OF_PLACE: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];
/// Labels by which a Job finds its pods.
const OF_JOB: [&str; 2] = ["controller-uid", "batch.kubernetes.io/controller-uid"];

/// All rules in words.
pub fn describe() -> Vec<Description> {
    let rule = |kind: &str, field: &str, effect, why| Description {
        kind: kind.to_owned(),
        field: field.to_owned(),
        effect,
        why,
    };
    vec![
        rule(
            "every kind",
            "metadata the API server writes, finalizers",
            "removed",
            "the target writes its own; nobody there would take the finalizers away",
        ),
        rule(
            "every kind",
            "metadata.ownerReferences",
            "point to the target's objects; those to what is not applied are removed",
            "its garbage collector would delete the object",
        ),
        rule(
            "every kind",
            "a label and an annotation",
            "added",
            "replay clean removes exactly what carries it",
        ),
        rule(
            "Event, Lease, Endpoints, EndpointSlice, Secret, ServiceAccount, ControllerRevision",
            "the object",
            "not applied",
            "the target's components make their own",
        ),
        rule(
            "VolumeAttachment, NodeClaim, BindRequest",
            "the object",
            "not applied",
            "it says where something was put; the target's components decide that",
        ),
        rule(
            "ResourceClaim",
            "status",
            "removed; with --keep-placement kept",
            "its devices are on the node that was chosen",
        ),
        rule(
            "PersistentVolumeClaim",
            "the annotation volume.kubernetes.io/selected-node",
            "removed; with --keep-placement kept",
            "it names the node that was chosen; claims are bound to the volumes that they had",
        ),
        rule(
            "PersistentVolumeClaim",
            "its binding to a volume",
            "removed where volumes are not applied",
            "else it is taken for lost",
        ),
        rule(
            "ResourceQuota, LimitRange, HorizontalPodAutoscaler",
            "the object",
            "not applied",
            "what they did is in the recorded pods and workloads",
        ),
        rule(
            "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController",
            "the object",
            "not applied at level pods",
            "every pod is given; they would make more",
        ),
        rule(
            "Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, CronJob, ReplicationController",
            "status; Jobs that had ended when they were first seen",
            "removed; not applied",
            "the target's controllers write it; it would run again",
        ),
        rule(
            "every kind",
            "objects that a workload made",
            "not applied at level workloads",
            "the target's controllers make them",
        ),
        rule(
            "Pod",
            "spec.nodeName",
            "removed, but for pods of a kubelet's own files; with --keep-placement bound as recorded",
            "another scheduler decides; pods of a DaemonSet still ask for the node that they were made for",
        ),
        rule(
            "Pod",
            "the labels topology.kubernetes.io/zone and /region",
            "removed; with --keep-placement kept",
            "an API server copies them from the node that was chosen",
        ),
        rule(
            "Pod",
            "status",
            "removed but for the phase of one that has ended; with --keep-placement kept",
            "the target's kubelets say how it fares",
        ),
        rule("Pod", "a pod that had ended when it was first seen", "not applied", "it would run again"),
        rule(
            "what describes pods",
            "spec.serviceAccountName",
            "removed",
            "the account is not applied, and without it no pod is taken",
        ),
        rule("Pod", "the volume of its token", "removed", "the target adds one of its own"),
        rule("Pod", "spec.ephemeralContainers", "removed", "no pod can be created with them"),
        rule(
            "Service",
            "clusterIP, clusterIPs, nodePort, healthCheckNodePort",
            "removed",
            "the target gives out its own",
        ),
        rule("Namespace", "spec, status", "removed", "the target writes its own"),
        rule(
            "PersistentVolume",
            "spec.claimRef.uid",
            "that of the target's claim",
            "else the volume is taken for released",
        ),
        rule(
            "Job",
            "spec.selector and the labels it stands for",
            "removed unless manualSelector",
            "the target makes them of the new uid",
        ),
    ]
}

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
        ("", "PersistentVolumeClaim") => shape_claim(manner, &mut object),
        _ => {}
    }
    manner.templates.each(kind, &mut object, &mut |template| {
        if let Some(Value::Object(spec)) = template.get_mut("spec") {
            without_account(spec);
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

fn shape_claim(manner: &Manner, claim: &mut Value) {
    let volume = Kind::new("", "PersistentVolume");
    let has_volumes = match &manner.kinds {
        Some(kinds) => kinds.contains(&volume),
        None => manner.simkube.is_none(),
    };
    if let Some(Value::Object(annotations)) = claim.pointer_mut("/metadata/annotations") {
        if !manner.keep_placement {
            annotations.remove(SELECTED_NODE);
        }
        if !has_volumes {
            BOUND.iter().for_each(|mark| drop(annotations.remove(*mark)));
        }
    }
    if !has_volumes {
        if let Some(spec) = fields(claim, "spec") {
            spec.remove("volumeName");
        }
        without_status(claim);
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
