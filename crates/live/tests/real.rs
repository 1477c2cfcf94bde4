//! Tests that a real API server is recorded without unreported losses.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use live::{Connection, KindChoice, RecordedCluster, RecordingEvent, ResumeState, WatchScope, WatchState};
use model::{Gap, IncomingChange, Key, Kind, Object};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use testcluster::{
    Cluster, ClusterOptions, ErrorResponse, FaultKind, FaultPlan, PlannedFault, Proxy, RequestKind,
    WatchFault,
};
use tokio::sync::{mpsc, watch};

use common::{
    ReceivedEvent, RecordedEvents, RunningRecording, churn, client, listed, now, recorded, send, start,
    watch_undisturbed,
};

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";

fn pods() -> Kind {
    Kind::new("", "Pod")
}

fn nodes() -> Kind {
    Kind::new("", "Node")
}

fn only(kinds: &[&str]) -> WatchScope {
    let only = Some(kinds.iter().map(|kind| (*kind).to_owned()).collect());
    WatchScope { kinds: KindChoice { only, ..KindChoice::default() }, ..WatchScope::default() }
}

/// Marks the end of the test's changes with a pod and a node.
async fn create_end_markers(client: &kube::Client, name: &str) {
    let object = |kind: &str, spec: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"{name}"}}{spec}}}"#)
    };
    let pod = object("Pod", r#","spec":{"containers":[{"name":"a","image":"a"}]}"#);
    send(client, "POST", "/api/v1/namespaces/default/pods", &pod).await;
    send(client, "POST", NODES, &object("Node", "")).await;
}

fn has_end_markers(recorded_events: &RecordedEvents, name: &str) -> bool {
    recorded_events.has("Pod", name) && recorded_events.has("Node", name)
}

/// Checks that the recorded objects equal the server's, byte by byte.
async fn check_state(client: &kube::Client, recordings: &[&RecordedEvents]) {
    let events = recordings.iter().flat_map(|recorded_events| recorded_events.events.clone()).collect();
    let state = RecordedEvents { events }.state();
    for (path, kind) in [(PODS, pods()), (NODES, nodes())] {
        let (found, expected) = (recorded(&state, &kind), listed(client, path).await);
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        assert!(!expected.is_empty());
        assert_eq!(found, expected);
    }
}

fn event_key(event_type: &str, object: &Object) -> String {
    let meta = object.meta();
    format!("{event_type} {} {}", meta.name, meta.resource_version.unwrap())
}

fn event_keys(recorded_events: &RecordedEvents, kind: &Kind) -> Vec<String> {
    let of_kind = recorded_events
        .changes()
        .filter(|change: &&IncomingChange| change.key.kind == *kind && !change.inferred);
    of_kind.map(|change| event_key(change.what.event_type(), change.what.object())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_cluster_is_recorded_without_losses() {
    let Some(mut cluster) = start(ClusterOptions::default()) else { return };
    let client = client(&cluster).await;
    let recording =
        RunningRecording::start(cluster.kubeconfig(), WatchScope::default(), ResumeState::default()).await;
    let watches = |recorded_events: &RecordedEvents| {
        let is_watched = |event: &&RecordingEvent| matches!(event, RecordingEvent::Status(one) if one.state == WatchState::Watching);
        recorded_events.events.iter().filter(is_watched).count()
    };
    recording.wait("all default kinds are watched", |recorded_events| watches(recorded_events) >= 31).await;

    // Some thousand changes, all reported in the server's order.
    let seen_pods = watch_undisturbed(client.clone(), PODS, "the-end").await;
    let seen_nodes = watch_undisturbed(client.clone(), NODES, "the-end").await;
    churn(&client, "churn", 240).await;
    create_end_markers(&client, "the-end").await;
    recording
        .wait("the end markers are recorded", |recorded_events| has_end_markers(recorded_events, "the-end"))
        .await;
    let recorded_events = recording.events_so_far();
    for (received_events, kind) in [(seen_pods.await.unwrap(), pods()), (seen_nodes.await.unwrap(), nodes())]
    {
        let expected: Vec<String> = received_events
            .iter()
            .map(|received| event_key(&received.event_type, &received.object))
            .collect();
        assert!(expected.len() > 1000, "{}", expected.len());
        assert_eq!(event_keys(&recorded_events, &kind), expected);
    }

    // Kinds that appear later are recorded too, ConfigMaps without their data, and the server version.
    cluster.kubectl_with_input(&["apply", "-f", "-"], NODE_POOLS).unwrap();
    cluster.kubectl(&["create", "configmap", "web", "--from-literal=a=b"]).unwrap();
    cluster.kubectl(&["create", "configmap", "cluster-autoscaler-status", "--from-literal=a=b"]).unwrap();
    recording.wait("node pools are watched", |recorded_events| {
        let is_watched =
            |event: &RecordingEvent| matches!(event, RecordingEvent::Status(one) if *one.kind.kind == *"NodePool" && one.state == WatchState::Watching);
        recorded_events.events.iter().any(is_watched)
    })
    .await;
    let pool = r#"{"apiVersion":"karpenter.sh/v1","kind":"NodePool","metadata":{"name":"general"}}"#;
    send(&client, "POST", "/apis/karpenter.sh/v1/nodepools", pool).await;
    recording
        .wait("the node pool is recorded", |recorded_events| {
            recorded_events.has("NodePool.karpenter.sh", "general")
        })
        .await;
    recording
        .wait("the config map is recorded", |recorded_events| {
            recorded_events.has("ConfigMap", "cluster-autoscaler-status")
        })
        .await;
    let first = recording.stop().await;
    check_state(&client, &[&first]).await;
    assert_eq!(first.gaps().count(), 0, "{}", first.summary());
    let state = first.state();
    let find = |name: &str| state.iter().find(|(key, _)| *key.name == *name).unwrap().1.as_str();
    assert!(find("cluster-autoscaler-status").contains(r#""data":{"a":"b"}"#));
    assert!(!find("web").contains("\"data\"") && find("web").contains("\"metadata\""));
    assert!(find("version").contains(r#""gitVersion":"v1.36.4""#), "{}", find("version"));

    // A restarted recorder resumes without a gap.
    let received_events = watch_undisturbed(client.clone(), PODS, "the-end-2").await;
    churn(&client, "away", 30).await;
    create_end_markers(&client, "the-end-2").await;
    let recording =
        RunningRecording::start(cluster.kubeconfig(), WatchScope::default(), first.resume_state()).await;
    recording
        .wait("the changes during its absence are recorded", |recorded_events| {
            has_end_markers(recorded_events, "the-end-2")
        })
        .await;
    let second = recording.stop().await;
    assert_eq!(second.gaps().count(), 0, "{}", second.summary());
    check_state(&client, &[&first, &second]).await;
    let received_events = received_events.await.unwrap();
    let expected: Vec<String> =
        received_events.iter().map(|received| event_key(&received.event_type, &received.object)).collect();
    assert_eq!(event_keys(&second, &pods()), expected);

    check_scope(&cluster, &client).await;
    check_unread_events(&cluster).await;
    check_restart(&mut cluster, &client, first, second).await;
}

/// Checks a scope of namespaces and labels, and its resumption.
async fn check_scope(cluster: &Cluster, client: &kube::Client) {
    let create = |namespace: &str, name: &str, app: &str| {
        let manifest = format!(
            "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{app: {app}}}}}\n\
             spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}\n"
        );
        cluster.kubectl_with_input(&["create", "-f", "-"], &manifest).unwrap();
    };
    for namespace in ["shop", "web", "other"] {
        cluster.kubectl(&["create", "namespace", namespace]).unwrap();
        create(namespace, "one", "a");
        create(namespace, "two", "b");
    }
    let wanted = WatchScope {
        namespaces: vec!["shop".to_owned(), "web".to_owned()],
        labels: Some("app in (a,c)".to_owned()),
        ..only(&["pvc"])
    };
    let claims = |recorded_events: &RecordedEvents| -> Vec<String> {
        let of_claims = |key: &&Key| *key.kind.kind == *"PersistentVolumeClaim";
        recorded_events
            .state()
            .keys()
            .filter(of_claims)
            .map(|key| format!("{}/{}", key.namespace, key.name))
            .collect()
    };
    let recording =
        RunningRecording::start(cluster.kubeconfig(), wanted.clone(), ResumeState::default()).await;
    recording
        .wait("both claims are recorded", |recorded_events| {
            claims(recorded_events).len() == 2
                && recorded_events
                    .resume_state()
                    .positions
                    .values()
                    .any(|text| text.contains("shop=") && text.contains("web="))
        })
        .await;
    let first = recording.stop().await;
    assert_eq!(claims(&first), ["shop/one", "web/one"]);
    create("web", "three", "c");
    send(client, "DELETE", "/api/v1/namespaces/shop/persistentvolumeclaims/one", "").await;
    let recording = RunningRecording::start(cluster.kubeconfig(), wanted, first.resume_state()).await;
    recording
        .wait("the new claim is recorded", |recorded_events| {
            recorded_events.has("PersistentVolumeClaim", "three")
        })
        .await;
    let second = recording.stop().await;
    assert_eq!(second.gaps().count(), 0, "{}", second.summary());
}

/// Checks that a recording whose events are not received waits, and still stops.
async fn check_unread_events(cluster: &Cluster) {
    let connection = Connection::open(Some(cluster.kubeconfig()), None).await.unwrap();
    let target = RecordedCluster { source: "real".into(), connection };
    let (sender, mut receiver) = mpsc::channel(1);
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(live::record(
        target,
        WatchScope::default(),
        ResumeState::default(),
        now,
        sender,
        stopped,
    ));
    receiver.recv().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    stop.send(true).unwrap();
    task.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_millis(1100), "stopped after {:?}", began.elapsed());
}

/// Checks a server that has compacted its history: deletions in the meantime are inferred, inside a gap.
async fn check_restart(
    cluster: &mut Cluster,
    client: &kube::Client,
    first: RecordedEvents,
    second: RecordedEvents,
) {
    let recorded_events = RecordedEvents { events: [first.events, second.events].concat() };
    send(client, "DELETE", "/api/v1/nodes/away-0", "").await;
    cluster.restart_apiserver().unwrap();
    let recording =
        RunningRecording::start(cluster.kubeconfig(), only(&["po", "no"]), recorded_events.resume_state())
            .await;
    recording
        .wait("the gap is recorded", |recorded_events| {
            recorded_events.gaps().any(|gap| gap.kinds == [nodes()])
        })
        .await;
    // A restart during a watch causes a pause, or another gap.
    cluster.restart_apiserver().unwrap();
    create_end_markers(client, "the-end-3").await;
    recording
        .wait("the changes after the restart are recorded", |recorded_events| {
            has_end_markers(recorded_events, "the-end-3")
        })
        .await;
    let last = recording.stop().await;
    let is_it = |change: &&IncomingChange| *change.key.name == *"away-0" && change.what.state().is_none();
    let deletions: Vec<&IncomingChange> = last.changes().filter(is_it).collect();
    assert!(deletions.len() == 1 && deletions[0].inferred, "{deletions:?}");
    let until = recorded_events.resume_state().until.unwrap();
    let covers = |gap: &Gap| gap.from <= until && deletions[0].seen <= gap.to && gap.kinds == [nodes()];
    assert!(last.gaps().any(covers), "{}", last.summary());
    check_state(client, &[&recorded_events, &last]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn losses_caused_by_faults_are_reported() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let client = client(&cluster).await;
    let mut recordings = Vec::new();
    for seed in [1, 20_261_115, 77] {
        let proxy = Proxy::start(&cluster, fault_plan(seed)).unwrap();
        let recording =
            RunningRecording::start(proxy.kubeconfig(), only(&["pods", "nodes"]), ResumeState::default())
                .await;
        recordings.push((seed, proxy, recording));
    }
    let seen_pods = watch_undisturbed(client.clone(), PODS, "the-end").await;
    let seen_nodes = watch_undisturbed(client.clone(), NODES, "the-end").await;
    for round in 0..8 {
        churn(&client, &format!("churn-{round}"), 24).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    create_end_markers(&client, "the-end").await;
    let received_events = [(seen_pods.await.unwrap(), pods()), (seen_nodes.await.unwrap(), nodes())];
    for (seed, proxy, recording) in recordings {
        recording
            .wait(&format!("the end markers are recorded, seed {seed}"), |recorded_events| {
                has_end_markers(recorded_events, "the-end")
            })
            .await;
        let recorded_events = recording.stop().await;
        check_state(&client, &[&recorded_events]).await;
        let faults = proxy.faults();
        assert!(faults.len() >= 12, "seed {seed}: {faults:?}");
        assert!(recorded_events.gaps().count() >= 2, "seed {seed}: {}", recorded_events.summary());
        for (received_events, kind) in &received_events {
            check_reported(seed, &recorded_events, kind, received_events);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn custom_kinds_may_change_their_version_go_and_come_back() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let widgets = |versions: &[(&str, bool)]| {
        let definition = definition("example.com", "Widget", "widgets", versions);
        cluster.kubectl_with_input(&["apply", "-f", "-"], &definition).unwrap();
        let names = "crd/widgets.example.com";
        cluster.kubectl(&["wait", "--for=condition=Established", names]).unwrap();
    };
    let create = |version: &str, name: &str| {
        let widget = format!("apiVersion: example.com/{version}\nkind: Widget\nmetadata: {{name: {name}}}\n");
        // The server serves new versions with some delay.
        let end = Instant::now() + Duration::from_secs(30);
        while let Err(error) = cluster.kubectl_with_input(&["create", "-f", "-"], &widget) {
            assert!(Instant::now() < end, "{error}");
        }
    };
    widgets(&[("v1beta1", true)]);
    create("v1beta1", "one");
    let kinds = KindChoice { also: vec!["widgets".to_owned()], ..KindChoice::default() };
    let wanted = WatchScope { kinds, ..WatchScope::default() };
    let recording = RunningRecording::start(cluster.kubeconfig(), wanted, ResumeState::default()).await;
    let has = |name: &'static str| {
        move |recorded_events: &RecordedEvents| recorded_events.has("Widget.example.com", name)
    };
    recording.wait("an object of the first version is recorded", has("one")).await;

    widgets(&[("v1beta1", false), ("v1", true)]);
    create("v1", "two");
    recording.wait("an object of the second version is recorded", has("two")).await;
    cluster.kubectl(&["delete", "crd", "widgets.example.com"]).unwrap();
    recording
        .wait("all deletions are recorded", |recorded_events| {
            !has("one")(recorded_events) && !has("two")(recorded_events)
        })
        .await;

    // A removed kind does not hide a new one.
    cluster.kubectl_with_input(&["apply", "-f", "-"], NODE_POOLS).unwrap();
    let is_watched = |recorded_events: &RecordedEvents, kind: &str| {
        let last = recorded_events.events.iter().rev().find_map(|event| match event {
            RecordingEvent::Status(status) if status.kind.to_string() == kind => Some(&status.state),
            RecordingEvent::Status(_) | RecordingEvent::Batch(_) | RecordingEvent::Warning { .. } => None,
        });
        last == Some(&WatchState::Watching)
    };
    recording
        .wait("node pools are watched", |recorded_events| {
            is_watched(recorded_events, "NodePool.karpenter.sh")
        })
        .await;
    widgets(&[("v1", true)]);
    create("v1", "three");
    recording.wait("the restored kind is recorded", has("three")).await;
    let recorded_events = recording.stop().await;
    let changes: Vec<&IncomingChange> =
        recorded_events.changes().filter(|change| *change.key.kind.kind == *"Widget").collect();
    // No deletion was inferred: the server sends events when a definition is deleted.
    let lines: Vec<String> =
        changes.iter().map(|change| format!("{} {}", change.what.event_type(), change.key.name)).collect();
    assert_eq!(lines.iter().filter(|line| line.starts_with("DELETED")).count(), 2, "{lines:?}");
    assert!(changes.iter().all(|change| !change.inferred), "{lines:?}");
    assert!(
        recorded_events.gaps().all(|gap| gap.kinds == [Kind::new("example.com", "Widget")]),
        "{}",
        recorded_events.summary()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_restored_to_an_earlier_state_is_listed() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let client = client(&cluster).await;
    create_end_markers(&client, "before").await;
    let recording =
        RunningRecording::start(cluster.kubeconfig(), only(&["po", "no"]), ResumeState::default()).await;
    recording
        .wait("pods and nodes are recorded", |recorded_events| {
            has_end_markers(recorded_events, "before") && recorded_events.resume_state().positions.len() == 2
        })
        .await;
    let first = recording.stop().await;
    // As if the server's version had been much higher.
    let mut resume_state = first.resume_state();
    for position in resume_state.positions.values_mut() {
        let (version, moment) = position.split_once('@').unwrap();
        *position = format!("{}@{moment}", version.parse::<u64>().unwrap() + 1_000_000);
    }
    create_end_markers(&client, "after").await;
    let step = |path: &str| PlannedFault {
        path: path.to_owned(),
        request_kind: RequestKind::Watch,
        nth: 1,
        fault: FaultKind::Respond(ErrorResponse::Unavailable),
    };
    let plan = FaultPlan { seed: None, faults: vec![step(PODS), step(NODES)] };
    let proxy = Proxy::start(&cluster, plan).unwrap();
    let recording = RunningRecording::start(proxy.kubeconfig(), only(&["po", "no"]), resume_state).await;
    recording
        .wait("the objects after the restore are recorded", |recorded_events| {
            has_end_markers(recorded_events, "after")
        })
        .await;
    let second = recording.stop().await;
    assert_eq!(second.gaps().count(), 2, "{}", second.summary());
    assert!(second.gaps().all(|gap| gap.why.contains("went back")), "{}", second.summary());
    check_state(&client, &[&first, &second]).await;
}

/// Faults for every watch until none is left: rejections, and in between watches that fail in the middle.
fn fault_plan(seed: u64) -> FaultPlan {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut steps = Vec::new();
    for path in [PODS, NODES] {
        let mut failures = vec![
            FaultKind::Respond(ErrorResponse::Gone),
            FaultKind::Respond(ErrorResponse::TooManyRequests),
            FaultKind::Respond(ErrorResponse::InternalError),
            FaultKind::Respond(ErrorResponse::Unavailable),
            FaultKind::Respond(ErrorResponse::Unauthorized),
            FaultKind::CloseConnection,
        ];
        let mut watch_faults = vec![
            (12, WatchFault::Gone),
            (7, WatchFault::TruncateEvent),
            (0, WatchFault::TruncateEvent),
            (30, WatchFault::Gone),
            (25, WatchFault::TruncateEvent),
        ];
        let mut step = |request_kind, nth, fault| {
            steps.push(PlannedFault { path: path.to_owned(), request_kind, nth, fault })
        };
        step(
            RequestKind::List,
            1,
            [FaultKind::CloseConnection, FaultKind::Respond(ErrorResponse::TooManyRequests)]
                [rng.random_range(0..2)],
        );
        step(RequestKind::List, 3, FaultKind::Delay(Duration::from_millis(300)));
        let mut nth = 1;
        while !watch_faults.is_empty() {
            step(RequestKind::Watch, nth, failures.swap_remove(rng.random_range(0..failures.len())));
            let (after, what) = watch_faults.swap_remove(rng.random_range(0..watch_faults.len()));
            step(RequestKind::Watch, nth + 1, FaultKind::DuringWatch { after, what });
            nth += 2;
        }
        step(
            RequestKind::Watch,
            nth,
            FaultKind::DuringWatch { after: rng.random_range(1..9), what: WatchFault::RepeatEvent },
        );
    }
    FaultPlan { seed: Some(seed), faults: steps }
}

/// Checks that every event of the undisturbed watch was reported once, or lies in a gap.
fn check_reported(
    seed: u64,
    recorded_events: &RecordedEvents,
    kind: &Kind,
    received_events: &[ReceivedEvent],
) {
    let reported: Vec<String> = event_keys(recorded_events, kind);
    let versions: Vec<&str> = reported.iter().map(|key| key.split_once(' ').unwrap().1).collect();
    let once: HashSet<&str> = versions.iter().copied().collect();
    assert_eq!(once.len(), versions.len(), "seed {seed}: events were reported twice");
    let gaps: Vec<&Gap> = recorded_events.gaps().filter(|gap| gap.kinds == [kind.clone()]).collect();
    let first = versions.iter().map(|key| version(key)).min().unwrap();
    // The two watches receive events at slightly different times.
    const APART: i64 = 500_000_000;
    for received in received_events {
        let key = event_key(&received.event_type, &received.object);
        let is_reported = once.contains(key.split_once(' ').unwrap().1);
        let is_in = |gap: &&Gap| {
            gap.from.plus_nanos(-APART) <= received.at && received.at <= gap.to.plus_nanos(APART)
        };
        let is_accounted_for = is_reported || version(&key) < first || gaps.iter().any(is_in);
        assert!(
            is_accounted_for,
            "seed {seed}: {key} at {} was missed outside of gaps\n{}",
            received.at,
            recorded_events.summary()
        );
    }
}

fn version(key: &str) -> u64 {
    key.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// A CustomResourceDefinition with these versions and whether each is served. The last one is stored.
fn definition(group: &str, kind: &str, plural: &str, versions: &[(&str, bool)]) -> String {
    let version = |(number, (name, is_served)): (usize, &(&str, bool))| {
        let is_stored = number + 1 == versions.len();
        format!(
            "  - {{name: {name}, served: {is_served}, storage: {is_stored}, \
             schema: {{openAPIV3Schema: {{type: object}}}}}}\n"
        )
    };
    let versions: String = versions.iter().enumerate().map(version).collect();
    let singular = kind.to_lowercase();
    format!(
        "apiVersion: apiextensions.k8s.io/v1\n\
         kind: CustomResourceDefinition\n\
         metadata: {{name: {plural}.{group}}}\n\
         spec:\n  group: {group}\n  names: {{kind: {kind}, plural: {plural}, singular: {singular}}}\n  \
         scope: Namespaced\n  versions:\n{versions}"
    )
}

const NODE_POOLS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: nodepools.karpenter.sh}
spec:
  group: karpenter.sh
  names: {kind: NodePool, plural: nodepools, singular: nodepool}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";
