//! Tests of the StatefulSet controller. The orders are those of the original's tests.

use serde_json::{Value, json};

use super::{ALL, FakeCluster, text, workload};

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut stage = FakeCluster::new(&ALL);
    stage.put(workload("apps/v1", "StatefulSet", spec));
    stage
}

fn scale(stage: &mut FakeCluster, replicas: i64) {
    stage.change("StatefulSet", "w", |set| set["spec"]["replicas"] = replicas.into());
}

fn image(stage: &mut FakeCluster, image: &str) {
    stage.change("StatefulSet", "w", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    });
}

fn images(stage: &FakeCluster) -> Vec<String> {
    stage.all("Pod").iter().map(|pod| text(&pod["spec"]["containers"][0]["image"])).collect()
}

fn status(stage: &FakeCluster, field: &str) -> i64 {
    stage.get("StatefulSet", "w")["status"][field].as_i64().unwrap_or(0)
}

#[test]
fn pods_are_created_in_order_and_deleted_in_reverse() {
    let mut stage = fake_cluster(json!({"replicas": 3, "serviceName": "s"}));
    for index in 0..3 {
        assert_eq!(stage.names("Pod").len(), index + 1);
        let pod = stage.get("Pod", &format!("w-{index}"));
        assert_eq!(
            (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
            (&json!(format!("w-{index}")), &json!("s"))
        );
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], index.to_string());
        stage.run_pod(&format!("w-{index}"));
    }
    assert_eq!((status(&stage, "readyReplicas"), status(&stage, "currentReplicas")), (3, 3));
    stage.is_graceful = true;
    scale(&mut stage, 1);
    let is_going =
        |stage: &FakeCluster, pod: &str| !stage.get("Pod", pod)["metadata"]["deletionTimestamp"].is_null();
    assert!(is_going(&stage, "w-2") && !is_going(&stage, "w-1"));
    stage.remove("Pod", "w-2");
    assert!(is_going(&stage, "w-1"));
    stage.remove("Pod", "w-1");
    assert_eq!(stage.names("Pod"), ["w-0"]);
}

#[test]
fn parallel_management_creates_and_deletes_all_at_once() {
    let mut stage =
        fake_cluster(json!({"replicas": 4, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    assert_eq!(stage.names("Pod"), ["w-5", "w-6", "w-7", "w-8"]);
    scale(&mut stage, 1);
    assert_eq!(stage.names("Pod"), ["w-5"]);
}

#[test]
fn a_finished_pod_is_recreated_under_its_name() {
    let mut stage = fake_cluster(json!({"replicas": 2}));
    stage.run_all_pods();
    let uid = stage.get("Pod", "w-0")["metadata"]["uid"].clone();
    stage.finish_pod("w-0", "Failed");
    assert_ne!(stage.get("Pod", "w-0")["metadata"]["uid"], uid);
    assert_eq!(stage.get("Pod", "w-0")["status"]["phase"], "Pending");
}

#[test]
fn an_update_begins_at_the_highest_ordinal_and_waits_for_each() {
    let mut stage = fake_cluster(json!({"replicas": 3}));
    stage.run_all_pods();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    assert_eq!(status(&stage, "updatedReplicas"), 1);
    stage.run_pod("w-2");
    assert_eq!(images(&stage), ["i:1", "i:2", "i:2"]);
    stage.run_all_pods();
    assert_eq!(images(&stage), ["i:2", "i:2", "i:2"]);
    let set = stage.get("StatefulSet", "w");
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(
        stage.get("Pod", "w-0")["metadata"]["labels"]["controller-revision-hash"],
        set["status"]["updateRevision"]
    );
}

#[test]
fn below_the_partition_pods_keep_the_current_revision() {
    let mut stage = fake_cluster(
        json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
    );
    stage.run_all_pods();
    image(&mut stage, "i:2");
    stage.run_all_pods();
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    stage.remove("Pod", "w-0");
    stage.run_all_pods();
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    assert_eq!((status(&stage, "currentReplicas"), status(&stage, "updatedReplicas")), (2, 1));
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut stage = fake_cluster(json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}));
    stage.run_all_pods();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1"]);
    stage.remove("Pod", "w-0");
    assert_eq!(images(&stage), ["i:2", "i:1"]);
}

#[test]
fn claims_are_created_with_the_pods_and_kept() {
    let claim =
        json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let mut stage = fake_cluster(json!({"replicas": 2, "volumeClaimTemplates": [claim]}));
    stage.run_all_pods();
    assert_eq!(stage.names("PersistentVolumeClaim"), ["data-w-0", "data-w-1"]);
    assert_eq!(
        stage.get("Pod", "w-1")["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "data-w-1"
    );
    scale(&mut stage, 1);
    scale(&mut stage, 2);
    assert_eq!(stage.names("PersistentVolumeClaim").len(), 2);
}

#[test]
fn revisions_without_pods_are_truncated() {
    let mut stage = fake_cluster(json!({"replicas": 1, "revisionHistoryLimit": 1}));
    for version in 2..6 {
        stage.run_all_pods();
        image(&mut stage, &format!("i:{version}"));
    }
    stage.run_all_pods();
    let mut numbers: Vec<_> =
        stage.all("ControllerRevision").iter().map(|one| one["revision"].as_i64()).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(4), Some(5)]);
}

#[test]
fn an_existing_set_keeps_the_name_of_its_revision() {
    let mut set = workload("apps/v1", "StatefulSet", json!({"replicas": 1}));
    set["status"] = json!({"observedGeneration": 1, "replicas": 0, "currentRevision": "w-abc", "updateRevision": "w-abc"});
    let mut stage = FakeCluster::new(&ALL);
    stage.put(set);
    assert_eq!(stage.names("ControllerRevision"), ["w-abc"]);
    assert_eq!(stage.get("Pod", "w-0")["metadata"]["labels"]["controller-revision-hash"], "w-abc");
}
