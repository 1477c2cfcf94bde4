//! Tests of the ReplicaSet controller.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use flate2::read::GzDecoder;
use kubernetes::objects::PodView;
use model::Moment;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{FakeCluster, workload};
use crate::Controller;
use crate::pod::Pod;
use crate::replica_set::{AgeComparison, RankedPod, sort_for_deletion};

const ORDERS: &[u8] = include_bytes!("../../../../testdata/controllers/deletion_order.jsonl.gz");

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut cluster = FakeCluster::new(&[Controller::ReplicaSet]);
    cluster.put(workload("apps/v1", "ReplicaSet", spec));
    cluster
}

fn status(cluster: &FakeCluster, field: &str) -> i64 {
    cluster.get("ReplicaSet", "w")["status"][field].as_i64().unwrap_or(0)
}

#[test]
fn pods_are_deleted_in_the_order_of_kubernetes_own_code() {
    #[derive(Deserialize)]
    struct Case {
        now: String,
        pods: Vec<Value>,
        #[serde(rename = "neighbours")]
        pods_on_node: Vec<usize>,
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
            case.pods.iter().zip(&case.pods_on_node).map(|(pod, pods_on_node)| {
                let pod = Arc::new(Pod::new(Arc::new(PodView::parse(&testobjects::object(pod)))));
                RankedPod { pod, rank: *pods_on_node }
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
    let mut cluster = fake_cluster(json!({"replicas": 3}));
    assert_eq!(cluster.names("Pod").len(), 3);
    assert_eq!((status(&cluster, "replicas"), status(&cluster, "readyReplicas")), (3, 0));
    cluster.run_all_pods();
    assert_eq!((status(&cluster, "readyReplicas"), status(&cluster, "availableReplicas")), (3, 3));
    cluster.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 1.into());
    assert_eq!((cluster.names("Pod").len(), status(&cluster, "replicas")), (1, 1));
    assert_eq!(status(&cluster, "observedGeneration"), 2);
    let last = cluster.names("Pod").remove(0);
    cluster.finish_pod(&last, "Failed");
    assert_eq!((cluster.names("Pod").len(), status(&cluster, "replicas")), (2, 1));
    cluster.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(cluster.names("Pod"), [last]);
}

#[test]
fn a_pending_pod_is_deleted_before_a_running_one() {
    let mut cluster = fake_cluster(json!({"replicas": 3}));
    let pods = cluster.names("Pod");
    cluster.run_pod(&pods[0]);
    cluster.run_pod(&pods[2]);
    cluster.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 2.into());
    assert_eq!(cluster.names("Pod"), [pods[0].clone(), pods[2].clone()]);
}

#[test]
fn terminating_pods_are_replaced_at_once_and_counted_separately() {
    let mut cluster = fake_cluster(json!({"replicas": 2}));
    cluster.run_all_pods();
    cluster.is_graceful = true;
    let first = cluster.names("Pod").remove(0);
    cluster.change("Pod", &first, |pod| pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into());
    assert_eq!(cluster.names("Pod").len(), 3);
    assert_eq!((status(&cluster, "replicas"), status(&cluster, "terminatingReplicas")), (2, 1));
    cluster.remove("Pod", &first);
    assert_eq!((cluster.names("Pod").len(), status(&cluster, "terminatingReplicas")), (2, 0));
}

#[test]
fn a_pod_is_available_when_it_has_been_ready_for_long_enough() {
    let mut cluster = fake_cluster(json!({"replicas": 1, "minReadySeconds": 30}));
    cluster.run_all_pods();
    assert_eq!((status(&cluster, "readyReplicas"), status(&cluster, "availableReplicas")), (1, 0));
    cluster.wait(29);
    assert_eq!(status(&cluster, "availableReplicas"), 0);
    cluster.wait(1);
    assert_eq!(status(&cluster, "availableReplicas"), 1);
    assert_eq!(cluster.controllers.next_wake(), None);
}

#[test]
fn no_more_than_500_pods_are_created_per_sync() {
    let mut cluster = FakeCluster::new(&[Controller::ReplicaSet]);
    cluster.set(workload("apps/v1", "ReplicaSet", json!({"replicas": 700})));
    assert_eq!(cluster.controllers.process_next_item(cluster.now).len(), 500);
    let mut cluster = self::fake_cluster(json!({"replicas": 700}));
    assert_eq!(cluster.names("Pod").len(), 700);
    cluster.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(cluster.names("Pod").len(), 0);
}

#[test]
fn its_status_counts_the_pods_as_they_are() {
    let mut rng = Pcg64::seed_from_u64(7);
    let mut cluster = fake_cluster(json!({"replicas": 5}));
    cluster.is_graceful = true;
    for step in 0..500 {
        let names = cluster.names("Pod");
        let pod = names[rng.random_range(0..names.len())].clone();
        match rng.random_range(0..9) {
            0 => cluster.run_pod(&pod),
            1 => cluster.finish_pod(&pod, ["Succeeded", "Failed"][rng.random_range(0..2)]),
            2 => cluster.remove("Pod", &pod),
            3 => cluster.change("Pod", &pod, |pod| pod["status"] = json!({"phase": "Pending"})),
            4 => cluster.change("Pod", &pod, |pod| pod["metadata"]["labels"]["app"] = "other".into()),
            5 => cluster.change("Pod", &pod, |pod| pod["metadata"]["ownerReferences"] = json!([])),
            6 => cluster.change("Pod", &pod, |pod| {
                pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into();
            }),
            7 => cluster
                .change("ReplicaSet", "w", |set| set["spec"]["replicas"] = rng.random_range(1..9).into()),
            _ => cluster.change("ReplicaSet", "w", |set| {
                set["spec"]["template"]["metadata"]["labels"]["tier"] =
                    ["a", "b"][rng.random_range(0..2)].into();
            }),
        }
        let labels = cluster.get("ReplicaSet", "w")["spec"]["template"]["metadata"]["labels"].clone();
        let is_labeled = |pod: &&Value| {
            let mut labels = labels.as_object().into_iter().flatten();
            labels.all(|(key, value)| pod["metadata"]["labels"][key] == *value)
        };
        let is_ready = |pod: &&Value| pod["status"]["conditions"][0]["status"] == "True";
        let pods = cluster.all("Pod");
        let owned =
            pods.iter().copied().filter(|pod| pod["metadata"]["ownerReferences"][0]["uid"] == "w-uid");
        let unfinished =
            owned.filter(|pod| ["Pending", "Running"].iter().any(|phase| pod["status"]["phase"] == *phase));
        let (active, terminating): (Vec<&Value>, Vec<&Value>) =
            unfinished.partition(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let expected = [
            active.len(),
            active.iter().filter(|pod| is_labeled(pod)).count(),
            active.iter().filter(|pod| is_ready(pod)).count(),
            active.iter().filter(|pod| is_ready(pod)).count(),
            terminating.len(),
        ];
        let fields =
            ["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "terminatingReplicas"];
        assert_eq!(fields.map(|field| status(&cluster, field) as usize), expected, "step {step}");
    }
}
