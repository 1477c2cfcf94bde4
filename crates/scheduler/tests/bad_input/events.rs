//! Events in an impossible order, and objects that contradict each other.

use serde_json::json;

use super::{TestScheduler, node, on, pod};

const TOO_MUCH: &str = "0/1 nodes are available: 1 Insufficient cpu.";

/// A pod that requests three of a node's four CPUs.
fn large(name: &str) -> serde_json::Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("3");
    pod
}

#[test]
fn a_modification_of_an_unknown_object_adds_it() {
    let mut bench = TestScheduler::new();
    bench.modify(&node("n"));
    bench.modify(&on(large("x"), "n"));
    bench.modify(&large("p"));
    assert_eq!(bench.outcome("p"), TOO_MUCH);
    // Applying it twice changes nothing.
    bench.add(&on(large("x"), "n"));
    bench.add(&node("n"));
    assert_eq!(bench.outcome("p"), TOO_MUCH);
    bench.delete(&on(large("x"), "n"));
    assert_eq!(bench.outcome("p"), "-> n");
}

#[test]
fn a_deletion_of_an_unknown_object_is_ignored() {
    let mut bench = TestScheduler::with(&[&node("n"), &pod("p")]);
    bench.delete(&node("m"));
    bench.delete(&pod("q"));
    bench.delete(&on(pod("r"), "nowhere"));
    bench.delete(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "x"}}));
    bench
        .delete(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "x", "name": "x"}}));
    bench.delete(&json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "x"}}));
    assert_eq!(bench.outcome("p"), "-> n");
    bench.delete(&node("n"));
    bench.delete(&node("n"));
    assert_eq!(bench.outcome("p"), "no nodes available to schedule pods");
    assert!(bench.0.explain(super::NOW, "default", "q").is_none());
    assert!(bench.0.attempt(super::NOW, "default", "q").is_none());
}

#[test]
fn a_pod_assigned_to_an_unknown_node_is_counted_once_the_node_is_added() {
    let mut bench = TestScheduler::with(&[&on(large("x"), "n"), &large("p")]);
    assert_eq!(bench.outcome("x"), "skipped: placed already");
    assert_eq!(bench.outcome("p"), "no nodes available to schedule pods");
    bench.add(&node("n"));
    assert_eq!(bench.outcome("p"), TOO_MUCH);
}

#[test]
fn a_node_that_is_added_again_still_has_its_pods() {
    let mut bench = TestScheduler::with(&[&node("n"), &on(large("x"), "n"), &large("p")]);
    bench.delete(&node("n"));
    assert_eq!(bench.outcome("p"), "no nodes available to schedule pods");
    bench.add(&node("n"));
    assert_eq!(bench.outcome("p"), TOO_MUCH);
    // But not those deleted meanwhile.
    bench.delete(&node("n"));
    bench.delete(&on(large("x"), "n"));
    bench.add(&node("n"));
    assert_eq!(bench.outcome("p"), "-> n");
}

#[test]
fn a_pod_that_changes_while_its_node_is_deleted_is_still_assigned() {
    let mut bench = TestScheduler::with(&[&node("n"), &large("x"), &large("p")]);
    assert_eq!(bench.attempt("x"), "-> n");
    bench.delete(&node("n"));
    let mut changed = large("x");
    changed["metadata"]["labels"]["app"] = json!("b");
    bench.modify(&changed);
    // A new node must not be taken for the old one, whatever identifier it gets.
    bench.add(&node("m"));
    assert_eq!(bench.outcome("p"), "-> m");
    bench.modify(&on(changed.clone(), "n"));
    changed["metadata"]["labels"]["app"] = json!("c");
    bench.modify(&on(changed, "n"));
    bench.delete(&node("m"));
    bench.add(&node("n"));
    assert_eq!(bench.outcome("p"), TOO_MUCH);
}

#[test]
fn a_pod_whose_node_name_changes_leaves_the_old_node() {
    let mut bench = TestScheduler::with(&[&node("n"), &on(large("x"), "n"), &large("p")]);
    bench.modify(&on(large("x"), "m"));
    assert_eq!(bench.outcome("p"), "-> n");
    bench.modify(&on(large("x"), "n"));
    assert_eq!(bench.outcome("p"), TOO_MUCH);
    // Or it loses its node.
    bench.modify(&large("x"));
    assert_eq!(bench.outcome("p"), "-> n");
}

#[test]
fn pods_that_share_a_uid_are_different_pods() {
    let same = |name: &str| {
        let mut pod = large(name);
        pod["metadata"]["uid"] = json!("same");
        pod
    };
    let mut bench = TestScheduler::with(&[&node("n"), &node("m"), &same("x"), &same("y"), &same("z")]);
    let mut nodes = [bench.attempt("x"), bench.attempt("y")];
    nodes.sort();
    assert_eq!(nodes, ["-> m", "-> n"]);
    assert_eq!(bench.outcome("z"), "0/2 nodes are available: 2 Insufficient cpu.");
    // A pod without a uid is a pod too.
    let mut without = large("w");
    without["metadata"].as_object_mut().unwrap().remove("uid");
    bench.add(&without);
    assert_eq!(bench.outcome("w"), "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn a_recreated_pod_of_the_same_name_is_pending_again() {
    let mut bench = TestScheduler::with(&[&node("n"), &large("x")]);
    assert_eq!(bench.attempt("x"), "-> n");
    assert_eq!(bench.attempt("x"), "skipped: placed already");
    let mut again = large("x");
    again["metadata"]["uid"] = json!("another");
    // The deletion of its predecessor was missed.
    bench.add(&again);
    assert_eq!(bench.attempt("x"), "-> n");
}

#[test]
fn cyclic_owner_references_are_harmless() {
    let owned = |name: &str, owner: &str| {
        let mut pod = pod(name);
        pod["metadata"]["ownerReferences"] =
            json!([{"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": owner, "controller": true}]);
        pod
    };
    let mut bench = TestScheduler::with(&[&node("n"), &owned("a", "b"), &owned("b", "a"), &owned("c", "c")]);
    for name in ["a", "b", "c"] {
        assert_eq!(bench.attempt(name), "-> n");
    }
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "default", "name": "r", "ownerReferences":
            [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
    });
    bench.add(&set);
    let mut member = pod("d");
    member["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true}]);
    bench.add(&member);
    assert_eq!(bench.attempt("d"), "-> n");
}

#[test]
fn a_nomination_of_an_unknown_node_is_ignored() {
    let mut nominated = pod("p");
    nominated["status"] = json!({"nominatedNodeName": "gone"});
    let mut bench = TestScheduler::with(&[&node("n"), &nominated, &large("q")]);
    assert_eq!(bench.outcome("q"), "-> n");
    assert_eq!(bench.attempt("p"), "-> n");
}

#[test]
fn a_cleared_or_fulfilled_nomination_does_not_count() {
    let mut nominated = large("x");
    nominated["status"] = json!({"nominatedNodeName": "n"});
    let mut bench = TestScheduler::with(&[&node("n"), &nominated, &large("p")]);
    assert_eq!(bench.outcome("p"), TOO_MUCH);
    bench.modify(&large("x"));
    assert_eq!(bench.outcome("p"), "-> n");
    // A pod that is assumed by then does not count as nominated besides.
    bench.add(&node("m"));
    bench.modify(&nominated);
    assert_eq!(bench.attempt("x"), "-> n");
    bench.modify(&nominated);
    let mut small = pod("s");
    small["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": "n"});
    bench.add(&small);
    assert_eq!(bench.outcome("s"), "-> n");
}

#[test]
fn nodes_that_share_a_host_name_are_one_domain() {
    let mut same_host_node = node("m");
    same_host_node["metadata"]["labels"]["kubernetes.io/hostname"] = json!("n");
    let mut exclusive = pod("p");
    exclusive["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!([
        {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "a"}}},
    ]);
    let mut bench = TestScheduler::with(&[&node("n"), &same_host_node, &on(pod("x"), "n"), &exclusive]);
    assert_eq!(
        bench.outcome("p"),
        "0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."
    );
}

#[test]
fn terminating_and_finished_pods_are_not_scheduled() {
    let mut terminating = pod("p");
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut bench = TestScheduler::with(&[&node("n"), &terminating]);
    assert_eq!(bench.outcome("p"), "skipped: skip schedule deleting pod: default/p");
    let mut finished = on(large("x"), "n");
    bench.add(&finished);
    bench.add(&large("q"));
    assert_eq!(bench.outcome("q"), TOO_MUCH);
    finished["status"] = json!({"phase": "Succeeded"});
    bench.modify(&finished);
    assert_eq!(bench.outcome("q"), "-> n");
    let mut of_other_scheduler = pod("s");
    of_other_scheduler["spec"]["schedulerName"] = json!("other-scheduler");
    bench.add(&of_other_scheduler);
    assert_eq!(bench.outcome("s"), "skipped: no profile for schedulerName \"other-scheduler\"");
}
