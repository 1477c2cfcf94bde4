use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::connection::tests::{Server, answer};
use crate::news::{KindStatus, Seen, State};

/// What a recording of a server said until it was stopped, which is when it has said enough.
pub(super) async fn said(
    server: impl Fn(&str) -> String + Send + 'static,
    wanted: Wanted,
    known: Known,
    is_enough: impl Fn(&[Event]) -> bool,
) -> Vec<Event> {
    let server = Server::start(move |head| server(head.split(' ').nth(1).unwrap()));
    let target = Target { source: "s".into(), connection: server.connection().await };
    let (out, mut heard) = mpsc::channel(16);
    let (stop, stopped) = watch::channel(false);
    let clock = || Moment::from(k8s_openapi::jiff::Timestamp::now());
    let recording = tokio::spawn(record(target, wanted, known, clock, out, stopped));
    let mut events = Vec::new();
    while let Some(event) = timeout(Duration::from_secs(60), heard.recv()).await.expect("it says something") {
        events.push(event);
        if is_enough(&events) {
            let _ = stop.send(true);
        }
    }
    recording.await.unwrap().unwrap();
    events
}

pub(super) fn only(kinds: &[&str], namespaces: &[&str]) -> Wanted {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let kinds = KindChoice { only: Some(words(kinds)), ..KindChoice::default() };
    Wanted { kinds, namespaces: words(namespaces), ..Wanted::default() }
}

/// Discovery of a group with one kind.
fn group(name: &str, version: &str, plural: &str, kind: &str) -> String {
    format!(
        r#"{{"items":[{{"metadata":{{"name":"{name}"}},"versions":[{{"version":"{version}","resources":[{{"resource":"{plural}","responseKind":{{"kind":"{kind}"}},"scope":"Namespaced","singularResource":"","verbs":["list","watch"]}}]}}]}}]}}"#
    )
}

pub(super) const NOTHING: &str = r#"{"items":[]}"#;
/// A watch in which nothing happens.
const SILENCE: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A watch in which this happens.
fn lines(lines: &str) -> String {
    format!("{SILENCE}{:x}\r\n{lines}\n\r\n", lines.len() + 1)
}

pub(super) fn news(events: &[Event]) -> impl Iterator<Item = &News> {
    events.iter().filter_map(|event| match event {
        Event::News(news) => Some(news),
        Event::Status(_) | Event::Trouble { .. } => None,
    })
}

fn is_watched(events: &[Event], kind: &str) -> bool {
    let is_it = |status: &KindStatus| status.kind.to_string() == kind && status.state == State::Watching;
    events.iter().any(|event| matches!(event, Event::Status(status) if is_it(status)))
}

#[tokio::test]
async fn what_one_namespace_says_makes_no_other_forgotten() {
    let server = |path: &str| match path {
        "/version" => answer("200 OK", "{}"),
        "/api" => answer("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => answer("200 OK", NOTHING),
        path if path.starts_with("/api/v1/namespaces/web/pods?watch") => {
            lines(r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"12"}}}"#)
        }
        path if path.starts_with("/api/v1/namespaces/shop/pods?watch") => SILENCE.to_owned(),
        other => panic!("{other}"),
    };
    let pod = Kind::new("", "Pod");
    let position = "shop=9@2026-11-01T00:00:00Z,web=7@2026-11-01T00:00:00Z".to_owned();
    let known = Known { positions: [(pod.clone(), position)].into(), ..Known::default() };
    let events = said(server, only(&["pods"], &["shop", "web"]), known, |events| {
        news(events).any(|news| !news.positions.is_empty())
    })
    .await;
    let positions: Vec<_> = news(&events).flat_map(|news| &news.positions).collect();
    let (_, text) = positions[0];
    assert!(text.starts_with("shop=9@2026-11-01T00:00:00Z,web=12@"), "{text}");
}

#[tokio::test]
async fn a_watch_that_panics_is_begun_again_and_its_time_is_a_gap() {
    let breaks = Arc::new(AtomicBool::new(false));
    let (is_first, break_it) = (AtomicBool::new(true), breaks.clone());
    let server = Server::start(move |head| match head.split(' ').nth(1).unwrap() {
        "/version" => answer("200 OK", "{}"),
        "/api" => answer("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => answer("200 OK", NOTHING),
        "/api/v1/pods?limit=500" => answer("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#),
        path if path.starts_with("/api/v1/pods?watch") => {
            // What next asks for the time is the task of this watch.
            break_it.store(is_first.swap(false, Ordering::SeqCst), Ordering::SeqCst);
            SILENCE.to_owned()
        }
        other => panic!("{other}"),
    });
    let target = Target { source: "s".into(), connection: server.connection().await };
    let (out, mut heard) = mpsc::channel(16);
    let (stop, stopped) = watch::channel(false);
    let clock = move || {
        assert!(!breaks.swap(false, Ordering::SeqCst), "out of order");
        Moment::from(k8s_openapi::jiff::Timestamp::now())
    };
    let wanted = only(&["pods"], &[]);
    let recording = tokio::spawn(record(target, wanted, Known::default(), clock, out, stopped));
    let (mut troubles, mut gaps) = (Vec::new(), Vec::new());
    while let Some(event) = timeout(Duration::from_secs(60), heard.recv()).await.expect("it goes on") {
        match event {
            Event::Trouble { words, .. } => troubles.push(words),
            Event::News(news) => gaps.extend(news.gaps),
            Event::Status(_) => {}
        }
        if troubles.len() == 2 {
            let _ = stop.send(true);
        }
    }
    recording.await.unwrap().unwrap();
    assert_eq!(troubles, ["the recorder broke: out of order", "recording again"]);
    assert!(gaps.iter().all(|gap| gap.why == troubles[0]) && !gaps.is_empty(), "{gaps:?}");
}

#[tokio::test]
async fn an_account_that_may_not_see_the_version_sees_the_rest() {
    let server = |path: &str| match path {
        "/version" => answer("403 Forbidden", "{}"),
        "/api" => answer("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => answer("200 OK", NOTHING),
        "/api/v1/pods?limit=500" => answer("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":null}"#),
        path if path.starts_with("/api/v1/pods?watch") => SILENCE.to_owned(),
        other => panic!("{other}"),
    };
    let events = said(server, Wanted::default(), Known::default(), |events| is_watched(events, "Pod")).await;
    let troubles: Vec<_> = events.iter().filter(|event| matches!(event, Event::Trouble { .. })).collect();
    assert_eq!(troubles.len(), 1, "{troubles:?}");
}

#[tokio::test]
async fn a_page_that_is_too_big_is_asked_for_in_parts() {
    let server = |path: &str| match path {
        "/version" => answer("200 OK", "{}"),
        "/api" => answer("200 OK", &group("", "v1", "pods", "Pod")),
        "/apis" => answer("200 OK", NOTHING),
        "/api/v1/pods?limit=500" => answer("200 OK", &" ".repeat(33 << 20)),
        "/api/v1/pods?limit=250" => answer("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#),
        path if path.starts_with("/api/v1/pods?watch") => SILENCE.to_owned(),
        other => panic!("{other}"),
    };
    said(server, Wanted::default(), Known::default(), |events| is_watched(events, "Pod")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn it_stops_while_it_waits_for_an_answer() {
    for silent in ["/version", "/apis", "/api/v1/pods?limit=500"] {
        let server = move |path: &str| match path {
            path if path == silent => String::new(),
            "/version" => answer("200 OK", "{}"),
            "/api" => answer("200 OK", &group("", "v1", "pods", "Pod")),
            "/apis" => answer("200 OK", NOTHING),
            other => panic!("{other}"),
        };
        let server = Server::start(move |head| server(head.split(' ').nth(1).unwrap()));
        let target = Target { source: "s".into(), connection: server.connection().await };
        let (out, mut heard) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(false);
        let clock = || Moment::from_nanos(0);
        let recording =
            tokio::spawn(record(target, Wanted::default(), Known::default(), clock, out, stopped));
        server.wait_for(silent);
        stop.send(true).unwrap();
        timeout(Duration::from_secs(30), recording).await.expect("it stops").unwrap().unwrap();
        heard.close();
    }
}

#[tokio::test]
async fn of_a_kind_that_went_while_nobody_watched_it_is_said_that_nothing_is_known() {
    let is_back = Arc::new(Mutex::new(false));
    let asked = is_back.clone();
    let server = move |path: &str| {
        let is_back = *asked.lock().unwrap();
        match path {
            "/version" => answer("200 OK", "{}"),
            "/api" => answer("200 OK", NOTHING),
            "/apis" if is_back => answer("200 OK", &group("karpenter.sh", "v2", "nodepools", "NodePool")),
            "/apis" => answer("200 OK", NOTHING),
            "/apis/karpenter.sh/v2/nodepools?limit=500" => {
                answer("200 OK", r#"{"metadata":{"resourceVersion":"5"},"items":[]}"#)
            }
            path if path.starts_with("/apis/karpenter.sh/v2/nodepools?watch") => SILENCE.to_owned(),
            path if path.starts_with("/apis/karpenter.sh/v1/nodepools?") => answer("404 Not Found", "{}"),
            other => panic!("{other}"),
        }
    };
    let pool = Kind::new("karpenter.sh", "NodePool");
    let seen = Seen { uid: "u".into(), resource_version: "3".into() };
    let known = Known {
        positions: [(pool.clone(), "4@2026-11-01T00:00:00Z".to_owned())].into(),
        objects: [(pool.clone(), [(("".into(), "general".into()), seen)].into())].into(),
        from: Some("2026-10-01T00:00:00Z".parse().unwrap()),
        until: Some("2026-11-01T00:00:00Z".parse().unwrap()),
    };
    let events = said(server, Wanted::default(), known, |events| {
        *is_back.lock().unwrap() = news(events).any(|news| !news.gaps.is_empty());
        is_watched(events, "NodePool.karpenter.sh")
            && news(events).any(|news| news.changes.iter().any(|change| change.key.kind == pool))
    })
    .await;
    let first = news(&events).find_map(|news| news.gaps.first()).unwrap();
    assert_eq!(
        (first.from.to_string().as_str(), &first.kinds[..]),
        ("2026-11-01T00:00:00Z", &[pool.clone()][..])
    );
    let gone: Vec<_> =
        news(&events).flat_map(|news| &news.changes).filter(|change| change.key.kind == pool).collect();
    assert!(gone.len() == 1 && gone[0].inferred && gone[0].what.state().is_none(), "{gone:?}");
    assert_eq!(gone[0].what.object().meta().api_version, "karpenter.sh/v2");
}

/// Two pods, as a recording knows them that stopped at midnight.
fn known_pods(position: &str) -> Known {
    let seen = |uid: &str| Seen { uid: uid.into(), resource_version: "3".into() };
    let pods = [(("shop".into(), "a".into()), seen("u1")), (("web".into(), "b".into()), seen("u2"))];
    Known {
        positions: [(Kind::new("", "Pod"), position.to_owned())].into(),
        objects: [(Kind::new("", "Pod"), pods.into())].into(),
        from: Some("2026-10-01T00:00:00Z".parse().unwrap()),
        until: Some("2026-11-01T00:00:00Z".parse().unwrap()),
    }
}

/// A server with pods and nodes in which nothing happens.
fn quiet_server(path: &str) -> String {
    let both =
        [group("", "v1", "pods", "Pod"), group("", "v1", "nodes", "Node").replace("Namespaced", "Cluster")];
    let both =
        both.map(|text| text.strip_prefix(r#"{"items":["#).unwrap().strip_suffix("]}").unwrap().to_owned());
    match path {
        "/version" => answer("200 OK", "{}"),
        "/api" => answer("200 OK", &format!(r#"{{"items":[{}]}}"#, both.join(","))),
        "/apis" => answer("200 OK", NOTHING),
        path if path.contains("?watch") => SILENCE.to_owned(),
        path if path.contains("?limit") => {
            answer("200 OK", r#"{"metadata":{"resourceVersion":"9"},"items":[]}"#)
        }
        other => panic!("{other}"),
    }
}

/// Gaps, changes and positions of pods, in the order in which they are told.
fn story(events: &[Event]) -> Vec<String> {
    let mut story = Vec::new();
    let pod = Kind::new("", "Pod");
    for news in news(events) {
        let gaps = news.closed_gaps.iter().chain(&news.gaps);
        for gap in gaps.filter(|gap| gap.kinds == [pod.clone()]) {
            let end = if gap.is_open() { "open" } else { "closed" };
            story.push(format!("{end} {}: {}", gap.from, gap.why));
        }
        for change in news.changes.iter().filter(|change| change.key.kind == pod) {
            let inferred = if change.inferred { " inferred" } else { "" };
            story.push(format!(
                "{} {}/{}{inferred}",
                change.what.word(),
                change.key.namespace,
                change.key.name
            ));
        }
        for (_, position) in news.positions.iter().filter(|(kind, _)| *kind == pod) {
            // When it was listed is not known beforehand.
            let sections: Vec<String> = position
                .split(';')
                .map(|text| match text.split_once('@') {
                    Some((version, moment)) if !moment.starts_with("2026-11-01") => format!("{version}@now"),
                    _ => text.to_owned(),
                })
                .collect();
            story.push(format!("at {}", sections.join(";")));
        }
    }
    story
}

#[tokio::test]
async fn what_is_not_wanted_any_more_ends_in_a_gap_that_is_open() {
    let known = known_pods("7@2026-11-01T00:00:00Z");
    let events =
        said(quiet_server, only(&["pods"], &["web"]), known.clone(), |events| is_watched(events, "Pod"))
            .await;
    assert_eq!(
        story(&events),
        [
            "open 2026-11-01T00:00:00Z: only namespace web recorded",
            "at web=7@2026-11-01T00:00:00Z;-7@2026-11-01T00:00:00Z",
            "DELETED shop/a inferred",
        ]
    );
    let events = said(quiet_server, only(&["nodes"], &[]), known, |events| is_watched(events, "Node")).await;
    assert_eq!(
        story(&events),
        [
            "open 2026-11-01T00:00:00Z: not recorded",
            "at -7@2026-11-01T00:00:00Z",
            "DELETED shop/a inferred",
            "DELETED web/b inferred",
        ]
    );
}

#[tokio::test]
async fn what_is_wanted_again_is_listed_and_the_gap_ends() {
    let known = known_pods("web=7@2026-11-01T00:00:00Z;-7@2026-11-01T00:00:00Z");
    let events = said(quiet_server, only(&["pods"], &[]), known, |events| is_watched(events, "Pod")).await;
    let why = "only namespace web recorded";
    let story = story(&events);
    assert_eq!(story[..2], [format!("closed 2026-11-01T00:00:00Z: {why}"), "at @now".to_owned()]);
    // The server has none of them any more.
    assert_eq!(story[2..4].len(), 2, "{story:?}");
    assert!(story[2].starts_with("closed ") && story[2].ends_with(why), "{story:?}");
    assert_eq!(story[3..], ["DELETED shop/a inferred", "DELETED web/b inferred", "at 9@now"]);
    // Both parts are one gap.
    let gaps: Vec<_> = news(&events).flat_map(|news| news.closed_gaps.iter().chain(&news.gaps)).collect();
    assert_eq!(gaps[0].to, gaps[1].from);
}

#[tokio::test]
async fn a_kind_that_was_not_recorded_before_is_a_gap_from_the_beginning() {
    let known = known_pods("7@2026-11-01T00:00:00Z");
    let events =
        said(quiet_server, only(&["pods", "nodes"], &[]), known, |events| is_watched(events, "Node")).await;
    let gaps: Vec<_> = news(&events).flat_map(|news| &news.gaps).collect();
    assert!(
        gaps.iter().all(|gap| gap.kinds == [Kind::new("", "Node")] && gap.why == "not recorded"),
        "{gaps:?}"
    );
    assert_eq!(gaps[0].from.to_string(), "2026-10-01T00:00:00Z");
    assert_eq!((gaps.len(), gaps[0].to), (2, gaps[1].from));
}
