//! Tests of the garbage collector.

use serde_json::json;
use testobjects::pod;

use super::{ALL, FakeCluster, workload};
use crate::Controller;

#[test]
fn dependents_are_deleted_with_their_owners() {
    let mut stage = FakeCluster::new(&ALL);
    stage.put(workload("apps/v1", "Deployment", json!({"replicas": 3})));
    stage.run_all_pods();
    stage.remove("Deployment", "w");
    assert!(stage.objects.is_empty(), "{:?}", stage.objects.keys());
}

#[test]
fn a_dependent_with_another_owner_stays_until_its_controller_is_deleted() {
    let mut stage = FakeCluster::new(&ALL);
    let owners = json!([
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "w-uid"},
    ]);
    stage.put(pod("p").namespace("shop").set("metadata.ownerReferences", owners));
    let mut set = workload("apps/v1", "StatefulSet", json!({"replicas": 0}));
    set["metadata"]["name"] = "s".into();
    stage.put(set);
    stage.remove("StatefulSet", "s");
    assert_eq!(stage.names("Pod"), ["p"]);
}

#[test]
fn an_owner_in_foreground_deletion_is_removed_last() {
    let mut stage = FakeCluster::new(&ALL);
    stage.put(workload("apps/v1", "ReplicaSet", json!({"replicas": 2})));
    stage.is_graceful = true;
    stage.change("ReplicaSet", "w", |set| {
        set["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into();
        set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    let pods = stage.names("Pod");
    assert_eq!((pods.len(), stage.names("ReplicaSet").len()), (2, 1));
    assert!(stage.all("Pod").iter().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()));
    for pod in &pods {
        stage.remove("Pod", pod);
    }
    assert!(stage.objects.is_empty(), "{:?}", stage.objects.keys());
}

#[test]
fn foreground_deletion_waits_only_for_blocking_dependents() {
    let mut stage = FakeCluster::new(&[Controller::GarbageCollection]);
    let owner = |uid: &str, blocks: bool| json!({"apiVersion": "v1", "kind": "X", "name": uid, "uid": uid, "blockOwnerDeletion": blocks});
    let owners = [
        ("shared", json!([owner("w-uid", true), owner("other", true)])),
        ("free", json!([owner("w-uid", false)])),
        ("own", json!([owner("w-uid", true)])),
    ];
    for (name, owners) in owners {
        stage.put(pod(name).namespace("shop").set("metadata.ownerReferences", owners));
    }
    stage.is_graceful = true;
    let mut set = workload("apps/v1", "ReplicaSet", json!({"replicas": 0}));
    set["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into();
    set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    stage.put(set);
    assert_eq!(stage.names("ReplicaSet").len(), 1);
    stage.remove("Pod", "own");
    assert_eq!(stage.names("ReplicaSet").len(), 0);
    assert_eq!(stage.names("Pod"), ["free", "shared"]);
    assert!(stage.get("Pod", "shared")["metadata"]["deletionTimestamp"].is_null());
}
