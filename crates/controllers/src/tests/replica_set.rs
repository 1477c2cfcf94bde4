//! Tests of the ReplicaSet controller.

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use model::Moment;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{FakeCluster, workload};
use crate::Controller;
use crate::object_table::name_of;
use crate::pod::LazyPod;
use crate::replica_set::{AgeComparison, RankedPod, sort_for_deletion};

const ORDERS: &[u8] = include_bytes!("../../../../testdata/controllers/deletion_order.jsonl.gz");

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut stage = FakeCluster::new(&[Controller::ReplicaSet]);
    stage.put(workload("apps/v1", "ReplicaSet", spec));
    stage
}

fn status(stage: &FakeCluster, field: &str) -> i64 {
    stage.get("ReplicaSet", "w")["status"][field].as_i64().unwrap_or(0)
}

#[test]
fn pods_are_deleted_in_the_order_of_kubernetes_own_code() {
    #[derive(Deserialize)]
    struct Case {
        now: String,
        pods: Vec<Value>,
        neighbours: Vec<usize>,
        /// With ranks, deletion costs, and logarithmic ages.
        order: Vec<String>,
        /// Without ranks and costs, and with exact ages.
        plain: Vec<String>,
    }
    let mut cases = 0;
    for line in BufReader::new(GzDecoder::new(ORDERS)).lines() {
        let case: Case = serde_json::from_str(&line.unwrap()).unwrap();
        let now: Moment = case.now.parse().unwrap();
        let pods = || {
            case.pods.iter().zip(&case.neighbours).map(|(pod, neighbours)| {
                let object = testobjects::object(pod);
                let pod = LazyPod::parse(&object).pod(&name_of(&object)).clone();
                RankedPod { pod, rank: *neighbours }
            })
        };
        let names = |pods: Vec<RankedPod>| -> Vec<String> {
            pods.iter().map(|one| one.pod.name.name.to_string()).collect()
        };
        let mut ranked: Vec<RankedPod> = pods().collect();
        sort_for_deletion(&mut ranked, AgeComparison::Logarithmic(now));
        assert_eq!(names(ranked), case.order, "case {cases}");
        let mut plain: Vec<RankedPod> = pods().map(|one| RankedPod { rank: 0, ..one }).collect();
        sort_for_deletion(&mut plain, AgeComparison::Exact);
        assert_eq!(names(plain), case.plain, "case {cases}, exact ages");
        cases += 1;
    }
    assert_eq!(cases, 120);
}

#[test]
fn pods_are_created_and_deleted_until_there_are_spec_replicas() {
    let mut stage = fake_cluster(json!({"replicas": 3}));
    assert_eq!(stage.names("Pod").len(), 3);
    assert_eq!((status(&stage, "replicas"), status(&stage, "readyReplicas")), (3, 0));
    stage.run_all_pods();
    assert_eq!((status(&stage, "readyReplicas"), status(&stage, "availableReplicas")), (3, 3));
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 1.into());
    assert_eq!((stage.names("Pod").len(), status(&stage, "replicas")), (1, 1));
    assert_eq!(status(&stage, "observedGeneration"), 2);
    let last = stage.names("Pod").remove(0);
    stage.finish_pod(&last, "Failed");
    assert_eq!((stage.names("Pod").len(), status(&stage, "replicas")), (2, 1));
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(stage.names("Pod"), [last]);
}

#[test]
fn a_pending_pod_is_deleted_before_a_running_one() {
    let mut stage = fake_cluster(json!({"replicas": 3}));
    let pods = stage.names("Pod");
    stage.run_pod(&pods[0]);
    stage.run_pod(&pods[2]);
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 2.into());
    assert_eq!(stage.names("Pod"), [pods[0].clone(), pods[2].clone()]);
}

#[test]
fn terminating_pods_are_replaced_at_once_and_counted_separately() {
    let mut stage = fake_cluster(json!({"replicas": 2}));
    stage.run_all_pods();
    stage.is_graceful = true;
    let first = stage.names("Pod").remove(0);
    stage.change("Pod", &first, |pod| pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into());
    assert_eq!(stage.names("Pod").len(), 3);
    assert_eq!((status(&stage, "replicas"), status(&stage, "terminatingReplicas")), (2, 1));
    stage.remove("Pod", &first);
    assert_eq!((stage.names("Pod").len(), status(&stage, "terminatingReplicas")), (2, 0));
}

#[test]
fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
    let mut stage = fake_cluster(json!({"replicas": 1, "minReadySeconds": 30}));
    stage.run_all_pods();
    assert_eq!((status(&stage, "readyReplicas"), status(&stage, "availableReplicas")), (1, 0));
    stage.wait(29);
    assert_eq!(status(&stage, "availableReplicas"), 0);
    stage.wait(1);
    assert_eq!(status(&stage, "availableReplicas"), 1);
    assert_eq!(stage.controllers.next_wake(), None);
}

#[test]
fn no_more_than_500_pods_are_created_per_sync() {
    let mut stage = FakeCluster::new(&[Controller::ReplicaSet]);
    stage.set(workload("apps/v1", "ReplicaSet", json!({"replicas": 700})));
    assert_eq!(stage.controllers.process_next_item(stage.now).len(), 500);
    let mut stage = self::fake_cluster(json!({"replicas": 700}));
    assert_eq!(stage.names("Pod").len(), 700);
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(stage.names("Pod").len(), 0);
}
