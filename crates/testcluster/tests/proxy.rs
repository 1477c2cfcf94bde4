//! Tests of the proxy: it injects the planned faults and changes nothing else.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use testcluster::{Asked, Cluster, Midway, Options, Plan, Proxy, Refusal, Step, Trouble};

use common::{config_maps, start};

/// A namespace of the cluster that all tests of this file share.
struct Room {
    cluster: Arc<Cluster>,
    /// The path of its config maps `one`, `two` and `three`.
    path: String,
    /// The watch events of these three, as the server sends them.
    events: Vec<String>,
    watch: String,
}

/// The bytes a client received until the connection ended or went silent.
struct Answer {
    head: String,
    /// The decoded body.
    body: String,
    /// Whether the end of the body arrived.
    is_whole: bool,
    /// Whether the connection is still open.
    is_open: bool,
}

/// How long nothing may arrive until a connection counts as silent. A watch ends after a second.
const SILENCE: Duration = Duration::from_secs(5);

/// The cluster lives as long as a test uses it.
fn room(namespace: &str) -> Option<Room> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    let cluster = match shared.upgrade() {
        Some(cluster) => cluster,
        None => Arc::new(start(Options::default())?),
    };
    *shared = Arc::downgrade(&cluster);
    drop(shared);
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    let version = ["get", "namespace", namespace, "-o=jsonpath={.metadata.resourceVersion}"];
    let version = cluster.kubectl(&version).unwrap();
    let objects = config_maps(namespace, &["one", "two", "three"]);
    cluster.kubectl_reading(&["create", "-f", "-"], &objects).unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let watch = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=1");
    let events = cluster.kubectl(&["get", "--raw", &watch]).unwrap();
    let events: Vec<String> = events.split_inclusive('\n').map(str::to_owned).collect();
    assert_eq!(events.len(), 3);
    Some(Room { cluster, path, events, watch })
}

impl Room {
    fn proxy(&self, asked: Asked, trouble: Trouble) -> Proxy {
        let step = Step { path: self.path.clone(), asked, nth: 1, trouble };
        Proxy::start(&self.cluster, Plan { seed: None, steps: vec![step] }).unwrap()
    }

    /// The first response to the watch of the three events. Checks that the second one has no fault.
    fn check_watch(&self, trouble: Trouble) -> Answer {
        let proxy = self.proxy(Asked::Watch, trouble);
        let first = ask(&proxy, &self.watch);
        check_faults(&proxy, &[&self.watch]);
        let second = ask(&proxy, &self.watch);
        assert_eq!(second.body, self.events.concat());
        assert!(second.is_whole && !second.is_open);
        check_faults(&proxy, &[&self.watch]);
        first
    }
}

/// Sends a request without optional headers, and reads until the end or until silence.
fn ask(proxy: &Proxy, target: &str) -> Answer {
    let mut stream = connect(proxy, target);
    let mut bytes = Vec::new();
    let is_open = match stream.read_to_end(&mut bytes) {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::WouldBlock => true,
        Err(error) => panic!("{error}"),
    };
    let answer = String::from_utf8(bytes).unwrap();
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap_or(("", ""));
    let (body, is_whole) = match head.contains("Transfer-Encoding: chunked") {
        true => unchunked(rest),
        false => (rest.to_owned(), true),
    };
    Answer { head: head.to_owned(), body, is_whole, is_open }
}

fn connect(proxy: &Proxy, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    stream.set_read_timeout(Some(SILENCE)).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: proxy\r\nAccept: application/json\r\n\r\n").unwrap();
    stream
}

/// Decodes a chunked body, of which the last chunk may be incomplete. Also returns whether its end arrived.
fn unchunked(mut chunks: &str) -> (String, bool) {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let length = usize::from_str_radix(length, 16).unwrap();
        if length == 0 {
            return (body, true);
        }
        body += &rest[..length.min(rest.len())];
        chunks = rest.get(length + 2..).unwrap_or_default();
    }
    (body, false)
}

#[track_caller]
fn check_faults(proxy: &Proxy, requests: &[&str]) {
    let faults = proxy.faults();
    assert_eq!(faults.iter().map(|fault| fault.request.as_str()).collect::<Vec<_>>(), requests);
}

#[test]
fn without_a_plan_nothing_changes() {
    let Some(room) = room("unchanged") else { return };
    let proxy = Proxy::start(&room.cluster, Plan::default()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", proxy.kubeconfig().display());
    // So large that the server compresses the list.
    let large = format!("--from-literal=x={}", "x".repeat(100_000));
    for name in ["four", "five"] {
        let created =
            room.cluster.kubectl(&[&kubeconfig, "create", "configmap", name, &large, "-n=unchanged"]);
        assert_eq!(created.unwrap(), format!("configmap/{name} created\n"));
    }
    // The other tests write to the same server: only lists of one version are equal.
    let list = ["get", "--raw", &room.path];
    let list: serde_json::Value = serde_json::from_str(&room.cluster.kubectl(&list).unwrap()).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let whole = format!("{}?resourceVersion={version}&resourceVersionMatch=Exact", room.path);
    let page = format!("{whole}&limit=2");
    for target in [whole, page, room.watch.clone(), "/version".to_owned()] {
        let direct = room.cluster.kubectl(&["get", "--raw", &target]).unwrap();
        let proxied = room.cluster.kubectl(&[&kubeconfig, "get", "--raw", &target]).unwrap();
        assert!(direct == proxied, "{target} is not answered the same");
    }
    room.cluster.kubectl(&[&kubeconfig, "delete", "configmap", "four", "-n=unchanged"]).unwrap();
    let error = room.cluster.kubectl(&[&kubeconfig, "get", "configmap", "four", "-n=unchanged"]).unwrap_err();
    assert!(error.to_string().contains("Error from server (NotFound)"), "{error}");
    check_faults(&proxy, &[]);
}

#[test]
fn requests_are_refused_as_the_server_refuses_them() {
    let Some(room) = room("refused") else { return };
    for (refusal, status, reason) in [
        (Refusal::Unauthorized, "401 Unauthorized", "Unauthorized"),
        (Refusal::Gone, "410 Gone", "Expired"),
        (Refusal::TooManyRequests, "429 Too Many Requests", "TooManyRequests"),
        (Refusal::InternalError, "500 Internal Server Error", "InternalError"),
        (Refusal::Unavailable, "503 Service Unavailable", "ServiceUnavailable"),
    ] {
        for (asked, target) in [(Asked::List, &room.path), (Asked::Watch, &room.watch)] {
            let proxy = room.proxy(asked, Trouble::Refuse(refusal));
            let answer = ask(&proxy, target);
            assert!(answer.head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{}", answer.head);
            assert_eq!(answer.head.contains("Retry-After: 1\r\n"), refusal == Refusal::TooManyRequests);
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!((&body["kind"], &body["reason"]), (&"Status".into(), &reason.into()));
            assert!(status.starts_with(&body["code"].to_string()), "{body}");
            check_faults(&proxy, &[target]);
        }
        // Once only.
        let proxy = room.proxy(Asked::List, Trouble::Refuse(refusal));
        ask(&proxy, &room.path);
        assert!(ask(&proxy, &room.path).head.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}

#[test]
fn a_list_is_not_a_watch_and_a_path_is_not_another() {
    let Some(room) = room("another") else { return };
    let proxy = room.proxy(Asked::List, Trouble::HangUp);
    assert_eq!(ask(&proxy, &room.watch).body, room.events.concat());
    assert!(ask(&proxy, "/api/v1/configmaps").head.starts_with("HTTP/1.1 200 OK\r\n"));
    check_faults(&proxy, &[]);
    let page = format!("{}?limit=1", room.path);
    assert_eq!(ask(&proxy, &page).head, "");
    check_faults(&proxy, &[&page]);
}

#[test]
fn a_connection_closes_without_an_answer() {
    let Some(room) = room("hang-up") else { return };
    let answer = room.check_watch(Trouble::HangUp);
    assert_eq!((answer.head.as_str(), answer.is_open), ("", false));
}

#[test]
fn an_answer_is_late() {
    let Some(room) = room("late") else { return };
    let by = Duration::from_millis(300);
    let start = Instant::now();
    let answer = room.check_watch(Trouble::Delay(by));
    assert_eq!(answer.body, room.events.concat());
    assert!(start.elapsed() >= by);
}

#[test]
fn a_list_is_cut_in_the_middle() {
    let Some(room) = room("truncated") else { return };
    let proxy = room.proxy(Asked::List, Trouble::Truncate);
    let (cut, whole) = (ask(&proxy, &room.path), ask(&proxy, &room.path));
    let items = |answer: &Answer| answer.body.split_once("items").map(|(_, items)| items.to_owned()).unwrap();
    assert!(cut.head.starts_with("HTTP/1.1 200 OK\r\n") && !cut.is_open, "{}", cut.head);
    assert!(serde_json::from_str::<serde_json::Value>(&cut.body).is_err());
    assert!(items(&whole).starts_with(&items(&cut)) && items(&cut).len() < items(&whole).len());
    check_faults(&proxy, &[&room.path]);
}

#[test]
fn bookmarks_are_dropped() {
    let Some(room) = room("bookmarks") else { return };
    let target = format!(
        "{}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
        room.path
    );
    let proxy = room.proxy(Asked::Watch, Trouble::NoBookmarks);
    let (without, with) = (ask(&proxy, &target), ask(&proxy, &target));
    let bookmarks = |answer: &Answer| answer.body.matches(r#""type":"BOOKMARK""#).count();
    assert!(bookmarks(&with) > 0, "{}", with.body);
    assert_eq!(bookmarks(&without), 0);
    assert_eq!(without.body.lines().count() + bookmarks(&with), with.body.lines().count());
    check_faults(&proxy, &[&target]);
}

#[test]
fn a_watch_is_told_that_its_version_is_too_old() {
    let Some(room) = room("gone") else { return };
    for after in [0, 2] {
        let answer = room.check_watch(Trouble::Midway { after, what: Midway::Gone });
        let events = room.events[..after as usize].concat();
        let last = answer.body.strip_prefix(&events).unwrap();
        assert!(last.starts_with(r#"{"type":"ERROR","object":{"kind":"Status""#), "{last}");
        assert!(last.ends_with("\"code\":410}}\n"), "{last}");
        assert!(answer.is_whole);
    }
}

#[test]
fn a_watch_is_cut_in_the_middle_of_a_line() {
    let Some(room) = room("cut") else { return };
    let answer = room.check_watch(Trouble::Midway { after: 1, what: Midway::Cut });
    let cut = answer.body.strip_prefix(&room.events[0]).unwrap();
    assert!(!cut.is_empty() && cut.len() < room.events[1].len() && room.events[1].starts_with(cut), "{cut}");
    assert!(!answer.is_whole && !answer.is_open);
}

#[test]
fn a_watch_goes_silent_with_its_connection_open() {
    let Some(room) = room("silent") else { return };
    let answer = room.check_watch(Trouble::Midway { after: 1, what: Midway::Silence });
    assert_eq!(answer.body, room.events[0]);
    assert!(!answer.is_whole && answer.is_open);
}

#[test]
fn an_event_comes_twice() {
    let Some(room) = room("twice") else { return };
    let [one, two, three] = &room.events[..] else { panic!("there are three") };
    for (after, expected) in [(0, [one, one, two, three]), (2, [one, two, two, three])] {
        let answer = room.check_watch(Trouble::Midway { after, what: Midway::Repeat });
        assert_eq!(answer.body, expected.map(String::as_str).concat());
        assert!(answer.is_whole);
    }
}

#[test]
fn a_watch_ends_at_the_server_when_its_client_leaves() {
    let Some(room) = room("left") else { return };
    let proxy = Proxy::start(&room.cluster, Plan::default()).unwrap();
    // No other test watches these.
    let running = || {
        let metrics = room.cluster.kubectl(&["get", "--raw=/metrics"]).unwrap();
        let is_ours = |line: &&str| {
            line.starts_with("apiserver_longrunning_requests{")
                && line.contains(r#"resource="podtemplates",scope="namespace""#)
        };
        metrics.lines().find(is_ours).and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    };
    let wait_for = |count: u32| {
        let end = Instant::now() + Duration::from_secs(30);
        while running() != count {
            assert!(Instant::now() < end, "there are {} watches, not {count}", running());
        }
    };
    let stream = connect(&proxy, "/api/v1/namespaces/left/podtemplates?watch=true&timeoutSeconds=600");
    wait_for(1);
    drop(stream);
    wait_for(0);
}

#[test]
fn connections_close_with_the_proxy() {
    let Some(room) = room("closed") else { return };
    let proxy = Proxy::start(&room.cluster, Plan::default()).unwrap();
    let mut stream = connect(&proxy, &room.watch.replace("timeoutSeconds=1", "timeoutSeconds=600"));
    // The watch has begun.
    stream.read_exact(&mut [0]).unwrap();
    drop(proxy);
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_seeded_plan_is_done_to_its_end() {
    let Some(room) = room("seeded") else { return };
    let troubles = [
        Trouble::Refuse(Refusal::Gone),
        Trouble::Refuse(Refusal::TooManyRequests),
        Trouble::HangUp,
        Trouble::Midway { after: 1, what: Midway::Cut },
        Trouble::Midway { after: 3, what: Midway::Gone },
    ];
    let plan = Plan::seeded(1, &[&room.path], &troubles, 6);
    let proxy = Proxy::start(&room.cluster, plan.clone()).unwrap();
    for (asked, target) in [(Asked::List, &room.path), (Asked::Watch, &room.watch)] {
        let last = plan.steps.iter().filter(|step| step.asked == asked).map(|step| step.nth).max();
        for _ in 0..last.unwrap_or(0) {
            ask(&proxy, target);
        }
    }
    let mut steps: Vec<Step> = proxy.faults().into_iter().map(|fault| fault.step).collect();
    assert_eq!(ask(&proxy, &room.watch).body, room.events.concat());
    let mut planned = plan.steps;
    for list in [&mut steps, &mut planned] {
        list.sort_by_key(Step::to_string);
    }
    assert_eq!(steps, planned);
}
