//! Complete removals, from the first planner update to the deleted node.

use kubernetes::time::seconds;
use kubernetes::well_known::TO_BE_DELETED;
use model::NamespacedName;
use testobjects::PodBuilder;

use super::super::super::decision::{Action, DeleteResult};
use super::super::super::testing;
use super::super::*;
use super::{Harness, START, node, pod, replica_set, scale_down};

/// A cluster with a node `a` that was unneeded for long enough, and a node `b` that is needed.
fn unneeded_node(settings: Settings, pods_on_a: &[PodBuilder]) -> (Harness, ScaleDownState) {
    let mut harness = super::harness(settings, 0);
    harness.add_node("g", node("g", "a"));
    harness.add_node("g", node("g", "b"));
    harness.apply(replica_set().added());
    harness.apply(pod("busy", "b", "1500m", "0").added());
    for pod in pods_on_a {
        harness.apply(pod.clone().added());
    }
    let mut down = ScaleDownState::new(&harness.state.settings, START);
    let first = scale_down(&mut harness, &mut down, false);
    assert_eq!(first.result, ScaleDownResult::NoNodeDeleted);
    assert_eq!(first.unneeded, [(Arc::from("a"), START)]);
    harness.wait(601);
    harness.actions.clear();
    (harness, down)
}

fn messages(harness: &mut Harness) -> Vec<String> {
    testing::messages(&std::mem::take(&mut harness.events))
}

fn background(harness: &mut Harness, down: &mut ScaleDownState) -> Vec<Action> {
    harness.actions.clear();
    harness.with(|context| down.background(context));
    std::mem::take(&mut harness.actions)
}

fn results(harness: &mut Harness, down: &mut ScaleDownState) -> Vec<(String, DeleteResult)> {
    let results = scale_down(harness, down, true).delete_results;
    results.into_iter().map(|(node, result)| (node.to_string(), result)).collect()
}

#[test]
fn an_empty_node_is_tainted_and_deleted_five_seconds_later() {
    let (mut harness, mut down) = unneeded_node(Settings::default(), &[]);
    let report = scale_down(&mut harness, &mut down, false);
    assert_eq!(report.result, ScaleDownResult::NodeDeleteStarted);
    assert_eq!(
        report.removed_nodes,
        [RemovedNode { node: "a".into(), evicted_pods: Vec::new(), utilization: 0.0 }]
    );
    let value = (harness.now.nanos() / 1_000_000_000).to_string();
    let taint =
        |key, value: &str, effect| Action::Taint { node: "a".into(), key, value: value.into(), effect };
    let expected = [
        taint(TO_BE_DELETED, &value, "NoSchedule"),
        Action::Cordon { node: "a".into(), unschedulable: true },
        // The action of the first loop was not carried out.
        taint(DELETION_CANDIDATE, &value, "PreferNoSchedule"),
    ];
    assert_eq!(harness.actions, expected);
    let event_messages = [
        "ScaleDown: marked the node as toBeDeleted/unschedulable",
        "ScaleDownEmpty: Scale-down: removing empty node \"a\"",
    ];
    assert_eq!(messages(&mut harness), event_messages);
    assert!(down.deletions_in_progress().empty.contains("a"));
    assert_eq!(down.next_wake(), Some(harness.now.plus_nanos(seconds(5))));
    harness.wait(5);
    assert_eq!(background(&mut harness, &mut down), []);
    assert_eq!(harness.cloud.deleted, [Arc::from("fake://g/a")]);
    let event_messages = [
        "ScaleDown: nodes removed by cluster autoscaler",
        "ScaleDownEmpty: Scale-down: empty node a removed",
    ];
    assert_eq!(messages(&mut harness), event_messages);
    assert_eq!(down.next_wake(), None);
    assert_eq!(results(&mut harness, &mut down), [(String::from("a"), DeleteResult::NodeDeleteOk)]);
    assert_eq!(results(&mut harness, &mut down), []);
}

#[test]
fn a_node_is_drained_and_its_pods_are_awaited() {
    let leaving = pod("p", "a", "100m", "0").set("spec.terminationGracePeriodSeconds", 900);
    let (mut harness, mut down) = unneeded_node(Settings::default(), std::slice::from_ref(&leaving));
    let report = scale_down(&mut harness, &mut down, false);
    let name = NamespacedName { namespace: "default".into(), name: "p".into() };
    assert_eq!(
        report.removed_nodes,
        [RemovedNode { node: "a".into(), evicted_pods: vec![name.clone()], utilization: 0.05 }]
    );
    let event_messages = [
        "ScaleDown: marked the node as toBeDeleted/unschedulable",
        "ScaleDown: Scale-down: removing node a, utilization: {0.05 0 0 0 cpu 0.05}, pods to reschedule: p",
    ];
    assert_eq!(messages(&mut harness), event_messages);
    harness.wait(5);
    // The grace period is limited to ten minutes.
    assert_eq!(background(&mut harness, &mut down), [Action::Evict { pod: name, grace: 600 }]);
    assert_eq!(messages(&mut harness), ["ScaleDown: deleting pod for node scale down"]);
    let leaving = leaving.terminating(harness.now);
    harness.apply(leaving.clone().added());
    assert_eq!(background(&mut harness, &mut down), []);
    for _ in 0..3 {
        assert_eq!(down.next_wake(), Some(harness.now.plus_nanos(seconds(5))));
        harness.wait(5);
        assert_eq!(background(&mut harness, &mut down), []);
    }
    assert_eq!(harness.cloud.deleted, []);
    harness.apply(leaving.deleted());
    harness.wait(5);
    assert_eq!(background(&mut harness, &mut down), []);
    assert_eq!(harness.cloud.deleted, [Arc::from("fake://g/a")]);
    let event_messages = [
        "ScaleDown: nodes removed by cluster autoscaler",
        "ScaleDown: Scale-down: node a removed with drain",
    ];
    assert_eq!(messages(&mut harness), event_messages);
}

#[test]
fn an_eviction_that_is_refused_is_tried_for_two_minutes() {
    let (mut harness, mut down) = unneeded_node(Settings::default(), &[pod("p", "a", "100m", "0")]);
    scale_down(&mut harness, &mut down, false);
    let start_time = harness.now.plus_nanos(seconds(5));
    messages(&mut harness);
    let mut tries = 0;
    let actions = loop {
        harness.now = down.next_wake().expect("the deletion is in progress");
        let actions = background(&mut harness, &mut down);
        match actions.first() {
            Some(Action::Evict { .. }) => tries += 1,
            Some(_) => break actions,
            None => {}
        }
    };
    assert_eq!(tries, 12);
    assert_eq!(harness.now.nanos_since(start_time), seconds(120));
    let untaint = Action::Untaint { node: "a".into(), key: TO_BE_DELETED };
    assert_eq!(actions, [untaint, Action::Cordon { node: "a".into(), unschedulable: false }]);
    let event_messages = messages(&mut harness);
    assert_eq!(event_messages[1], "ScaleDownFailed: failed to delete pod for ScaleDown");
    assert!(
        event_messages[2]
            .starts_with("ScaleDownFailed: failed to drain and delete node: Failed to drain node /a, due to")
    );
    let failed = (String::from("a"), DeleteResult::NodeDeleteErrorFailedToEvictPods);
    assert_eq!(results(&mut harness, &mut down), [failed]);
}

#[test]
fn a_node_that_is_no_longer_empty_is_not_deleted() {
    let (mut harness, mut down) = unneeded_node(Settings::default(), &[]);
    scale_down(&mut harness, &mut down, false);
    messages(&mut harness);
    harness.apply(pod("late", "a", "1m", "0").added());
    harness.wait(5);
    assert_eq!(background(&mut harness, &mut down).len(), 2);
    let event_messages =
        "ScaleDownFailed: failed to delete empty node: failed to delete empty node \"a\", new pods scheduled";
    assert_eq!(messages(&mut harness), [event_messages]);
    assert_eq!(harness.cloud.deleted, []);
    assert_eq!(
        results(&mut harness, &mut down),
        [(String::from("a"), DeleteResult::NodeDeleteErrorInternal)]
    );
}

#[test]
fn a_refused_deletion_is_registered() {
    let (mut harness, mut down) = unneeded_node(Settings::default(), &[]);
    scale_down(&mut harness, &mut down, false);
    messages(&mut harness);
    harness.cloud.refuses = vec!["g"];
    // The deletion goes on even though the node no longer exists.
    harness.apply(node("g", "a").deleted());
    harness.wait(5);
    assert_eq!(background(&mut harness, &mut down), []);
    let event_messages =
        "ScaleDownFailed: failed to delete empty node: failed to delete nodes from group g: not today";
    assert_eq!(messages(&mut harness), [event_messages]);
    assert_eq!(harness.state.registry.last_failed_scale_downs.get(&GroupId(0)), Some(&harness.now));
}

#[test]
fn a_delay_deletion_annotation_delays_by_two_minutes_at_most() {
    let mut harness = super::harness(Settings::default(), 0);
    let node = node("g", "a").annotation("delay-deletion.cluster-autoscaler.kubernetes.io/x", "");
    harness.add_node("g", node);
    let mut down = ScaleDownState::new(&harness.state.settings, START);
    scale_down(&mut harness, &mut down, false);
    harness.wait(601);
    scale_down(&mut harness, &mut down, false);
    let start_time = harness.now;
    while harness.cloud.deleted.is_empty() {
        harness.now = down.next_wake().expect("the deletion is in progress");
        assert_eq!(background(&mut harness, &mut down), []);
    }
    assert_eq!(harness.now.nanos_since(start_time), seconds(125));
}

#[test]
fn pods_of_lower_priority_are_evicted_first() {
    let settings = Settings { drain_priority_config: vec![(0, 10), (100, 20)], ..Settings::default() };
    let with = |name: &str, priority: i64| pod(name, "a", "1m", "0").priority(priority);
    let pods = [("high", 100), ("middle", 99), ("low", -5), ("higher", 1000)];
    let built = pods.map(|(name, priority)| with(name, priority));
    let (mut harness, mut down) = unneeded_node(settings, &built);
    scale_down(&mut harness, &mut down, false);
    let mut left = Vec::new();
    while let Some(wake) = down.next_wake() {
        harness.now = wake;
        let mut bucket = Vec::new();
        for action in background(&mut harness, &mut down) {
            let Action::Evict { pod, grace } = action else { panic!("{action:?}") };
            bucket.push(format!("{} {grace}", pod.name));
            let pod_position =
                pods.iter().position(|(name, _)| **name == *pod.name).expect("the pod is on the node");
            harness.apply(built[pod_position].clone().deleted());
        }
        if !bucket.is_empty() {
            left.push(bucket);
        }
    }
    assert_eq!(left, [["low 10", "middle 10"], ["high 20", "higher 20"]]);
    assert_eq!(harness.cloud.deleted.len(), 1);
}

#[test]
fn taints_of_an_earlier_autoscaler_are_removed() {
    let settings = Settings { max_bulk_soft_taint_count: 0, ..Settings::default() };
    let mut harness = super::harness(settings, 0);
    let marked = |group: &str, name: &str, key: &str| node(group, name).taint(&format!("{key}=1:NoSchedule"));
    harness.add_node("g", marked("g", "a", TO_BE_DELETED));
    harness.add_node("nobody's", marked("nobody's", "b", TO_BE_DELETED));
    harness.add_node("nobody's", marked("nobody's", "c", DELETION_CANDIDATE));
    harness.with(clean_up);
    let expected = [
        Action::Untaint { node: "a".into(), key: TO_BE_DELETED },
        Action::Cordon { node: "a".into(), unschedulable: false },
        Action::Untaint { node: "c".into(), key: DELETION_CANDIDATE },
    ];
    assert_eq!(harness.actions, expected);
    let event_messages = "ClusterAutoscalerCleanup: removed ToBeDeletedByClusterAutoscaler taint from node a";
    assert_eq!(messages(&mut harness)[0], event_messages);
}
