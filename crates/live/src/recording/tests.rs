use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::connection::tests::{Server, http_response};
use crate::recording_event::{KindStatus, VersionId, WatchState};

/// The events of a recording, which is stopped when there are enough.
pub(super) async fn recorded_events(
    server: impl Fn(&str) -> String + Send + 'static,
    scope: WatchScope,
    resume_state: ResumeState,
    is_enough: impl Fn(&[RecordingEvent]) -> bool,
) -> Vec<RecordingEvent> {
    let server = Server::start(move |head| server(head.split(' ').nth(1).unwrap()));
    let target = RecordedCluster { source: "s".into(), connection: server.connection().await };
    let (sender, mut receiver) = mpsc::channel(16);
    let (stop, stopped) = watch::channel(false);
    let clock = || Moment::from(k8s_openapi::jiff::Timestamp::now());
    let recording = tokio::spawn(record(target, scope, resume_state, clock, sender, stopped));
    let mut events = Vec::new();
    while let Some(event) = timeout(Duration::from_secs(60), receiver.recv())
        .await
        .expect("the recording sends an event within a minute")
    {
        events.push(event);
        if is_enough(&events) {
            let _ = stop.send(true);
        }
    }
    recording.await.unwrap().unwrap();
    events
}

pub(super) fn only(kinds: &[&str], namespaces: &[&str]) -> WatchScope {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let kinds = KindChoice { only: Some(words(kinds)), ..KindChoice::default() };
    WatchScope { kinds, namespaces: words(namespaces), ..WatchScope::default() }
}

/// The discovery of a group with one kind.
fn group(name: &str, version: &str, plural: &str, kind: &str) -> String {
    format!(
        r#"{{"items":[{{"metadata":{{"name":"{name}"}},"versions":[{{"version":"{version}","resources":[{{"resource":"{plural}","responseKind":{{"kind":"{kind}"}},"scope":"Namespaced","singularResource":"","verbs":["list","watch"]}}]}}]}}]}}"#
    )
}

pub(super) const EMPTY_DISCOVERY: &str = r#"{"items":[]}"#;
/// A watch without events.
const SILENT_WATCH: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A watch with these events.
fn watch_with_lines(lines: &str) -> String {
    format!("{SILENT_WATCH}{:x}\r\n{lines}\n\r\n", lines.len() + 1)
}

pub(super) fn batches(events: &[RecordingEvent]) -> impl Iterator<Item = &WatchBatch> {
    events.iter().filter_map(|event| match event {
        RecordingEvent::Batch(batch) => Some(batch),
        RecordingEvent::Status(_) | RecordingEvent::Warning { .. } => None,
    })
}

fn is_watched(events: &[RecordingEvent], kind: &str) -> bool {
    let is_it = |status: &KindStatus| status.kind.to_string() == kind && status.state == WatchState::Watching;
    events.iter().any(|event| matches!(event, RecordingEvent::Status(status) if is_it(status)))
}

#[tokio::test]
async fn the_position_of_one_namespace_does_not_overwrite_the_others() {
    let server = |path: &str| match path {
        "/version" => http_response("200 OK", "{}"),
        "/api" => http_response("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
        path if path.starts_with("/api/v1/namespaces/web/pods?watch") => {
            watch_with_lines(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#)
        }
        path if path.starts_with("/api/v1/namespaces/shop/pods?watch") => SILENT_WATCH.to_owned(),
        other => panic!("{other}"),
    };
    let pod = Kind::new("", "Pod");
    let position = "shop=9@2026-11-01T00:00:00Z,web=7@2026-11-01T00:00:00Z".to_owned();
    let resume_state = ResumeState { positions: [(pod.clone(), position)].into(), ..ResumeState::default() };
    let events = recorded_events(server, only(&["pods"], &["shop", "web"]), resume_state, |events| {
        batches(events).any(|batch| !batch.positions.is_empty())
    })
    .await;
    let positions: Vec<_> = batches(&events).flat_map(|batch| &batch.positions).collect();
    let (_, text) = positions[0];
    assert!(text.starts_with("shop=9@2026-11-01T00:00:00Z,web=12@"), "{text}");
}

#[tokio::test]
async fn a_watch_that_panics_is_restarted_with_a_gap() {
    let breaks = Arc::new(AtomicBool::new(false));
    let (is_first, break_it) = (AtomicBool::new(true), breaks.clone());
    let server = Server::start(move |head| match head.split(' ').nth(1).unwrap() {
        "/version" => http_response("200 OK", "{}"),
        "/api" => http_response("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
        "/api/v1/pods?limit=500" => {
            http_response("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#)
        }
        path if path.starts_with("/api/v1/pods?watch") => {
            // The next call of the clock comes from the task of this watch.
            break_it.store(is_first.swap(false, Ordering::SeqCst), Ordering::SeqCst);
            SILENT_WATCH.to_owned()
        }
        other => panic!("{other}"),
    });
    let target = RecordedCluster { source: "s".into(), connection: server.connection().await };
    let (sender, mut receiver) = mpsc::channel(16);
    let (stop, stopped) = watch::channel(false);
    let clock = move || {
        assert!(!breaks.swap(false, Ordering::SeqCst), "out of order");
        Moment::from(k8s_openapi::jiff::Timestamp::now())
    };
    let scope = only(&["pods"], &[]);
    let recording = tokio::spawn(record(target, scope, ResumeState::default(), clock, sender, stopped));
    let (mut warnings, mut gaps) = (Vec::new(), Vec::new());
    while let Some(event) =
        timeout(Duration::from_secs(60), receiver.recv()).await.expect("the recording continues")
    {
        match event {
            RecordingEvent::Warning { message, .. } => warnings.push(message),
            RecordingEvent::Batch(batch) => gaps.extend(batch.gaps),
            RecordingEvent::Status(_) => {}
        }
        if warnings.len() == 2 {
            let _ = stop.send(true);
        }
    }
    recording.await.unwrap().unwrap();
    assert_eq!(warnings, ["the recorder panicked: out of order", "recording again"]);
    assert!(gaps.iter().all(|gap| gap.why == warnings[0]) && !gaps.is_empty(), "{gaps:?}");
}

#[tokio::test]
async fn an_account_without_access_to_the_version_records_the_rest() {
    let server = |path: &str| match path {
        "/version" => http_response("403 Forbidden", "{}"),
        "/api" => http_response("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
        "/api/v1/pods?limit=500" => {
            http_response("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":null}"#)
        }
        path if path.starts_with("/api/v1/pods?watch") => SILENT_WATCH.to_owned(),
        other => panic!("{other}"),
    };
    let events = recorded_events(server, WatchScope::default(), ResumeState::default(), |events| {
        is_watched(events, "Pod")
    })
    .await;
    let warnings: Vec<_> =
        events.iter().filter(|event| matches!(event, RecordingEvent::Warning { .. })).collect();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
}

#[tokio::test]
async fn a_page_that_is_too_big_is_requested_in_parts() {
    let server = |path: &str| match path {
        "/version" => http_response("200 OK", "{}"),
        "/api" => http_response("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
        "/api/v1/pods?limit=500" => http_response("200 OK", &" ".repeat(33 << 20)),
        "/api/v1/pods?limit=250" => {
            http_response("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#)
        }
        path if path.starts_with("/api/v1/pods?watch") => SILENT_WATCH.to_owned(),
        other => panic!("{other}"),
    };
    recorded_events(server, WatchScope::default(), ResumeState::default(), |events| {
        is_watched(events, "Pod")
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_stops_while_it_waits_for_a_response() {
    for silent in ["/version", "/apis", "/api/v1/pods?limit=500"] {
        let server = move |path: &str| match path {
            path if path == silent => String::new(),
            "/version" => http_response("200 OK", "{}"),
            "/api" => http_response("200 OK", &group("", "v1", "pods", "Pod")),
            "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
            other => panic!("{other}"),
        };
        let server = Server::start(move |head| server(head.split(' ').nth(1).unwrap()));
        let target = RecordedCluster { source: "s".into(), connection: server.connection().await };
        let (sender, mut receiver) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(false);
        let clock = || Moment::from_nanos(0);
        let recording = tokio::spawn(record(
            target,
            WatchScope::default(),
            ResumeState::default(),
            clock,
            sender,
            stopped,
        ));
        server.wait_for(silent);
        stop.send(true).unwrap();
        timeout(Duration::from_secs(30), recording).await.expect("the recording stops").unwrap().unwrap();
        receiver.close();
    }
}

#[tokio::test]
async fn a_kind_that_was_removed_between_runs_is_a_gap() {
    let is_back = Arc::new(Mutex::new(false));
    let is_back_on_server = is_back.clone();
    let server = move |path: &str| {
        let is_back = *is_back_on_server.lock().unwrap();
        match path {
            "/version" => http_response("200 OK", "{}"),
            "/api" => http_response("200 OK", EMPTY_DISCOVERY),
            "/apis" if is_back => {
                http_response("200 OK", &group("karpenter.sh", "v2", "nodepools", "NodePool"))
            }
            "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
            "/apis/karpenter.sh/v2/nodepools?limit=500" => {
                http_response("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#)
            }
            path if path.starts_with("/apis/karpenter.sh/v2/nodepools?watch") => SILENT_WATCH.to_owned(),
            path if path.starts_with("/apis/karpenter.sh/v1/nodepools?") => {
                http_response("404 Not Found", "{}")
            }
            other => panic!("{other}"),
        }
    };
    let pool = Kind::new("karpenter.sh", "NodePool");
    let version = VersionId { uid: "u".into(), resource_version: "3".into() };
    let resume_state = ResumeState {
        positions: [(pool.clone(), "4@2026-11-01T00:00:00Z".to_owned())].into(),
        objects: [(pool.clone(), [(NamespacedName::new("", "general"), version)].into())].into(),
        from: Some("2026-10-01T00:00:00Z".parse().unwrap()),
        until: Some("2026-11-01T00:00:00Z".parse().unwrap()),
    };
    let events = recorded_events(server, WatchScope::default(), resume_state, |events| {
        *is_back.lock().unwrap() = batches(events).any(|batch| !batch.gaps.is_empty());
        is_watched(events, "NodePool.karpenter.sh")
            && batches(events).any(|batch| batch.changes.iter().any(|change| change.key.kind == pool))
    })
    .await;
    let first = batches(&events).find_map(|batch| batch.gaps.first()).unwrap();
    assert_eq!(
        (first.from.to_string().as_str(), &first.kinds[..]),
        ("2026-11-01T00:00:00Z", &[pool.clone()][..])
    );
    let deletions: Vec<_> =
        batches(&events).flat_map(|batch| &batch.changes).filter(|change| change.key.kind == pool).collect();
    assert!(
        deletions.len() == 1 && deletions[0].inferred && deletions[0].what.state().is_none(),
        "{deletions:?}"
    );
    assert_eq!(deletions[0].what.object().meta().api_version, "karpenter.sh/v2");
}

/// The resume state of two pods, in a recording that stopped at midnight.
fn known_pods(position: &str) -> ResumeState {
    let version = |uid: &str| VersionId { uid: uid.into(), resource_version: "3".into() };
    let pods =
        [(NamespacedName::new("shop", "a"), version("u1")), (NamespacedName::new("web", "b"), version("u2"))];
    ResumeState {
        positions: [(Kind::new("", "Pod"), position.to_owned())].into(),
        objects: [(Kind::new("", "Pod"), pods.into())].into(),
        from: Some("2026-10-01T00:00:00Z".parse().unwrap()),
        until: Some("2026-11-01T00:00:00Z".parse().unwrap()),
    }
}

/// A server with pods and nodes, without events.
fn quiet_server(path: &str) -> String {
    let both =
        [group("", "v1", "pods", "Pod"), group("", "v1", "nodes", "Node").replace("Namespaced", "Cluster")];
    let both =
        both.map(|text| text.strip_prefix(r#"{"items":["#).unwrap().strip_suffix("]}").unwrap().to_owned());
    match path {
        "/version" => http_response("200 OK", "{}"),
        "/api" => http_response("200 OK", &format!(r#"{{"items":[{}]}}"#, both.join(","))),
        "/apis" => http_response("200 OK", EMPTY_DISCOVERY),
        path if path.contains("?watch") => SILENT_WATCH.to_owned(),
        path if path.contains("?limit") => {
            http_response("200 OK", r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#)
        }
        other => panic!("{other}"),
    }
}

/// Gaps, changes and positions of pods, in the order of the events.
fn pod_timeline(events: &[RecordingEvent]) -> Vec<String> {
    let mut timeline = Vec::new();
    let pod = Kind::new("", "Pod");
    for batch in batches(events) {
        let gaps = batch.closed_gaps.iter().chain(&batch.gaps);
        for gap in gaps.filter(|gap| gap.kinds == [pod.clone()]) {
            let end = if gap.is_open() { "open" } else { "closed" };
            timeline.push(format!("{end} {}: {}", gap.from, gap.why));
        }
        for change in batch.changes.iter().filter(|change| change.key.kind == pod) {
            let inferred = if change.inferred { " inferred" } else { "" };
            timeline.push(format!(
                "{} {}/{}{inferred}",
                change.what.event_type(),
                change.key.namespace,
                change.key.name
            ));
        }
        for (_, position) in batch.positions.iter().filter(|(kind, _)| *kind == pod) {
            // The time of the list varies.
            let sections: Vec<String> = position
                .split(';')
                .map(|text| match text.split_once('@') {
                    Some((version, moment)) if !moment.starts_with("2026-11-01") => format!("{version}@now"),
                    _ => text.to_owned(),
                })
                .collect();
            timeline.push(format!("at {}", sections.join(";")));
        }
    }
    timeline
}

#[tokio::test]
async fn a_dropped_kind_ends_in_an_open_gap() {
    let resume_state = known_pods("7@2026-11-01T00:00:00Z");
    let events = recorded_events(quiet_server, only(&["pods"], &["web"]), resume_state.clone(), |events| {
        is_watched(events, "Pod")
    })
    .await;
    assert_eq!(
        pod_timeline(&events),
        [
            "open 2026-11-01T00:00:00Z: only namespace web recorded",
            "at web=7@2026-11-01T00:00:00Z;-7@2026-11-01T00:00:00Z",
            "DELETED shop/a inferred",
        ]
    );
    let events = recorded_events(quiet_server, only(&["nodes"], &[]), resume_state, |events| {
        is_watched(events, "Node")
    })
    .await;
    assert_eq!(
        pod_timeline(&events),
        [
            "open 2026-11-01T00:00:00Z: not recorded",
            "at -7@2026-11-01T00:00:00Z",
            "DELETED shop/a inferred",
            "DELETED web/b inferred",
        ]
    );
}

#[tokio::test]
async fn a_kind_that_is_in_scope_again_is_listed_and_the_gap_ends() {
    let resume_state = known_pods("web=7@2026-11-01T00:00:00Z;-7@2026-11-01T00:00:00Z");
    let events =
        recorded_events(quiet_server, only(&["pods"], &[]), resume_state, |events| is_watched(events, "Pod"))
            .await;
    let why = "only namespace web recorded";
    let timeline = pod_timeline(&events);
    assert_eq!(timeline[..2], [format!("closed 2026-11-01T00:00:00Z: {why}"), "at @now".to_owned()]);
    // The server no longer has any of them.
    assert_eq!(timeline[2..4].len(), 2, "{timeline:?}");
    assert!(timeline[2].starts_with("closed ") && timeline[2].ends_with(why), "{timeline:?}");
    assert_eq!(timeline[3..], ["DELETED shop/a inferred", "DELETED web/b inferred", "at 9@now"]);
    // Both parts form one gap.
    let gaps: Vec<_> =
        batches(&events).flat_map(|batch| batch.closed_gaps.iter().chain(&batch.gaps)).collect();
    assert_eq!(gaps[0].to, gaps[1].from);
}

#[tokio::test]
async fn a_kind_that_was_not_recorded_before_is_a_gap_from_the_beginning() {
    let resume_state = known_pods("7@2026-11-01T00:00:00Z");
    let events = recorded_events(quiet_server, only(&["pods", "nodes"], &[]), resume_state, |events| {
        is_watched(events, "Node")
    })
    .await;
    let gaps: Vec<_> = batches(&events).flat_map(|batch| &batch.gaps).collect();
    assert!(
        gaps.iter().all(|gap| gap.kinds == [Kind::new("", "Node")] && gap.why == "not recorded"),
        "{gaps:?}"
    );
    assert_eq!(gaps[0].from.to_string(), "2026-10-01T00:00:00Z");
    assert_eq!((gaps.len(), gaps[0].to), (2, gaps[1].from));
}
