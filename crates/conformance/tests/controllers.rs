//! Small recordings in which the real controllers' actions are known.

use conformance::controllers::{Deed, Verdicts};
use conformance::film::Share;
use conformance::{Error, Lines, controllers};
use serde_json::{Value, json};

const START: i64 = 1_794_710_400_000_000;

/// Compares a recording of these events, given with their milliseconds after the start.
fn judge(lines: &[(i64, &str, Value)]) -> Verdicts {
    let mut text = String::new();
    for (at, word, object) in lines {
        text += &json!({"at": START + at * 1000, "type": word, "object": object}).to_string();
        text += "\n";
    }
    controllers::judge(Lines::of("some/film.jsonl", std::io::Cursor::new(text)), usize::MAX)
        .expect("it is a film")
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

fn going(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:09Z".into();
    pod
}

fn share(verdicts: &Verdicts, deed: Deed) -> Share {
    verdicts.shares.get(&deed).copied().unwrap_or_default()
}

#[test]
fn what_was_wished_for_shortly_before_is_what_ours_would_do() {
    let verdicts = judge(&[
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (40, "ADDED", pod("q", "n")),
        // A third pod, which ours did not plan.
        (3000, "ADDED", pod("r", "n")),
    ]);
    assert_eq!(share(&verdicts, Deed::ReplicaMade), Share { equal: 2, total: 3 }, "{verdicts}");
    assert_eq!(verdicts.examples.len(), 1);
}

#[test]
fn the_pod_without_a_node_is_the_one_to_go() {
    for (gone, equal) in [("p", 1), ("q", 0)] {
        let node = if gone == "p" { "" } else { "n" };
        let verdicts = judge(&[
            (0, "ADDED", set(2)),
            (20, "ADDED", pod("p", "")),
            (40, "ADDED", pod("q", "n")),
            (3000, "MODIFIED", set(1)),
            (3020, "MODIFIED", going(pod(gone, node))),
        ]);
        assert_eq!(share(&verdicts, Deed::ReplicaDeleted), Share { equal, total: 1 }, "{verdicts}");
        assert_eq!(share(&verdicts, Deed::SetResized), Share { equal: 0, total: 1 }, "nobody manages it");
    }
}

#[test]
fn a_wish_is_fulfilled_once() {
    let verdicts = judge(&[
        (0, "ADDED", set(1)),
        (20, "ADDED", pod("p", "")),
        // Not planned: the planned action was matched by the first pod.
        (40, "ADDED", pod("q", "n")),
    ]);
    assert_eq!(share(&verdicts, Deed::ReplicaMade), Share { equal: 1, total: 2 }, "{verdicts}");
}

#[test]
fn pods_go_by_their_replica_set_only_if_there_are_too_many() {
    let verdicts = judge(&[
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (40, "ADDED", pod("q", "n")),
        (3000, "MODIFIED", set(1)),
        (3020, "MODIFIED", going(pod("p", ""))),
        // Deleted by another client: one pod is left, as desired.
        (3040, "MODIFIED", going(pod("q", "n"))),
    ]);
    assert_eq!(share(&verdicts, Deed::ReplicaDeleted), Share { equal: 1, total: 1 }, "{verdicts}");
    let late = judge(&[
        (0, "ADDED", set(2)),
        (20, "ADDED", pod("p", "")),
        (40, "ADDED", pod("q", "n")),
        (3000, "MODIFIED", set(1)),
        // Longer after the planned action than a controller takes.
        (9000, "MODIFIED", going(pod("p", ""))),
    ]);
    assert_eq!(share(&late, Deed::ReplicaDeleted), Share { equal: 0, total: 1 }, "{late}");
}

#[test]
fn pods_that_never_come_are_counted() {
    let other = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "b", "uid": "b"}});
    let mut told = set(2);
    told["status"] =
        json!({"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 1, "terminatingReplicas": 0});
    let lines =
        [(0, "ADDED", set(2)), (20, "ADDED", pod("p", "")), (9000, "ADDED", other), (9001, "MODIFIED", told)];
    assert_eq!(judge(&lines).in_vain, 1);
    assert_eq!(judge(&lines[..3]).in_vain, 0, "what happened last was no later");
}

#[test]
fn a_damaged_film_is_an_error_that_names_the_line() {
    for (text, expected) in
        [("\n", "film.jsonl holds no event"), ("{\"at\":1}\n", "film.jsonl:1: not an event")]
    {
        let error: Error = controllers::judge(Lines::of("film.jsonl", text.as_bytes()), 0).expect_err(text);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
