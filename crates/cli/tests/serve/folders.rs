//! Folders with histories for the server tests, and request bodies.

use std::sync::Arc;

use model::{IncomingChange, Moment, What};

use crate::common::run;

pub(crate) const EVENTS: &str = r#"{"at":"2026-11-01T14:00:00Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1","uid":"n1"}}}
{"at":"2026-11-01T14:00:01Z","type":"ADDED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"p1","labels":{"app":"web"}},"status":{"phase":"Pending"}}}
{"at":"2026-11-01T14:00:05Z","type":"MODIFIED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"p1","labels":{"app":"web"}},"status":{"phase":"Running"}}}
{"at":"2026-11-01T14:10:00Z","type":"GAP","to":"2026-11-01T14:12:00Z","kinds":["Pod"],"why":"the API server was away"}
{"at":"2026-11-01T14:30:00Z","type":"DELETED","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"p1"}}}
"#;

/// A folder with a small history.
pub(crate) fn shop() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("shop.jsonl"), EVENTS).unwrap();
    run(folder.path(), &["import", "shop.jsonl"]).success();
    folder
}

pub(crate) fn demo_history() -> tempfile::TempDir {
    crate::common::demo_history("day.kine")
}

/// A folder with a history of this many pods of about a kilobyte each.
pub(crate) fn many(pods: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let writer = history::Writer::open(&folder.path().join("many.kine")).unwrap();
    for batch in 0..pods.div_ceil(500) {
        let numbers = batch * 500..((batch + 1) * 500).min(pods);
        let changes = numbers.map(|number| added_pod("many", number)).collect();
        writer.append(history::Batch { changes, ..Default::default() }).unwrap();
    }
    writer.close().unwrap();
    folder
}

pub(crate) fn added_pod(source: &str, number: u64) -> IncomingChange {
    let uid = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let object = testobjects::pod(&format!("pod-{number}"))
        .namespace("load")
        .uid(&format!("{uid:016x}"))
        .on(&format!("node-{}", number % 100))
        .set("spec.padding", "x".repeat(900))
        .object();
    IncomingChange {
        seen: Moment::from_nanos(1_793_541_600_000_000_000 + number as i64 * 1_000_000),
        key: object.key(&Arc::from(source)),
        what: What::Added(object),
        inferred: false,
    }
}

/// A request body of SimKube's client.
pub(crate) const EXPORT: &str = r#"{"start_ts": 1793541600, "end_ts": 1793545200, "export_path": "trace.sktrace",
    "filters": {"excluded_namespaces": [], "excluded_labels": []}}"#;

/// A manifest of a pod that is in no history.
pub(crate) const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: never, namespace: web}\n\
    spec: {containers: [{name: a, image: a, resources: {requests: {cpu: 500m}}}]}\n";

/// The query string and body that a route requires.
pub(crate) fn required_input(path: &str, method: &str) -> (&'static str, &'static str) {
    match (path, method) {
        ("/api/v1/histories/{name}/explain", "GET") => ("?pod=web-1&namespace=shop", ""),
        ("/api/v1/histories/{name}/explain", "POST") => ("?", POD),
        ("/api/v1/histories/{name}/replays", "POST") => ("?", "{}"),
        (_, "POST") => ("?", EXPORT),
        (_, _) => ("?", ""),
    }
}
