//! Small recordings in which the real controllers' actions are known.

use conformance::controllers::{ControllerAction, ControllersReport};
use conformance::recording::MatchRatio;
use conformance::{Error, JsonLines, controllers};
use serde_json::{Value, json};

const START: i64 = 1_794_710_400_000_000;

/// Compares a recording of these events, given with their milliseconds after the start.
fn compare(lines: &[(i64, &str, Value)]) -> ControllersReport {
    let mut text = String::new();
    for (at, event_type, object) in lines {
        text += &json!({"at": START + at * 1000, "type": event_type, "object": object}).to_string();
        text += "\n";
    }
    controllers::compare_controllers(
        JsonLines::from_reader("some/film.jsonl", std::io::Cursor::new(text)),
        usize::MAX,
    )
    .expect("the recording is valid")
}

fn set(replicas: i64) -> Value {
    let template = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "c"}]}});
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "a", "namespace": "shop", "uid": "set", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "a"}}, "template": template}, "status": {"replicas": 0}})
}

fn pod(name: &str, node: &str) -> Value {
    testobjects::pod(name)
        .namespace("shop")
        .label("app", "a")
        .created("2026-11-15T00:00:00Z")
        .owner_with_uid("ReplicaSet", "a", "set")
        .on(node)
        .phase("Pending")
        .json()
}

fn being_deleted(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:09Z".into();
    pod
}

fn ratio(report: &ControllersReport, action: ControllerAction) -> MatchRatio {
    report.by_action.get(&action).copied().unwrap_or_default()
}

#[test]
fn an_action_planned_shortly_before_counts_as_equal() {
    let report = compare(&[
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (40, "ADDED", pod("q", "n")),
        // A third pod, which ours did not plan.
        (3000, "ADDED", pod("r", "n")),
    ]);
    assert_eq!(
        ratio(&report, ControllerAction::ReplicaSetPodCreated),
        MatchRatio { equal: 2, total: 3 },
        "{report}"
    );
    assert_eq!(report.examples.len(), 1);
}

#[test]
fn a_scale_down_deletes_the_pod_without_a_node() {
    for (deleted, equal) in [("p", 1), ("q", 0)] {
        let node = if deleted == "p" { "" } else { "n" };
        let report = compare(&[
            (0, "ADDED", set(2)),
            (20, "ADDED", pod("p", "")),
            (40, "ADDED", pod("q", "n")),
            (3000, "MODIFIED", set(1)),
            (3020, "MODIFIED", being_deleted(pod(deleted, node))),
        ]);
        assert_eq!(
            ratio(&report, ControllerAction::ReplicaSetPodDeleted),
            MatchRatio { equal, total: 1 },
            "{report}"
        );
        assert_eq!(
            ratio(&report, ControllerAction::ReplicaSetScaled),
            MatchRatio { equal: 0, total: 1 },
            "the ReplicaSet has no Deployment"
        );
    }
}

#[test]
fn a_planned_action_matches_once() {
    let report = compare(&[
        (0, "ADDED", set(1)),
        (20, "ADDED", pod("p", "")),
        // Not planned: the planned action was matched by the first pod.
        (40, "ADDED", pod("q", "n")),
    ]);
    assert_eq!(
        ratio(&report, ControllerAction::ReplicaSetPodCreated),
        MatchRatio { equal: 1, total: 2 },
        "{report}"
    );
}

#[test]
fn a_replica_set_deletes_only_surplus_pods() {
    let report = compare(&[
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (40, "ADDED", pod("q", "n")),
        (3000, "MODIFIED", set(1)),
        (3020, "MODIFIED", being_deleted(pod("p", ""))),
        // Deleted by another client: one pod is left, as desired.
        (3040, "MODIFIED", being_deleted(pod("q", "n"))),
    ]);
    assert_eq!(
        ratio(&report, ControllerAction::ReplicaSetPodDeleted),
        MatchRatio { equal: 1, total: 1 },
        "{report}"
    );
    let late = compare(&[
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (40, "ADDED", pod("q", "n")),
        (3000, "MODIFIED", set(1)),
        // Longer after the planned action than a controller takes.
        (9000, "MODIFIED", being_deleted(pod("p", ""))),
    ]);
    assert_eq!(
        ratio(&late, ControllerAction::ReplicaSetPodDeleted),
        MatchRatio { equal: 0, total: 1 },
        "{late}"
    );
}

#[test]
fn planned_pods_that_are_never_created_are_counted() {
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b", "uid": "b"}});
    let mut updated = set(2);
    updated["status"] =
        json!({"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1, "terminatingReplicas": 0});
    let lines = [
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (9000, "ADDED", other),
        (9001, "MODIFIED", updated),
    ];
    assert_eq!(compare(&lines).unfulfilled, 1);
    assert_eq!(compare(&lines[..3]).unfulfilled, 0, "the recording ends too early to tell");
}

#[test]
fn a_damaged_recording_is_an_error_that_names_the_line() {
    for (text, expected) in
        [("\n", "film.jsonl holds no event"), ("{\"at\":1}\n", "film.jsonl:1: not an event")]
    {
        let error: Error =
            controllers::compare_controllers(JsonLines::from_reader("film.jsonl", text.as_bytes()), 0)
                .expect_err(text);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
