use std::io::Cursor;
use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::Format;

/// A successful write as an API server logs it, with these fields replaced.
fn event(fields: Value) -> String {
    let mut event = json!({
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "1d2c",
        "stage": "ResponseComplete",
        "requestURI": "/api/v1/namespaces/web/pods/a",
        "verb": "patch",
        "user": {"username": "alice", "groups": ["system:authenticated"]},
        "sourceIPs": ["192.0.2.7"],
        "userAgent": "kubectl/v1.36.4 (linux/amd64)",
        "objectRef": {"resource": "pods", "namespace": "web", "name": "a", "apiVersion": "v1"},
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2026-11-02T14:00:00.100000Z",
        "stageTimestamp": "2026-11-02T14:00:00.200000Z",
    });
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event.to_string()
}

fn items(log: &str) -> ImportItems {
    let input = Input::open("audit.log", Box::new(Cursor::new(log.to_owned()))).unwrap();
    read(input, ReadOptions { source: Arc::from("s"), at: None, now: Moment::MIN })
}

/// One line per change, `ADDED web pods:a`, and per warning.
fn describe_items(items: ImportItems) -> String {
    let lines = items.map(|item| match item.unwrap() {
        ImportItem::Change(observed) => {
            let key = &observed.key;
            assert_eq!((&key.kind, &*key.source), (&kind(), "s"));
            format!("{} {} {}", observed.what.event_type(), key.namespace, key.name)
        }
        ImportItem::Warning(text) => text,
        other => panic!("{other:?}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn check(fields: Value, expected: &str) {
    assert_eq!(describe_items(items(&event(fields))), expected);
}

#[test]
fn a_write_is_a_version_of_the_object_written_to() {
    check(json!({}), "ADDED web pods:a");
    let deployment = json!({"resource": "deployments", "apiGroup": "apps", "namespace": "web", "name": "b"});
    check(json!({"objectRef": deployment}), "ADDED web deployments.apps:b");
    check(json!({"objectRef": {"resource": "nodes", "name": "n"}}), "ADDED  nodes:n");
    // The API server logs a Namespace as being in itself.
    let namespace = json!({"resource": "namespaces", "namespace": "web", "name": "web"});
    check(json!({"objectRef": namespace}), "ADDED  namespaces:web");
    check(json!({"verb": "delete"}), "DELETED web pods:a");
    let all = json!({"resource": "pods", "namespace": "web"});
    check(json!({"verb": "deletecollection", "objectRef": all}), "ADDED web pods:*");
}

#[test]
fn a_deleted_object_is_added_again_by_its_next_write() {
    let log: Vec<String> =
        ["patch", "update", "delete", "create", "patch"].map(|verb| event(json!({"verb": verb}))).into();
    let expected =
        "ADDED web pods:a\nMODIFIED web pods:a\nDELETED web pods:a\nADDED web pods:a\nMODIFIED web pods:a";
    assert_eq!(describe_items(items(&log.join("\n"))), expected);
}

#[test]
fn requests_that_write_nothing_are_counted_and_left_out() {
    let pod = |subresource| json!({"resource": "pods", "namespace": "web", "name": "a", "subresource": subresource});
    let node = json!({"resource": "nodes", "name": "n", "subresource": "status"});
    check(json!({"stage": "RequestReceived"}), "");
    check(json!({"verb": "watch"}), "audit.log: skipped: 1 reads");
    check(json!({"responseStatus": {"code": 409}}), "audit.log: skipped: 1 failed requests");
    check(json!({"responseStatus": null}), "audit.log: skipped: 1 failed requests");
    check(json!({"stage": "Panic"}), "audit.log: skipped: 1 failed requests");
    check(
        json!({"requestURI": "/api/v1/pods/a?fieldManager=x&dryRun=All"}),
        "audit.log: skipped: 1 dry runs",
    );
    check(json!({"verb": "create", "objectRef": null}), "audit.log: skipped: 1 requests without an object");
    check(
        json!({"verb": "create", "objectRef": pod("exec")}),
        "audit.log: skipped: 1 requests that do not write",
    );
    check(
        json!({"objectRef": {"resource": "events", "name": "e"}}),
        "audit.log: skipped: 1 writes of Events",
    );
    let heartbeat = json!({"objectRef": node, "user": {"username": "system:node:n"}});
    check(heartbeat, "audit.log: skipped: 1 node heartbeats");
    check(json!({"objectRef": node}), "ADDED  nodes:n");
    check(json!({"verb": "create", "objectRef": pod("eviction")}), "ADDED web pods:a");
}

#[test]
fn a_generated_name_is_read_from_the_response() {
    let unnamed = json!({"resource": "pods", "namespace": "web"});
    let response = json!({"metadata": {"name": "a-x7", "uid": "u", "resourceVersion": "12"}});
    check(json!({"verb": "create", "objectRef": unnamed, "responseObject": response}), "ADDED web pods:a-x7");
    let descriptions = describe_items(items(&event(json!({"verb": "create", "objectRef": unnamed}))));
    assert!(descriptions.contains("the creators of 1 objects are unknown"), "{descriptions}");
}

#[test]
fn request_and_response_bodies_are_not_stored() {
    let body =
        json!({"metadata": {"name": "a", "resourceVersion": "12"}, "data": {"password": "aHVudGVyMg=="}});
    let log = event(json!({
        "requestObject": body, "responseObject": body, "impersonatedUser": {"username": "bob"},
        "objectRef": {"resource": "secrets", "namespace": "web", "name": "a"},
    }));
    let Some(Ok(ImportItem::Change(observed))) = items(&log).next() else { panic!("a change") };
    let object = observed.what.object();
    assert!(!object.as_str().contains("aHVudGVyMg"), "{}", object.as_str());
    let expected = AuditedWrite {
        received: "2026-11-02T14:00:00.1Z".parse().unwrap(),
        verb: "patch".to_owned(),
        subresource: String::new(),
        user: "alice".to_owned(),
        impersonated_user: Some("bob".to_owned()),
        user_agent: "kubectl/v1.36.4 (linux/amd64)".to_owned(),
        source_ips: vec!["192.0.2.7".to_owned()],
        audit_id: "1d2c".to_owned(),
        resource_version: Some("12".to_owned()),
    };
    assert_eq!(AuditedWrite::from_object(object), Some(expected));
    assert_eq!(observed.seen, "2026-11-02T14:00:00.2Z".parse().unwrap());
    assert!(observed.inferred, "the object is not one that the server stored");
}

#[test]
fn logs_of_several_servers_are_read_in_the_order_of_time() {
    let log = |name: &str, seconds: &[&str]| {
        let line = |second: &&str| {
            let target = json!({"resource": "pods", "name": format!("{name}{second}")});
            event(json!({"objectRef": target, "stageTimestamp": format!("2026-11-02T14:00:{second}Z")}))
        };
        items(&seconds.iter().map(line).collect::<Vec<_>>().join("\n"))
    };
    let merged = merge(vec![log("a", &["01", "04"]), log("b", &["02", "03"]), log("c", &[])]);
    assert_eq!(describe_items(merged), "ADDED  pods:a01\nADDED  pods:b02\nADDED  pods:b03\nADDED  pods:a04");
}

#[test]
fn event_lists_of_webhooks_are_read() {
    let list = format!(
        r#"{{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{{}},"items":[{},{}]}}"#,
        event(json!({})),
        event(json!({"verb": "delete"}))
    );
    let input = Input::open("audit.log", Box::new(Cursor::new(list.clone()))).unwrap();
    assert_eq!(input.format, Some(Format::Audit));
    assert_eq!(describe_items(items(&list)), "ADDED web pods:a\nDELETED web pods:a");
}

#[test]
fn a_log_that_is_being_written_is_read_up_to_its_last_whole_line() {
    let good = event(json!({}));
    let descriptions = describe_items(items(&format!("{good}\n{}", &good[..good.len() - 9])));
    assert!(
        descriptions.starts_with("ADDED web pods:a\naudit.log: the last line is truncated"),
        "{descriptions}"
    );
}

#[test]
fn invalid_events_are_refused_with_their_line() {
    let good = event(json!({}));
    for (bad, words) in [
        (r#"{"kind":"Pod","apiVersion":"v1"}"#, "\"Pod\" of \"v1\" is not an audit event"),
        (&good[..good.len() - 9].replacen("\"verb\"", "verb", 1), "not an audit event"),
        (&event(json!({"stageTimestamp": "yesterday"})), "stageTimestamp \"yesterday\""),
        (r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1"}"#, "missing field"),
    ] {
        let error = items(&format!("{good}\n{bad}")).nth(1).unwrap().unwrap_err().to_string();
        assert!(error.contains(words) && error.contains("audit.log") && error.contains('2'), "{error}");
    }
}
