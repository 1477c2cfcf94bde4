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

use common::{Said, run};
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

    fn push(mut self, word: &str, object: Value, seconds: u32) -> RecordingBuilder {
        let line = json!({"at": time(self.second), "type": word, "object": object});
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
        run(folder.path(), &["import", "film.jsonl"]).fine();
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

fn explain(folder: &Path, arguments: &[&str]) -> Said {
    run(folder, &[&["explain"], arguments].concat())
}

fn json_of(folder: &Path, arguments: &[&str]) -> Value {
    serde_json::from_str(&explain(folder, &[arguments, &["-o", "json"]].concat()).fine()).unwrap()
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
fn a_pod_that_fits_goes_to_the_node_with_most_left() {
    let folder = three_sizes().import();
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(said["pod"], json!({"namespace": "shop", "name": "web-1"}));
    assert_eq!((&said["decision"], &said["node"]), (&json!("placed"), &json!("big")));
    assert_eq!(said.get("message"), None);
    assert_eq!((&said["lookedAt"], &said["fitting"]), (&json!(3), &json!(3)));
    assert_eq!(said["scheduler"]["version"], "1.36");
    assert_eq!(said["scheduler"]["configuration"], json!({"from": "defaults"}));
    // Free cpu and memory in percent, truncated to whole numbers: 3 of 4, 9 of 10, 7 of 8.
    let fit = |node: &Value| node["scores"]["NodeResourcesFit"]["raw"].clone();
    let nodes = said["nodes"].as_array().unwrap();
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
fn the_table_has_the_best_node_first_and_says_what_made_it_so() {
    let folder = three_sizes().import();
    let said = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "Pod:         shop/web-1");
    assert_eq!(lines[1], "As of:       2026-11-01T14:00:03Z, while it waited");
    assert_eq!(lines[2], "Scheduler:   defaults of 1.36");
    assert_eq!(lines[3], "Decision:    it goes to big");
    assert!(lines[4].starts_with("Decided by:  3 ahead of medium: NodeResourcesFit +3"), "{said}");
    let nodes: Vec<&str> = lines.iter().filter_map(|line| line.get(2..)?.split_whitespace().next()).collect();
    let place = |name: &str| nodes.iter().position(|node| *node == name).unwrap();
    assert!(place("big") < place("medium") && place("medium") < place("small"), "{said}");
    assert!(lines.iter().any(|line| line.starts_with("* big ")), "{said}");
    assert!(lines.iter().all(|line| line.len() <= 120), "{said}");
    let wide = explain(folder.path(), &["pod", "web-1", "-n", "shop", "-o", "wide"]).fine();
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
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(said["decision"], "refused");
    assert_eq!(said["message"], THREE_REASONS);
    assert_eq!(said["victims"], json!([]));
    let nodes: Vec<(&str, &str, &str)> = said["nodes"]
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
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    assert!(table.contains("Decision:    no node takes it\n"), "{table}");
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
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(
        said["happened"]["failedScheduling"],
        json!([
            {"at": time(4), "last": time(24), "times": 3, "message": THREE_REASONS, "pod": "shop/web-1"},
            {"at": time(5), "last": time(35), "times": 4, "message": "0/3 nodes are having a bad day", "pod": "shop/web-1"},
        ])
    );
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    let agrees = "FailedScheduling 3 times until 2026-11-01T14:00:24Z, in these words\n";
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
    let film = RecordingBuilder::new().add(node("only", "8", "16Gi")).add(greedy);
    let folder = RecordingBuilder { lines: film.lines.clone(), second: film.second }.import();
    let message =
        json_of(folder.path(), &["pod/web-1", "-n", "shop"])["message"].as_str().unwrap().to_owned();
    assert!(message.len() > 1024, "{message}");
    let cut = format!("{} ...", &message[..1020]);
    let folder = film.add(failed("events.k8s.io/v1", "web-1.1", &cut, 5)).import();
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    assert!(table.contains("14:00:25Z, in these words\n"), "{table}");
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
    let said = json_of(folder.path(), &["pod/strong", "-n", "shop", "--at", &time(3)]);
    assert_eq!((&said["decision"], &said["nominatedNode"]), (&json!("refused"), &json!("only")));
    assert_eq!(said["victims"], json!([{"namespace": "shop", "name": "weaker", "priority": 1}]));
    let victims = said["happened"]["victims"].as_array().unwrap();
    assert_eq!(
        victims.iter().map(|victim| &victim["pod"]).collect::<Vec<_>>(),
        ["shop/weaker", "shop/other"]
    );
    assert_eq!(said["happened"]["nominated"], json!([{"at": time(4), "node": "only"}]));
    let table = explain(folder.path(), &["pod/strong", "-n", "shop", "--at", &time(3)]).fine();
    assert!(table.starts_with("Pod:         shop/strong, priority 1,000\n"), "{table}");
    assert!(table.contains("Decision:    no node takes it, and room is made on only\n"), "{table}");
    assert!(table.contains("Preempts:    shop/weaker (priority 1)\n"), "{table}");
    assert!(table.contains("2026-11-01T14:00:05Z  shop/weaker was deleted to make room for it\n"), "{table}");
    assert!(table.contains("2026-11-01T14:00:04Z  promised only\n"), "{table}");
    let told = |name: &str| {
        let pod = format!("pod/{name}");
        let json = json_of(folder.path(), &[&pod, "-n", "shop"])["happened"]["preempted"].clone();
        (json["by"].clone(), explain(folder.path(), &[&pod, "-n", "shop"]).fine())
    };
    let (by, table) = told("weaker");
    assert_eq!(by, "shop/strong");
    let line = "deleted to make room for shop/strong: \"Preempted by pod uid-of-strong on node only\"\n";
    assert!(table.contains(line), "{table}");
    let (by, table) = told("weak");
    assert_eq!(by, Value::Null, "the history does not know it");
    assert!(table.contains("deleted to make room: \"Preempted by pod uid-of-another on node"), "{table}");
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
fn a_pod_that_was_placed_is_explained_as_of_just_before() {
    let rival = on(pod("rival", "3", "2Gi"), "big");
    // The rival is bound at the same moment as the pod, before it; another one later.
    let folder = three_sizes()
        .add_at_same_time(rival)
        .change(on(pod("web-1", "1", "2Gi"), "medium"))
        .add(on(pod("late", "7", "2Gi"), "medium"))
        .import();
    for at in [None, Some(time(5)), Some(time(4))] {
        let at = at.as_deref().map_or(Vec::new(), |at| vec!["--at", at]);
        let said = json_of(folder.path(), &[&["pod/web-1", "-n", "shop"], &at[..]].concat());
        assert_eq!((&said["at"], &said["before"]), (&json!(time(4)), &json!(true)), "{at:?}");
        // With the rival on it the big node has 6 of 10 and 16 of 20 free.
        assert_eq!(said["nodes"][1]["scores"]["NodeResourcesFit"]["raw"], 70, "{at:?}");
        assert_eq!(said["node"], "medium", "{at:?}");
        assert_eq!(said["happened"]["node"], "medium");
        assert_eq!(said["happened"]["boundAt"], time(4));
    }
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine();
    assert!(
        table.contains("As of:       just before 2026-11-01T14:00:04Z, when it was bound to medium\n"),
        "{table}"
    );
    assert!(table.contains("Happened:    2026-11-01T14:00:04Z  bound to medium\n"), "{table}");
    let waiting = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(3)]);
    assert_eq!((&waiting["before"], &waiting["node"]), (&json!(false), &json!("big")));
}

#[test]
fn another_recorded_node_is_shown_with_its_rank() {
    let otherwise = |node: &str| {
        let folder = three_sizes().change(on(pod("web-1", "1", "2Gi"), node)).import();
        explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine()
    };
    let table = otherwise("small");
    assert!(table.contains("  bound to small, number 3 of the 3 that fit\n"), "{table}");
    // Among equal nodes the first is chosen.
    let twins = RecordingBuilder::new()
        .add(node("a", "4", "8Gi"))
        .add(node("b", "4", "8Gi"))
        .add(pod("web-1", "1", "2Gi"));
    let said = |on_node: &str| {
        let film = RecordingBuilder { lines: twins.lines.clone(), second: twins.second };
        let folder = film.change(on(pod("web-1", "1", "2Gi"), on_node)).import();
        explain(folder.path(), &["pod/web-1", "-n", "shop"]).fine()
    };
    let tables = ["a", "b"].map(said);
    assert!(tables.iter().any(|table| table.contains("  bound to a\n") || table.contains("  bound to b\n")));
    let equally = tables.iter().filter(|table| table.contains(", which is equally good\n")).count();
    assert_eq!(equally, 1, "{tables:?}");
    let table = otherwise("gone");
    assert!(table.contains("  bound to gone, which does not fit here\n"), "{table}");
}

#[test]
fn a_pod_may_be_scheduled_before_a_recorder_sees_it() {
    let film = three_sizes().push(
        "ADDED",
        with(pod("new", "1", "1Gi"), "/metadata/creationTimestamp", time(4).into()),
        1,
    );
    let line = film.lines.replace(r#""at":"2026-11-01T14:00:04Z""#, r#""at":"2026-11-01T14:00:04.5Z""#);
    let folder = RecordingBuilder { lines: line, second: film.second }.import();
    let said = json_of(folder.path(), &["pod/new", "-n", "shop", "--at", "2026-11-01T14:00:04.499Z"]);
    assert_eq!((&said["at"], &said["node"]), (&json!("2026-11-01T14:00:04.499Z"), &json!("big")));
    assert_eq!(said["why"], "1ms before the history saw it");
    let error = explain(folder.path(), &["pod/new", "-n", "shop", "--at", "2026-11-01T14:00:03.9Z"]).wrong(1);
    assert!(error.contains("it lived from 2026-11-01T14:00:04.5Z"), "{error}");
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
        let said = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", at]);
        assert_eq!(said["before"], false, "{at}");
        said["nodes"][1]["scores"]["NodeResourcesFit"]["raw"].clone()
    };
    assert_eq!(left_on_big("2026-11-01T14:00:04.940Z"), 90, "60 ms before the rival was bound");
    assert_eq!(left_on_big("2026-11-01T14:00:04.970Z"), 70, "30 ms before it");
    assert_eq!(left_on_big("2026-11-01T14:00:05.970Z"), 70, "30 ms before it was bound itself");
}

#[test]
fn a_pod_that_was_there_before_the_history_is_taken_off_its_node() {
    let old = with(pod("old", "1", "2Gi"), "/metadata/creationTimestamp", "2026-11-01T09:00:00Z".into());
    let folder = RecordingBuilder::new()
        .add(node("small", "4", "8Gi"))
        .add(node("big", "8", "16Gi"))
        .add(on(old, "small"))
        .import();
    let said = json_of(folder.path(), &["pod/old", "-n", "shop"]);
    assert_eq!((&said["at"], &said["before"]), (&json!(time(2)), &json!(false)));
    assert_eq!(said["why"], "taken off small, where it was when the history begins");
    // Empty again: with the pod 3 of 4 are free.
    assert_eq!(said["nodes"][0]["scores"]["NodeResourcesFit"]["raw"], 75);
    assert_eq!(said["happened"]["node"], "small");
    assert_eq!(said["happened"].get("boundAt"), None);
}

#[test]
fn a_pod_that_is_gone_is_explained_as_of_when_it_still_waited() {
    let leaving = with(pod("web-1", "2", "1Gi"), "/metadata/deletionTimestamp", time(5).into());
    let folder = three_reasons().change(leaving.clone()).delete(leaving).import();
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!((&said["at"], &said["before"]), (&json!(time(4)), &json!(true)));
    assert_eq!(said["message"], THREE_REASONS);
    assert_eq!(said["happened"]["deletionAt"], time(4));
    assert_eq!(said["happened"]["goneAt"], time(5));
    // The timestamp of an event is a little later than what it reports.
    let just_after = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", "2026-11-01T14:00:05.9Z"]);
    assert_eq!(just_after, said);
    let error = explain(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(6)]).wrong(1);
    assert!(error.contains("it lived from 2026-11-01T14:00:03Z to 2026-11-01T14:00:05Z"), "{error}");
    let error = explain(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(7)]).wrong(1);
    assert_eq!(
        error,
        "error: there was no pod \"web-1\" in namespace shop at 2026-11-01T14:00:07Z: \
         it lived from 2026-11-01T14:00:03Z to 2026-11-01T14:00:05Z\n"
    );
}

#[test]
fn a_pod_that_is_gone_at_once_is_explained_as_of_just_before() {
    let folder = three_reasons().delete(pod("web-1", "2", "1Gi")).import();
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", "2026-11-01T14:00:04.02Z"]);
    assert_eq!((&said["at"], &said["before"]), (&json!(time(4)), &json!(true)));
    assert_eq!(said["why"], "when it was gone, having waited in vain");
    assert_eq!(said["message"], THREE_REASONS);
}

#[test]
fn a_pod_first_seen_on_its_way_out_is_explained_as_if_it_had_stayed() {
    let leaving = with(pod("late", "1", "2Gi"), "/metadata/deletionTimestamp", time(9).into());
    let failed = with(pod("failed", "1", "2Gi"), "/status/phase", "Failed".into());
    let folder = three_sizes().add(leaving).add(failed).import();
    let said = json_of(folder.path(), &["pod/late", "-n", "shop"]);
    assert_eq!((&said["at"], &said["before"]), (&json!(time(4)), &json!(true)));
    assert_eq!(said["why"], "when the history first saw it, being deleted already");
    assert_eq!((&said["decision"], &said["node"]), (&json!("placed"), &json!("big")));
    let said = json_of(folder.path(), &["pod/late", "-n", "shop", "--at", "end"]);
    assert_eq!((&said["why"], &said["decision"]), (&json!("after its deletion began"), &json!("skipped")));
    let said = json_of(folder.path(), &["pod/failed", "-n", "shop"]);
    assert_eq!(said["why"], "when the history first saw it, at its end already");
    assert_eq!(said["node"], "big");
}

const CONFIGURATION: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

#[test]
fn the_scheduler_is_set_as_a_file_says_else_as_the_history_says() {
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
    let score = |said: &Value| said["nodes"][0]["scores"]["NodeResourcesFit"]["weighted"].clone();
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(score(&said), 5 * 75);
    assert_eq!(said["scheduler"]["configuration"], json!({"from": "history", "name": "kube-scheduler"}));
    // It is later than the pod's decision.
    let said = json_of(folder.path(), &["pod/web-1", "-n", "shop", "--at", &time(3)]);
    assert_eq!(score(&said), 75);
    std::fs::write(folder.path().join("new.yaml"), weighs_fit(7)).unwrap();
    let with_file = ["pod/web-1", "-n", "shop", "--scheduler-config", "new.yaml"];
    assert_eq!(score(&json_of(folder.path(), &with_file)), 7 * 75);
    let table = explain(folder.path(), &with_file).fine();
    assert!(table.contains("Scheduler:   1.36, set by new.yaml\n"), "{table}");
    std::fs::write(folder.path().join("bad.yaml"), format!("{CONFIGURATION}percentageOfNodesToScore: 101\n"))
        .unwrap();
    let error =
        explain(folder.path(), &["pod/web-1", "-n", "shop", "--scheduler-config", "bad.yaml"]).wrong(1);
    assert!(error.starts_with("error: bad.yaml: bad scheduler configuration: "), "{error}");
    assert!(error.ends_with("(percentageOfNodesToScore)\n"), "{error}");
    let error =
        explain(folder.path(), &["pod/web-1", "-n", "shop", "--scheduler-config", "no.yaml"]).wrong(1);
    assert!(error.contains("cannot read no.yaml"), "{error}");
}

#[test]
fn older_rules_are_said_to_be_unverified() {
    let folder = three_sizes().import();
    let table = explain(folder.path(), &["pod/web-1", "-n", "shop", "--scheduler-version", "1.34"]).fine();
    let line = "Scheduler:   defaults of 1.34; the rules of that version are not verified\n";
    assert!(table.contains(line), "{table}");
    let error = explain(folder.path(), &["pod/web-1", "--scheduler-version", "1.20"]).wrong(2);
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
    let said = json_of(folder.path(), &["pod/gated", "-n", "shop"]);
    assert_eq!((&said["decision"], &said["gated"]["plugin"]), (&json!("gated"), &json!("SchedulingGates")));
    assert_eq!(said["reason"], "waiting for scheduling gates: [quota]");
    assert_eq!(said.get("message"), None);
    let said = json_of(folder.path(), &["pod/leaving", "-n", "shop", "--at", "end"]);
    assert_eq!(said["message"], "skip schedule deleting pod: shop/leaving");
    let said = json_of(folder.path(), &["pod/stranger", "-n", "shop"]);
    assert_eq!(said["decision"], "skipped");
    assert_eq!(said["reason"], "no profile for schedulerName \"volcano\"");
    assert_eq!(said.get("message"), None);
}

#[test]
fn invalid_requests_are_rejected_with_a_hint() {
    let folder = three_sizes().import();
    let wrong = |arguments: &[&str]| explain(folder.path(), arguments).wrong(1);
    assert_eq!(
        wrong(&["pod/web-1"]),
        "error: the history never saw a pod \"web-1\" in namespace default; there is one in shop: say so with -n\n"
    );
    assert_eq!(
        wrong(&["pod/never", "-n", "shop"]),
        "error: the history never saw a pod \"never\" in namespace shop\n"
    );
    assert!(
        wrong(&["service/big"]).contains("a pod is scheduled or a node removed, and a Service is neither")
    );
    assert!(wrong(&["wombat/big"]).contains("\"wombat\" is no word for either"));
    assert!(wrong(&["web-1"]).contains("name one pod or node: pod/NAME, node/NAME"));
    let error = wrong(&["pod/web-1", "-n", "shop", "--at", "13:00"]);
    assert!(
        error.contains("at 2026-11-01T13:00:00Z: it lived from 2026-11-01T14:00:03Z to the end"),
        "{error}"
    );
    explain(folder.path(), &[]).wrong(2);
    explain(folder.path(), &["pod/a", "--manifest", "a.yaml"]).wrong(2);
    let empty = tempfile::tempdir().unwrap();
    assert!(explain(empty.path(), &["pod/a"]).wrong(1).contains("there is no .kine file in this folder"));
    let nodeless = RecordingBuilder::new().add(pod("web-1", "1", "1Gi")).import();
    let of_pod = explain(nodeless.path(), &["pod/web-1", "-n", "shop"]).wrong(1);
    assert!(of_pod.contains("holds no nodes: nothing can be said of where a pod goes"), "{of_pod}");
    let of_node = explain(nodeless.path(), &["node/only"]).wrong(1);
    assert!(of_node.contains("holds no nodes: there is none to explain"), "{of_node}");
    let early = RecordingBuilder::new().add(pod("web-1", "1", "1Gi")).add(node("only", "4", "8Gi")).import();
    std::fs::write(early.path().join("pod.json"), pod("new", "1", "1Gi").to_string()).unwrap();
    for asked in [["pod/web-1", "-n", "shop"], ["--manifest", "pod.json", "--nodes"]] {
        assert_eq!(
            explain(early.path(), &[&asked[..], &["--at", &time(0)]].concat()).wrong(1),
            "error: there was no node yet at 2026-11-01T14:00:00Z: the first one was seen at 2026-11-01T14:00:01Z\n"
        );
    }
    let gone = RecordingBuilder::new()
        .add(node("only", "4", "8Gi"))
        .delete(node("only", "4", "8Gi"))
        .add(pod("web-1", "1", "1Gi"))
        .import();
    let said = json_of(gone.path(), &["pod/web-1", "-n", "shop"]);
    assert_eq!(said["message"], "no nodes available to schedule pods");
}

#[test]
fn an_invalid_pod_is_reported_with_its_field() {
    let folder = three_sizes().add(with(pod("odd", "1", "1Gi"), "/spec/tolerations", json!("none"))).import();
    let said = explain(folder.path(), &["pod/odd", "-n", "shop"]);
    let text = said.fine();
    assert!(text.contains("spec.tolerations"), "{text}");
}
