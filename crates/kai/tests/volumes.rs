//! Pods with volume claims: the filter VolumeBinding decides where they may be placed.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use kai::{PendingReason, Report, Session, Settings, Snapshot};
use model::{Moment, Object};
use serde_json::{Value, json};

/// Runs a cycle. Returns where each pod was bound, and the report.
fn run(objects: &[Value]) -> (Vec<(String, String)>, usize, Report) {
    let plugins = ["predicates", "proportion", "priority", "nodeplacement", "sg-nodelocalgreedy"];
    let plugins: Vec<Value> = plugins.iter().map(|name| json!({"name": name})).collect();
    let config = json!({"actions": "allocate, reclaim, preempt", "tiers": [{"plugins": plugins}]});
    let params = json!({"schedulerName": "kai-scheduler", "fullHierarchyFairness": true});
    let mut snapshot = Snapshot::new(Settings::parse(&config.to_string(), &params.to_string()).unwrap());
    for object in objects {
        snapshot.add(&Object::parse(&object.to_string()).unwrap()).unwrap();
    }
    let now: Moment = "2026-06-01T12:00:00Z".parse().unwrap();
    let mut session = Session::open(&snapshot, now).unwrap();
    let decisions = session.run().to_vec();
    let bound = decisions.iter().flat_map(|decisions| &decisions.bound);
    let bound = bound.map(|placement| (placement.pod.name.to_string(), placement.node.to_string()));
    let evicted = decisions.iter().map(|decisions| decisions.evicted.len()).sum();
    (bound.collect(), evicted, session.report())
}

/// A queue, and three nodes of two cores each, of which `node-c` is half full.
fn cluster() -> Vec<Value> {
    let unlimited = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {"allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let mut running = pod("running", "1");
    running["spec"]["nodeName"] = json!("node-c");
    running["status"]["phase"] = json!("Running");
    vec![
        json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "team"},
            "spec": {"resources": {"cpu": unlimited, "memory": unlimited, "gpu": unlimited}}}),
        node("node-a"),
        node("node-b"),
        node("node-c"),
        job("running", "train"),
        running,
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 90}),
    ]
}

fn job(name: &str, class: &str) -> Value {
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": {"name": name, "namespace": "ns"},
        "spec": {"queue": "team", "minMember": 1, "priorityClassName": class}})
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "uid": name, "annotations": {"pod-group-name": name}},
        "spec": {"schedulerName": "kai-scheduler",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]},
        "status": {"phase": "Pending"}})
}

/// A job of a pod that uses the claim `data`.
fn job_with_claim(cpu: &str) -> Vec<Value> {
    let mut pod = pod("web", cpu);
    pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]);
    vec![job("web", "high"), pod]
}

fn claim(class: &str, volume: &str) -> Value {
    let mut claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "ns"}, "status": {"phase": "Pending"},
        "spec": {"storageClassName": class, "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "10Gi"}}}});
    if !volume.is_empty() {
        claim["spec"]["volumeName"] = json!(volume);
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes"});
        claim["status"]["phase"] = json!("Bound");
    }
    claim
}

/// A volume that only a node reaches.
fn local_volume(name: &str, node: &str, phase: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "status": {"phase": phase},
        "spec": {"storageClassName": "local", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Filesystem", "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}]}}}})
}

fn class(name: &str, mode: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode})
}

#[track_caller]
fn check_bound(objects: &[Value], node: &str) {
    let (bound, _, report) = run(&[cluster(), objects.to_vec()].concat());
    assert_eq!(bound, [("web".to_owned(), node.to_owned())], "{:?}", report.pending);
}

/// The pod waits for this reason, and nothing is evicted for it.
#[track_caller]
fn check_waits(objects: &[Value], reason: &str) {
    let (bound, evicted, report) = run(&[cluster(), objects.to_vec()].concat());
    assert_eq!((bound.len(), evicted), (0, 0));
    let [waiting] = &report.pending[..] else { panic!("{:?}", report.pending) };
    let PendingReason::Pod(errors) = &waiting.reason else { panic!("{:?}", waiting.reason) };
    assert!(errors.to_string().contains(reason), "{errors}");
}

#[test]
fn a_pod_goes_where_its_volume_is() {
    // Without a claim the fullest node is chosen.
    check_bound(&[job("web", "high"), pod("web", "1")], "node-c");
    let storage = vec![claim("local", "disk"), local_volume("disk", "node-b", "Bound")];
    check_bound(&[job_with_claim("1"), storage].concat(), "node-b");
}

#[test]
fn an_unbound_claim_waits_for_a_node_with_a_volume() {
    let class = class("local", "WaitForFirstConsumer");
    let storage = vec![claim("local", ""), class.clone(), local_volume("disk", "node-a", "Available")];
    check_bound(&[job_with_claim("1"), storage].concat(), "node-a");
    let reason = "3 node(s) didn't find available persistent volumes to bind";
    check_waits(&[job_with_claim("1"), vec![claim("local", ""), class]].concat(), reason);
}

#[test]
fn nothing_is_evicted_for_a_claim_that_evictions_cannot_help() {
    check_waits(&job_with_claim("2"), "VolumeBinding: persistentvolumeclaim \"data\" not found.");
    let immediate = vec![claim("fast", ""), class("fast", "Immediate")];
    check_waits(
        &[job_with_claim("2"), immediate].concat(),
        "VolumeBinding: pod has unbound immediate PersistentVolumeClaims.",
    );
}

#[test]
fn pods_are_evicted_where_the_volume_is() {
    // Only the node with the running pod reaches the volume.
    let storage = vec![claim("local", "disk"), local_volume("disk", "node-c", "Bound")];
    let (bound, evicted, _) = run(&[cluster(), job_with_claim("2"), storage].concat());
    assert_eq!((bound.len(), evicted), (0, 1));
}
