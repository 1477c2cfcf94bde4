//! Folders with histories to be served.

use std::sync::Arc;

use model::{Moment, Observed, What};

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
    run(folder.path(), &["import", "shop.jsonl"]).fine();
    folder
}

pub(crate) fn day() -> tempfile::TempDir {
    crate::common::day("day.kine")
}

/// A folder with a history of so many pods of a kilobyte, and its bytes as lines, about.
pub(crate) fn many(pods: u64) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let writer = history::Writer::open(&folder.path().join("many.kine")).unwrap();
    for batch in 0..pods.div_ceil(500) {
        let numbers = batch * 500..((batch + 1) * 500).min(pods);
        let changes = numbers.map(|number| added("many", number)).collect();
        writer.append(history::Batch { changes, ..Default::default() }).unwrap();
    }
    writer.close().unwrap();
    folder
}

pub(crate) fn added(source: &str, number: u64) -> Observed {
    let uid = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let object = testobjects::pod(&format!("pod-{number}"))
        .namespace("load")
        .uid(&format!("{uid:016x}"))
        .on(&format!("node-{}", number % 100))
        .set("spec.padding", "x".repeat(900))
        .object();
    Observed {
        seen: Moment::from_nanos(1_793_541_600_000_000_000 + number as i64 * 1_000_000),
        key: object.key(&Arc::from(source)),
        what: What::Added(object),
        inferred: false,
    }
}

/// What a client of SimKube's tracer asks for.
pub(crate) const EXPORT: &str = r#"{"start_ts": 1793541600, "end_ts": 1793545200, "export_path": "trace.sktrace",
    "filters": {"excluded_namespaces": [], "excluded_labels": []}}"#;

/// A pod that never was.
pub(crate) const POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: {name: never, namespace: web}\n\
    spec: {containers: [{name: a, image: a, resources: {requests: {cpu: 500m}}}]}\n";

/// What must be said to a route to be answered at all: what stands behind the path, and what is sent.
pub(crate) fn question(path: &str, method: &str) -> (&'static str, &'static str) {
    match (path, method) {
        ("/api/v1/histories/{name}/explain", "GET") => ("?pod=web-1&namespace=shop", ""),
        ("/api/v1/histories/{name}/explain", "POST") => ("?", POD),
        ("/api/v1/histories/{name}/replays", "POST") => ("?", "{}"),
        (_, "POST") => ("?", EXPORT),
        (_, _) => ("?", ""),
    }
}
