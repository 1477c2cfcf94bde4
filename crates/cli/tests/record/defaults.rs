//! Tests of the kinds and events recorded by default, and of those recorded only on request.

use std::path::Path;

use history::{History, Selection};
use kube::client::Client;
use model::{Change, Kind, What, Window};
use serde_json::json;
use testcluster::ClusterOptions;

use crate::common::run;
use crate::recorded_history::{RecordedHistory, has};
use crate::recorder::Recorder;
use crate::server::{TestKind, client, send, shared, start};

fn events() -> Kind {
    Kind::new("events.k8s.io", "Event")
}

/// All changes of objects of that name.
fn changes(path: &Path, kind: &Kind, name: &str) -> Vec<Change> {
    let (kinds, name) = (Some(vec![kind.clone()]), Some(name.to_owned()));
    let selection = Selection { kinds, name, ..Selection::default() };
    let found = History::open(path).and_then(|history| history.between(Window::ALL, &selection));
    found.into_iter().flatten().flatten().collect()
}

async fn create_event(client: &Client, name: &str, reporter: &str) {
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "eventTime": "2026-11-01T14:00:00.000000Z", "reportingController": reporter, "reportingInstance": "i",
        "action": "Waiting", "reason": "FailedMount", "type": "Warning", "note": "MountVolume.SetUp failed",
        "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "web"},
    });
    send(client, "POST", "/apis/events.k8s.io/v1/namespaces/default/events", &event.to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn all_events_are_recorded_unless_fewer_are_selected() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let record = async |more: &[&str], last: &str, kind: &Kind| {
        let arguments = [&["--into", "h.kine"], more].concat();
        let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
        recorder.wait(last, || has(&path, kind, last) || !changes(&path, kind, last).is_empty()).await;
        recorder.stop().await.success();
    };
    let whys = || {
        RecordedHistory::read(&path)
            .gaps
            .iter()
            .map(|gap| (gap.is_open(), gap.why.clone()))
            .collect::<Vec<_>>()
    };
    for (name, reporter) in
        [("mount", "kubelet"), ("make", "replicaset-controller"), ("place", "default-scheduler")]
    {
        create_event(&client, name, reporter).await;
    }
    let kinds = ["--kinds", "events,ns"];
    record(&kinds, "place", &events()).await;
    for name in ["mount", "make", "place"] {
        assert_eq!(changes(&path, &events(), name).len(), 1, "{name}");
    }
    assert_eq!(whys(), []);

    // With a smaller selection the other events are removed from the state, with a gap.
    create_event(&client, "back-off", "kubelet").await;
    create_event(&client, "place-2", "default-scheduler").await;
    record(&[&kinds[..], &["--events", "scheduling"]].concat(), "place-2", &events()).await;
    assert_eq!(changes(&path, &events(), "back-off").len(), 0);
    let only = "only events of schedulers and autoscalers recorded".to_owned();
    assert!(whys().contains(&(true, only)), "{:?}", whys());
    let shown = run(folder.path(), &["get", "events", "-o", "name", "--history", "h.kine"]);
    assert!(shown.out.contains("/place-2\n") && !shown.out.contains("/mount\n"), "{}", shown.out);
    assert!(shown.err.contains("only events of schedulers and autoscalers recorded"), "{}", shown.err);

    // With none the kind is not watched.
    TestKind::Namespaces.create(&client, "no-events").await;
    record(&[&kinds[..], &["--events", "none"]].concat(), "no-events", &TestKind::Namespaces.kind()).await;
    assert!(whys().contains(&(true, "not recorded".to_owned())), "{:?}", whys());
    // With all of them again no gap is open.
    create_event(&client, "late", "kubelet").await;
    record(&kinds, "late", &events()).await;
    assert!(whys().iter().all(|(is_open, _)| !is_open), "{:?}", whys());
    assert_eq!(changes(&path, &events(), "back-off").len(), 1);
    run(folder.path(), &["doctor", "h.kine"]).success();
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_leases_are_recorded_and_node_heartbeats_are_not() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let lease = Kind::new("coordination.k8s.io", "Lease");
    let holds = async |verb: &str, namespace: &str, name: &str, holder: &str, second: u8| {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {"holderIdentity": holder, "renewTime": format!("2026-11-01T14:00:0{second}.000000Z")},
        });
        let at = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let at = if verb == "PATCH" { format!("{at}/{name}") } else { at };
        send(&client, verb, &at, &lease.to_string()).await;
    };
    holds("POST", "kube-node-lease", "node-1", "node-1", 0).await;
    holds("POST", "kube-system", "my-scheduler", "one", 0).await;
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &["--into", "h.kine"]);
    recorder.wait("the lease is listed", || has(&path, &lease, "my-scheduler")).await;
    for (holder, second) in [("one", 1), ("one", 2), ("other", 3), ("other", 4)] {
        holds("PATCH", "kube-node-lease", "node-1", "node-1", second).await;
        holds("PATCH", "kube-system", "my-scheduler", holder, second).await;
    }
    holds("POST", "kube-system", "the-end", "one", 0).await;
    recorder.wait("the end marker is recorded", || has(&path, &lease, "the-end")).await;
    recorder.stop().await.success();
    let holders: Vec<String> = changes(&path, &lease, "my-scheduler")
        .iter()
        .map(|change| {
            let lease: serde_json::Value = serde_json::from_str(change.what.object().as_str()).unwrap();
            lease["spec"]["holderIdentity"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(holders, ["one", "other"]);
    assert_eq!(changes(&path, &lease, "node-1"), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_is_sampled_on_request() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    // An API server with the API of metrics-server, whose objects the test writes.
    for (kind, plural, scope) in [("NodeMetrics", "nodes", "Cluster"), ("PodMetrics", "pods", "Namespaced")] {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{plural}.metrics.k8s.io"),
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": "metrics.k8s.io", "scope": scope,
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
                "versions": [{
                    "name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                }],
            },
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        send(&client, "POST", definitions, &definition.to_string()).await;
    }
    cluster.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).unwrap();
    let uses = |cpu: &str| {
        let sample = json!({"timestamp": "2026-11-01T14:00:00Z", "window": "20s"});
        let usage = json!({"cpu": cpu, "memory": "64Mi"});
        let mut node = sample.clone();
        node["apiVersion"] = "metrics.k8s.io/v1beta1".into();
        node["kind"] = "NodeMetrics".into();
        node["metadata"]["name"] = "node-1".into();
        node["usage"] = usage.clone();
        let mut pod = sample;
        pod["apiVersion"] = "metrics.k8s.io/v1beta1".into();
        pod["kind"] = "PodMetrics".into();
        pod["metadata"] = json!({"name": "web-1", "namespace": "default"});
        pod["containers"] = json!([{"name": "app", "usage": usage}]);
        for object in [node, pod] {
            cluster.kubectl_with_input(&["apply", "-f", "-"], &object.to_string()).unwrap();
        }
    };
    uses("100m");
    let (node, namespace) =
        (Kind::new("kinescope.io", "NodeUsage"), Kind::new("kinescope.io", "NamespaceUsage"));
    let arguments = ["--into", "h.kine", "--usage=1s"];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    recorder
        .wait("a sample is recorded", || has(&path, &node, "node-1") && has(&path, &namespace, "default"))
        .await;
    uses("250m");
    let has_changed = |kind, name| changes(&path, kind, name).len() == 2;
    recorder
        .wait("another sample is recorded", || {
            has_changed(&node, "node-1") && has_changed(&namespace, "default")
        })
        .await;
    recorder.stop().await.success();
    let usage: serde_json::Value = serde_json::from_str(
        &run(folder.path(), &["get", "namespaceusages", "default", "-o", "json", "--history", "h.kine"])
            .success(),
    )
    .unwrap();
    assert_eq!(usage["pods"]["web-1"]["containers"]["app"], json!({"cpu": "250m", "memory": "64Mi"}));
    // Without the flag nothing is sampled, and earlier samples are removed from the state.
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &["--into", "h.kine"]);
    let has_ended = |kind, name| {
        changes(&path, kind, name).last().is_some_and(|last| matches!(last.what, What::Deleted(_)))
    };
    recorder
        .wait("the samples are removed from the state", || {
            has_ended(&node, "node-1") && has_ended(&namespace, "default")
        })
        .await;
    recorder.stop().await.success();
    run(folder.path(), &["doctor", "h.kine"]).success();
}
