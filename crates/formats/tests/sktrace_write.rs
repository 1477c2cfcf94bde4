//! Tests of writing SimKube's traces. Another test compares them with SimKube's own code.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{Cursor, Write};
use std::sync::{Arc, Mutex};

use common::describe_changes;
use formats::sktrace::{self, TraceFilters, TracerConfig};
use formats::{Format, ImportItem, Input, ReadOptions, WriteSummary, Writer};
use kubernetes::selector::Selector;
use model::{Change, Gap, IncomingChange, Moment, Object, What, Window};
use serde_json::{Value, json};
use testobjects::object;

/// An output that can be read after the writer has been consumed.
#[derive(Clone, Default)]
struct SharedOutput(Arc<Mutex<Vec<u8>>>);

impl Write for SharedOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The moment at this many tenths of a second.
fn tenth(tenths: i64) -> Moment {
    Moment::from_nanos(tenths * 100_000_000)
}

struct TraceExport {
    config: TracerConfig,
    window: Window,
    filters: TraceFilters,
    changes: Vec<(i64, What)>,
}

impl TraceExport {
    /// Exports these changes, whose times are in tenths of a second.
    fn of(changes: Vec<(i64, What)>) -> TraceExport {
        TraceExport {
            config: TracerConfig::default(),
            window: Window::ALL,
            filters: TraceFilters::default(),
            changes,
        }
    }

    fn tracking(mut self, config: &str) -> TraceExport {
        self.config = TracerConfig::parse("config", config).unwrap().0;
        self
    }

    /// Restricts the export to a window in seconds.
    fn within(mut self, from: i64, to: i64) -> TraceExport {
        self.window = Window { from: tenth(from * 10), to: tenth(to * 10) };
        self
    }

    fn bytes(&self) -> (Vec<u8>, WriteSummary) {
        let out = SharedOutput::default();
        let (config, filters) = (self.config.clone(), self.filters.clone());
        let mut writer =
            Box::new(sktrace::SktraceWriter::new(out.clone(), config, self.window, filters).unwrap());
        for (seq, (tenths, what)) in self.changes.iter().enumerate() {
            let at = tenth(*tenths);
            let key = what.object().key(&"s".into());
            let change = Change { seq: seq as i64, at, seen: at, key, what: what.clone(), inferred: false };
            writer.change(&change).unwrap();
        }
        let written = writer.finish().unwrap();
        let bytes = out.0.lock().unwrap().clone();
        (bytes, written)
    }

    fn read(&self) -> Vec<IncomingChange> {
        let (bytes, written) = self.bytes();
        assert_eq!(self.bytes().0, bytes, "the second trace differs");
        let found = read(bytes);
        assert_eq!(written.count, found.iter().filter(|seen| !seen.inferred).count() as u64);
        found
    }

    /// Checks the changes of the trace, except for the configuration that comes first.
    #[track_caller]
    fn assert_changes(&self, expected: &[&str]) {
        let found = describe_changes(&self.read());
        assert_eq!(&found[1..], expected);
    }

    #[track_caller]
    fn assert_left_out(&self, expected: &[(&str, u64)]) {
        let written = self.bytes().1;
        assert_eq!(written.left_out.iter().collect::<Vec<_>>(), expected);
    }
}

fn read(bytes: Vec<u8>) -> Vec<IncomingChange> {
    let input = Input::open("file", Box::new(Cursor::new(bytes))).unwrap();
    assert_eq!(input.format, Some(Format::Sktrace));
    let options = ReadOptions { source: "s".into(), at: None, now: Moment::from_nanos(0) };
    let change = |item| match item {
        ImportItem::Change(observed) => observed,
        other => panic!("{other:?}"),
    };
    formats::read(input, Format::Sktrace, options).unwrap().map(|item| change(item.unwrap())).collect()
}

/// The object `kind/name` in the namespace `shop`, with `more` merged into it.
fn object_with(name: &str, more: Value) -> Object {
    let (kind, name) = name.split_once('/').unwrap();
    let api_version = match kind {
        "Pod" | "ServiceAccount" | "Namespace" => "v1",
        "Job" | "CronJob" => "batch/v1",
        _ => "apps/v1",
    };
    let mut made =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "shop"}});
    merge(&mut made, more);
    object(&made)
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(fields), Value::Object(more)) => {
            for (name, value) in more {
                merge(fields.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

fn deployment(name: &str, replicas: i64) -> Object {
    let template = json!({"spec": {"containers": [{"name": "c"}]}});
    object_with(&format!("Deployment/{name}"), json!({"spec": {"replicas": replicas, "template": template}}))
}

fn owned_by(kind: &str, name: &str) -> Value {
    let api_version = if kind.ends_with("Job") { "batch/v1" } else { "apps/v1" };
    json!({"metadata": {"ownerReferences": [{"apiVersion": api_version, "kind": kind, "name": name, "uid": "", "controller": true}]}})
}

/// A pod that ran between these seconds.
fn pod(name: &str, more: Value, from: Option<i64>, to: Option<i64>) -> Object {
    let time = |second: i64| tenth(second * 10).to_string();
    let state = match (from, to) {
        (Some(from), Some(to)) => {
            json!({"terminated": {"startedAt": time(from), "finishedAt": time(to), "exitCode": 0}})
        }
        (Some(from), None) => json!({"running": {"startedAt": time(from)}}),
        _ => json!({"waiting": {}}),
    };
    let phase = if to.is_some() { "Succeeded" } else { "Running" };
    let mut all = json!({"spec": {"containers": [{"name": "c"}], "nodeName": "n"},
                         "status": {"phase": phase, "containerStatuses": [{"name": "c", "state": state}]}});
    merge(&mut all, more);
    object_with(&format!("Pod/{name}"), all)
}

#[test]
fn changes_of_a_spec_are_events_of_their_second() {
    let status = object_with("Deployment/web", json!({"spec": {"replicas": 1}, "status": {"replicas": 1}}));
    let first = object_with("Deployment/web", json!({"spec": {"replicas": 1}}));
    let export = TraceExport::of(vec![
        (1005, What::Added(first)),
        (1007, What::Modified(status)),
        (1009, What::Modified(deployment("web", 2))),
        (1010, What::Modified(deployment("web", 3))),
        (1025, What::Deleted(deployment("web", 3))),
    ]);
    export.assert_changes(&[
        "100 + Deployment.apps shop/web",
        "100 ~ Deployment.apps shop/web",
        "101 ~ Deployment.apps shop/web",
        "102 - Deployment.apps shop/web",
    ]);
    export.assert_left_out(&[("changes of only status or metadata", 1)]);
    let found = export.read();
    assert_eq!(
        found[1].what.object().as_str(),
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{},"name":"web","namespace":"shop"},"spec":{"replicas":1}}"#
    );
    assert_eq!(
        found[4].what.object().as_str(),
        r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}"#
    );
}

#[test]
fn objects_from_before_the_window_are_the_first_event() {
    let export = TraceExport::of(vec![
        (10, What::Added(deployment("web", 1))),
        (20, What::Modified(deployment("web", 2))),
        // The same name with another kind.
        (30, What::Added(object_with("StatefulSet/web", json!({"spec": {}})))),
        (40, What::Added(deployment("gone", 1))),
        (50, What::Deleted(deployment("gone", 1))),
        (1_000, What::Modified(deployment("web", 3))),
        (1_100, What::Modified(deployment("web", 4))),
    ])
    .within(90, 110);
    export.assert_changes(&[
        "90 + Deployment.apps shop/web",
        "90 + StatefulSet.apps shop/web",
        "100 ~ Deployment.apps shop/web",
    ]);
    let first = export.read()[1].what.object().value().unwrap();
    assert_eq!(first["spec"]["replicas"], 2);
}

#[test]
fn an_object_deleted_and_created_again_in_one_second_exists_afterwards() {
    TraceExport::of(vec![
        (100, What::Added(deployment("web", 1))),
        (101, What::Deleted(deployment("web", 1))),
        (102, What::Added(deployment("web", 1))),
        (103, What::Deleted(deployment("web", 1))),
        (104, What::Added(deployment("web", 1))),
    ])
    .assert_changes(&[
        "10 + Deployment.apps shop/web",
        "10 - Deployment.apps shop/web",
        "10 + Deployment.apps shop/web",
        "10 - Deployment.apps shop/web",
        "10 + Deployment.apps shop/web",
    ]);
}

#[test]
fn objects_owned_by_an_exported_object_are_not_exported() {
    // Lists may return owned objects before their owner; an owner chain may contain kinds that are not tracked.
    let config =
        "trackedObjects: {batch/v1.CronJob: {}, batch/v1.Job: {}, apps/v1.Deployment: {}, v1.Pod: {}}";
    let export = TraceExport::of(vec![
        (100, What::Added(object_with("Job/night-1", owned_by("CronJob", "night")))),
        (101, What::Added(object_with("CronJob/night", json!({})))),
        (102, What::Added(pod("web-1-a", owned_by("ReplicaSet", "web-1"), None, None))),
        (103, What::Added(object_with("ReplicaSet/web-1", owned_by("Deployment", "web")))),
        (104, What::Added(deployment("web", 1))),
        (105, What::Added(object_with("Job/alone", owned_by("Untracked", "u")))),
        (120, What::Deleted(object_with("Job/night-1", json!({})))),
        (130, What::Added(pod("agent", owned_by("DaemonSet", "agent"), None, None))),
        (131, What::Added(object_with("Namespace/shop", json!({"metadata": {"namespace": ""}})))),
    ])
    .tracking(config);
    let expected =
        ["10 + CronJob.batch shop/night", "10 + Deployment.apps shop/web", "10 + Job.batch shop/alone"];
    export.assert_changes(&expected);
    export.assert_left_out(&[
        ("changes of objects owned by a DaemonSet", 1),
        ("changes of objects whose owner is in the trace", 2),
        ("changes of untracked kinds", 2),
        ("deletions of skipped objects", 1),
    ]);
}

#[test]
fn before_the_window_an_owner_may_appear_seconds_later() {
    TraceExport::of(vec![
        (100, What::Added(object_with("Job/night-1", owned_by("CronJob", "night")))),
        (150, What::Added(object_with("CronJob/night", json!({})))),
        (600, What::Deleted(object_with("Job/night-1", json!({})))),
    ])
    .within(50, 70)
    .assert_changes(&["50 + CronJob.batch shop/night"]);
}

#[test]
fn owned_objects_are_skipped_with_skip_owned() {
    let export = TraceExport::of(vec![
        (100, What::Added(pod("owned", owned_by("Untracked", "u"), None, None))),
        (100, What::Added(pod("bare", json!({}), None, None))),
        (110, What::Deleted(pod("owned", json!({}), None, None))),
    ]);
    export.assert_changes(&["10 + Pod shop/bare"]);
    export.assert_left_out(&[("changes of owned objects", 1), ("deletions of skipped objects", 1)]);
    let bare = export.read()[1].what.object().value().unwrap();
    assert_eq!(bare["spec"], json!({"containers": [{"name": "c"}]}), "the node name is not written");
}

#[test]
fn filters_hold_for_deletes_too() {
    let labeled =
        object_with("Deployment/secret", json!({"metadata": {"labels": {"hide": "yes"}}, "spec": {}}));
    let elsewhere =
        object_with("Deployment/web", json!({"metadata": {"namespace": "kube-system"}, "spec": {}}));
    let mut export = TraceExport::of(vec![
        (100, What::Added(labeled)),
        (100, What::Added(elsewhere.clone())),
        (100, What::Added(deployment("web", 1))),
        (110, What::Deleted(object_with("Deployment/secret", json!({})))),
        (110, What::Deleted(elsewhere)),
    ]);
    export.filters = TraceFilters {
        excluded_namespaces: vec!["kube-system".to_owned()],
        excluded_labels: vec![Selector::parse("hide=yes").unwrap()],
    };
    export.assert_changes(&["10 + Deployment.apps shop/web"]);
    export.assert_left_out(&[
        ("changes in excluded namespaces", 1),
        ("changes of objects with excluded labels", 1),
        ("deletions of skipped objects", 2),
    ]);
}

/// The lifecycles in a trace: `from-to` with the name of the owner.
fn lifecycles(found: &[IncomingChange]) -> Vec<String> {
    let mut lives: Vec<String> = Vec::new();
    for seen in found.iter().filter(|seen| seen.inferred && &*seen.key.kind.kind == "Pod") {
        let pod = seen.what.object().value().unwrap();
        let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or("itself");
        let state = &pod["status"]["containerStatuses"][0]["state"];
        let time = |text: &Value| text.as_str().unwrap().parse::<Moment>().unwrap().nanos() / 1_000_000_000;
        if let Some(running) = state.get("running") {
            lives.push(format!("{owner} {}", time(&running["startedAt"])));
        }
        if let Some(ended) = state.get("terminated") {
            let (start, end) = (time(&ended["startedAt"]), time(&ended["finishedAt"]));
            let begun = lives.iter_mut().find(|life| **life == format!("{owner} {start}")).unwrap();
            *begun = format!("{owner} {start}-{end}");
        }
    }
    lives
}

#[test]
fn lifecycles_that_overlap_the_window_are_written() {
    let of_job = || owned_by("Job", "job");
    let export = TraceExport::of(vec![
        (10, What::Added(pod("before", of_job(), Some(1), Some(9)))),
        (11, What::Added(pod("into", of_job(), Some(2), None))),
        (12, What::Added(pod("through", of_job(), Some(3), None))),
        // Its owner appears only after it.
        (20, What::Added(object_with("Job/job", json!({"spec": {}})))),
        (1_100, What::Added(pod("inside", of_job(), Some(105), None))),
        (1_150, What::Modified(pod("into", of_job(), Some(2), Some(114)))),
        (1_160, What::Deleted(pod("inside", of_job(), Some(105), None))),
        (1_170, What::Added(pod("loose", owned_by("Untracked", "u"), Some(117), None))),
        (1_180, What::Added(pod("bare", json!({}), Some(118), None))),
        (2_000, What::Modified(pod("through", of_job(), Some(3), Some(199)))),
    ])
    .within(100, 200);
    assert_eq!(lifecycles(&export.read()), ["job 100-114", "job 100", "job 105-116", "itself 118"]);
    let mut longer = export;
    longer.window.to = tenth(2_010);
    assert_eq!(lifecycles(&longer.read()), ["job 100-114", "job 100-199", "job 105-116", "itself 118"]);
}

#[test]
fn a_pod_created_again_under_its_name_has_two_lifecycles() {
    let of_set = |uid: &str| {
        let mut more = owned_by("StatefulSet", "db");
        merge(&mut more, json!({"metadata": {"uid": uid}}));
        more
    };
    let export = TraceExport::of(vec![
        (100, What::Added(object_with("StatefulSet/db", json!({"spec": {}})))),
        (110, What::Added(pod("db-0", of_set("1"), Some(11), None))),
        (200, What::Deleted(pod("db-0", of_set("1"), Some(11), None))),
        (210, What::Added(pod("db-0", of_set("2"), Some(21), None))),
    ]);
    assert_eq!(lifecycles(&export.read()), ["db 11-20", "db 21"]);
}

#[test]
fn bare_pods_that_finished_before_the_window_are_left_out() {
    TraceExport::of(vec![
        (10, What::Added(pod("ended", json!({}), None, None))),
        (20, What::Modified(pod("ended", json!({}), Some(2), Some(5)))),
        (30, What::Added(pod("runs", json!({}), Some(3), None))),
        (1_000, What::Deleted(pod("ended", json!({}), Some(2), Some(5)))),
    ])
    .within(90, 200)
    .assert_changes(&["90 + Pod shop/runs", "[90 ~ Pod shop/runs]"]);
}

#[test]
fn kinds_without_a_template_are_in_the_events_alone() {
    let export = TraceExport::of(vec![
        (100, What::Added(object_with("ServiceAccount/robot", json!({})))),
        (
            101,
            What::Modified(object_with("ServiceAccount/robot", json!({"metadata": {"labels": {"a": "b"}}}))),
        ),
    ])
    .tracking("trackedObjects: {v1.ServiceAccount: {}, apps/v1.Deployment: {}}");
    export.assert_changes(&["10 + ServiceAccount shop/robot"]);
    let kept = export.read()[0].what.object().value().unwrap();
    assert_eq!(
        kept["trackedObjects"],
        json!({"apps/v1.Deployment": {"podSpecTemplatePaths": ["/spec/template"]}})
    );
}

#[test]
fn an_empty_history_makes_a_trace_and_gaps_are_counted() {
    let out = SharedOutput::default();
    let (config, filters) = (TracerConfig::default(), TraceFilters::default());
    let mut writer =
        Box::new(sktrace::SktraceWriter::new(out.clone(), config, Window::ALL, filters).unwrap());
    let (from, to) = (tenth(1), tenth(2));
    writer.gap(&Gap { source: "s".into(), kinds: vec![], from, to, why: String::new() }).unwrap();
    let written = writer.finish().unwrap();
    assert_eq!(written.left_out.iter().collect::<Vec<_>>(), [("gaps", 1)]);
    assert_eq!(read(out.0.lock().unwrap().clone()).len(), 1);
}

#[test]
fn a_star_in_a_path_must_match_an_array() {
    let config = "trackedObjects: {example.com/v1.Flow: {podSpecTemplatePaths: [/spec/tasks/*/template], trackLifecycle: true}}";
    let flow = |tasks: Value| {
        let flow = json!({"apiVersion": "example.com/v1", "kind": "Flow",
                          "metadata": {"name": "f", "namespace": "d"}, "spec": {"tasks": tasks}});
        vec![(0, What::Added(object(&flow)))]
    };
    let written = |tasks: Value| {
        let export = TraceExport::of(flow(tasks)).tracking(config);
        let mut writer = sktrace::SktraceWriter::new(
            Vec::new(),
            export.config.clone(),
            export.window,
            TraceFilters::default(),
        )
        .unwrap();
        let (at, what) = (tenth(0), export.changes[0].1.clone());
        let key = what.object().key(&"s".into());
        writer.change(&Change { seq: 1, at, seen: at, key, what, inferred: false })
    };
    written(json!([{"template": {}}])).unwrap();
    assert_eq!(
        written(json!({"template": {}})).unwrap_err().to_string(),
        "the tracer configuration, example.com/v1.Flow: the * of \"/spec/tasks/*/template\" does not match an array, as in d/f"
    );
}
