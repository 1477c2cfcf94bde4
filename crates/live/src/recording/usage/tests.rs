use std::sync::Mutex;

use super::super::tests::{NOTHING, news, only, said};
use super::super::{Known, Wanted};
use super::*;
use crate::connection::tests::answer;

const NODE: &str = r#"{"metadata":{"name":"N"},"timestamp":"2026-11-01T00:00:0TZ","window":"20s","usage":{"cpu":"5m","memory":"9Ki"}}"#;
const POD: &str = r#"{"metadata":{"name":"web-1","namespace":"web"},"timestamp":"2026-11-01T00:00:0TZ","window":"15s","containers":[{"name":"app","usage":{"cpu":"1m","memory":"2Ki"}}]}"#;

/// A server that answers the first, second, … question about nodes with these, the last one for ever: `n1@3` is a node and
/// the second of its sample, `503` a failure. With each comes the same pod.
fn server(samples: &'static [&'static [&'static str]]) -> impl Fn(&str) -> String + Send + 'static {
    let asked = Mutex::new(0);
    move |path| match path {
        "/version" => answer("200 OK", "{}"),
        "/api" | "/apis" => answer("200 OK", NOTHING),
        "/apis/metrics.k8s.io/v1beta1/nodes" => {
            let mut asked = asked.lock().unwrap();
            let sample = samples[(*asked).min(samples.len() - 1)];
            *asked += 1;
            if sample == ["503"] {
                return answer("503 Service Unavailable", "{}");
            }
            let node = |words: &&str| {
                let (name, second) = words.split_once('@').unwrap();
                NODE.replace('N', name).replace("0TZ", &format!("0{second}Z"))
            };
            let nodes: Vec<String> = sample.iter().map(node).collect();
            answer("200 OK", &format!(r#"{{"items":[{}]}}"#, nodes.join(",")))
        }
        "/apis/metrics.k8s.io/v1beta1/pods" => answer("200 OK", &format!(r#"{{"items":[{POD}]}}"#)),
        other => panic!("{other}"),
    }
}

/// What is told of the usage that a server knows of, until these many changes and gaps were told.
async fn told(samples: &'static [&'static [&'static str]], known: Known, enough: usize) -> Vec<String> {
    let wanted = Wanted { usage: Some(Duration::from_millis(5)), ..only(&[], &[]) };
    let lines = |events: &[Event]| {
        let mut lines = Vec::new();
        for news in news(events) {
            let usage = news.changes.iter().filter(|change| change.key.kind.kind.ends_with("Usage"));
            lines.extend(usage.map(|change| {
                assert!(change.inferred);
                let second = change.what.object().as_str().split_once("00:00:0");
                let second = second.map_or(String::new(), |(_, rest)| format!("@{}", &rest[..1]));
                format!("{} {} {}{second}", change.what.word(), change.key.kind.kind, change.key.name)
            }));
            lines
                .extend(news.gaps.iter().map(|gap| format!("gap of {} kinds: {}", gap.kinds.len(), gap.why)));
        }
        lines
    };
    let events = said(server(samples), wanted, known, |events| lines(events).len() >= enough).await;
    lines(&events)
}

#[tokio::test]
async fn a_sample_is_told_where_it_is_another_than_the_last() {
    let told = told(&[&["n1@1", "n2@1"], &["n1@1", "n2@2"], &["n2@2", "n3@3"]], Known::default(), 6).await;
    assert_eq!(
        told,
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
    let told = told(&[&["n1@1"], &["503"], &["503"], &["n1@4"]], Known::default(), 4).await;
    let why = "gap of 2 kinds: usage cannot be sampled for now: the server answered 503";
    assert_eq!(told[..2], ["ADDED NodeUsage n1@1", "ADDED NamespaceUsage web@T"]);
    assert_eq!(told[2], "MODIFIED NodeUsage n1@4");
    assert!(told[3].starts_with(why), "{told:?}");
}

#[tokio::test]
async fn what_an_earlier_run_sampled_goes_on_after_a_gap() {
    let (_, seen) = made(NODES, "n1", "{}");
    let known = Known {
        objects: [(Kind::new(GROUP, NODES), [(in_cluster("n1"), seen)].into())].into(),
        until: Some("2026-10-31T00:00:00Z".parse().unwrap()),
        ..Known::default()
    };
    let told = told(&[&["n1@1"]], known.clone(), 3).await;
    let expected =
        ["MODIFIED NodeUsage n1@1", "ADDED NamespaceUsage web@T", "gap of 2 kinds: usage was not sampled"];
    assert_eq!(told, expected);
    // A run without samples ends it.
    let ended = end(&"s".into(), &known, Moment::from_nanos(0));
    assert_eq!(ended.changes.len(), 1);
    assert_eq!((ended.changes[0].what.word(), &*ended.changes[0].key.name), ("DELETED", "n1"));
}

#[test]
fn an_object_has_what_the_server_said() {
    let list = format!(r#"{{"items":[{POD}]}}"#);
    let mut sample = Sample::default();
    sample.add_pods(&read(list.as_bytes()).unwrap());
    let (object, _) = made(NAMESPACES, "web", &sample.namespaces["web"]);
    let object: serde_json::Value = serde_json::from_str(object.as_str()).unwrap();
    assert_eq!(object["metadata"]["name"], "web");
    let expected = serde_json::json!({
        "timestamp": "2026-11-01T00:00:0TZ", "window": "15s",
        "containers": {"app": {"cpu": "1m", "memory": "2Ki"}},
    });
    assert_eq!(object["pods"], serde_json::json!({ "web-1": expected }));
    assert!(read(br#"{"items":[{"metadata":{"name":3}}]}"#).is_err());
}
