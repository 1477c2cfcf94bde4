//! Tests of the selection of kinds, namespaces and labels, and of custom kinds that are created and deleted.

use std::collections::BTreeSet;
use std::path::Path;

use history::{History, Selection};
use model::{Kind, What};
use serde_json::json;
use testcluster::{Cluster, ClusterOptions};

use crate::common::run;
use crate::recorded_history::{RecordedHistory, has, has_listed};
use crate::recorder::Recorder;
use crate::server::{TestKind, client, send, shared, start};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_that_comes_goes_and_comes_back_is_followed() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let kind = Kind::new("karpenter.sh", "NodePool");
    let define = |version: &str| {
        let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "nodepools.karpenter.sh"},
            "spec": {
                "group": "karpenter.sh", "scope": "Cluster",
                "names": {"kind": "NodePool", "plural": "nodepools", "singular": "nodepool"},
                "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        })
        .to_string()
    };
    let pools = |version: &str| format!("/apis/karpenter.sh/{version}/nodepools");
    let create = async |version: &str, name: &str| {
        let spec = json!({"limits": {"cpu": 7}});
        let api_version = format!("karpenter.sh/{version}");
        let pool =
            json!({"apiVersion": api_version, "kind": "NodePool", "metadata": {"name": name}, "spec": spec});
        send(&client, "POST", &pools(version), &pool.to_string()).await;
    };
    let established = ["wait", "--for=condition=Established", "crd/nodepools.karpenter.sh", "--timeout=60s"];
    let arguments = ["--into", "h.kine", "--everything", "--no-redact"];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    let has_change = |kind: &Kind, name: &str, is_wanted: &dyn Fn(&What) -> bool| {
        let selection = Selection {
            kinds: Some(vec![kind.clone()]),
            name: Some(name.to_owned()),
            ..Selection::default()
        };
        let Ok(history) = History::open(&path) else { return false };
        let Ok(changes) = history.between(model::Window::ALL, &selection) else { return false };
        changes.flatten().any(|change| is_wanted(&change.what))
    };
    let crds = Kind::new("apiextensions.k8s.io", "CustomResourceDefinition");
    recorder.wait("definitions are watched", || has_listed(&path, std::slice::from_ref(&crds))).await;

    send(&client, "POST", DEFINITIONS, &define("v1")).await;
    cluster.kubectl(&established).unwrap();
    create("v1", "first").await;
    recorder.wait("the kind is picked up", || has(&path, &kind, "first")).await;

    cluster.kubectl(&["delete", "crd", "nodepools.karpenter.sh", "--timeout=60s"]).unwrap();
    recorder
        .wait("the deletion of its object is recorded", || {
            has_change(&kind, "first", &|what| what.state().is_none())
        })
        .await;
    let has_gap = || {
        let gaps = History::open(&path).and_then(|history| history.gaps()).unwrap_or_default();
        gaps.iter().any(|gap| gap.kinds == [kind.clone()] && gap.why.contains("404"))
    };
    recorder.wait("the gap of the deleted kind is recorded", has_gap).await;
    // As an upgrade of an operator does.
    send(&client, "POST", DEFINITIONS, &define("v2")).await;
    cluster.kubectl(&established).unwrap();
    create("v2", "second").await;
    recorder.wait("the kind is watched again", || has(&path, &kind, "second")).await;
    send(&client, "DELETE", &format!("{}/second", pools("v2")), "").await;
    recorder
        .wait("its deletion is recorded", || has_change(&kind, "second", &|what| what.state().is_none()))
        .await;
    create("v2", "third").await;
    recorder.wait("the last object is recorded", || has(&path, &kind, "third")).await;
    let output = recorder.stop().await;

    let recording = RecordedHistory::read(&path);
    recording.check_state(&client, &kind, &pools("v2"), None).await;
    let event_log: Vec<String> = recording
        .of(&kind)
        .map(|change| format!("{} {}", change.what.event_type(), change.key.name))
        .collect();
    assert_eq!(event_log, ["ADDED first", "DELETED first", "ADDED second", "DELETED second", "ADDED third"]);
    let gaps = recording.gaps_of(&kind);
    assert_eq!(recording.gaps.len(), gaps.len(), "{:?}", recording.gaps);
    assert!(gaps.is_sorted_by(|one, next| one.to <= next.from), "{gaps:?}");
    assert!(!gaps.is_empty() && gaps.iter().all(|gap| gap.why.contains("404")), "{gaps:?}");
    // Reported once, however many retries there were.
    let warning = "warning: NodePool.karpenter.sh: cannot be watched, retrying: the server responded 404";
    assert_eq!(output.err.matches(warning).count(), 1, "{}", output.err);
    assert_eq!(
        output.err.matches("warning: NodePool.karpenter.sh: recording again\n").count(),
        1,
        "{}",
        output.err
    );
    output.success();
}

#[tokio::test(flavor = "multi_thread")]
async fn kinds_namespaces_and_labels_are_chosen() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let claim = |namespace: &str, name: &str, app: &str| {
        let claim = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "labels": {"app": app}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        });
        let collection_path = format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims");
        let client = client.clone();
        async move { drop(send(&client, "POST", &collection_path, &claim.to_string()).await) }
    };
    for namespace in ["choice-shop", "choice-web", "choice-other"] {
        TestKind::Namespaces.create(&client, namespace).await;
        claim(namespace, "one", "a").await;
        claim(namespace, "two", "b").await;
    }
    let folder = tempfile::tempdir().unwrap();
    let record = |more: &[&str]| {
        Recorder::start(folder.path(), cluster.kubeconfig(), &[&["--into", "h.kine"], more].concat())
    };
    let path = folder.path().join("h.kine");
    let claims = || -> Vec<String> {
        let claims = Selection { kinds: Some(vec![TestKind::Claims.kind()]), ..Selection::default() };
        let found = History::open(&path).and_then(|history| history.at(model::Moment::MAX, &claims));
        let found = found.map_or(Vec::new(), model::Cluster::into_objects);
        found.iter().map(|version| format!("{}/{}", version.key.namespace, version.key.name)).collect()
    };

    let chosen = ["--kinds", "pvc,ns", "-n", "choice-shop,choice-web", "-l", "app in (a,c)"];
    let mut recorder = record(&chosen);
    recorder.wait("both claims are recorded", || claims().len() == 2).await;
    // A kind that the first run did not list would be a gap in the second.
    let kinds_chosen = [TestKind::Claims.kind(), TestKind::Namespaces.kind()];
    recorder.wait("both kinds are listed", || has_listed(&path, &kinds_chosen)).await;
    recorder.stop().await.success();
    assert_eq!(claims(), ["choice-shop/one", "choice-web/one"]);
    // The second run has the same selection.
    claim("choice-web", "three", "c").await;
    claim("choice-other", "three", "c").await;
    send(
        &client,
        "PATCH",
        "/api/v1/namespaces/choice-shop/persistentvolumeclaims/one",
        r#"{"metadata":{"labels":{"app":"b"}}}"#,
    )
    .await;
    let mut recorder = record(&chosen);
    recorder.wait("the new claim is recorded", || claims().contains(&"choice-web/three".to_owned())).await;
    recorder.wait("the claim that lost its label is removed", || claims().len() == 2).await;
    recorder.stop().await.success();
    let recording = RecordedHistory::read(&path);
    assert_eq!(
        (claims(), &recording.gaps[..]),
        (vec!["choice-web/one".to_owned(), "choice-web/three".to_owned()], &[][..])
    );
    // Another selection records what the first one left out.
    let mut recorder = record(&["--kinds", "pvc", "-n", "choice-shop,choice-web,choice-other"]);
    recorder.wait("all claims are recorded", || claims().len() == 8).await;
    recorder.stop().await.success();

    check_kinds(&cluster, &["--kinds", "po,deployments.apps,Node"], &["Pod", "Deployment.apps", "Node"])
        .await;
    check_kinds(
        &cluster,
        &["--kinds", "po,no", "--also", "ingresses,po", "--skip", "no"],
        &["Pod", "Ingress.networking.k8s.io"],
    )
    .await;
    let (all, fewer) = (
        kinds(&cluster, &[]).await,
        kinds(&cluster, &["--skip", "events,nodepools", "--also", "ingresses"]).await,
    );
    assert!(
        all.len() >= 30 && all.contains("Event.events.k8s.io") && all.contains("Lease.coordination.k8s.io")
    );
    assert!(!all.contains("Ingress.networking.k8s.io"));
    let mut expected = all;
    expected.remove("Event.events.k8s.io");
    expected.insert("Ingress.networking.k8s.io".to_owned());
    assert_eq!(fewer, expected);
}

async fn check_kinds(cluster: &Cluster, arguments: &[&str], expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|kind| (*kind).to_owned()).collect();
    assert_eq!(kinds(cluster, arguments).await, expected, "{arguments:?}");
}

/// The kinds that a recorder watches with these arguments.
async fn kinds(cluster: &Cluster, arguments: &[&str]) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let mut recorder =
        Recorder::start(folder.path(), cluster.kubeconfig(), &[&["--into", "h.kine"], arguments].concat());
    let watched = || -> BTreeSet<String> {
        let positions = History::open(&folder.path().join("h.kine")).and_then(|history| history.positions());
        positions.unwrap_or_default().into_iter().map(|position| position.kind.to_string()).collect()
    };
    // The absence of a watch cannot be awaited; every kind is listed within the first second or two.
    let mut last = (watched(), 0);
    recorder
        .wait("no more kinds come", || {
            let now = watched();
            last.1 = if now == last.0 && !now.is_empty() { last.1 + 1 } else { 0 };
            last.0 = now;
            last.1 > 30
        })
        .await;
    recorder.stop().await.success();
    last.0
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schedulers_configuration_is_recorded_once() {
    let Some(cluster) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scheduler.yaml");
    let config =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 7\n";
    let record = async || {
        let arguments =
            ["--into", "h.kine", "--kinds", "ns", "--scheduler-config", "scheduler.yaml", "--duration", "1"];
        Recorder::start(folder.path(), cluster.kubeconfig(), &arguments).end().await.success();
    };
    let kind = Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration");
    for (text, versions) in [(config.to_owned(), 1), (config.to_owned(), 1), (config.replace('7', "8"), 2)] {
        std::fs::write(&file, text).unwrap();
        record().await;
        assert_eq!(RecordedHistory::read(&folder.path().join("h.kine")).of(&kind).count(), versions);
    }
    let shown = run(folder.path(), &["get", "kubeschedulerconfigurations", "-o", "json"]).success();
    assert!(shown.contains(r#""parallelism": 8"#), "{shown}");
    let recording = RecordedHistory::read(&folder.path().join("h.kine"));
    assert!(recording.of(&kind).all(|change| change.inferred));
    check_event_types(&recording, folder.path());
}

/// Checks that the second version of the configuration is a modification.
fn check_event_types(recording: &RecordedHistory, folder: &Path) {
    let kind = Kind::new("kubescheduler.config.k8s.io", "KubeSchedulerConfiguration");
    let event_types: Vec<&str> = recording.of(&kind).map(|change| change.what.event_type()).collect();
    assert_eq!(event_types, ["ADDED", "MODIFIED"]);
    let log = run(folder, &["log", "kubeschedulerconfiguration/kube-scheduler"]).success();
    assert!(log.contains("+ parallelism: 8"), "{log}");
}
