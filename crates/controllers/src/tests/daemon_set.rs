//! DaemonSets. Rules and numbers are those of the original's own tests.

use serde_json::{Value, json};
use testobjects::{NodeBuilder, node, pod};

use super::{Stage, text, workload};
use crate::Controller;

fn stage<const N: usize>(nodes: [NodeBuilder; N]) -> Stage {
    let mut stage = Stage::new(&[Controller::DaemonSet]);
    nodes.into_iter().for_each(|node| stage.put(node));
    stage
}

fn set(spec: Value) -> Value {
    workload("apps/v1", "DaemonSet", spec)
}

/// The nodes that pods are meant for.
fn meant(stage: &Stage) -> Vec<String> {
    let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let mut nodes: Vec<_> =
        stage.all("Pod").iter().map(|pod| text(pod.pointer(path).expect("it is meant for a node"))).collect();
    nodes.sort();
    nodes
}

#[test]
fn every_node_gets_a_pod_that_only_the_scheduler_has_to_place() {
    let mut stage = stage([node("a"), node("b").taint("x:NoSchedule"), node("c")]);
    stage.put(set(json!({})));
    assert_eq!(meant(&stage), ["a", "c"]);
    let pod = stage.all("Pod")[0];
    assert_eq!(pod["metadata"]["generateName"], "w-");
    assert_eq!(pod["spec"]["tolerations"].as_array().map(Vec::len), Some(6));
    assert_eq!(pod["status"]["phase"], "Pending");
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "w-uid");
    let status = &stage.get("DaemonSet", "w")["status"];
    assert_eq!(
        (&status["desiredNumberScheduled"], &status["currentNumberScheduled"]),
        (&json!(2), &json!(2))
    );
    assert_eq!(status["numberUnavailable"], 2);
    stage.run_all();
    let status = &stage.get("DaemonSet", "w")["status"];
    assert_eq!((&status["numberReady"], &status["numberAvailable"]), (&json!(2), &json!(2)));
    assert_eq!(status["updatedNumberScheduled"], 2);
}

#[test]
fn nodes_come_and_go() {
    let mut stage = stage([node("a")]);
    stage.put(set(json!({})));
    stage.run_all();
    stage.put(node("b"));
    assert_eq!(meant(&stage), ["a", "b"]);
    // The pod that waits for a node that is gone is deleted; one that ran there is for others to see to.
    stage.remove("Node", "b");
    assert_eq!(meant(&stage), ["a"]);
    stage.remove("Node", "a");
    assert_eq!(meant(&stage), ["a"]);
    assert_eq!(stage.get("DaemonSet", "w")["status"]["desiredNumberScheduled"], 0);
}

#[test]
fn a_taint_that_is_not_tolerated_drives_pods_out_only_if_it_says_so() {
    let mut stage = stage([node("a"), node("b")]);
    stage.put(set(json!({})));
    stage.run_all();
    stage.put(node("a").taint("x:NoSchedule"));
    assert_eq!(meant(&stage), ["a", "b"]);
    assert_eq!(stage.get("DaemonSet", "w")["status"]["numberMisscheduled"], 1);
    stage.put(node("a").taint("x:NoExecute"));
    assert_eq!(meant(&stage), ["b"]);
    stage.put(node("a").taint("node.kubernetes.io/unreachable:NoExecute"));
    assert_eq!(meant(&stage), ["a", "b"]);
}

#[test]
fn a_failed_pod_is_replaced_and_the_next_one_later() {
    let mut stage = stage([node("a")]);
    stage.put(set(json!({})));
    let first = stage.names("Pod");
    stage.end(&first[0], "Failed");
    let second = stage.names("Pod");
    assert_ne!(first, second);
    // The first delay is a second, and grows.
    stage.end(&second[0], "Failed");
    assert_eq!(stage.names("Pod"), second);
    stage.wait(1);
    let third = stage.names("Pod");
    assert_ne!(second, third);
    stage.end(&third[0], "Failed");
    stage.wait(1);
    assert_eq!(stage.names("Pod"), third);
    stage.wait(1);
    assert_ne!(stage.names("Pod"), third);
}

fn image(stage: &mut Stage, image: &str) {
    stage.change("DaemonSet", "w", |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    });
}

fn images(stage: &Stage) -> Vec<String> {
    let mut images: Vec<_> =
        stage.all("Pod").iter().map(|pod| text(&pod["spec"]["containers"][0]["image"])).collect();
    images.sort();
    images
}

#[test]
fn a_new_template_is_rolled_out_one_node_after_the_other() {
    let mut stage = stage([node("a"), node("b"), node("c")]);
    stage.put(set(
        json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}}),
    ));
    stage.run_all();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    stage.run_all();
    assert_eq!(images(&stage), ["i:2", "i:2", "i:2"]);
    assert_eq!(stage.names("ControllerRevision").len(), 2);
    // Back to the first: its revision is known.
    image(&mut stage, "i:1");
    stage.run_all();
    assert_eq!(images(&stage), ["i:1", "i:1", "i:1"]);
    assert_eq!(stage.names("ControllerRevision").len(), 2);
    let mut numbers: Vec<_> =
        stage.all("ControllerRevision").iter().map(|one| one["revision"].as_i64()).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(2), Some(3)]);
}

#[test]
fn with_surge_the_new_pod_comes_first() {
    let mut stage = stage([node("a"), node("b")]);
    stage.put(set(json!({"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}})));
    stage.run_all();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    stage.run_all();
    assert_eq!(images(&stage), ["i:2", "i:2"]);
}

#[test]
fn on_delete_only_what_is_deleted_is_made_anew() {
    let mut stage = stage([node("a"), node("b")]);
    stage.put(set(json!({"updateStrategy": {"type": "OnDelete"}})));
    stage.run_all();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1"]);
    let pod = stage.names("Pod")[0].clone();
    stage.remove("Pod", &pod);
    assert_eq!(images(&stage), ["i:1", "i:2"]);
}

#[test]
fn pods_that_were_there_before_are_known_by_their_generation() {
    let mut stage = stage([node("a")]);
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
    stage.put(pod);
    stage.put(set);
    assert_eq!(stage.names("Pod"), ["w-x"]);
    assert_eq!(stage.names("ControllerRevision"), ["w-kept"]);
    stage.put(node("b"));
    let made = stage.all("Pod").into_iter().find(|pod| pod["metadata"]["name"] != "w-x").unwrap();
    assert_eq!(made["metadata"]["labels"]["controller-revision-hash"], "kept");
}

#[test]
fn two_pods_on_a_node_are_one_too_many() {
    let mut stage = stage([node("a")]);
    stage.put(set(json!({})));
    stage.run_all();
    let mut twin = stage.all("Pod")[0].clone();
    let first = text(&twin["metadata"]["name"]);
    twin["metadata"]["name"] = "zz".into();
    twin["metadata"]["uid"] = "zz".into();
    stage.put(twin);
    assert_eq!(stage.names("Pod"), [first]);
}
