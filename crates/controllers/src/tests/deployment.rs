//! Tests of the Deployment controller. The tables are those of the original's sync_test.go and rolling_test.go.

use serde_json::{Value, json};

use super::{ALL, FakeCluster, text, workload};
use crate::{ApiCall, Controller};

fn deployment(replicas: i64, surge: Value, unavailable: Value) -> Value {
    let strategy =
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}});
    workload("apps/v1", "Deployment", json!({"replicas": replicas, "strategy": strategy}))
}

/// A ReplicaSet of the Deployment; version 0 has its template.
fn set(version: i64, replicas: i64, available: i64, desired_and_max: (i64, i64)) -> Value {
    let mut set = workload("apps/v1", "ReplicaSet", json!({"replicas": replicas}));
    if version != 0 {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = format!("old:{version}").into();
    }
    let annotation = |key: &str| format!("deployment.kubernetes.io/{key}");
    set["metadata"] = json!({
        "name": format!("v{version}"), "namespace": "shop", "uid": format!("v{version}"), "generation": 1,
        // The higher the version, the older.
        "creationTimestamp": format!("2026-11-14T00:00:{:02}Z", 30 - version),
        "annotations": {annotation("desired-replicas"): desired_and_max.0.to_string(), annotation("max-replicas"): desired_and_max.1.to_string(),
            annotation("revision"): (10 - version).to_string()},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "w-uid", "controller": true}],
    });
    set["status"] = json!({"replicas": replicas, "readyReplicas": available, "availableReplicas": available,
        "observedGeneration": 1, "terminatingReplicas": 0});
    set
}

/// The replicas of the ReplicaSets after one sync of the Deployment.
fn after_one_sync(deployment: Value, sets: &[Value]) -> Vec<i64> {
    let mut cluster = FakeCluster::new(&[Controller::Deployment]);
    for set in sets {
        cluster.set(set.clone());
    }
    cluster.set(deployment);
    for one in cluster.controllers.process_next_item(cluster.now) {
        if let ApiCall::Update(object) = one {
            let value = object.value().unwrap();
            cluster.objects.insert(super::key(&value), value);
        }
    }
    let size = |set: &Value| {
        cluster.get("ReplicaSet", &text(&set["metadata"]["name"]))["spec"]["replicas"].as_i64().unwrap()
    };
    sets.iter().map(size).collect()
}

/// Replicas of the new ReplicaSet and of old ones, before and after the Deployment is scaled.
#[track_caller]
fn check_scale(from: i64, to: i64, surge: (i64, i64), before: &[i64], expected: &[i64]) {
    let sets: Vec<Value> =
        (0..).zip(before).map(|(version, size)| set(version, *size, *size, (from, from + surge.0))).collect();
    assert_eq!(after_one_sync(deployment(to, json!(surge.1), json!(0)), &sets), expected);
}

#[test]
fn scaling_is_proportional() {
    check_scale(10, 12, (0, 0), &[10], &[12]);
    check_scale(10, 5, (0, 0), &[10], &[5]);
    check_scale(5, 10, (0, 0), &[2, 3], &[4, 6]);
    check_scale(5, 3, (0, 0), &[2, 3], &[1, 2]);
    check_scale(9, 4, (0, 0), &[8, 1], &[4, 0]);
    check_scale(7, 10, (0, 0), &[2, 3, 2], &[3, 4, 3]);
    check_scale(13, 8, (0, 0), &[2, 8, 3], &[1, 5, 2]);
    check_scale(3, 4, (0, 0), &[1, 1, 1], &[2, 1, 1]);
    check_scale(3, 2, (0, 0), &[1, 1, 1], &[1, 1, 0]);
    check_scale(6, 0, (0, 0), &[3, 2, 1], &[0, 0, 0]);
    check_scale(10, 20, (2, 2), &[6, 6], &[11, 11]);
    check_scale(10, 50, (3, 6), &[5, 8], &[22, 34]);
}

#[track_caller]
fn check_roll(replicas: i64, surge: i64, unavailable: i64, sets: [(i64, i64); 2], expected: [i64; 2]) {
    let desired_and_max = (replicas, replicas + surge);
    let sets = [set(0, sets[0].0, sets[0].1, desired_and_max), set(1, sets[1].0, sets[1].1, desired_and_max)];
    let sizes = after_one_sync(deployment(replicas, json!(surge), json!(unavailable)), &sets);
    assert_eq!(sizes, expected);
}

#[test]
fn the_new_replica_set_scales_up_within_the_surge() {
    check_roll(10, 2, 0, [(0, 0), (10, 10)], [2, 10]);
    check_roll(10, 2, 0, [(0, 0), (5, 5)], [7, 5]);
    check_roll(10, 2, 0, [(2, 0), (10, 10)], [2, 10]);
    check_roll(10, 2, 0, [(11, 11), (2, 2)], [10, 2]);
}

#[test]
fn old_replica_sets_scale_down_within_max_unavailable() {
    // Without maxSurge and maxUnavailable one pod may be unavailable.
    check_roll(10, 0, 0, [(0, 0), (10, 10)], [0, 9]);
    check_roll(10, 0, 2, [(0, 0), (10, 10)], [0, 8]);
    // Unhealthy pods are removed first.
    check_roll(10, 0, 2, [(0, 0), (10, 8)], [0, 8]);
    check_roll(10, 0, 2, [(0, 0), (10, 9)], [0, 8]);
    check_roll(10, 0, 2, [(2, 2), (8, 8)], [2, 6]);
    check_roll(10, 0, 2, [(2, 0), (8, 8)], [2, 8]);
}

fn image(cluster: &mut FakeCluster, image: &str) {
    cluster.change("Deployment", "w", |object| {
        object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    });
}

fn status(cluster: &FakeCluster, field: &str) -> i64 {
    cluster.get("Deployment", "w")["status"][field].as_i64().unwrap_or(0)
}

fn condition(cluster: &FakeCluster, kind: &str) -> (String, String) {
    let conditions =
        cluster.get("Deployment", "w")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found =
        conditions.into_iter().find(|one| one["type"] == kind).expect("the Deployment has the condition");
    (text(&found["status"]), text(&found["reason"]))
}

#[test]
fn a_rollout_completes_and_sets_its_conditions() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 4})));
    let set = cluster.all("ReplicaSet")[0];
    let hash = text(&set["metadata"]["labels"]["pod-template-hash"]);
    assert_eq!(set["metadata"]["name"], format!("w-{hash}"));
    assert_eq!(set["spec"]["selector"]["matchLabels"]["pod-template-hash"], *hash);
    let annotation = |key: &str| &set["metadata"]["annotations"][format!("deployment.kubernetes.io/{key}")];
    assert_eq!(
        [annotation("desired-replicas"), annotation("max-replicas"), annotation("revision")],
        ["4", "5", "1"]
    );
    assert_eq!(cluster.all("Pod")[0]["metadata"]["labels"]["pod-template-hash"], *hash);
    assert_eq!((status(&cluster, "replicas"), status(&cluster, "unavailableReplicas")), (4, 4));
    assert_eq!(condition(&cluster, "Available"), ("False".into(), "MinimumReplicasUnavailable".into()));
    cluster.run_all_pods();
    assert_eq!((status(&cluster, "readyReplicas"), status(&cluster, "availableReplicas")), (4, 4));
    assert_eq!(condition(&cluster, "Available"), ("True".into(), "MinimumReplicasAvailable".into()));
    assert_eq!(condition(&cluster, "Progressing"), ("True".into(), "NewReplicaSetAvailable".into()));
    assert_eq!(
        cluster.get("Deployment", "w")["metadata"]["annotations"]["deployment.kubernetes.io/revision"],
        "1"
    );
}

#[test]
fn a_rolling_update_never_has_too_few_or_too_many_pods() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(deployment(10, json!(3), json!(2)));
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    // Ten pods less two that may be unavailable; thirteen at most.
    let count = |cluster: &FakeCluster, phase: &str| {
        cluster.all("Pod").iter().filter(|pod| pod["status"]["phase"] == phase).count()
    };
    for _ in 0..20 {
        assert!(cluster.all("Pod").len() <= 13 && count(&cluster, "Running") >= 8);
        let waiting: Vec<String> = cluster
            .all("Pod")
            .iter()
            .filter(|pod| pod["status"]["phase"] == "Pending")
            .map(|pod| text(&pod["metadata"]["name"]))
            .collect();
        let Some(first) = waiting.first() else { break };
        cluster.run_pod(first);
    }
    assert!(cluster.all("Pod").iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
    assert_eq!((cluster.all("Pod").len(), status(&cluster, "updatedReplicas")), (10, 10));
    let mut sizes: Vec<_> =
        cluster.all("ReplicaSet").iter().map(|set| set["spec"]["replicas"].as_i64()).collect();
    sizes.sort();
    assert_eq!(sizes, [Some(0), Some(10)]);
    assert_eq!(condition(&cluster, "Progressing").1, "NewReplicaSetAvailable");
    // Back to the first template: the same ReplicaSet, with a new revision number.
    image(&mut cluster, "i:1");
    cluster.run_all_pods();
    assert_eq!(cluster.all("ReplicaSet").len(), 2);
    let back = cluster.all("ReplicaSet").into_iter().find(|set| set["spec"]["replicas"] == 10).unwrap();
    let annotation = |key: &str| &back["metadata"]["annotations"][format!("deployment.kubernetes.io/{key}")];
    assert_eq!((annotation("revision"), annotation("revision-history")), (&json!("3"), &json!("1")));
}

#[test]
fn recreate_waits_until_the_old_pods_are_gone() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 2, "strategy": {"type": "Recreate"}})));
    cluster.run_all_pods();
    cluster.is_graceful = true;
    let old = cluster.names("Pod");
    image(&mut cluster, "i:2");
    assert_eq!(cluster.names("Pod"), old);
    cluster.remove("Pod", &old[0]);
    assert_eq!(cluster.names("Pod"), old[1..]);
    cluster.remove("Pod", &old[1]);
    assert_eq!(cluster.all("Pod").len(), 2);
    assert!(cluster.all("Pod").iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
}

#[test]
fn a_paused_deployment_is_scaled_but_not_updated() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 2})));
    cluster.run_all_pods();
    cluster.change("Deployment", "w", |object| object["spec"]["paused"] = true.into());
    assert_eq!(condition(&cluster, "Progressing"), ("Unknown".into(), "DeploymentPaused".into()));
    image(&mut cluster, "i:2");
    cluster.change("Deployment", "w", |object| object["spec"]["replicas"] = 3.into());
    assert_eq!((cluster.all("ReplicaSet").len(), cluster.all("Pod").len()), (1, 3));
    cluster.change("Deployment", "w", |object| object["spec"]["paused"] = false.into());
    cluster.run_all_pods();
    assert!(cluster.all("Pod").iter().all(|pod| pod["spec"]["containers"][0]["image"] == "i:2"));
}

#[test]
fn a_stalled_rollout_exceeds_its_progress_deadline() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 1, "progressDeadlineSeconds": 60})));
    assert_eq!(condition(&cluster, "Progressing").0, "True");
    cluster.wait(60);
    assert_eq!(condition(&cluster, "Progressing").0, "True");
    cluster.wait(1);
    assert_eq!(condition(&cluster, "Progressing"), ("False".into(), "ProgressDeadlineExceeded".into()));
    assert_eq!(cluster.controllers.next_wake(), None);
    cluster.run_all_pods();
    assert_eq!(condition(&cluster, "Progressing").1, "NewReplicaSetAvailable");
}

#[test]
fn old_replica_sets_are_kept_to_a_limit() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 1, "revisionHistoryLimit": 1})));
    for version in 2..6 {
        cluster.run_all_pods();
        cluster.wait(1);
        image(&mut cluster, &format!("i:{version}"));
    }
    cluster.run_all_pods();
    let mut images: Vec<_> = cluster
        .all("ReplicaSet")
        .iter()
        .map(|set| text(&set["spec"]["template"]["spec"]["containers"][0]["image"]))
        .collect();
    images.sort();
    assert_eq!(images, ["i:4", "i:5"]);
}

#[test]
fn a_name_that_is_taken_is_not_used() {
    let mut other = FakeCluster::new(&ALL);
    other.put(workload("apps/v1", "Deployment", json!({"replicas": 1})));
    let taken = other.names("ReplicaSet").remove(0);
    let mut cluster = FakeCluster::new(&[Controller::Deployment]);
    let mut set = workload("apps/v1", "ReplicaSet", json!({"replicas": 0}));
    set["metadata"]["name"] = taken.clone().into();
    set["metadata"]["uid"] = "other".into();
    cluster.put(set);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 1})));
    assert_eq!(cluster.all("ReplicaSet").len(), 2);
    assert_eq!(status(&cluster, "collisionCount"), 1);
}

#[test]
fn a_pod_deleted_long_after_a_rollout_is_only_replaced() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(deployment(2, json!(1), json!(0)));
    cluster.run_all_pods();
    // Longer than the progress deadline.
    cluster.wait(700);
    let deleted_pod = cluster.names("Pod").remove(0);
    cluster.remove("Pod", &deleted_pod);
    assert_eq!(cluster.names("Pod").len(), 2);
    // The rollout stays complete, whatever happens to its pods.
    cluster.wait(700);
    let status = &cluster.get("Deployment", "w")["status"];
    let progressing = status["conditions"].as_array().unwrap().iter().find(|it| it["type"] == "Progressing");
    assert_eq!(progressing.unwrap()["reason"], "NewReplicaSetAvailable");
    assert_eq!(cluster.controllers.next_wake(), None);
}
