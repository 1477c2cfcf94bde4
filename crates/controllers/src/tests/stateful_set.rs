//! Tests of the StatefulSet controller. The orders are those of the original's tests.

use serde_json::{Value, json};

use super::{ALL, FakeCluster, text, workload};

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "StatefulSet", spec));
    cluster
}

fn scale(cluster: &mut FakeCluster, replicas: i64) {
    cluster.change("StatefulSet", "w", |set| set["spec"]["replicas"] = replicas.into());
}

fn image(cluster: &mut FakeCluster, image: &str) {
    cluster.change("StatefulSet", "w", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    });
}

fn images(cluster: &FakeCluster) -> Vec<String> {
    cluster.all("Pod").iter().map(|pod| text(&pod["spec"]["containers"][0]["image"])).collect()
}

fn status(cluster: &FakeCluster, field: &str) -> i64 {
    cluster.get("StatefulSet", "w")["status"][field].as_i64().unwrap_or(0)
}

#[test]
fn pods_are_created_in_order_and_deleted_in_reverse() {
    let mut cluster = fake_cluster(json!({"replicas": 3, "serviceName": "s"}));
    for index in 0..3 {
        assert_eq!(cluster.names("Pod").len(), index + 1);
        let pod = cluster.get("Pod", &format!("w-{index}"));
        assert_eq!(
            (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
            (&json!(format!("w-{index}")), &json!("s"))
        );
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], index.to_string());
        cluster.run_pod(&format!("w-{index}"));
    }
    assert_eq!((status(&cluster, "readyReplicas"), status(&cluster, "currentReplicas")), (3, 3));
    cluster.is_graceful = true;
    scale(&mut cluster, 1);
    let is_going = |cluster: &FakeCluster, pod: &str| {
        !cluster.get("Pod", pod)["metadata"]["deletionTimestamp"].is_null()
    };
    assert!(is_going(&cluster, "w-2") && !is_going(&cluster, "w-1"));
    cluster.remove("Pod", "w-2");
    assert!(is_going(&cluster, "w-1"));
    cluster.remove("Pod", "w-1");
    assert_eq!(cluster.names("Pod"), ["w-0"]);
}

#[test]
fn parallel_management_creates_and_deletes_all_at_once() {
    let mut cluster =
        fake_cluster(json!({"replicas": 4, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    assert_eq!(cluster.names("Pod"), ["w-5", "w-6", "w-7", "w-8"]);
    scale(&mut cluster, 1);
    assert_eq!(cluster.names("Pod"), ["w-5"]);
}

#[test]
fn a_finished_pod_is_recreated_under_its_name() {
    let mut cluster = fake_cluster(json!({"replicas": 2}));
    cluster.run_all_pods();
    let uid = cluster.get("Pod", "w-0")["metadata"]["uid"].clone();
    cluster.finish_pod("w-0", "Failed");
    assert_ne!(cluster.get("Pod", "w-0")["metadata"]["uid"], uid);
    assert_eq!(cluster.get("Pod", "w-0")["status"]["phase"], "Pending");
}

#[test]
fn an_update_begins_at_the_highest_ordinal_and_waits_for_each() {
    let mut cluster = fake_cluster(json!({"replicas": 3}));
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    assert_eq!(images(&cluster), ["i:1", "i:1", "i:2"]);
    assert_eq!(status(&cluster, "updatedReplicas"), 1);
    cluster.run_pod("w-2");
    assert_eq!(images(&cluster), ["i:1", "i:2", "i:2"]);
    cluster.run_all_pods();
    assert_eq!(images(&cluster), ["i:2", "i:2", "i:2"]);
    let set = cluster.get("StatefulSet", "w");
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(
        cluster.get("Pod", "w-0")["metadata"]["labels"]["controller-revision-hash"],
        set["status"]["updateRevision"]
    );
}

#[test]
fn below_the_partition_pods_keep_the_current_revision() {
    let mut cluster = fake_cluster(
        json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
    );
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    cluster.run_all_pods();
    assert_eq!(images(&cluster), ["i:1", "i:1", "i:2"]);
    cluster.remove("Pod", "w-0");
    cluster.run_all_pods();
    assert_eq!(images(&cluster), ["i:1", "i:1", "i:2"]);
    assert_eq!((status(&cluster, "currentReplicas"), status(&cluster, "updatedReplicas")), (2, 1));
}

#[test]
fn on_delete_replaces_only_deleted_pods() {
    let mut cluster = fake_cluster(json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}));
    cluster.run_all_pods();
    image(&mut cluster, "i:2");
    assert_eq!(images(&cluster), ["i:1", "i:1"]);
    cluster.remove("Pod", "w-0");
    assert_eq!(images(&cluster), ["i:2", "i:1"]);
}

#[test]
fn claims_are_created_with_the_pods_and_kept() {
    let claim =
        json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let mut cluster = fake_cluster(json!({"replicas": 2, "volumeClaimTemplates": [claim]}));
    cluster.run_all_pods();
    assert_eq!(cluster.names("PersistentVolumeClaim"), ["data-w-0", "data-w-1"]);
    assert_eq!(
        cluster.get("Pod", "w-1")["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "data-w-1"
    );
    scale(&mut cluster, 1);
    scale(&mut cluster, 2);
    assert_eq!(cluster.names("PersistentVolumeClaim").len(), 2);
}

#[test]
fn revisions_without_pods_are_truncated() {
    let mut cluster = fake_cluster(json!({"replicas": 1, "revisionHistoryLimit": 1}));
    for version in 2..6 {
        cluster.run_all_pods();
        image(&mut cluster, &format!("i:{version}"));
    }
    cluster.run_all_pods();
    let mut numbers: Vec<_> =
        cluster.all("ControllerRevision").iter().map(|one| one["revision"].as_i64()).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(4), Some(5)]);
}

#[test]
fn an_existing_set_keeps_the_name_of_its_revision() {
    let mut set = workload("apps/v1", "StatefulSet", json!({"replicas": 1}));
    set["status"] = json!({"observedGeneration": 1, "replicas": 0, "currentRevision": "w-abc", "updateRevision": "w-abc"});
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(set);
    assert_eq!(cluster.names("ControllerRevision"), ["w-abc"]);
    assert_eq!(cluster.get("Pod", "w-0")["metadata"]["labels"]["controller-revision-hash"], "w-abc");
}
