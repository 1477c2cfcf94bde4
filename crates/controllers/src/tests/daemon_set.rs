//! Tests of the DaemonSet controller. Rules and numbers are those of the original's own tests.

use serde_json::{Value, json};
use testobjects::{NodeBuilder, node, pod};

use super::{FakeCluster, text, workload};
use crate::Controller;

fn fake_cluster<const N: usize>(nodes: [NodeBuilder; N]) -> FakeCluster {
    let mut cluster = FakeCluster::new(&[Controller::DaemonSet]);
    nodes.into_iter().for_each(|node| cluster.put(node));
    cluster
}

fn set(spec: Value) -> Value {
    workload("apps/v1", "DaemonSet", spec)
}

/// The target nodes of the pods.
fn target_nodes(cluster: &FakeCluster) -> Vec<String> {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let mut nodes: Vec<_> = cluster
        .all("Pod")
        .iter()
        .map(|pod| text(pod.pointer(path).expect("the pod has a target node")))
        .collect();
    nodes.sort();
    nodes
}

#[test]
fn every_node_gets_a_pod_with_affinity_to_it() {
    let mut cluster = fake_cluster([node("a"), node("b").taint("x:NoSchedule"), node("c")]);
    cluster.put(set(json!({})));
    assert_eq!(target_nodes(&cluster), ["a", "c"]);
    let pod = cluster.all("Pod")[0];
    assert_eq!(pod["metadata"]["generateName"], "w-");
    assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(6));
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "w-uid");
    let status = &cluster.get("DaemonSet", "w")["status"];
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["currentNumberScheduled"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(status["numberUnavailable"], 2);
    cluster.run_all_pods();
    let status = &cluster.get("DaemonSet", "w")["status"];
    assert_eq!((&status["numberReady"], &status["numberAvailable"]), (&json!(2), &json!(2)));
    assert_eq!(status["updatedNumberScheduled"], 2);
}

#[test]
fn pods_follow_added_and_deleted_nodes() {
    let mut cluster = fake_cluster([node("a")]);
    cluster.put(set(json!({})));
    cluster.run_all_pods();
    cluster.put(node("b"));
    assert_eq!(target_nodes(&cluster), ["a", "b"]);
    // The pending pod of a deleted node is deleted; pod GC deletes one that ran there.
    cluster.remove("Node", "b");
    assert_eq!(target_nodes(&cluster), ["a"]);
    cluster.remove("Node", "a");
    assert_eq!(target_nodes(&cluster), ["a"]);
    assert_eq!(cluster.get("DaemonSet", "w")["status"]["desiredNumberScheduled"], 0);
}

#[test]
fn only_a_no_execute_taint_removes_pods() {
    let mut cluster = fake_cluster([node("a"), node("b")]);
    cluster.put(set(json!({})));
    cluster.run_all_pods();
    cluster.put(node("a").taint("x:NoSchedule"));
    assert_eq!(target_nodes(&cluster), ["a", "b"]);
    assert_eq!(cluster.get("DaemonSet", "w")["status"]["numberMisscheduled"], 1);
    cluster.put(node("a").taint("x:NoExecute"));
    assert_eq!(target_nodes(&cluster), ["b"]);
    cluster.put(node("a").taint("node.kubernetes.io/unreachable:NoExecute"));
    assert_eq!(target_nodes(&cluster), ["a", "b"]);
}

#[test]
fn failed_pods_are_replaced_with_backoff() {
    let mut cluster = fake_cluster([node("a")]);
    cluster.put(set(json!({})));
    let first = cluster.names("Pod");
    cluster.finish_pod(&first[0], "Failed");
    let second = cluster.names("Pod");
    assert_ne!(first, second);
    // The backoff begins with a second, and grows.
    cluster.finish_pod(&second[0], "Failed");
    assert_eq!(cluster.names("Pod"), second);
    cluster.wait(1);
    let third = cluster.names("Pod");
    assert_ne!(second, third);
    cluster.finish_pod(&third[0], "Failed");
    cluster.wait(1);
    assert_eq!(cluster.names("Pod"), third);
    cluster.wait(1);
    assert_ne!(cluster.names("Pod"), third);
}

fn image(cluster: &mut FakeCluster, image: &str) {
    cluster.change("DaemonSet", "w", |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    });
}

fn images(cluster: &FakeCluster) -> Vec<String> {
    let mut images: Vec<_> =
        cluster.all("Pod").iter().map(|pod| text(&pod["spec"]["containers"][0]["image"])).collect();
    images.sort();
    images
}

#[test]
fn a_new_template_is_rolled_out_one_node_after_the_other() {
    let mut cluster = fake_cluster([node("a"), node("b"), node("c")]);
    cluster.put(set(
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}}),
    ));
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    assert_eq!(images(&cluster), ["i:1", "i:1", "i:2"]);
    cluster.run_all_pods();
    assert_eq!(images(&cluster), ["i:2", "i:2", "i:2"]);
    assert_eq!(cluster.names("ControllerRevision").len(), 2);
    // Back to the first template: its revision exists.
    image(&mut cluster, "i:1");
    cluster.run_all_pods();
    assert_eq!(images(&cluster), ["i:1", "i:1", "i:1"]);
    assert_eq!(cluster.names("ControllerRevision").len(), 2);
    let mut numbers: Vec<_> =
        cluster.all("ControllerRevision").iter().map(|revision| revision["revision"].as_i64()).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(2), Some(3)]);
}

#[test]
fn with_surge_the_new_pod_is_created_first() {
    let mut cluster = fake_cluster([node("a"), node("b")]);
    cluster.put(set(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})));
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    assert_eq!(images(&cluster), ["i:1", "i:1", "i:2"]);
    cluster.run_all_pods();
    assert_eq!(images(&cluster), ["i:2", "i:2"]);
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut cluster = fake_cluster([node("a"), node("b")]);
    cluster.put(set(json!({"updateStrategy": {"type": "OnDelete"}})));
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    assert_eq!(images(&cluster), ["i:1", "i:1"]);
    let pod = cluster.names("Pod")[0].clone();
    cluster.remove("Pod", &pod);
    assert_eq!(images(&cluster), ["i:1", "i:2"]);
}

#[test]
fn existing_pods_are_matched_by_their_template_generation() {
    let mut cluster = fake_cluster([node("a")]);
    let mut set = set(json!({}));
    set["metadata"]["annotations"] = json!({"deprecated.daemonset.template.generation": "4"});
    let pod = pod("w-x")
        .namespace("shop")
        .created("2026-11-15T00:00:00Z")
        .label("app", "w")
        .label("pod-template-generation", "4")
        .label("controller-revision-hash", "kept")
        .owner_with_uid("DaemonSet", "w", "w-uid")
        .on("a")
        .phase("Running");
    cluster.put(pod);
    cluster.put(set);
    assert_eq!(cluster.names("Pod"), ["w-x"]);
    assert_eq!(cluster.names("ControllerRevision"), ["w-kept"]);
    cluster.put(node("b"));
    let created = cluster.all("Pod").into_iter().find(|pod| pod["metadata"]["name"] != "w-x").unwrap();
    assert_eq!(created["metadata"]["labels"]["controller-revision-hash"], "kept");
}

#[test]
fn a_second_pod_on_a_node_is_deleted() {
    let mut cluster = fake_cluster([node("a")]);
    cluster.put(set(json!({})));
    cluster.run_all_pods();
    let mut twin = cluster.all("Pod")[0].clone();
    let first = text(&twin["metadata"]["name"]);
    twin["metadata"]["name"] = "zz".into();
    twin["metadata"]["uid"] = "zz".into();
    cluster.put(twin);
    assert_eq!(cluster.names("Pod"), [first]);
}
