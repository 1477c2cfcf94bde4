//! ReplicaSets.

use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use model::Moment;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Stage, workload};
use crate::Controller;
use crate::pod::Entry;
use crate::replica_set::{Ages, Ranked, sort};
use crate::table::name_of;

const ORDERS: &[u8] = include_bytes!("../../../../testdata/controllers/deletion_order.jsonl.gz");

fn stage(spec: Value) -> Stage {
    let mut stage = Stage::new(&[Controller::ReplicaSet]);
    stage.put(workload("apps/v1", "ReplicaSet", spec));
    stage
}

fn status(stage: &Stage, field: &str) -> i64 {
    stage.get("ReplicaSet", "w")["status"][field].as_i64().unwrap_or(0)
}

#[test]
fn pods_go_in_the_order_of_kubernetes_own_code() {
    #[derive(Deserialize)]
    struct Case {
        now: String,
        pods: Vec<Value>,
        neighbours: Vec<usize>,
        /// With neighbours, costs, and ages by their magnitude.
        order: Vec<String>,
        /// Without.
        plain: Vec<String>,
    }
    let mut cases = 0;
    for line in BufReader::new(GzDecoder::new(ORDERS)).lines() {
        let case: Case = serde_json::from_str(&line.unwrap()).unwrap();
        let now: Moment = case.now.parse().unwrap();
        let pods = || {
            case.pods.iter().zip(&case.neighbours).map(|(pod, neighbours)| {
                let object = testobjects::object(pod);
                let pod = Entry::read(&object).pod(&name_of(&object)).clone();
                Ranked { pod, neighbours: *neighbours }
            })
        };
        let names = |pods: Vec<Ranked>| -> Vec<String> {
            pods.iter().map(|one| one.pod.name.name.to_string()).collect()
        };
        let mut ranked: Vec<Ranked> = pods().collect();
        sort(&mut ranked, Ages::Magnitude(now));
        assert_eq!(names(ranked), case.order, "case {cases}");
        let mut plain: Vec<Ranked> = pods().map(|one| Ranked { neighbours: 0, ..one }).collect();
        sort(&mut plain, Ages::Exact);
        assert_eq!(names(plain), case.plain, "case {cases}, exact ages");
        cases += 1;
    }
    assert_eq!(cases, 120);
}

#[test]
fn pods_are_made_and_deleted_until_there_are_as_many_as_wanted() {
    let mut stage = stage(json!({"replicas": 3}));
    assert_eq!(stage.names("Pod").len(), 3);
    assert_eq!((status(&stage, "replicas"), status(&stage, "readyReplicas")), (3, 0));
    stage.run_all();
    assert_eq!((status(&stage, "readyReplicas"), status(&stage, "availableReplicas")), (3, 3));
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 1.into());
    assert_eq!((stage.names("Pod").len(), status(&stage, "replicas")), (1, 1));
    assert_eq!(status(&stage, "observedGeneration"), 2);
    let last = stage.names("Pod").remove(0);
    stage.end(&last, "Failed");
    assert_eq!((stage.names("Pod").len(), status(&stage, "replicas")), (2, 1));
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(stage.names("Pod"), [last]);
}

#[test]
fn one_that_waits_goes_before_one_that_runs() {
    let mut stage = stage(json!({"replicas": 3}));
    let pods = stage.names("Pod");
    stage.run(&pods[0]);
    stage.run(&pods[2]);
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 2.into());
    assert_eq!(stage.names("Pod"), [pods[0].clone(), pods[2].clone()]);
}

#[test]
fn pods_on_their_way_out_are_replaced_at_once_and_counted_apart() {
    let mut stage = stage(json!({"replicas": 2}));
    stage.run_all();
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
    let mut stage = stage(json!({"replicas": 1, "minReadySeconds": 30}));
    stage.run_all();
    assert_eq!((status(&stage, "readyReplicas"), status(&stage, "availableReplicas")), (1, 0));
    stage.wait(29);
    assert_eq!(status(&stage, "availableReplicas"), 0);
    stage.wait(1);
    assert_eq!(status(&stage, "availableReplicas"), 1);
    assert_eq!(stage.controllers.next_wake(), None);
}

#[test]
fn no_more_than_500_pods_are_made_at_a_time() {
    let mut stage = Stage::new(&[Controller::ReplicaSet]);
    stage.set(workload("apps/v1", "ReplicaSet", json!({"replicas": 700})));
    assert_eq!(stage.controllers.work(stage.now).len(), 500);
    let mut stage = self::stage(json!({"replicas": 700}));
    assert_eq!(stage.names("Pod").len(), 700);
    stage.change("ReplicaSet", "w", |set| set["spec"]["replicas"] = 0.into());
    assert_eq!(stage.names("Pod").len(), 0);
}
