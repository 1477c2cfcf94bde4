use std::sync::Mutex;

use super::super::tests::{EMPTY_DISCOVERY, batches, only, recorded_events};
use super::super::{ResumeState, WatchScope};
use super::*;
use crate::connection::tests::http_response;

const NODE: &str = r#"{"metadata":{"name":"N"},"timestamp":"2026-11-01T00:00:0TZ","window":"20s","usage":{"cpu":"5m","memory":"9Ki"}}"#;
const POD: &str = r#"{"metadata":{"name":"web-1","namespace":"web"},"timestamp":"2026-11-01T00:00:0TZ","window":"15s","containers":[{"name":"app","usage":{"cpu":"1m","memory":"2Ki"}}]}"#;

/// A server with these responses to the requests for nodes, the last one repeated: `n1@3` is a node and the second of
/// its sample, `503` a failure. Each sample has the same pod.
fn server(samples: &'static [&'static [&'static str]]) -> impl Fn(&str) -> String + Send + 'static {
    let request_count = Mutex::new(0);
    move |path| match path {
        "/version" => http_response("200 OK", "{}"),
        "/api" | "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
        "/apis/metrics.k8s.io/v1beta1/nodes" => {
            let mut request_count = request_count.lock().unwrap();
            let sample = samples[(*request_count).min(samples.len() - 1)];
            *request_count += 1;
            if sample == ["503"] {
                return http_response("503 Service Unavailable", "{}");
            }
            let node = |node_at_second: &&str| {
                let (name, second) = node_at_second.split_once('@').unwrap();
                NODE.replace('N', name).replace("0TZ", &format!("0{second}Z"))
            };
            let nodes: Vec<String> = sample.iter().map(node).collect();
            http_response("200 OK", &format!(r#"{{"items":[{}]}}"#, nodes.join(",")))
        }
        "/apis/metrics.k8s.io/v1beta1/pods" => http_response("200 OK", &format!(r#"{{"items":[{POD}]}}"#)),
        other => panic!("{other}"),
    }
}

/// The recorded usage of a server, up to this number of changes and gaps.
async fn recorded_usage(
    samples: &'static [&'static [&'static str]],
    resume_state: ResumeState,
    expected_count: usize,
) -> Vec<String> {
    let scope = WatchScope { usage: Some(Duration::from_millis(5)), ..only(&[], &[]) };
    let lines = |events: &[RecordingEvent]| {
        let mut lines = Vec::new();
        for batch in batches(events) {
            let usage = batch.changes.iter().filter(|change| change.key.kind.kind.ends_with("Usage"));
            lines.extend(usage.map(|change| {
                assert!(change.inferred);
                let second = change.what.object().as_str().split_once("00:00:0");
                let second = second.map_or(String::new(), |(_, rest)| format!("@{}", &rest[..1]));
                format!("{} {} {}{second}", change.what.event_type(), change.key.kind.kind, change.key.name)
            }));
            lines.extend(
                batch.gaps.iter().map(|gap| format!("gap of {} kinds: {}", gap.kinds.len(), gap.why)),
            );
        }
        lines
    };
    let events =
        recorded_events(server(samples), scope, resume_state, |events| lines(events).len() >= expected_count)
            .await;
    lines(&events)
}

#[tokio::test]
async fn a_sample_is_recorded_if_it_differs_from_the_last() {
    let recorded =
        recorded_usage(&[&["n1@1", "n2@1"], &["n1@1", "n2@2"], &["n2@2", "n3@3"]], ResumeState::default(), 6)
            .await;
    assert_eq!(
        recorded,
        [
            "ADDED NodeUsage n1@1",
            "ADDED NodeUsage n2@1",
            "ADDED NamespaceUsage web@T",
            "MODIFIED NodeUsage n2@2",
            "DELETED NodeUsage n1",
            "ADDED NodeUsage n3@3",
        ]
    );
}

#[tokio::test]
async fn samples_that_could_not_be_taken_are_a_gap() {
    let recorded =
        recorded_usage(&[&["n1@1"], &["503"], &["503"], &["n1@4"]], ResumeState::default(), 4).await;
    let why = "gap of 2 kinds: usage cannot be sampled: the server responded 503";
    assert_eq!(recorded[..2], ["ADDED NodeUsage n1@1", "ADDED NamespaceUsage web@T"]);
    assert_eq!(recorded[2], "MODIFIED NodeUsage n1@4");
    assert!(recorded[3].starts_with(why), "{recorded:?}");
}

#[tokio::test]
async fn a_gap_that_lasts_until_the_end_of_the_recording_is_recorded() {
    let scope = WatchScope { usage: Some(Duration::from_millis(5)), ..only(&[], &[]) };
    let has_warned = |events: &[RecordingEvent]| {
        events.iter().any(
            |event| matches!(event, RecordingEvent::Warning { message, .. } if message.contains("sampled")),
        )
    };
    let samples = server(&[&["n1@1"], &["503"]]);
    let events = recorded_events(samples, scope, ResumeState::default(), has_warned).await;
    let gaps: Vec<&Gap> = batches(&events).flat_map(|batch| &batch.gaps).collect();
    let [gap] = gaps[..] else { panic!("{gaps:?}") };
    assert!(gap.from < gap.to && gap.why.starts_with("usage cannot be sampled: "), "{gap:?}");
}

#[tokio::test]
async fn samples_of_an_earlier_recording_are_resumed_after_a_gap() {
    let (_, version) = usage_object(NODE_USAGE, "n1", "{}");
    let resume_state = ResumeState {
        objects: [(Kind::new(GROUP, NODE_USAGE), [(cluster_scoped("n1"), version)].into())].into(),
        until: Some("2026-10-31T00:00:00Z".parse().unwrap()),
        ..ResumeState::default()
    };
    let recorded = recorded_usage(&[&["n1@1"]], resume_state.clone(), 3).await;
    let expected =
        ["MODIFIED NodeUsage n1@1", "ADDED NamespaceUsage web@T", "gap of 2 kinds: usage was not sampled"];
    assert_eq!(recorded, expected);
    // A recording without sampling ends it.
    let batch = end_sampling(&"s".into(), &resume_state, Moment::from_nanos(0));
    assert_eq!(batch.changes.len(), 1);
    assert_eq!((batch.changes[0].what.event_type(), &*batch.changes[0].key.name), ("DELETED", "n1"));
}

#[test]
fn a_usage_object_contains_the_servers_values() {
    let list = format!(r#"{{"items":[{POD}]}}"#);
    let mut sample = Sample::default();
    sample.add_pods(&parse_list(list.as_bytes()).unwrap());
    let (object, _) = usage_object(NAMESPACE_USAGE, "web", &sample.namespaces["web"]);
    let object: serde_json::Value = serde_json::from_str(object.as_str()).unwrap();
    assert_eq!(object["metadata"]["name"], "web");
    let expected = serde_json::json!({
        "timestamp": "2026-11-01T00:00:0TZ", "window": "15s",
        "containers": {"app": {"cpu": "1m", "memory": "2Ki"}},
    });
    assert_eq!(object["pods"], serde_json::json!({ "web-1": expected }));
    assert!(parse_list(br#"{"items":[{"metadata":{"name":3}}]}"#).is_err());
}
