//! Tests of the proxy: it injects the planned faults and changes nothing else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use testcluster::{
    Cluster, ClusterOptions, ErrorResponse, FaultKind, FaultPlan, PlannedFault, Proxy, RequestKind,
    WatchFault,
};

use common::{config_maps, start};

/// A namespace of the cluster that all tests of this file share.
struct TestNamespace {
    cluster: Arc<Cluster>,
    /// The path of its config maps `one`, `two` and `three`.
    path: String,
    /// The watch events of these three, as the server sends them.
    events: Vec<String>,
    watch: String,
}

/// The bytes a client received until the connection ended or went silent.
struct ReceivedResponse {
    head: String,
    /// The decoded body.
    body: String,
    /// Whether the end of the body arrived.
    is_whole: bool,
    /// Whether the connection is still open.
    is_open: bool,
}

/// How long nothing may arrive until a connection counts as silent. A watch ends after a second.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The cluster lives as long as a test uses it.
fn test_namespace(namespace: &str) -> Option<TestNamespace> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    let cluster = match shared.upgrade() {
        Some(cluster) => cluster,
        None => Arc::new(start(ClusterOptions::default())?),
    };
    *shared = Arc::downgrade(&cluster);
    drop(shared);
    cluster.kubectl(&["create", "namespace", namespace]).unwrap();
    let version = ["get", "namespace", namespace, "-o=jsonpath={.metadata.resourceVersion}"];
    let version = cluster.kubectl(&version).unwrap();
    let objects = config_maps(namespace, &["one", "two", "three"]);
    cluster.kubectl_with_input(&["create", "-f", "-"], &objects).unwrap();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps");
    let watch = format!("{path}?watch=true&resourceVersion={version}&timeoutSeconds=1");
    let events = cluster.kubectl(&["get", "--raw", &watch]).unwrap();
    let events: Vec<String> = events.split_inclusive('\n').map(str::to_owned).collect();
    assert_eq!(events.len(), 3);
    Some(TestNamespace { cluster, path, events, watch })
}

impl TestNamespace {
    fn proxy(&self, request_kind: RequestKind, fault: FaultKind) -> Proxy {
        let planned = PlannedFault { path: self.path.clone(), request_kind, nth: 1, fault };
        Proxy::start(&self.cluster, FaultPlan { seed: None, faults: vec![planned] }).unwrap()
    }

    /// The first response to the watch of the three events. Checks that the second one has no fault.
    fn check_watch(&self, fault: FaultKind) -> ReceivedResponse {
        let proxy = self.proxy(RequestKind::Watch, fault);
        let first = send_request(&proxy, &self.watch);
        check_faults(&proxy, &[&self.watch]);
        let second = send_request(&proxy, &self.watch);
        assert_eq!(second.body, self.events.concat());
        assert!(second.is_whole && !second.is_open);
        check_faults(&proxy, &[&self.watch]);
        first
    }
}

/// Sends a request without optional headers, and reads until the end or until silence.
fn send_request(proxy: &Proxy, target: &str) -> ReceivedResponse {
    let mut stream = connect(proxy, target);
    let mut bytes = Vec::new();
    let is_open = match stream.read_to_end(&mut bytes) {
        Ok(_) => false,
        Err(error) if error.kind() == ErrorKind::WouldBlock => true,
        Err(error) => panic!("{error}"),
    };
    let response = String::from_utf8(bytes).unwrap();
    let (head, rest) = response.split_once("\r\n\r\n").unwrap_or(("", ""));
    let (body, is_whole) = match head.contains("Transfer-Encoding: chunked") {
        true => decode_chunks(rest),
        false => (rest.to_owned(), true),
    };
    ReceivedResponse { head: head.to_owned(), body, is_whole, is_open }
}

fn connect(proxy: &Proxy, target: &str) -> TcpStream {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port())).unwrap();
    stream.set_read_timeout(Some(SILENCE_TIMEOUT)).unwrap();
    write!(stream, "GET {target} HTTP/1.1\r\nHost: proxy\r\nAccept: application/json\r\n\r\n").unwrap();
    stream
}

/// Decodes a chunked body, of which the last chunk may be incomplete. Also returns whether its end arrived.
fn decode_chunks(mut chunks: &str) -> (String, bool) {
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
    let Some(namespace) = test_namespace("unchanged") else { return };
    let proxy = Proxy::start(&namespace.cluster, FaultPlan::default()).unwrap();
    let kubeconfig = format!("--kubeconfig={}", proxy.kubeconfig().display());
    // So large that the server compresses the list.
    let large = format!("--from-literal=x={}", "x".repeat(100_000));
    for name in ["four", "five"] {
        let created =
            namespace.cluster.kubectl(&[&kubeconfig, "create", "configmap", name, &large, "-n=unchanged"]);
        assert_eq!(created.unwrap(), format!("configmap/{name} created\n"));
    }
    // The other tests write to the same server: only lists of one version are equal.
    let list = ["get", "--raw", &namespace.path];
    let list: serde_json::Value = serde_json::from_str(&namespace.cluster.kubectl(&list).unwrap()).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let whole = format!("{}?resourceVersion={version}&resourceVersionMatch=Exact", namespace.path);
    let page = format!("{whole}&limit=2");
    for target in [whole, page, namespace.watch.clone(), "/version".to_owned()] {
        let direct = namespace.cluster.kubectl(&["get", "--raw", &target]).unwrap();
        let proxied = namespace.cluster.kubectl(&[&kubeconfig, "get", "--raw", &target]).unwrap();
        assert!(direct == proxied, "{target} is not answered the same");
    }
    namespace.cluster.kubectl(&[&kubeconfig, "delete", "configmap", "four", "-n=unchanged"]).unwrap();
    let error =
        namespace.cluster.kubectl(&[&kubeconfig, "get", "configmap", "four", "-n=unchanged"]).unwrap_err();
    assert!(error.to_string().contains("Error from server (NotFound)"), "{error}");
    check_faults(&proxy, &[]);
}

#[test]
fn error_responses_are_like_the_servers() {
    let Some(namespace) = test_namespace("refused") else { return };
    for (refusal, status, reason) in [
        (ErrorResponse::Unauthorized, "401 Unauthorized", "Unauthorized"),
        (ErrorResponse::Gone, "410 Gone", "Expired"),
        (ErrorResponse::TooManyRequests, "429 Too Many Requests", "TooManyRequests"),
        (ErrorResponse::InternalError, "500 Internal Server Error", "InternalError"),
        (ErrorResponse::Unavailable, "503 Service Unavailable", "ServiceUnavailable"),
    ] {
        for (request_kind, target) in
            [(RequestKind::List, &namespace.path), (RequestKind::Watch, &namespace.watch)]
        {
            let proxy = namespace.proxy(request_kind, FaultKind::Respond(refusal));
            let response = send_request(&proxy, target);
            assert!(response.head.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{}", response.head);
            assert_eq!(
                response.head.contains("Retry-After: 1\r\n"),
                refusal == ErrorResponse::TooManyRequests
            );
            let body: serde_json::Value = serde_json::from_str(&response.body).unwrap();
            assert_eq!((&body["kind"], &body["reason"]), (&"Status".into(), &reason.into()));
            assert!(status.starts_with(&body["code"].to_string()), "{body}");
            check_faults(&proxy, &[target]);
        }
        // Once only.
        let proxy = namespace.proxy(RequestKind::List, FaultKind::Respond(refusal));
        send_request(&proxy, &namespace.path);
        assert!(send_request(&proxy, &namespace.path).head.starts_with("HTTP/1.1 200 OK\r\n"));
    }
}

#[test]
fn a_list_is_not_a_watch_and_a_path_is_not_another() {
    let Some(namespace) = test_namespace("another") else { return };
    let proxy = namespace.proxy(RequestKind::List, FaultKind::CloseConnection);
    assert_eq!(send_request(&proxy, &namespace.watch).body, namespace.events.concat());
    assert!(send_request(&proxy, "/api/v1/configmaps").head.starts_with("HTTP/1.1 200 OK\r\n"));
    check_faults(&proxy, &[]);
    let page = format!("{}?limit=1", namespace.path);
    assert_eq!(send_request(&proxy, &page).head, "");
    check_faults(&proxy, &[&page]);
}

#[test]
fn a_connection_closes_without_an_answer() {
    let Some(namespace) = test_namespace("hang-up") else { return };
    let response = namespace.check_watch(FaultKind::CloseConnection);
    assert_eq!((response.head.as_str(), response.is_open), ("", false));
}

#[test]
fn a_response_is_delayed() {
    let Some(namespace) = test_namespace("late") else { return };
    let by = Duration::from_millis(300);
    let start = Instant::now();
    let response = namespace.check_watch(FaultKind::Delay(by));
    assert_eq!(response.body, namespace.events.concat());
    assert!(start.elapsed() >= by);
}

#[test]
fn a_list_is_cut_in_the_middle() {
    let Some(namespace) = test_namespace("truncated") else { return };
    let proxy = namespace.proxy(RequestKind::List, FaultKind::TruncateList);
    let (cut, whole) = (send_request(&proxy, &namespace.path), send_request(&proxy, &namespace.path));
    let items = |response: &ReceivedResponse| {
        response.body.split_once("items").map(|(_, items)| items.to_owned()).unwrap()
    };
    assert!(cut.head.starts_with("HTTP/1.1 200 OK\r\n") && !cut.is_open, "{}", cut.head);
    assert!(serde_json::from_str::<serde_json::Value>(&cut.body).is_err());
    assert!(items(&whole).starts_with(&items(&cut)) && items(&cut).len() < items(&whole).len());
    check_faults(&proxy, &[&namespace.path]);
}

#[test]
fn bookmarks_are_dropped() {
    let Some(namespace) = test_namespace("bookmarks") else { return };
    let target = format!(
        "{}?watch=true&sendInitialEvents=true&allowWatchBookmarks=true\
         &resourceVersionMatch=NotOlderThan&timeoutSeconds=1",
        namespace.path
    );
    let proxy = namespace.proxy(RequestKind::Watch, FaultKind::DropBookmarks);
    let (without, with) = (send_request(&proxy, &target), send_request(&proxy, &target));
    let bookmarks = |response: &ReceivedResponse| response.body.matches(r#""type":"BOOKMARK""#).count();
    assert!(bookmarks(&with) > 0, "{}", with.body);
    assert_eq!(bookmarks(&without), 0);
    assert_eq!(without.body.lines().count() + bookmarks(&with), with.body.lines().count());
    check_faults(&proxy, &[&target]);
}

#[test]
fn a_watch_receives_the_error_that_its_version_is_too_old() {
    let Some(namespace) = test_namespace("gone") else { return };
    for after in [0, 2] {
        let response = namespace.check_watch(FaultKind::DuringWatch { after, what: WatchFault::Gone });
        let events = namespace.events[..after as usize].concat();
        let last = response.body.strip_prefix(&events).unwrap();
        assert!(last.starts_with(r#"{"type":"ERROR","object":{"kind":"Status""#), "{last}");
        assert!(last.ends_with("\"code\":410}}\n"), "{last}");
        assert!(response.is_whole);
    }
}

#[test]
fn a_watch_is_cut_in_the_middle_of_a_line() {
    let Some(namespace) = test_namespace("cut") else { return };
    let response =
        namespace.check_watch(FaultKind::DuringWatch { after: 1, what: WatchFault::TruncateEvent });
    let cut = response.body.strip_prefix(&namespace.events[0]).unwrap();
    assert!(
        !cut.is_empty() && cut.len() < namespace.events[1].len() && namespace.events[1].starts_with(cut),
        "{cut}"
    );
    assert!(!response.is_whole && !response.is_open);
}

#[test]
fn a_watch_goes_silent_with_its_connection_open() {
    let Some(namespace) = test_namespace("silent") else { return };
    let response = namespace.check_watch(FaultKind::DuringWatch { after: 1, what: WatchFault::Hang });
    assert_eq!(response.body, namespace.events[0]);
    assert!(!response.is_whole && response.is_open);
}

#[test]
fn an_event_is_repeated() {
    let Some(namespace) = test_namespace("twice") else { return };
    let [one, two, three] = &namespace.events[..] else { panic!("there are three") };
    for (after, expected) in [(0, [one, one, two, three]), (2, [one, two, two, three])] {
        let response = namespace.check_watch(FaultKind::DuringWatch { after, what: WatchFault::RepeatEvent });
        assert_eq!(response.body, expected.map(String::as_str).concat());
        assert!(response.is_whole);
    }
}

#[test]
fn a_watch_ends_at_the_server_when_its_client_leaves() {
    let Some(namespace) = test_namespace("left") else { return };
    let proxy = Proxy::start(&namespace.cluster, FaultPlan::default()).unwrap();
    // No other test watches these.
    let running = || {
        let metrics = namespace.cluster.kubectl(&["get", "--raw=/metrics"]).unwrap();
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
    let Some(namespace) = test_namespace("closed") else { return };
    let proxy = Proxy::start(&namespace.cluster, FaultPlan::default()).unwrap();
    let mut stream = connect(&proxy, &namespace.watch.replace("timeoutSeconds=1", "timeoutSeconds=600"));
    // The watch has begun.
    stream.read_exact(&mut [0]).unwrap();
    drop(proxy);
    stream.read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_seeded_plan_is_carried_out_completely() {
    let Some(namespace) = test_namespace("seeded") else { return };
    let faults = [
        FaultKind::Respond(ErrorResponse::Gone),
        FaultKind::Respond(ErrorResponse::TooManyRequests),
        FaultKind::CloseConnection,
        FaultKind::DuringWatch { after: 1, what: WatchFault::TruncateEvent },
        FaultKind::DuringWatch { after: 3, what: WatchFault::Gone },
    ];
    let plan = FaultPlan::seeded(1, &[&namespace.path], &faults, 6);
    let proxy = Proxy::start(&namespace.cluster, plan.clone()).unwrap();
    for (request_kind, target) in
        [(RequestKind::List, &namespace.path), (RequestKind::Watch, &namespace.watch)]
    {
        let last =
            plan.faults.iter().filter(|step| step.request_kind == request_kind).map(|step| step.nth).max();
        for _ in 0..last.unwrap_or(0) {
            send_request(&proxy, target);
        }
    }
    let mut steps: Vec<PlannedFault> = proxy.faults().into_iter().map(|fault| fault.planned).collect();
    assert_eq!(send_request(&proxy, &namespace.watch).body, namespace.events.concat());
    let mut planned = plan.faults;
    for list in [&mut steps, &mut planned] {
        list.sort_by_key(PlannedFault::to_string);
    }
    assert_eq!(steps, planned);
}
