//! The objects of scheduler_perf's workloads.

use model::Object;
use serde_json::{Value, json};

/// Changes a plain pod into one of a template; also receives the pod's index.
pub(super) type PodTemplate = fn(&mut Value, usize);

/// The volume source for a name and index.
pub(super) type VolumeSource = fn(&str, usize) -> Value;

/// The label with a node's name.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with a node's zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
/// The node of workloads in which all pods run on one node.
pub(super) const SINGLE_NODE: &str = "scheduler-perf-node";

/// The driver of workloads with volumes.
const DRIVER: &str = "ebs.csi.aws.com";

/// The object of a JSON document.
pub(super) fn object(value: &Value) -> Object {
    Object::from_trusted(value.to_string())
}

/// A node of 4 cpu, 32Gi and 110 pods.
pub(super) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "uid": name, "labels": { HOSTNAME: name } },
        "spec": {},
        "status": { "allocatable": { "cpu": "4", "memory": "32Gi", "pods": "110" } },
    })
}

/// A pod that requests 100m and 500Mi.
pub(super) fn pod(namespace: &str, name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": namespace, "uid": name },
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{
                "name": "pause",
                "image": "registry.example/pause:3",
                "ports": [{ "containerPort": 80 }],
                "resources": { "requests": { "cpu": "100m", "memory": "500Mi" } },
            }],
        },
    })
}

/// A namespace with labels, or with none (`{}`).
pub(super) fn namespace(name: &str, labels: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name, "labels": labels } })
}

/// A service that selects pods by the label `app`.
pub(super) fn service(namespace: &str, name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "app": app } },
    })
}

/// A disruption budget that never blocks, of the pods with the label `app`.
pub(super) fn disruption_budget(namespace: &str, app: &str) -> Value {
    json!({
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": { "name": app, "namespace": namespace },
        "spec": { "selector": { "matchLabels": { "app": app } } },
        "status": { "disruptionsAllowed": 1_000_000 },
    })
}

/// The namespace of a numbered workload: twenty share one.
pub(super) fn workload_namespace(workload: usize) -> String {
    format!("namespace-{}", workload / 20)
}

/// The label `app` of a numbered workload.
pub(super) fn workload_app(workload: usize) -> String {
    format!("app-{workload}")
}

/// The CSINode with the driver: a limit of 39 volumes, also for in-tree plugins migrated to it.
pub(super) fn csi_node(name: &str, migrated: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": { "name": name, "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": migrated } },
        "spec": { "drivers": [{ "name": DRIVER, "nodeID": name, "allocatable": { "count": 39 }, "topologyKeys": null }] },
    })
}

/// A claim and its volume, bound to each other.
pub(super) fn claim_and_volume(namespace: &str, index: usize, source: VolumeSource) -> [Value; 2] {
    let (claim, volume) = (format!("pvc-{index}"), format!("{namespace}-vol-{index}"));
    let mut spec = json!({
        "accessModes": ["ReadOnlyMany"],
        "capacity": { "storage": "1Gi" },
        "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim },
        "persistentVolumeReclaimPolicy": "Retain",
    });
    merge(&mut spec, source(&volume, index));
    [
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": claim,
                "namespace": namespace,
                "annotations": { "pv.kubernetes.io/bind-completed": "true" },
            },
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "resources": { "requests": { "storage": "1Gi" } },
                "volumeName": volume,
            },
            "status": { "phase": "Bound" },
        }),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": volume },
            "spec": spec,
            "status": { "phase": "Bound" },
        }),
    ]
}

/// A volume of the driver.
pub(super) fn csi_volume(name: &str, _: usize) -> Value {
    json!({ "csi": { "driver": DRIVER, "volumeHandle": name } })
}

/// A volume of the in-tree plugin that was migrated to the driver. The disk is the same in every namespace.
pub(super) fn in_tree_volume(_: &str, index: usize) -> Value {
    json!({ "awsElasticBlockStore": { "volumeID": format!("vol-{index}") } })
}

/// The plain pod.
pub(super) fn plain(_: &mut Value, _: usize) {}

/// Requests nothing.
pub(super) fn light(pod: &mut Value, _: usize) {
    pod["spec"]["containers"][0] = json!({ "name": "pause", "image": "registry.example/pause:3" });
}

/// Requests nothing, and is selected by the service.
pub(super) fn served(pod: &mut Value, index: usize) {
    light(pod, index);
    label(pod, "app", "scheduler-perf");
}

/// Requests nothing, and has a scheduling gate.
pub(super) fn gated(pod: &mut Value, index: usize) {
    light(pod, index);
    pod["spec"]["schedulingGates"] = json!([{ "name": "bench/hold" }]);
}

/// The same, with a pod affinity to pods of the same template.
pub(super) fn gated_affine(pod: &mut Value, index: usize) {
    gated(pod, index);
    label(pod, "app", "scheduler-perf");
    let term =
        json!({ "topologyKey": HOSTNAME, "labelSelector": { "matchLabels": { "app": "scheduler-perf" } } });
    pod["spec"]["affinity"]["podAffinity"] = required(term);
}

/// Requires the single node by name.
pub(super) fn daemon(pod: &mut Value, index: usize) {
    light(pod, index);
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [SINGLE_NODE] });
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchFields": [field] }] },
    });
}

/// Requires one of two zones.
pub(super) fn zonal(pod: &mut Value, _: usize) {
    let expression = json!({ "key": ZONE, "operator": "In", "values": ["zone1", "zone2"] });
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
        },
    });
}

/// Four of these leave a tenth of a node's cpu free.
pub(super) fn low(pod: &mut Value, _: usize) {
    request_cpu(pod, "900m");
}

/// Preempts three [`low`] pods.
pub(super) fn high(pod: &mut Value, _: usize) {
    pod["spec"]["priority"] = json!(10);
    request_cpu(pod, "3");
}

/// A small pod of a numbered workload.
pub(super) fn replica(pod: &mut Value, workload: usize) {
    label(pod, "app", &workload_app(workload));
    request_cpu(pod, "1m");
}

/// A pod of a numbered workload. Twenty of these leave a twentieth of a node's cpu free.
pub(super) fn twentieth(pod: &mut Value, workload: usize) {
    label(pod, "app", &workload_app(workload));
    request_cpu(pod, "190m");
}

/// Requests more than any node has.
pub(super) fn too_large(pod: &mut Value, _: usize) {
    pod["spec"]["priority"] = json!(10);
    request_cpu(pod, "9");
}

/// Every tenth requests more than any node has.
pub(super) fn tenth_too_large(pod: &mut Value, index: usize) {
    if index % 10 == 9 {
        too_large(pod, index);
    }
}

/// Has a label and nothing else.
pub(super) fn green(pod: &mut Value, _: usize) {
    label(pod, "color", "green");
}

/// Required anti-affinity by node to pods of the same template.
pub(super) fn anti(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = required(term(pod, "green", HOSTNAME, two_namespaces()));
}

/// Required affinity by zone to pods of the same template.
pub(super) fn affine(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = required(term(pod, "blue", ZONE, two_namespaces()));
}

/// Preferred affinity by node to pods of the same template.
pub(super) fn prefers(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = preferred(term(pod, "red", HOSTNAME, two_namespaces()));
}

/// Preferred anti-affinity by node to pods of the same template.
pub(super) fn avoids(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = preferred(term(pod, "yellow", HOSTNAME, two_namespaces()));
}

/// [`anti`] with a namespace selector.
pub(super) fn team_anti(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = required(term(pod, "green", HOSTNAME, team()));
}

/// [`affine`] with a namespace selector.
pub(super) fn team_affine(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = required(term(pod, "blue", ZONE, team()));
}

/// [`prefers`] with a namespace selector.
pub(super) fn team_prefers(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = preferred(term(pod, "red", HOSTNAME, team()));
}

/// [`avoids`] with a namespace selector.
pub(super) fn team_avoids(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = preferred(term(pod, "green", HOSTNAME, team()));
}

/// A hard spread constraint over zones.
pub(super) fn spread(pod: &mut Value, _: usize) {
    spread_by(pod, ZONE);
}

/// A hard spread constraint over the values of a node label.
pub(super) fn spread_by(pod: &mut Value, key: &str) {
    label(pod, "color", "blue");
    pod["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 5,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "color": "blue" } },
    }]);
}

/// A soft spread constraint over zones.
pub(super) fn soft_spread(pod: &mut Value, index: usize) {
    spread(pod, index);
    pod["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] = json!("ScheduleAnyway");
}

/// A hard spread constraint over nodes that honors node affinity and taints.
pub(super) fn inclusive_spread(pod: &mut Value, _: usize) {
    label(pod, "foo", "bar");
    pod["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 1,
        "topologyKey": HOSTNAME,
        "whenUnsatisfiable": "DoNotSchedule",
        "nodeAffinityPolicy": "Honor",
        "nodeTaintsPolicy": "Honor",
        "labelSelector": { "matchLabels": { "foo": "bar" } },
    }]);
}

/// With a secret volume.
pub(super) fn secret(pod: &mut Value, _: usize) {
    pod["spec"]["volumes"] = json!([{ "name": "secret", "secret": { "secretName": "secret" } }]);
}

/// With the volume claim of its index.
pub(super) fn claiming(pod: &mut Value, index: usize) {
    let claim = json!({ "claimName": format!("pvc-{index}") });
    pod["spec"]["volumes"] = json!([{ "name": "vol", "persistentVolumeClaim": claim }]);
}

fn label(pod: &mut Value, key: &str, value: &str) {
    pod["metadata"]["labels"][key] = json!(value);
}

fn request_cpu(pod: &mut Value, amount: &str) {
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(amount);
}

/// Labels the pod with a color, and returns the affinity term for that color in the namespaces.
fn term(pod: &mut Value, color: &str, key: &str, namespaces: Value) -> Value {
    label(pod, "color", color);
    let mut term = json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "color": color } } });
    merge(&mut term, namespaces);
    term
}

fn two_namespaces() -> Value {
    json!({ "namespaces": ["sched-1", "sched-0"] })
}

fn team() -> Value {
    json!({ "namespaceSelector": { "matchLabels": { "team": "devops" } } })
}

fn required(term: Value) -> Value {
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] })
}

fn preferred(term: Value) -> Value {
    json!({ "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 1, "podAffinityTerm": term }] })
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}
