//! Whole removals, from the first look to the deleted node.

use kubernetes::time::seconds;
use model::NamespacedName;
use serde_json::{Value, json};

use super::super::super::TO_BE_DELETED;
use super::super::super::decision::{Action, DeleteResult};
use super::super::*;
use super::{Fixture, START, node, pod, replica_set};

/// A cluster with an unneeded node `a`, whose time has come, and a node `b` that is needed.
fn unneeded_node(settings: Settings, pods_on_a: &[Value]) -> (Fixture, Down) {
    let mut fixture = Fixture::new(settings, &[("g", 0)]);
    fixture.node("g", "a", |_| ());
    fixture.node("g", "b", |_| ());
    fixture.apply(replica_set());
    fixture.apply(pod("busy", "b", "1500m", "0"));
    for pod in pods_on_a {
        fixture.apply(pod.clone());
    }
    let mut down = Down::new(&fixture.settings, START);
    let first = fixture.scale_down(&mut down, false);
    assert_eq!(first.result, ScaleDownResult::NoNodeDeleted);
    assert_eq!(first.unneeded, [(Arc::from("a"), START)]);
    fixture.wait(601);
    fixture.actions.clear();
    (fixture, down)
}

fn messages(fixture: &mut Fixture) -> Vec<String> {
    let events = std::mem::take(&mut fixture.events);
    events.into_iter().map(|event| format!("{}: {}", event.reason, event.message)).collect()
}

fn background(fixture: &mut Fixture, down: &mut Down) -> Vec<Action> {
    fixture.actions.clear();
    fixture.with(|context| down.background(context));
    std::mem::take(&mut fixture.actions)
}

fn results(fixture: &mut Fixture, down: &mut Down) -> Vec<(String, DeleteResult)> {
    let results = fixture.scale_down(down, true).delete_results;
    results.into_iter().map(|(node, result)| (node.to_string(), result)).collect()
}

#[test]
fn an_empty_node_is_marked_and_deleted_five_seconds_later() {
    let (mut fixture, mut down) = unneeded_node(Settings::default(), &[]);
    let report = fixture.scale_down(&mut down, false);
    assert_eq!(report.result, ScaleDownResult::NodeDeleteStarted);
    assert_eq!(report.nodes, [RemovedNode { node: "a".into(), drain: Vec::new(), utilization: 0.0 }]);
    let value = (fixture.now.nanos() / 1_000_000_000).to_string();
    let taint =
        |key, value: &str, effect| Action::Taint { node: "a".into(), key, value: value.into(), effect };
    let expected = [
        taint(TO_BE_DELETED, &value, "NoSchedule"),
        Action::Cordon { node: "a".into(), unschedulable: true },
        // Nobody has done yet what the first loop wanted.
        taint(CANDIDATE, &value, "PreferNoSchedule"),
    ];
    assert_eq!(fixture.actions, expected);
    let told = [
        "ScaleDown: marked the node as toBeDeleted/unschedulable",
        "ScaleDownEmpty: Scale-down: removing empty node \"a\"",
    ];
    assert_eq!(messages(&mut fixture), told);
    assert!(down.status().empty.contains("a"));
    assert_eq!(down.next_wake(), Some(fixture.now.plus_nanos(seconds(5))));
    fixture.wait(5);
    assert_eq!(background(&mut fixture, &mut down), []);
    assert_eq!(fixture.cloud.deleted, [Arc::from("fake://g/a")]);
    let told = [
        "ScaleDown: nodes removed by cluster autoscaler",
        "ScaleDownEmpty: Scale-down: empty node a removed",
    ];
    assert_eq!(messages(&mut fixture), told);
    assert_eq!(down.next_wake(), None);
    assert_eq!(results(&mut fixture, &mut down), [(String::from("a"), DeleteResult::NodeDeleteOk)]);
    assert_eq!(results(&mut fixture, &mut down), []);
}

#[test]
fn a_node_is_drained_and_its_pods_are_waited_for() {
    let mut leaving = pod("p", "a", "100m", "0");
    leaving["spec"]["terminationGracePeriodSeconds"] = json!(900);
    let (mut fixture, mut down) = unneeded_node(Settings::default(), &[leaving.clone()]);
    let report = fixture.scale_down(&mut down, false);
    let name = NamespacedName { namespace: "default".into(), name: "p".into() };
    assert_eq!(
        report.nodes,
        [RemovedNode { node: "a".into(), drain: vec![name.clone()], utilization: 0.05 }]
    );
    let told = [
        "ScaleDown: marked the node as toBeDeleted/unschedulable",
        "ScaleDown: Scale-down: removing node a, utilization: {0.05 0 0 0 cpu 0.05}, pods to reschedule: p",
    ];
    assert_eq!(messages(&mut fixture), told);
    fixture.wait(5);
    // No pod gets more than ten minutes.
    assert_eq!(background(&mut fixture, &mut down), [Action::Evict { pod: name, grace: 600 }]);
    assert_eq!(messages(&mut fixture), ["ScaleDown: deleting pod for node scale down"]);
    leaving["metadata"]["deletionTimestamp"] = json!(fixture.now.to_string());
    fixture.apply(leaving.clone());
    assert_eq!(background(&mut fixture, &mut down), []);
    for _ in 0..3 {
        assert_eq!(down.next_wake(), Some(fixture.now.plus_nanos(seconds(5))));
        fixture.wait(5);
        assert_eq!(background(&mut fixture, &mut down), []);
    }
    assert_eq!(fixture.cloud.deleted, []);
    fixture.forget(leaving);
    fixture.wait(5);
    assert_eq!(background(&mut fixture, &mut down), []);
    assert_eq!(fixture.cloud.deleted, [Arc::from("fake://g/a")]);
    let told = [
        "ScaleDown: nodes removed by cluster autoscaler",
        "ScaleDown: Scale-down: node a removed with drain",
    ];
    assert_eq!(messages(&mut fixture), told);
}

#[test]
fn an_eviction_that_is_refused_is_tried_for_two_minutes() {
    let (mut fixture, mut down) = unneeded_node(Settings::default(), &[pod("p", "a", "100m", "0")]);
    fixture.scale_down(&mut down, false);
    let began = fixture.now.plus_nanos(seconds(5));
    messages(&mut fixture);
    let mut tries = 0;
    let actions = loop {
        fixture.now = down.next_wake().expect("it is not over");
        let actions = background(&mut fixture, &mut down);
        match actions.first() {
            Some(Action::Evict { .. }) => tries += 1,
            Some(_) => break actions,
            None => {}
        }
    };
    assert_eq!(tries, 12);
    assert_eq!(fixture.now.nanos_since(began), seconds(120));
    let untaint = Action::Untaint { node: "a".into(), key: TO_BE_DELETED };
    assert_eq!(actions, [untaint, Action::Cordon { node: "a".into(), unschedulable: false }]);
    let told = messages(&mut fixture);
    assert_eq!(told[1], "ScaleDownFailed: failed to delete pod for ScaleDown");
    assert!(
        told[2]
            .starts_with("ScaleDownFailed: failed to drain and delete node: Failed to drain node /a, due to")
    );
    let failed = (String::from("a"), DeleteResult::NodeDeleteErrorFailedToEvictPods);
    assert_eq!(results(&mut fixture, &mut down), [failed]);
}

#[test]
fn a_node_that_is_no_longer_empty_stays() {
    let (mut fixture, mut down) = unneeded_node(Settings::default(), &[]);
    fixture.scale_down(&mut down, false);
    messages(&mut fixture);
    fixture.apply(pod("late", "a", "1m", "0"));
    fixture.wait(5);
    assert_eq!(background(&mut fixture, &mut down).len(), 2);
    let told =
        "ScaleDownFailed: failed to delete empty node: failed to delete empty node \"a\", new pods scheduled";
    assert_eq!(messages(&mut fixture), [told]);
    assert_eq!(fixture.cloud.deleted, []);
    assert_eq!(
        results(&mut fixture, &mut down),
        [(String::from("a"), DeleteResult::NodeDeleteErrorInternal)]
    );
}

#[test]
fn a_cloud_that_refuses_is_remembered() {
    let (mut fixture, mut down) = unneeded_node(Settings::default(), &[]);
    fixture.scale_down(&mut down, false);
    messages(&mut fixture);
    fixture.cloud.refuses = true;
    // It does not matter that the node is gone.
    fixture.forget(node("g", "a"));
    fixture.wait(5);
    assert_eq!(background(&mut fixture, &mut down), []);
    let told = "ScaleDownFailed: failed to delete empty node: failed to delete nodes from group g: not today";
    assert_eq!(messages(&mut fixture), [told]);
    assert_eq!(fixture.registry.failed_scale_downs.get(&GroupId(0)), Some(&fixture.now));
}

#[test]
fn deletion_waits_for_who_asked_for_it_two_minutes_at_most() {
    let mut fixture = Fixture::new(Settings::default(), &[("g", 0)]);
    fixture.node("g", "a", |node| {
        node["metadata"]["annotations"]["delay-deletion.cluster-autoscaler.kubernetes.io/x"] = json!("");
    });
    let mut down = Down::new(&fixture.settings, START);
    fixture.scale_down(&mut down, false);
    fixture.wait(601);
    fixture.scale_down(&mut down, false);
    let began = fixture.now;
    while fixture.cloud.deleted.is_empty() {
        fixture.now = down.next_wake().expect("it is not over");
        assert_eq!(background(&mut fixture, &mut down), []);
    }
    assert_eq!(fixture.now.nanos_since(began), seconds(125));
}

#[test]
fn pods_of_lesser_priority_leave_first() {
    let settings = Settings { drain_priority_config: vec![(0, 10), (100, 20)], ..Settings::default() };
    let with = |name: &str, priority: i64| {
        let mut pod = pod(name, "a", "1m", "0");
        pod["spec"]["priority"] = json!(priority);
        pod
    };
    let pods = [with("high", 100), with("middle", 99), with("low", -5), with("higher", 1000)];
    let (mut fixture, mut down) = unneeded_node(settings, &pods);
    fixture.scale_down(&mut down, false);
    let mut left = Vec::new();
    while let Some(wake) = down.next_wake() {
        fixture.now = wake;
        let mut bucket = Vec::new();
        for action in background(&mut fixture, &mut down) {
            let Action::Evict { pod, grace } = action else { panic!("{action:?}") };
            bucket.push(format!("{} {grace}", pod.name));
            let gone = pods.iter().find(|it| it["metadata"]["name"] == *pod.name).expect("it is one of them");
            fixture.forget(gone.clone());
        }
        if !bucket.is_empty() {
            left.push(bucket);
        }
    }
    assert_eq!(left, [["low 10", "middle 10"], ["high 20", "higher 20"]]);
    assert_eq!(fixture.cloud.deleted.len(), 1);
}

#[test]
fn marks_of_an_earlier_autoscaler_are_taken_off() {
    let settings = Settings { max_bulk_soft_taint_count: 0, ..Settings::default() };
    let mut fixture = Fixture::new(settings, &[("g", 0)]);
    let marked = |key: &'static str| {
        move |node: &mut Value| {
            node["spec"]["taints"] = json!([{"key": key, "value": "1", "effect": "NoSchedule"}])
        }
    };
    fixture.node("g", "a", marked(TO_BE_DELETED));
    fixture.node("nobody's", "b", marked(TO_BE_DELETED));
    fixture.node("nobody's", "c", marked(CANDIDATE));
    fixture.with(clean_up);
    let expected = [
        Action::Untaint { node: "a".into(), key: TO_BE_DELETED },
        Action::Cordon { node: "a".into(), unschedulable: false },
        Action::Untaint { node: "c".into(), key: CANDIDATE },
    ];
    assert_eq!(fixture.actions, expected);
    let told = "ClusterAutoscalerCleanup: removed ToBeDeletedByClusterAutoscaler taint from node a";
    assert_eq!(messages(&mut fixture)[0], told);
}
