//! Small recordings in which the real scheduler's knowledge at each decision is known.

use conformance::recording::{SchedulerReport, WatchRecording};
use conformance::{Error, JsonLines, recording};
use serde_json::{Value, json};
use testobjects::NodeBuilder;

const START: i64 = 1_794_710_400_000_000;
const FULL: &str = "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are \
                    available: 1 No preemption victims found for incoming pod.";

/// Compares a recording of these events, given with their milliseconds after the start.
fn compare(lines: &[(i64, &str, Value)]) -> SchedulerReport {
    let mut text = String::new();
    for (at, event_type, object) in lines {
        text += &json!({"at": START + at * 1000, "type": event_type, "object": object}).to_string();
        text += "\n";
    }
    let recording =
        WatchRecording::read(JsonLines::from_reader("some/film.jsonl", std::io::Cursor::new(text)))
            .expect("it is a film");
    recording::compare_scheduler(&recording, usize::MAX, |_| {})
}

fn time(at: i64) -> String {
    model::Moment::from_micros(START + at * 1000).expect("a time of our days").to_string()
}

fn node(name: &str, cpu: &str) -> NodeBuilder {
    let node = testobjects::node(name).version(1).allocatable("cpu", cpu);
    node.allocatable("memory", "8Gi").allocatable("pods", "110")
}

fn pod(name: &str, version: u64, cpu: &str) -> Value {
    testobjects::pod(name)
        .namespace("shop")
        .version(version)
        .set("spec.schedulerName", "default-scheduler")
        .set("spec.preemptionPolicy", "PreemptLowerPriority")
        .priority(0)
        .request("cpu", cpu)
        .request("memory", "1Gi")
        .phase("Pending")
        .json()
}

/// The next version of a pod, changed by a JSON merge of its spec and status.
fn with(pod: &Value, version: u64, spec: Value, status: Value) -> Value {
    let mut pod = pod.clone();
    pod["metadata"]["resourceVersion"] = version.to_string().into();
    for (part, more) in [("spec", spec), ("status", status)] {
        for (key, value) in more.as_object().into_iter().flatten() {
            pod[part][key] = value.clone();
        }
    }
    pod
}

fn bound(pod: &Value, version: u64, node: &str) -> Value {
    with(pod, version, json!({"nodeName": node}), json!({}))
}

fn unschedulable(pod: &Value, version: u64, message: &str) -> Value {
    let condition = json!({"type": "PodScheduled", "status": "False", "message": message});
    with(pod, version, json!({}), json!({"conditions": [condition]}))
}

fn event(pod: &Value, at: i64, reason: &str, action: &str, note: &str) -> Value {
    let name = pod["metadata"]["name"].as_str().expect("pods have names");
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{name}.{at}"), "namespace": "shop", "uid": format!("{name}.{at}")},
        "eventTime": time(at), "reason": reason, "action": action, "note": note,
        "regarding": {
            "kind": "Pod", "namespace": "shop", "name": name, "uid": name,
            "resourceVersion": pod["metadata"]["resourceVersion"]
        }
    })
}

fn scheduled(pod: &Value, at: i64) -> Value {
    event(pod, at, "Scheduled", "Binding", "")
}

fn failed(pod: &Value, at: i64, message: &str) -> Value {
    event(pod, at, "FailedScheduling", "Scheduling", message)
}

#[track_caller]
fn check(lines: &[(i64, &str, Value)], messages: &str, bindings: &str) {
    let report = compare(lines);
    let ratios = (report.messages.to_string(), report.bindings.to_string());
    assert_eq!(ratios, (messages.to_owned(), bindings.to_owned()), "{report}\n{:#?}", report.examples);
}

#[test]
fn the_scheduler_knows_its_own_decisions_before_its_watch_shows_them() {
    let (a, b) = (pod("a", 10, "800m"), pod("b", 11, "800m"));
    check(
        &[
            (0, "ADDED", node("n", "1").json()),
            (1, "ADDED", a.clone()),
            (2, "ADDED", b.clone()),
            (100, "MODIFIED", bound(&a, 12, "n")),
            (105, "MODIFIED", unschedulable(&b, 13, FULL)),
            (110, "ADDED", scheduled(&a, 10)),
            (120, "ADDED", failed(&b, 12, FULL)),
        ],
        "1/1 (100.0 %)",
        "1/1 (100.0 %)",
    );
}

#[test]
fn new_pods_are_decided_in_the_order_of_the_queue() {
    let (a, b) = (pod("a", 10, "500m"), pod("b", 11, "500m"));
    // The binding of the second was faster.
    check(
        &[
            (0, "ADDED", node("m", "4").json()),
            (0, "ADDED", node("n", "4").json()),
            (1, "ADDED", a.clone()),
            (2, "ADDED", b.clone()),
            (20, "MODIFIED", bound(&b, 12, "n")),
            (21, "MODIFIED", bound(&a, 13, "m")),
            (110, "ADDED", scheduled(&b, 19)),
            (120, "ADDED", scheduled(&a, 22)),
        ],
        "none to compare",
        "2/2 (100.0 %)",
    );
}

#[test]
fn a_daemon_pod_is_not_compared_but_moves_the_start_of_the_next_search() {
    let only = json!({"nodeSelectorTerms": [{"matchFields": [
        {"key": "metadata.name", "operator": "In", "values": ["o"]}
    ]}]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": only}});
    let tolerations = json!([{"operator": "Exists"}]);
    let mut daemon = pod("daemon", 10, "100m");
    daemon["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d"}]);
    let daemon = with(&daemon, 10, json!({"affinity": affinity, "tolerations": tolerations}), json!({}));
    let a = pod("a", 11, "500m");
    check(
        &[
            (0, "ADDED", node("m", "4").json()),
            (0, "ADDED", node("n", "4").json()),
            (0, "ADDED", node("o", "4").taint("apart:NoSchedule").json()),
            (1, "ADDED", daemon.clone()),
            (2, "ADDED", a.clone()),
            (20, "MODIFIED", bound(&daemon, 12, "o")),
            (21, "MODIFIED", bound(&a, 13, "n")),
            (110, "ADDED", scheduled(&daemon, 19)),
            (120, "ADDED", scheduled(&a, 22)),
        ],
        "none to compare",
        "1/1 (100.0 %)",
    );
}

#[test]
fn failures_unrelated_to_nodes_are_not_compared() {
    let a = pod("a", 10, "800m");
    let report = compare(&[
        (0, "ADDED", a.clone()),
        (50, "ADDED", failed(&a, 10, "skip schedule deleting pod: shop/a")),
        (60, "ADDED", failed(&a, 11, "running Bind plugin \"DefaultBinder\": pods \"a\" not found")),
        (70, "ADDED", failed(&a, -1, FULL)),
        (80, "ADDED", failed(&pod("b", 10, "1"), 20, FULL)),
    ]);
    assert_eq!((report.messages.total, report.bindings.total), (0, 0));
    assert_eq!(report.not_compared.iter().map(|one| one.1).collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[test]
fn a_damaged_recording_is_an_error_that_names_the_line() {
    for (text, expected) in [
        ("\n", "film.jsonl holds no event"),
        ("{\"at\":1}\n", "film.jsonl:1: not an event: missing field `type`"),
        ("\n{\"at\":1,\"type\":\"GONE\",\"object\":{}}\n", "film.jsonl:2: \"GONE\" is not ADDED"),
        ("{\"at\":1,\"type\":\"ADDED\",\"object\":{}}\n", "film.jsonl:1: not a Kubernetes object"),
    ] {
        let read = WatchRecording::read(JsonLines::from_reader("film.jsonl", text.as_bytes()));
        let error: Error = read.expect_err(text);
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}
