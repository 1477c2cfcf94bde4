//! The objects of scheduler_perf's workloads.

use model::Object;
use serde_json::{Value, json};

/// What makes a certain pod of a plain one; it is told which of its kind the pod is.
pub(super) type Template = fn(&mut Value, usize);

/// Where a volume is, by its name and number.
pub(super) type Source = fn(&str, usize) -> Value;

/// The label with a node's name.
pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with a node's zone.
pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
/// The node of workloads in which all pods go to one node.
pub(super) const THE_NODE: &str = "scheduler-perf-node";

/// The driver of workloads with volumes.
const DRIVER: &str = "ebs.csi.aws.com";

/// An object of what it says.
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

/// A pod that asks for 100m and 500Mi.
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

/// A service that chooses pods by the label `app`.
pub(super) fn service(namespace: &str, name: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": { "name": name, "namespace": namespace },
        "spec": { "selector": { "app": app } },
    })
}

/// What a node says of the one driver: room for 39 volumes, also for in-tree plugins that migrated to it.
pub(super) fn csi_node(name: &str, migrated: &str) -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": { "name": name, "annotations": { "storage.alpha.kubernetes.io/migrated-plugins": migrated } },
        "spec": { "drivers": [{ "name": DRIVER, "nodeID": name, "allocatable": { "count": 39 }, "topologyKeys": null }] },
    })
}

/// A claim and its volume, bound to each other.
pub(super) fn claim_and_volume(namespace: &str, index: usize, source: Source) -> [Value; 2] {
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

/// A volume of the in-tree plugin that is now the driver. The disk is the same in every namespace.
pub(super) fn in_tree_volume(_: &str, index: usize) -> Value {
    json!({ "awsElasticBlockStore": { "volumeID": format!("vol-{index}") } })
}

/// As it is.
pub(super) fn plain(_: &mut Value, _: usize) {}

/// Asks for nothing.
pub(super) fn light(pod: &mut Value, _: usize) {
    pod["spec"]["containers"][0] = json!({ "name": "pause", "image": "registry.example/pause:3" });
}

/// Asks for nothing, and is one of the service's.
pub(super) fn served(pod: &mut Value, index: usize) {
    light(pod, index);
    label(pod, "app", "scheduler-perf");
}

/// Asks for nothing, and must not be placed yet.
pub(super) fn gated(pod: &mut Value, index: usize) {
    light(pod, index);
    pod["spec"]["schedulingGates"] = json!([{ "name": "bench/hold" }]);
}

/// The same, with an affinity to its like.
pub(super) fn gated_affine(pod: &mut Value, index: usize) {
    gated(pod, index);
    label(pod, "app", "scheduler-perf");
    let term =
        json!({ "topologyKey": HOSTNAME, "labelSelector": { "matchLabels": { "app": "scheduler-perf" } } });
    pod["spec"]["affinity"]["podAffinity"] = required(term);
}

/// Goes to the one node.
pub(super) fn daemon(pod: &mut Value, index: usize) {
    light(pod, index);
    let field = json!({ "key": "metadata.name", "operator": "In", "values": [THE_NODE] });
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [{ "matchFields": [field] }] },
    });
}

/// Goes to one of two zones.
pub(super) fn zonal(pod: &mut Value, _: usize) {
    let expression = json!({ "key": ZONE, "operator": "In", "values": ["zone1", "zone2"] });
    pod["spec"]["affinity"]["nodeAffinity"] = json!({
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{ "matchExpressions": [expression] }],
        },
    });
}

/// Four of these fill a node but for a tenth.
pub(super) fn low(pod: &mut Value, _: usize) {
    ask_for_cpu(pod, "900m");
}

/// Three of those have to go for one of these.
pub(super) fn high(pod: &mut Value, _: usize) {
    pod["spec"]["priority"] = json!(10);
    ask_for_cpu(pod, "3");
}

/// Larger than any node.
pub(super) fn too_large(pod: &mut Value, _: usize) {
    pod["spec"]["priority"] = json!(10);
    ask_for_cpu(pod, "9");
}

/// Every tenth is larger than any node.
pub(super) fn tenth_too_large(pod: &mut Value, index: usize) {
    if index % 10 == 9 {
        too_large(pod, index);
    }
}

/// Only labelled.
pub(super) fn green(pod: &mut Value, _: usize) {
    label(pod, "color", "green");
}

/// Not beside its like.
pub(super) fn anti(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = required(term(pod, "green", HOSTNAME, two_namespaces()));
}

/// In a zone with its like.
pub(super) fn affine(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = required(term(pod, "blue", ZONE, two_namespaces()));
}

/// Rather beside its like.
pub(super) fn prefers(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = preferred(term(pod, "red", HOSTNAME, two_namespaces()));
}

/// Rather not beside its like.
pub(super) fn avoids(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = preferred(term(pod, "yellow", HOSTNAME, two_namespaces()));
}

/// [`anti`] in all namespaces of a team.
pub(super) fn team_anti(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = required(term(pod, "green", HOSTNAME, team()));
}

/// [`affine`] in all namespaces of a team.
pub(super) fn team_affine(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = required(term(pod, "blue", ZONE, team()));
}

/// [`prefers`] in all namespaces of a team.
pub(super) fn team_prefers(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAffinity"] = preferred(term(pod, "red", HOSTNAME, team()));
}

/// [`avoids`] in all namespaces of a team.
pub(super) fn team_avoids(pod: &mut Value, _: usize) {
    pod["spec"]["affinity"]["podAntiAffinity"] = preferred(term(pod, "green", HOSTNAME, team()));
}

/// Spread over zones.
pub(super) fn spread(pod: &mut Value, _: usize) {
    label(pod, "color", "blue");
    pod["spec"]["topologySpreadConstraints"] = json!([{
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "color": "blue" } },
    }]);
}

/// Rather spread over zones.
pub(super) fn soft_spread(pod: &mut Value, index: usize) {
    spread(pod, index);
    pod["spec"]["topologySpreadConstraints"][0]["whenUnsatisfiable"] = json!("ScheduleAnyway");
}

/// Spread over the nodes that would take it.
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

/// With a secret.
pub(super) fn secret(pod: &mut Value, _: usize) {
    pod["spec"]["volumes"] = json!([{ "name": "secret", "secret": { "secretName": "secret" } }]);
}

/// With the claim of its number.
pub(super) fn claiming(pod: &mut Value, index: usize) {
    let claim = json!({ "claimName": format!("pvc-{index}") });
    pod["spec"]["volumes"] = json!([{ "name": "vol", "persistentVolumeClaim": claim }]);
}

fn label(pod: &mut Value, key: &str, value: &str) {
    pod["metadata"]["labels"][key] = json!(value);
}

fn ask_for_cpu(pod: &mut Value, amount: &str) {
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!(amount);
}

/// Gives the pod a colour, and makes the term for that colour in those namespaces.
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
