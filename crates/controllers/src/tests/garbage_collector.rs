//! Tests of the garbage collector.

use serde_json::json;
use testobjects::pod;

use super::{ALL, FakeCluster, workload};
use crate::Controller;

#[test]
fn dependents_are_deleted_with_their_owners() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "Deployment", json!({"replicas": 3})));
    cluster.run_all_pods();
    cluster.remove("Deployment", "w");
    assert!(cluster.objects.is_empty(), "{:?}", cluster.objects.keys());
}

#[test]
fn a_dependent_with_another_owner_stays_until_its_controller_is_deleted() {
    let mut cluster = FakeCluster::new(&ALL);
    let owners = json!([
        {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"},
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": "w-uid"},
    ]);
    cluster.put(pod("p").namespace("shop").set("metadata.ownerReferences", owners));
    let mut set = workload("apps/v1", "StatefulSet", json!({"replicas": 0}));
    set["metadata"]["name"] = "s".into();
    cluster.put(set);
    cluster.remove("StatefulSet", "s");
    assert_eq!(cluster.names("Pod"), ["p"]);
}

#[test]
fn an_owner_in_foreground_deletion_is_removed_last() {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("apps/v1", "ReplicaSet", json!({"replicas": 2})));
    cluster.is_graceful = true;
    cluster.change("ReplicaSet", "w", |set| {
        set["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into();
        set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    let pods = cluster.names("Pod");
    assert_eq!((pods.len(), cluster.names("ReplicaSet").len()), (2, 1));
    assert!(cluster.all("Pod").iter().all(|pod| !pod["metadata"]["deletionTimestamp"].is_null()));
    for pod in &pods {
        cluster.remove("Pod", pod);
    }
    assert!(cluster.objects.is_empty(), "{:?}", cluster.objects.keys());
}

#[test]
fn foreground_deletion_waits_only_for_blocking_dependents() {
    let mut cluster = FakeCluster::new(&[Controller::GarbageCollection]);
    let owner = |uid: &str, blocks: bool| json!({"apiVersion": "v1", "kind": "X", "name": uid, "uid": uid, "blockOwnerDeletion": blocks});
    let owners = [
        ("shared", json!([owner("w-uid", true), owner("other", true)])),
        ("free", json!([owner("w-uid", false)])),
        ("own", json!([owner("w-uid", true)])),
    ];
    for (name, owners) in owners {
        cluster.put(pod(name).namespace("shop").set("metadata.ownerReferences", owners));
    }
    cluster.is_graceful = true;
    let mut set = workload("apps/v1", "ReplicaSet", json!({"replicas": 0}));
    set["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into();
    set["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    cluster.put(set);
    assert_eq!(cluster.names("ReplicaSet").len(), 1);
    cluster.remove("Pod", "own");
    assert_eq!(cluster.names("ReplicaSet").len(), 0);
    assert_eq!(cluster.names("Pod"), ["free", "shared"]);
    assert!(cluster.get("Pod", "shared")["metadata"]["deletionTimestamp"].is_null());
}
