//! `snapshot explain` of pods, pod groups and queues.

use serde_json::json;

use super::cluster::{folder, snapshot, snapshot_json};

#[test]
fn a_pod_is_explained_by_the_nodes() {
    let folder = folder();
    let pod = snapshot_json(folder.path(), "explain pod/huge-0 -n ml cluster.zip");
    assert_eq!(
        (&pod["kind"], &pod["status"], &pod["statusAfter"]),
        (&json!("pod"), &json!("Pending"), &json!("Pending"))
    );
    assert_eq!((&pod["podGroup"], &pod["queue"]), (&json!("huge"), &json!("team-c")));
    let nodes = pod["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    assert!(
        nodes.iter().all(|node| node["isSuitable"] == false && node["predicate"] == "NodeResources"),
        "{nodes:?}"
    );
    let text = snapshot(folder.path(), "explain pod/ml/train-0 cluster.zip").success();
    assert!(text.contains("Pending → Pipelined on gpu-"), "{text}");
    let running = snapshot(folder.path(), "explain pod/ml/run-0-0 cluster.zip").success();
    assert!(running.contains("Pod:         ml/run-0-0"), "{running}");
}

#[test]
fn a_pod_group_is_explained_by_its_gang_and_order() {
    let folder = folder();
    let group = snapshot_json(folder.path(), "explain podgroup/huge cluster.zip");
    assert_eq!((&group["podGroup"], &group["isReady"]), (&json!("ml/huge"), &json!(true)));
    let sets =
        json!([{"name": "default", "minAvailable": 3, "pods": 3, "allocated": 0, "allocatedAfter": 0}]);
    assert_eq!(group["podSets"], sets);
    assert_eq!(group["orderLength"], 2);
    assert!(group["order"].as_u64().is_some() && group["orderInQueue"].as_u64().is_some());
    assert!(!group["pending"][0]["reasons"].as_array().unwrap().is_empty());
    let queues: Vec<&str> =
        group["queues"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(queues, ["dept", "team-c"]);
    let text = snapshot(folder.path(), "explain podgroup/ml/train cluster.zip").success();
    for expected in ["Pods:        2 Pending → 2 Pipelined", "GANG", "reclaim: 2 pipelined, 2 evicted"] {
        assert!(text.contains(expected), "{expected:?} is missing:\n{text}");
    }
}

#[test]
fn a_queue_is_explained_by_its_fair_share() {
    let folder = folder();
    let queue = snapshot_json(folder.path(), "explain queue/team-c cluster.zip");
    let gpu: Vec<_> = queue["divisions"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|step| step["resource"] == "gpu" && step["parent"] == "dept")
        .map(|step| {
            (
                step["queue"].as_str().unwrap(),
                step["asked"].as_f64().unwrap(),
                step["withinQuota"].as_f64().unwrap(),
                step["fairShare"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(gpu, [("team-a", 2.0, 2.0, 2.0), ("team-b", 8.0, 4.0, 5.0), ("team-c", 12.0, 0.0, 1.0)]);
    assert_eq!(queue["pending"][0]["podGroup"], "ml/huge");
    let text = snapshot(folder.path(), "explain queue/team-c cluster.zip").success();
    for expected in ["Queue:       dept / team-c", "gpu: 8 of dept divided", "* team-c", "ml/huge"] {
        assert!(text.contains(expected), "{expected:?} is missing:\n{text}");
    }
    let parent = snapshot(folder.path(), "explain queue/dept cluster.zip").success();
    assert!(parent.contains("Below it:    team-a, team-b, team-c"), "{parent}");
}

#[test]
fn subjects_that_are_not_there_are_named() {
    let folder = folder();
    for (subject, expected) in [
        ("pod/train-0", "there is one in the namespace ml"),
        ("pod/ml/trian-0", "did you mean train-0?"),
        ("podgroup/hug", "did you mean huge?"),
        ("podgroup/other/huge", "not found in the snapshot in the namespace other"),
        ("queue/team-d", "did you mean team-"),
        ("node/gpu-1", "expected pod/NAME, podgroup/NAME or queue/NAME"),
        ("huge", "expected pod/NAME, podgroup/NAME or queue/NAME"),
    ] {
        let error = snapshot(folder.path(), &format!("explain {subject} cluster.zip")).failure(1);
        assert!(error.contains(expected), "{subject}: {error}");
    }
}
