//! Tests of the disruption controller. Cases are those of the original's disruption_test.go.

use serde_json::{Value, json};

use super::{FakeCluster, ready, workload};
use crate::Controller;

const UNHEALTHY: bool = false;

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut stage = FakeCluster::new(&[Controller::Disruption]);
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "w"}});
    stage.put(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "shop", "uid": "b", "generation": 1}, "spec": spec}));
    stage
}

fn pod(stage: &mut FakeCluster, name: &str, is_ready: bool, owner: Option<(&str, &str)>) {
    let pod = testobjects::pod(name).namespace("shop").label("app", "w").phase("Pending");
    let pod = if is_ready { pod.set("status", ready(stage.now)) } else { pod };
    stage.put(match owner {
        Some((kind, uid)) => pod.owner_with_uid(kind, "w", uid),
        None => pod,
    });
}

/// Checks disruptionsAllowed, currentHealthy, desiredHealthy and expectedPods.
#[track_caller]
fn check(stage: &FakeCluster, allowed: i64, healthy: i64, desired: i64, expected: i64) {
    let status = &stage.get("PodDisruptionBudget", "b")["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(-1);
    let told = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"].map(number);
    assert_eq!(told, [allowed, healthy, desired, expected], "{status}");
    let condition = &status["conditions"][0];
    assert_eq!(condition["status"], if allowed > 0 { "True" } else { "False" });
}

#[test]
fn without_pods_no_disruption_is_allowed() {
    check(&fake_cluster(json!({"minAvailable": 3})), 0, 0, 3, 0);
    check(&fake_cluster(json!({"minAvailable": "28%"})), 0, 0, 0, 0);
}

#[test]
fn min_available_counts_bare_pods() {
    let mut stage = fake_cluster(json!({"minAvailable": 2}));
    pod(&mut stage, "a", true, None);
    check(&stage, 0, 1, 2, 1);
    pod(&mut stage, "b", UNHEALTHY, None);
    check(&stage, 0, 1, 2, 2);
    pod(&mut stage, "c", true, None);
    pod(&mut stage, "d", true, None);
    check(&stage, 1, 3, 2, 4);
    stage.change("Pod", "d", |pod| pod["metadata"]["labels"]["app"] = "other".into());
    check(&stage, 0, 2, 2, 3);
}

#[test]
fn a_percentage_is_of_the_controllers_replicas() {
    // TestReplicaSet: 20 % of ten.
    let mut stage = fake_cluster(json!({"minAvailable": "20%"}));
    stage.put(workload("apps/v1", "ReplicaSet", json!({"replicas": 10})));
    pod(&mut stage, "a", true, Some(("ReplicaSet", "w-uid")));
    check(&stage, 0, 1, 2, 10);
}

#[test]
fn pods_of_a_deployment_are_expected_by_its_replicas() {
    let mut stage = fake_cluster(json!({"maxUnavailable": "20%"}));
    let mut deployment = workload("apps/v1", "Deployment", json!({"replicas": 5}));
    deployment["metadata"]["uid"] = "d".into();
    stage.put(deployment);
    let mut set = workload("apps/v1", "ReplicaSet", json!({"replicas": 4}));
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "d", "controller": true}]);
    stage.put(set);
    for name in ["a", "b", "c", "d", "e"] {
        pod(&mut stage, name, true, Some(("ReplicaSet", "w-uid")));
    }
    check(&stage, 1, 5, 4, 5);
    // As in the original, scaling alone causes no sync.
    stage.change("Deployment", "w", |deployment| deployment["spec"]["replicas"] = 6.into());
    check(&stage, 1, 5, 4, 5);
    pod(&mut stage, "f", true, Some(("ReplicaSet", "w-uid")));
    check(&stage, 2, 6, 4, 6);
}

#[test]
fn a_controller_without_scale_fails_safe() {
    let mut stage = fake_cluster(json!({"maxUnavailable": 1}));
    pod(&mut stage, "a", true, Some(("Job", "j")));
    let status = &stage.get("PodDisruptionBudget", "b")["status"];
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(status["conditions"][0]["message"], "jobs.batch does not implement the scale subresource");
    pod(&mut stage, "b", true, Some(("StatefulSet", "gone")));
    let status = &stage.get("PodDisruptionBudget", "b")["status"];
    assert_eq!(status["conditions"][0]["message"], "found no controllers for pod \"b\"");
}

#[test]
fn a_pod_whose_eviction_was_allowed_does_not_count_for_two_minutes() {
    // TestUpdateDisruptedPods and TestBasicFinderFunctions: a pod that is not deleted in time counts again.
    let mut stage = fake_cluster(json!({"minAvailable": 1}));
    for name in ["a", "b"] {
        pod(&mut stage, name, true, None);
    }
    check(&stage, 1, 2, 1, 2);
    let now = stage.now.to_string();
    stage.change("PodDisruptionBudget", "b", |budget| {
        budget["status"]["disruptedPods"] = json!({"a": now, "unknown": now});
        budget["status"]["disruptionsAllowed"] = 0.into();
    });
    check(&stage, 0, 1, 1, 2);
    assert_eq!(
        stage.get("PodDisruptionBudget", "b")["status"]["disruptedPods"]
            .as_object()
            .map(serde_json::Map::len),
        Some(1)
    );
    stage.wait(119);
    check(&stage, 0, 1, 1, 2);
    stage.wait(2);
    check(&stage, 1, 2, 1, 2);
    assert_eq!(stage.get("PodDisruptionBudget", "b")["status"]["disruptedPods"], Value::Null);
}

#[test]
fn pods_are_selected_whether_the_budget_or_the_pod_is_older() {
    let mut stage = FakeCluster::new(&[Controller::Disruption]);
    pod(&mut stage, "a", true, None);
    pod(&mut stage, "z", true, None);
    stage.put(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "shop", "uid": "b", "generation": 1},
        "spec": {"minAvailable": 1, "selector": {}}}));
    check(&stage, 1, 2, 1, 2);
    stage.is_graceful = true;
    stage.change("Pod", "a", |pod| pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into());
    check(&stage, 0, 1, 1, 2);
    stage.remove("Pod", "a");
    check(&stage, 0, 1, 1, 1);
}
