//! Tests of the disruption controller. Cases are those of the original's disruption_test.go.

use serde_json::{Value, json};

use super::{FakeCluster, ready, workload};
use crate::Controller;

const UNHEALTHY: bool = false;

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut cluster = FakeCluster::new(&[Controller::Disruption]);
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "w"}});
    cluster.put(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "shop", "uid": "b", "generation": 1}, "spec": spec}));
    cluster
}

fn pod(cluster: &mut FakeCluster, name: &str, is_ready: bool, owner: Option<(&str, &str)>) {
    let pod = testobjects::pod(name).namespace("shop").label("app", "w").phase("Pending");
    let pod = if is_ready { pod.set("status", ready(cluster.now)) } else { pod };
    cluster.put(match owner {
        Some((kind, uid)) => pod.owner_with_uid(kind, "w", uid),
        None => pod,
    });
}

/// Checks disruptionsAllowed, currentHealthy, desiredHealthy and expectedPods.
#[track_caller]
fn check(cluster: &FakeCluster, allowed: i64, healthy: i64, desired: i64, expected: i64) {
    let status = &cluster.get("PodDisruptionBudget", "b")["status"];
    let number = |field: &str| status[field].as_i64().unwrap_or(-1);
    let reported = ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"].map(number);
    assert_eq!(reported, [allowed, healthy, desired, expected], "{status}");
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
    let mut cluster = fake_cluster(json!({"minAvailable": 2}));
    pod(&mut cluster, "a", true, None);
    check(&cluster, 0, 1, 2, 1);
    pod(&mut cluster, "b", UNHEALTHY, None);
    check(&cluster, 0, 1, 2, 2);
    pod(&mut cluster, "c", true, None);
    pod(&mut cluster, "d", true, None);
    check(&cluster, 1, 3, 2, 4);
    cluster.change("Pod", "d", |pod| pod["metadata"]["labels"]["app"] = "other".into());
    check(&cluster, 0, 2, 2, 3);
}

#[test]
fn a_percentage_is_of_the_controllers_replicas() {
    // TestReplicaSet: 20 % of ten.
    let mut cluster = fake_cluster(json!({"minAvailable": "20%"}));
    cluster.put(workload("apps/v1", "ReplicaSet", json!({"replicas": 10})));
    pod(&mut cluster, "a", true, Some(("ReplicaSet", "w-uid")));
    check(&cluster, 0, 1, 2, 10);
}

#[test]
fn pods_of_a_deployment_are_expected_by_its_replicas() {
    let mut cluster = fake_cluster(json!({"maxUnavailable": "20%"}));
    let mut deployment = workload("apps/v1", "Deployment", json!({"replicas": 5}));
    deployment["metadata"]["uid"] = "d".into();
    cluster.put(deployment);
    let mut set = workload("apps/v1", "ReplicaSet", json!({"replicas": 4}));
    set["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "d", "controller": true}]);
    cluster.put(set);
    for name in ["a", "b", "c", "d", "e"] {
        pod(&mut cluster, name, true, Some(("ReplicaSet", "w-uid")));
    }
    check(&cluster, 1, 5, 4, 5);
    // As in the original, scaling alone causes no sync.
    cluster.change("Deployment", "w", |deployment| deployment["spec"]["replicas"] = 6.into());
    check(&cluster, 1, 5, 4, 5);
    pod(&mut cluster, "f", true, Some(("ReplicaSet", "w-uid")));
    check(&cluster, 2, 6, 4, 6);
}

#[test]
fn a_controller_without_scale_fails_safe() {
    let mut cluster = fake_cluster(json!({"maxUnavailable": 1}));
    pod(&mut cluster, "a", true, Some(("Job", "j")));
    let status = &cluster.get("PodDisruptionBudget", "b")["status"];
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(status["conditions"][0]["message"], "jobs.batch does not implement the scale subresource");
    pod(&mut cluster, "b", true, Some(("StatefulSet", "gone")));
    let status = &cluster.get("PodDisruptionBudget", "b")["status"];
    assert_eq!(status["conditions"][0]["message"], "found no controllers for pod \"b\"");
}

#[test]
fn a_pod_whose_eviction_was_allowed_does_not_count_for_two_minutes() {
    // TestUpdateDisruptedPods and TestBasicFinderFunctions: a pod that is not deleted in time counts again.
    let mut cluster = fake_cluster(json!({"minAvailable": 1}));
    for name in ["a", "b"] {
        pod(&mut cluster, name, true, None);
    }
    check(&cluster, 1, 2, 1, 2);
    let now = cluster.now.to_string();
    cluster.change("PodDisruptionBudget", "b", |budget| {
        budget["status"]["disruptedPods"] = json!({"a": now, "unknown": now});
        budget["status"]["disruptionsAllowed"] = 0.into();
    });
    check(&cluster, 0, 1, 1, 2);
    assert_eq!(
        cluster.get("PodDisruptionBudget", "b")["status"]["disruptedPods"]
            .as_object()
            .map(serde_json::Map::len),
        Some(1)
    );
    cluster.wait(119);
    check(&cluster, 0, 1, 1, 2);
    cluster.wait(2);
    check(&cluster, 1, 2, 1, 2);
    assert_eq!(cluster.get("PodDisruptionBudget", "b")["status"]["disruptedPods"], Value::Null);
}

#[test]
fn pods_are_selected_whether_the_budget_or_the_pod_is_older() {
    let mut cluster = FakeCluster::new(&[Controller::Disruption]);
    pod(&mut cluster, "a", true, None);
    pod(&mut cluster, "z", true, None);
    cluster.put(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "shop", "uid": "b", "generation": 1},
        "spec": {"minAvailable": 1, "selector": {}}}));
    check(&cluster, 1, 2, 1, 2);
    cluster.is_graceful = true;
    cluster.change("Pod", "a", |pod| pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into());
    check(&cluster, 0, 1, 1, 2);
    cluster.remove("Pod", "a");
    check(&cluster, 0, 1, 1, 1);
}
