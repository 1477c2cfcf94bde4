//! A small Gardener cluster: one pool, one node, and two minutes in which pods are created.

use std::path::PathBuf;
use std::sync::Arc;

use history::BulkWriter;
use model::{IncomingChange, Moment, Object, What};
use serde_json::{Value, json};

/// When the recording begins, in seconds since 1970.
pub(crate) const START: i64 = 1_728_600_000;
/// When the recording ends.
pub(crate) const END: i64 = START + 120;
/// Its node group, as the autoscaler names it.
pub(crate) const GROUP: &str = "shoot--a--b.shoot--a--b-p1-z1";

/// A history of this cluster.
pub(crate) struct Shop {
    pub(crate) path: PathBuf,
    _directory: tempfile::TempDir,
}

pub(crate) fn at(second: i64) -> Moment {
    Moment::from_nanos(second * 1_000_000_000)
}

fn time(second: i64) -> String {
    at(second).to_string()
}

impl Shop {
    pub(crate) fn open() -> Shop {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("shop.kine");
        let source: Arc<str> = "shop".into();
        let mut bulk = BulkWriter::open(&path).unwrap();
        for (second, to_change, object) in changes() {
            let what = to_change(testobjects::object(&object));
            bulk.push(&IncomingChange::received(at(START + second), &source, what)).unwrap();
        }
        bulk.finish().unwrap();
        Shop { path, _directory: directory }
    }
}

type ChangeConstructor = fn(Object) -> What;

fn changes() -> Vec<(i64, ChangeConstructor, Value)> {
    let (added, modified, deleted): (ChangeConstructor, ChangeConstructor, ChangeConstructor) =
        (What::Added, What::Modified, What::Deleted);
    let mut n2 = node("n2", START + 20);
    let added_node = n2.clone();
    n2["spec"]["taints"] =
        json!([{ "key": "ToBeDeletedByClusterAutoscaler", "value": "1", "effect": "NoSchedule" }]);
    let bound = |mut pod: Value, node: &str| {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({ "phase": "Running", "startTime": pod["metadata"]["creationTimestamp"], "conditions": [
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": time(START + 21) },
        ] });
        pod
    };
    let mut a_leaves = bound(pod("a", "1500m", START + 5), "n2");
    a_leaves["metadata"]["deletionTimestamp"] = json!(time(START + 70));
    let mut ended = bound(pod("ended", "1", START - 50), "n1");
    ended["status"]["phase"] = json!("Succeeded");
    let mut nominated = pod("promised", "100m", START - 8);
    nominated["status"]["nominatedNodeName"] = json!("n1");
    let old = bound(pod("old", "1", START - 60), "n1");
    vec![
        (0, added, worker()),
        (0, added, machine_deployment(1)),
        (0, added, machine_class()),
        (0, added, autoscaler()),
        (
            0,
            added,
            json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": { "name": "high", "uid": "high", "creationTimestamp": time(START - 100) }, "value": 7 }),
        ),
        (
            0,
            added,
            json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
            "metadata": { "name": "n1", "creationTimestamp": time(START - 100) },
            "spec": { "drivers": [{ "name": "d", "nodeID": "n1", "topologyKeys": null, "allocatable": { "count": 25 } }] } }),
        ),
        (1, added, node("n1", START - 100)),
        (1, added, old),
        (1, added, ended),
        (1, added, nominated),
        (1, added, pod("waiting", "1500m", START - 5)),
        (5, added, pod("a", "1500m", START + 5)),
        (12, added, pod("b", "100m", START + 12)),
        (13, added, pod("d", "100m", START + 13)),
        (
            15,
            added,
            event(
                "e1",
                "TriggeredScaleUp",
                "Pod",
                "default",
                "waiting",
                &format!("pod triggered scale-up: [{{{GROUP} 1->2 (max: 4)}}]"),
                15,
            ),
        ),
        (20, added, added_node),
        (21, modified, bound(pod("waiting", "1500m", START - 5), "n2")),
        (21, modified, bound(pod("a", "1500m", START + 5), "n2")),
        (21, modified, bound(pod("b", "100m", START + 12), "n1")),
        (21, modified, bound(pod("d", "100m", START + 13), "n1")),
        (25, added, pod("c", "100", START + 25)),
        (40, modified, a_leaves.clone()),
        (42, deleted, a_leaves),
        (
            70,
            added,
            event("e2", "ScaleDown", "Node", "", "n2", "marked the node as toBeDeleted/unschedulable", 70),
        ),
        (70, modified, n2.clone()),
        (75, deleted, n2),
        (120, modified, machine_deployment(1)),
    ]
}

fn worker() -> Value {
    json!({ "apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "Worker",
        "metadata": { "name": "b", "namespace": "shoot--a--b", "creationTimestamp": time(START - 1000),
            "annotations": { "gardener.cloud/timestamp": time(START - 900) } },
        "spec": { "pools": [{ "name": "p1", "machineType": "m5.large", "architecture": "amd64", "minimum": 1,
            "maximum": 4, "maxSurge": 1, "maxUnavailable": 0, "zones": ["z1"] }] } })
}

fn machine_deployment(replicas: i64) -> Value {
    json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
        "metadata": { "name": "shoot--a--b-p1-z1", "namespace": "shoot--a--b", "creationTimestamp": time(START - 1000) },
        "spec": { "replicas": replicas, "strategy": { "type": "RollingUpdate",
                "rollingUpdate": { "maxSurge": 1, "maxUnavailable": 0 } },
            "template": { "spec": { "class": { "kind": "MachineClass", "name": "shoot--a--b-p1-z1-x" },
                "nodeTemplate": { "metadata": { "labels": labels() }, "spec": {} } } } } })
}

fn machine_class() -> Value {
    json!({ "apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineClass",
        "metadata": { "name": "shoot--a--b-p1-z1-x", "namespace": "shoot--a--b", "creationTimestamp": time(START - 1000) },
        "nodeTemplate": { "instanceType": "m5.large", "region": "eu-west-1", "zone": "z1",
            "capacity": { "cpu": "2", "gpu": "0", "memory": "8Gi" } },
        "providerSpec": { "labels": labels() } })
}

fn labels() -> Value {
    json!({ "worker.gardener.cloud/pool": "p1", "topology.kubernetes.io/zone": "z1" })
}

fn autoscaler() -> Value {
    let command =
        ["./cluster-autoscaler", "--expander=least-waste", "--scan-interval=10s", "--cloud-provider=mcm"];
    let nodes = format!("--nodes=1:4:{GROUP}");
    let command: Vec<&str> = command.into_iter().chain([nodes.as_str()]).collect();
    json!({ "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "cluster-autoscaler", "namespace": "shoot--a--b", "creationTimestamp": time(START - 1000) },
        "spec": { "replicas": 1, "template": { "spec": { "containers": [
            { "name": "cluster-autoscaler", "image": "cluster-autoscaler:v1.36.1", "command": command },
        ] } } } })
}

fn node(name: &str, created: i64) -> Value {
    let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": time(created) });
    let node = testobjects::node(name).created(time(created)).set("metadata.labels", labels());
    let node = node.provider_id(&format!("aws:///{name}")).set("status.conditions", json!([ready]));
    let node = node.capacity("cpu", "2").capacity("memory", "8Gi").capacity("pods", "110");
    node.allocatable("cpu", "1920m").allocatable("memory", "7Gi").json()
}

/// An unschedulable pod.
fn pod(name: &str, cpu: &str, created: i64) -> Value {
    let refused = json!({ "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "lastTransitionTime": time(created) });
    let pod = testobjects::pod(name).uid(&format!("uid-{name}")).created(time(created));
    let pod = pod.request("cpu", cpu).request("memory", "10Mi").set("spec.containers.0.image", "i");
    let pod =
        pod.set("spec.schedulerName", "default-scheduler").set("spec.terminationGracePeriodSeconds", 30);
    pod.phase("Pending").set("status.conditions", json!([refused])).json()
}

fn event(
    uid: &str,
    reason: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    message: &str,
    second: i64,
) -> Value {
    json!({ "apiVersion": "v1", "kind": "Event",
        "metadata": { "name": uid, "namespace": "default", "uid": uid, "creationTimestamp": time(START + second) },
        "reason": reason, "message": message, "source": { "component": "cluster-autoscaler" },
        "involvedObject": { "kind": kind, "namespace": namespace, "name": name },
        "firstTimestamp": time(START + second), "lastTimestamp": time(START + second) })
}
