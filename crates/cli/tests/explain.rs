//! `kinescope explain` for pods: scheduled, pending, preempting, and from manifests.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

#[path = "explain/autoscaler.rs"]
mod autoscaler;
mod common;
#[path = "explain/manifests.rs"]
mod manifests;
#[path = "explain/many_nodes.rs"]
mod many_nodes;
#[path = "explain/watching.rs"]
mod watching;

use std::fmt::Write as _;
use std::path::Path;

use common::{ProgramOutput, run};
use serde_json::{Value, json};

/// Builds a history from watch events, one second apart by default.
struct RecordingBuilder {
    lines: String,
    second: u32,
}

impl RecordingBuilder {
    fn new() -> RecordingBuilder {
        RecordingBuilder { lines: String::new(), second: 0 }
    }

    fn add(self, object: Value) -> RecordingBuilder {
        self.push("ADDED", object, 1)
    }

    fn change(self, object: Value) -> RecordingBuilder {
        self.push("MODIFIED", object, 1)
    }

    fn delete(self, object: Value) -> RecordingBuilder {
        self.push("DELETED", object, 1)
    }

    /// Adds an object at the same time as the next event.
    fn add_at_same_time(self, object: Value) -> RecordingBuilder {
        self.push("ADDED", object, 0)
    }

    fn push(mut self, event_type: &str, object: Value, seconds: u32) -> RecordingBuilder {
        let line = json!({"at": time(self.second), "type": event_type, "object": object});
        writeln!(self.lines, "{line}").unwrap();
        self.second += seconds;
        self
    }

    fn line(mut self, line: &str) -> RecordingBuilder {
        self.lines += line;
        self.lines.push('\n');
        self
    }

    fn import(self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("film.jsonl"), self.lines).unwrap();
        run(folder.path(), &["import", "film.jsonl"]).success();
        folder
    }
}

fn time(second: u32) -> String {
    format!("2026-11-01T14:{:02}:{:02}Z", second / 60, second % 60)
}

fn node(name: &str, cpu: &str, memory: &str) -> Value {
    testobjects::node(name)
        .uid(&format!("uid-of-{name}"))
        .created("2026-11-01T10:00:00Z")
        .allocatable("cpu", cpu)
        .allocatable("memory", memory)
        .allocatable("pods", "110")
        .json()
}

fn pod(name: &str, cpu: &str, memory: &str) -> Value {
    testobjects::pod(name)
        .namespace("shop")
        .uid(&format!("uid-of-{name}"))
        .created("2026-11-01T14:00:00Z")
        .set("spec.schedulerName", "default-scheduler")
        .set("spec.containers.0.image", "a:1")
        .priority(0)
        .request("cpu", cpu)
        .request("memory", memory)
        .phase("Pending")
        .json()
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod["status"]["phase"] = "Running".into();
    pod
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[field] = value;
    object
}

fn explain(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    run(folder, &[&["explain"], arguments].concat())
}

fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&explain(folder, &[arguments, &["-o", "json"]].concat()).success()).unwrap()
}

/// Three empty nodes of increasing size; the pod requests a quarter of the first.
fn three_sizes() -> RecordingBuilder {
    RecordingBuilder::new()
        .add(node("small", "4", "8Gi"))
        .add(node("big", "10", "20Gi"))
        .add(node("medium", "8", "16Gi"))
        .add(pod("web-1", "1", "2Gi"))
}

#[test]
fn a_pod_goes_to_the_node_with_most_free_resources() {
    let folder = three_sizes().import();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(explanation["pod"], json!({"namespace": "shop", "name": "web-1"}));
    assert_eq!((&explanation["decision"], &explanation["node"]), (&json!("placed"), &json!("big")));
    assert_eq!(explanation.get("message"), None);
    assert_eq!((&explanation["lookedAt"], &explanation["fitting"]), (&json!(3), &json!(3)));
    assert_eq!(explanation["scheduler"]["version"], "1.36");
    assert_eq!(explanation["scheduler"]["configuration"], json!({"from": "defaults"}));
    // Free cpu and memory in percent, truncated to whole numbers: 3 of 4, 9 of 10, 7 of 8.
    let fit = |node: &Value| node["scores"]["NodeResourcesFit"]["raw"].clone();
    let nodes = explanation["nodes"].as_array().unwrap();
    let fits: Vec<(Value, Value)> = nodes.iter().map(|node| (node["name"].clone(), fit(node))).collect();
    assert_eq!(
        fits,
        [("small", 75), ("big", 90), ("medium", 87)].map(|(name, score)| (json!(name), json!(score)))
    );
    for node in nodes {
        let scores = node["scores"].as_object().unwrap().values();
        let sum: i64 = scores.map(|score| score["weighted"].as_i64().unwrap()).sum();
        assert_eq!(node["total"], sum);
    }
}

#[test]
fn the_table_has_the_best_node_first_with_its_reason() {
    let folder = three_sizes().import();
    let output = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], "Pod:         shop/web-1");
    assert_eq!(lines[1], "As of:       2026-11-01T14:00:03Z, while pending");
    assert_eq!(lines[2], "Scheduler:   defaults of 1.36");
    assert_eq!(lines[3], "Decision:    Scheduled: assigned to big");
    assert!(lines[4].starts_with("Reason:      score 3 higher than medium (NodeResourcesFit +3"), "{output}");
    let nodes: Vec<&str> = lines.iter().filter_map(|line| line.get(2..)?.split_whitespace().next()).collect();
    let row_of = |name: &str| nodes.iter().position(|node| *node == name).unwrap();
    assert!(row_of("big") < row_of("medium") && row_of("medium") < row_of("small"), "{output}");
    assert!(lines.iter().any(|line| line.starts_with("* big ")), "{output}");
    assert!(lines.iter().all(|line| line.len() <= 120), "{output}");
    let wide = explain(folder.path(), &["pod", "web-1", "-n", "shop", "-o", "wide"]).success();
    let taints = wide.lines().find(|line| line.contains("TaintToleration  ")).unwrap();
    let cells: Vec<&str> = taints.split_whitespace().collect();
    assert_eq!(cells, ["big", "TaintToleration", "0", "100", "x", "3", "300"]);
}

/// A full node, a tainted one, and one that the pod's node selector excludes.
fn three_reasons() -> RecordingBuilder {
    let taint = json!([{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]);
    let picky = with(pod("web-1", "2", "1Gi"), "/spec/nodeSelector", json!({"disk": "fast"}));
    let fast = |node: Value| with(node, "/metadata/labels/disk", "fast".into());
    RecordingBuilder::new()
        .add(fast(node("full", "1", "8Gi")))
        .add(with(fast(node("tainted", "8", "16Gi")), "/spec", json!({"taints": taint})))
        .add(node("slow", "8", "16Gi"))
        .add(picky)
}

const THREE_REASONS: &str = "0/3 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, \
     1 node(s) had untolerated taint(s). no new claims to deallocate, preemption: 0/3 nodes are available: \
     3 Preemption is not helpful for scheduling.";

#[test]
fn an_unschedulable_pod_gets_the_schedulers_message() {
    let folder = three_reasons().import();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(explanation["decision"], "refused");
    assert_eq!(explanation["message"], THREE_REASONS);
    assert_eq!(explanation["victims"], json!([]));
    let nodes: Vec<(&str, &str, &str)> = explanation["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| {
            let text = |field: &str| node[field].as_str().unwrap();
            (text("name"), text("plugin"), text("code"))
        })
        .collect();
    assert_eq!(
        nodes,
        [
            ("full", "NodeResourcesFit", "UnschedulableAndUnresolvable"),
            ("tainted", "TaintToleration", "UnschedulableAndUnresolvable"),
            ("slow", "NodeAffinity", "UnschedulableAndUnresolvable"),
        ]
    );
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    assert!(table.contains("Decision:    Unschedulable: 0/3 nodes fit\n"), "{table}");
    assert!(table.contains(&format!("Message:     {THREE_REASONS}\n")), "{table}");
    assert!(
        table.contains("  slow      NodeAffinity       node(s) didn't match Pod's node affinity/selector\n"),
        "{table}"
    );
}

/// A FailedScheduling event of this API version.
fn failed(api_version: &str, name: &str, text: &str, second: u32) -> Value {
    let about = json!({"kind": "Pod", "namespace": "shop", "name": "web-1", "uid": "uid-of-web-1"});
    let mut event = json!({
        "apiVersion": api_version, "kind": "Event", "metadata": {"name": name, "namespace": "shop"},
        "reason": "FailedScheduling", "type": "Warning",
    });
    if api_version == "v1" {
        event["involvedObject"] = about;
        event["message"] = text.into();
        event["firstTimestamp"] = time(second).into();
        event["lastTimestamp"] = time(second + 30).into();
        event["count"] = 4.into();
    } else {
        event["regarding"] = about;
        event["note"] = text.into();
        event["eventTime"] = time(second).into();
        event["series"] = json!({"count": 3, "lastObservedTime": time(second + 20)});
    }
    event
}

#[test]
fn recorded_scheduler_events_are_shown() {
    let folder = three_reasons()
        .add(failed("events.k8s.io/v1", "web-1.1", THREE_REASONS, 4))
        .add(failed("v1", "web-1.2", "0/3 nodes are having a bad day", 5))
        .add(with(failed("v1", "web-1.3", "of another life", 5), "/involvedObject/uid", "other".into()))
        .import();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(
        explanation["happened"]["failedScheduling"],
        json!([
            {"at": time(4), "last": time(24), "times": 3, "message": THREE_REASONS, "pod": "shop/web-1"},
            {"at": time(5), "last": time(35), "times": 4, "message": "0/3 nodes are having a bad day", "pod": "shop/web-1"},
        ])
    );
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    let agrees = "FailedScheduling 3 times until 2026-11-01T14:00:24Z, same message\n";
    assert!(table.contains(agrees), "{table}");
    assert!(
        table.contains("FailedScheduling 4 times until 2026-11-01T14:00:35Z, \"0/3 nodes are having"),
        "{table}"
    );
}

#[test]
fn a_long_message_is_compared_with_the_truncated_event() {
    // Each insufficient resource is a separate reason.
    let mut greedy = pod("web-1", "1", "1Gi");
    for index in 0..40 {
        let resource = format!("example.com/device-{index:03}");
        greedy["spec"]["containers"][0]["resources"]["requests"][resource] = "1".into();
    }
    let recording = RecordingBuilder::new().add(node("only", "8", "16Gi")).add(greedy);
    let folder = RecordingBuilder { lines: recording.lines.clone(), second: recording.second }.import();
    let message =
        json_of(folder.path(), &["pod/web-1", "-n", "shop"])["message"].as_str().unwrap().to_owned();
    assert!(message.len() > 1024, "{message}");
    let cut = format!("{} ...", &message[..1020]);
    let folder = recording.add(failed("events.k8s.io/v1", "web-1.1", &cut, 5)).import();
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    assert!(table.contains("14:00:25Z, same message\n"), "{table}");
}

#[test]
fn a_preempting_pod_is_shown_with_its_victims() {
    let weak = |name: &str, priority: i32| {
        let placed = on(pod(name, "1500m", "1Gi"), "only");
        with(placed, "/spec/priority", priority.into())
    };
    let strong = with(pod("strong", "2", "1Gi"), "/spec/priority", 1000.into());
    let folder = RecordingBuilder::new()
        .add(node("only", "4", "8Gi"))
        .add(weak("weak", 5))
        .add(weak("weaker", 1))
        .add(strong.clone())
        .change(with(strong, "/status/nominatedNodeName", "only".into()))
        .add(preempted("weaker", "uid-of-strong", 5))
        .add(preempted("weak", "uid-of-another", 5))
        .add(with(
            preempted("other", "somebody", 6),
            "/related",
            json!({"kind": "Pod", "uid": "uid-of-strong"}),
        ))
        .import();
    let explanation = json_of(folder.path(), &["pod/strong", "-n", "shop", "--at", &time(3)]);
    assert_eq!(
        (&explanation["decision"], &explanation["nominatedNode"]),
        (&json!("refused"), &json!("only"))
    );
    assert_eq!(explanation["victims"], json!([{"namespace": "shop", "name": "weaker", "priority": 1}]));
    let victims = explanation["happened"]["victims"].as_array().unwrap();
    assert_eq!(
        victims.iter().map(|victim| &victim["pod"]).collect::<Vec<_>>(),
        ["shop/weaker", "shop/other"]
    );
    assert_eq!(explanation["happened"]["nominated"], json!([{"at": time(4), "node": "only"}]));
    let table = explain(folder.path(), &["pod/strong", "-n", "shop", "--at", &time(3)]).success();
    assert!(table.starts_with("Pod:         shop/strong, priority 1,000\n"), "{table}");
    let decision = "Decision:    Unschedulable: 0/1 nodes fit; nominated to only by preemption\n";
    assert!(table.contains(decision), "{table}");
    assert!(table.contains("Preempts:    shop/weaker (priority 1)\n"), "{table}");
    assert!(table.contains("2026-11-01T14:00:05Z  shop/weaker was preempted for this pod\n"), "{table}");
    assert!(table.contains("2026-11-01T14:00:04Z  nominated to only\n"), "{table}");
    let preemptor_and_text = |name: &str| {
        let pod = format!("pod/{name}");
        let json = json_of(folder.path(), &[&pod, "-n", "shop"])["happened"]["preempted"].clone();
        (json["by"].clone(), explain(folder.path(), &[&pod, "-n", "shop"]).success())
    };
    let (by, table) = preemptor_and_text("weaker");
    assert_eq!(by, "shop/strong");
    let line = "Preempted by shop/strong, \"Preempted by pod uid-of-strong on node only\"\n";
    assert!(table.contains(line), "{table}");
    let (by, table) = preemptor_and_text("weak");
    assert_eq!(by, Value::Null, "the preemptor is not in the history");
    assert!(table.contains("Preempted, \"Preempted by pod uid-of-another on node"), "{table}");
}

/// A Preempted event as kube-scheduler writes it: the preemptor appears only in the message, by its uid.
fn preempted(name: &str, by: &str, second: u32) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{name}.18e81718d0af51ea"), "namespace": "shop"},
        "eventTime": time(second), "reportingController": "default-scheduler",
        "reportingInstance": "default-scheduler-vm", "action": "Preempting", "reason": "Preempted", "type": "Normal",
        "regarding": {
            "kind": "Pod", "namespace": "shop", "name": name, "uid": format!("uid-of-{name}"), "apiVersion": "v1",
        },
        "note": format!("Preempted by pod {by} on node only"), "deprecatedSource": {},
        "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
    })
}

#[test]
fn a_bound_pod_is_explained_as_of_just_before() {
    let rival = on(pod("rival", "3", "2Gi"), "big");
    // The rival is bound at the same moment as the pod, before it; another one later.
    let folder = three_sizes()
        .add_at_same_time(rival)
        .change(on(pod("web-1", "1", "2Gi"), "medium"))
        .add(on(pod("late", "7", "2Gi"), "medium"))
        .import();
    for at in [None, Some(time(5)), Some(time(4))] {
        let at = at.as_deref().map_or(Vec::new(), |at| vec!["--at", at]);
        let explanation = json_of(folder.path(), &[&["pod/web-1", "-n", "shop"], &at[..]].concat());
        assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(4)), &json!(true)), "{at:?}");
        // With the rival on it the big node has 6 of 10 and 16 of 20 free.
        assert_eq!(explanation["nodes"][1]["scores"]["NodeResourcesFit"]["raw"], 70, "{at:?}");
        assert_eq!(explanation["node"], "medium", "{at:?}");
        assert_eq!(explanation["happened"]["node"], "medium");
        assert_eq!(explanation["happened"]["boundAt"], time(4));
    }
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).success();
    assert!(
        table.contains("As of:       just before 2026-11-01T14:00:04Z, when it was bound to medium\n"),
        "{table}"
    );
    assert!(table.contains("Timeline:    2026-11-01T14:00:04Z  bound to medium\n"), "{table}");
    let waiting = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(3)]);
    assert_eq!((&waiting["before"], &waiting["node"]), (&json!(false), &json!("big")));
}

#[test]
fn another_recorded_node_is_shown_with_its_rank() {
    let explain_bound_to = |node: &str| {
        let folder = three_sizes().change(on(pod("web-1", "1", "2Gi"), node)).import();
        explain(folder.path(), &["pod/web-1", "-n", "shop"]).success()
    };
    let table = explain_bound_to("small");
    assert!(table.contains("  bound to small (rank 3 of 3 nodes that fit)\n"), "{table}");
    // Among equal nodes the first is chosen.
    let twins = RecordingBuilder::new()
        .add(node("a", "4", "8Gi"))
        .add(node("b", "4", "8Gi"))
        .add(pod("web-1", "1", "2Gi"));
    let output = |on_node: &str| {
        let recording = RecordingBuilder { lines: twins.lines.clone(), second: twins.second };
        let folder = recording.change(on(pod("web-1", "1", "2Gi"), on_node)).import();
        explain(folder.path(), &["pod/web-1", "-n", "shop"]).success()
    };
    let tables = ["a", "b"].map(output);
    assert!(tables.iter().any(|table| table.contains("  bound to a\n") || table.contains("  bound to b\n")));
    let equally = tables.iter().filter(|table| table.contains(" (same score)\n")).count();
    assert_eq!(equally, 1, "{tables:?}");
    let table = explain_bound_to("gone");
    assert!(table.contains("  bound to gone (does not fit here)\n"), "{table}");
}

#[test]
fn a_pod_may_be_scheduled_before_a_recorder_sees_it() {
    let recording = three_sizes().push(
        "ADDED",
        with(pod("new", "1", "1Gi"), "/metadata/creationTimestamp", time(4).into()),
        1,
    );
    let line = recording.lines.replace(r#""at":"2026-11-01T14:00:04Z""#, r#""at":"2026-11-01T14:00:04.5Z""#);
    let folder = RecordingBuilder { lines: line, second: recording.second }.import();
    let explanation = json_of(folder.path(), &["pod/new", "-n", "shop", "--at", "2026-11-01T14:00:04.499Z"]);
    assert_eq!(
        (&explanation["at"], &explanation["node"]),
        (&json!("2026-11-01T14:00:04.499Z"), &json!("big"))
    );
    assert_eq!(explanation["why"], "1ms before it was first seen");
    let error =
        explain(folder.path(), &["pod/new", "-n", "shop", "--at", "2026-11-01T14:00:03.9Z"]).failure(1);
    assert!(error.contains("it existed from 2026-11-01T14:00:04.5Z"), "{error}");
}

/// The scheduler decides on `web-1` while its binding of another pod is still being written.
#[test]
fn assumed_pods_count_before_their_binding_is_recorded() {
    let folder = three_sizes()
        .add(pod("rival", "3", "2Gi"))
        .change(on(pod("rival", "3", "2Gi"), "big"))
        .change(on(pod("web-1", "1", "2Gi"), "medium"))
        .import();
    let left_on_big = |at: &str| {
        let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", at]);
        assert_eq!(explanation["before"], false, "{at}");
        explanation["nodes"][1]["scores"]["NodeResourcesFit"]["raw"].clone()
    };
    assert_eq!(left_on_big("2026-11-01T14:00:04.940Z"), 90, "60 ms before the rival was bound");
    assert_eq!(left_on_big("2026-11-01T14:00:04.970Z"), 70, "30 ms before it");
    assert_eq!(left_on_big("2026-11-01T14:00:05.970Z"), 70, "30 ms before it was bound itself");
}

#[test]
fn a_pod_bound_before_the_history_is_explained_as_if_unbound() {
    let old = with(pod("old", "1", "2Gi"), "/metadata/creationTimestamp", "2026-11-01T09:00:00Z".into());
    let folder = RecordingBuilder::new()
        .add(node("small", "4", "8Gi"))
        .add(node("big", "8", "16Gi"))
        .add(on(old, "small"))
        .import();
    let explanation = json_of(folder.path(), &["pod/old", "-n", "shop"]);
    assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(2)), &json!(false)));
    assert_eq!(explanation["why"], "as if not bound to small, where it was at the start of the history");
    // Empty again: with the pod 3 of 4 are free.
    assert_eq!(explanation["nodes"][0]["scores"]["NodeResourcesFit"]["raw"], 75);
    assert_eq!(explanation["happened"]["node"], "small");
    assert_eq!(explanation["happened"].get("boundAt"), None);
}

#[test]
fn a_deleted_pod_is_explained_as_of_when_it_was_pending() {
    let leaving = with(pod("web-1", "2", "1Gi"), "/metadata/deletionTimestamp", time(5).into());
    let folder = three_reasons().change(leaving.clone()).delete(leaving).import();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(4)), &json!(true)));
    assert_eq!(explanation["message"], THREE_REASONS);
    assert_eq!(explanation["happened"]["deletionAt"], time(4));
    assert_eq!(explanation["happened"]["goneAt"], time(5));
    // The timestamp of an event is a little later than what it reports.
    let just_after = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", "2026-11-01T14:00:05.9Z"]);
    assert_eq!(just_after, explanation);
    let error = explain(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(6)]).failure(1);
    assert!(error.contains("it existed from 2026-11-01T14:00:03Z to 2026-11-01T14:00:05Z"), "{error}");
    let error = explain(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(7)]).failure(1);
    assert_eq!(
        error,
        "error: pod \"web-1\" did not exist in namespace shop at 2026-11-01T14:00:07Z: \
         it existed from 2026-11-01T14:00:03Z to 2026-11-01T14:00:05Z\n"
    );
}

#[test]
fn a_pod_deleted_while_pending_is_explained_as_of_its_deletion() {
    let folder = three_reasons().delete(pod("web-1", "2", "1Gi")).import();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", "2026-11-01T14:00:04.02Z"]);
    assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(4)), &json!(true)));
    assert_eq!(explanation["why"], "when it was deleted, still pending");
    assert_eq!(explanation["message"], THREE_REASONS);
}

#[test]
fn a_pod_first_seen_terminating_is_explained_as_if_it_were_not() {
    let leaving = with(pod("late", "1", "2Gi"), "/metadata/deletionTimestamp", time(9).into());
    let failed = with(pod("failed", "1", "2Gi"), "/status/phase", "Failed".into());
    let folder = three_sizes().add(leaving).add(failed).import();
    let explanation = json_of(folder.path(), &["pod/late", "-n", "shop"]);
    assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(4)), &json!(true)));
    assert_eq!(explanation["why"], "when first seen, already terminating");
    assert_eq!((&explanation["decision"], &explanation["node"]), (&json!("placed"), &json!("big")));
    let explanation = json_of(folder.path(), &["pod/late", "-n", "shop", "--at", "end"]);
    assert_eq!(
        (&explanation["why"], &explanation["decision"]),
        (&json!("after its deletion started"), &json!("skipped"))
    );
    let explanation = json_of(folder.path(), &["pod/failed", "-n", "shop"]);
    assert_eq!(explanation["why"], "when first seen, already finished");
    assert_eq!(explanation["node"], "big");
}

const CONFIGURATION: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[test]
fn the_scheduler_configuration_is_from_a_file_or_from_the_history() {
    let weighs_fit = |weight: u32| {
        format!(
            "{CONFIGURATION}profiles:\n- plugins: {{multiPoint: {{enabled: [{{name: NodeResourcesFit, weight: {weight}}}]}}}}\n"
        )
    };
    let recorded = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "metadata": {"name": "kube-scheduler"},
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "NodeResourcesFit", "weight": 5}]}}}],
    });
    let folder = three_sizes().add(recorded).import();
    let score =
        |explanation: &Value| explanation["nodes"][0]["scores"]["NodeResourcesFit"]["weighted"].clone();
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(score(&explanation), 5 * 75);
    assert_eq!(
        explanation["scheduler"]["configuration"],
        json!({"from": "history", "name": "kube-scheduler"})
    );
    // It is later than the pod's decision.
    let explanation = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(3)]);
    assert_eq!(score(&explanation), 75);
    std::fs::write(folder.path().join("new.yaml"), weighs_fit(7)).unwrap();
    let with_file = ["pod/web-1", "-n", "shop", "--scheduler-config", "new.yaml"];
    assert_eq!(score(&json_of(folder.path(), &with_file)), 7 * 75);
    let table = explain(folder.path(), &with_file).success();
    assert!(table.contains("Scheduler:   1.36, configured by new.yaml\n"), "{table}");
    std::fs::write(folder.path().join("bad.yaml"), format!("{CONFIGURATION}percentageOfNodesToScore: 101\n"))
        .unwrap();
    let error =
        explain(folder.path(), &["pod/web-1", "-n", "shop", "--scheduler-config", "bad.yaml"]).failure(1);
    let expected =
        "error: bad.yaml: invalid scheduler configuration: percentageOfNodesToScore: 101 is out of range";
    assert!(error.starts_with(expected), "{error}");
    let error =
        explain(folder.path(), &["pod/web-1", "-n", "shop", "--scheduler-config", "no.yaml"]).failure(1);
    assert!(error.contains("cannot read no.yaml"), "{error}");
}

#[test]
fn older_versions_are_reported_as_unverified() {
    let folder = three_sizes().import();
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop", "--scheduler-version", "1.34"]).success();
    let line = "Scheduler:   defaults of 1.34; this version is not verified\n";
    assert!(table.contains(line), "{table}");
    let error = explain(folder.path(), &["pod/web-1", "--scheduler-version", "1.20"]).failure(2);
    assert!(error.contains("1.32 to 1.36"), "{error}");
}

#[test]
fn a_gap_is_reported() {
    let gap = r#"{"at":"2026-11-01T14:00:04Z","type":"GAP","to":"2026-11-01T14:10:00Z","kinds":["Pod"],"why":"the server was away"}"#;
    let folder = three_sizes().line(gap).import();
    let inside = explain(folder.path(), &["pod/web-1", "-n", "shop", "--at", "2026-11-01T14:05:00Z"]);
    assert!(inside.err.contains("may have been missed: the server was away"), "{}", inside.err);
    assert_eq!(explain(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(3)]).err, "");
}

#[test]
fn gated_and_terminating_pods_are_not_scheduled() {
    let gated = with(pod("gated", "1", "1Gi"), "/spec/schedulingGates", json!([{"name": "quota"}]));
    let leaving = with(pod("leaving", "1", "1Gi"), "/metadata/deletionTimestamp", time(9).into());
    let stranger = with(pod("stranger", "1", "1Gi"), "/spec/schedulerName", "volcano".into());
    let folder = three_sizes().add(gated).add(leaving).add(stranger).import();
    let explanation = json_of(folder.path(), &["pod/gated", "-n", "shop"]);
    assert_eq!(
        (&explanation["decision"], &explanation["gated"]["plugin"]),
        (&json!("gated"), &json!("SchedulingGates"))
    );
    assert_eq!(explanation["reason"], "waiting for scheduling gates: [quota]");
    assert_eq!(explanation.get("message"), None);
    let explanation = json_of(folder.path(), &["pod/leaving", "-n", "shop", "--at", "end"]);
    assert_eq!(explanation["message"], "skip schedule deleting pod: shop/leaving");
    let explanation = json_of(folder.path(), &["pod/stranger", "-n", "shop"]);
    assert_eq!(explanation["decision"], "skipped");
    assert_eq!(explanation["reason"], "no profile for schedulerName \"volcano\"");
    assert_eq!(explanation.get("message"), None);
}

#[test]
fn invalid_requests_are_rejected_with_a_hint() {
    let folder = three_sizes().import();
    let error_of = |arguments: &[&str]| explain(folder.path(), arguments).failure(1);
    assert_eq!(
        error_of(&["pod/web-1"]),
        "error: pod \"web-1\" not found in namespace default; found in namespace shop: use -n\n"
    );
    assert_eq!(error_of(&["pod/never", "-n", "shop"]), "error: pod \"never\" not found in namespace shop\n");
    assert!(
        error_of(&["service/big"]).contains("explain supports pods and nodes, not Service: use pod/NAME")
    );
    assert!(
        error_of(&["wombat/big"]).contains("unknown resource type \"wombat\": use pod/NAME or node/NAME")
    );
    assert!(error_of(&["web-1"]).contains("specify one pod or node: pod/NAME or node/NAME"));
    let error = error_of(&["pod/web-1", "-n", "shop", "--at", "13:00"]);
    assert!(
        error.contains("at 2026-11-01T13:00:00Z: it existed from 2026-11-01T14:00:03Z to the end"),
        "{error}"
    );
    explain(folder.path(), &[]).failure(2);
    explain(folder.path(), &["pod/a", "--manifest", "a.yaml"]).failure(2);
    let empty = tempfile::tempdir().unwrap();
    assert!(explain(empty.path(), &["pod/a"]).failure(1).contains("no .kine file in the current directory"));
    let nodeless = RecordingBuilder::new().add(pod("web-1", "1", "1Gi")).import();
    let of_pod = explain(nodeless.path(), &["pod/web-1", "-n", "shop"]).failure(1);
    assert!(of_pod.contains("has no nodes: the scheduling of pods cannot be explained"), "{of_pod}");
    let of_node = explain(nodeless.path(), &["node/only"]).failure(1);
    assert!(of_node.ends_with(" has no nodes\n"), "{of_node}");
    let early = RecordingBuilder::new().add(pod("web-1", "1", "1Gi")).add(node("only", "4", "8Gi")).import();
    std::fs::write(early.path().join("pod.json"), pod("new", "1", "1Gi").to_string()).unwrap();
    for arguments in [["pod/web-1", "-n", "shop"], ["--manifest", "pod.json", "--nodes"]] {
        assert_eq!(
            explain(early.path(), &[&arguments[..], &["--at", &time(0)]].concat()).failure(1),
            "error: no nodes existed at 2026-11-01T14:00:00Z: the first node was seen at 2026-11-01T14:00:01Z\n"
        );
    }
    let node_deleted = RecordingBuilder::new()
        .add(node("only", "4", "8Gi"))
        .delete(node("only", "4", "8Gi"))
        .add(pod("web-1", "1", "1Gi"))
        .import();
    let explanation = json_of(node_deleted.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(explanation["message"], "no nodes available to schedule pods");
}

#[test]
fn an_invalid_pod_is_reported_with_its_field() {
    let folder = three_sizes().add(with(pod("odd", "1", "1Gi"), "/spec/tolerations", json!("none"))).import();
    let output = explain(folder.path(), &["pod/odd", "-n", "shop"]);
    let text = output.success();
    assert!(text.contains("spec.tolerations"), "{text}");
}
