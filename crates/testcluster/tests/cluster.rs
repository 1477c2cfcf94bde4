//! Tests of the real cluster.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use testcluster::{
    Cluster, ClusterOptions, FaultKind, FaultPlan, PlannedFault, Proxy, RequestKind, WatchFault,
};

use common::{config_maps, start};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates config maps one after the other and returns the version of the first.
fn create(cluster: &Cluster, names: &[&str]) -> String {
    cluster.kubectl_with_input(&["create", "-f", "-"], &config_maps("default", names)).unwrap();
    cluster.kubectl(&["get", "configmap", names[0], "-o=jsonpath={.metadata.resourceVersion}"]).unwrap()
}

fn watch(version: &str) -> String {
    format!("{CONFIG_MAPS}?watch=true&resourceVersion={version}&timeoutSeconds=1")
}

/// The text with each number replaced by `#`.
fn without_numbers(text: &str) -> String {
    text.split(|letter: char| letter.is_ascii_digit())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("#")
}

#[test]
fn objects_are_created_and_deleted() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let namespaces = cluster.kubectl(&["get", "namespaces", "-o=name"]).unwrap();
    assert!(namespaces.contains("namespace/default\n"), "{namespaces}");
    let version = cluster.kubectl(&["version"]).unwrap();
    assert!(version.contains("Server Version: v1.36.4"), "{version}");

    let applied =
        cluster.kubectl_with_input(&["apply", "-f", "-"], &config_maps("default", &["one"])).unwrap();
    assert_eq!(applied, "configmap/one created\n");
    assert_eq!(cluster.kubectl(&["get", "configmap", "-o=name"]).unwrap(), "configmap/one\n");
    cluster.kubectl(&["delete", "configmap", "one"]).unwrap();
    let error = cluster.kubectl(&["get", "configmap", "one"]).unwrap_err().to_string();
    assert_eq!(
        error,
        "kubectl get configmap one ended (exit status: 1):\n\
         Error from server (NotFound): configmaps \"one\" not found\n"
    );

    // Pods need no service account here: without the controller manager there would be none.
    let pod = ["run", "web", "--image=web", "--restart=Never"];
    assert_eq!(cluster.kubectl(&pod).unwrap(), "pod/web created\n");
}

#[test]
fn rbac_allows_only_granted_requests() {
    let Some(cluster) = start(ClusterOptions { rbac: true, ..ClusterOptions::default() }) else { return };
    let stranger = ["get", "configmaps", "--as=stranger"];
    let error = cluster.kubectl(&stranger).unwrap_err().to_string();
    assert!(error.contains("Error from server (Forbidden)"), "{error}");
    cluster.kubectl(&["get", "configmaps"]).unwrap();
    // Kubernetes' own role `view` is empty here: kube-controller-manager aggregates it.
    cluster.kubectl(&["create", "role", "reader", "--verb=list", "--resource=configmaps"]).unwrap();
    cluster.kubectl(&["create", "rolebinding", "reader", "--role=reader", "--user=stranger"]).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    // The server learns of the binding through a watch of its own.
    while let Err(error) = cluster.kubectl(&stranger) {
        assert!(Instant::now() < end, "{error}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_compaction_makes_earlier_versions_too_old() {
    let options = ClusterOptions {
        apiserver_flags: vec!["--watch-cache=false".to_owned()],
        ..ClusterOptions::default()
    };
    let Some(cluster) = start(options) else { return };
    let version = create(&cluster, &["one", "two", "three"]);
    let page = cluster.kubectl(&["get", "--raw", &format!("{CONFIG_MAPS}?limit=1")]).unwrap();
    let token = page.split("\"continue\":\"").nth(1).unwrap().split('"').next().unwrap();
    let next_page = format!("{CONFIG_MAPS}?limit=1&continue={token}");

    let events = cluster.kubectl(&["get", "--raw", &watch(&version)]).unwrap();
    assert_eq!(events.lines().count(), 2, "{events}");
    cluster.kubectl(&["get", "--raw", &next_page]).unwrap();

    // A compaction keeps the latest revision, so the page's revision must not be the latest.
    create(&cluster, &["four"]);
    assert!(cluster.compact().unwrap() > version.parse().unwrap());
    let events = cluster.kubectl(&["get", "--raw", &watch(&version)]).unwrap();
    assert!(events.starts_with(r#"{"type":"ERROR","object":{"kind":"Status""#), "{events}");
    assert!(events.contains(r#""reason":"Expired","code":410}"#), "{events}");
    let error = cluster.kubectl(&["get", "--raw", &next_page]).unwrap_err().to_string();
    assert!(error.contains("Error from server (Expired)"), "{error}");
}

#[test]
fn a_restart_keeps_stored_objects() {
    let Some(mut cluster) = start(ClusterOptions::default()) else { return };
    let version = create(&cluster, &["one", "two"]);
    let url = cluster.url().to_owned();
    cluster.stop_apiserver();
    let error = cluster.kubectl(&["get", "configmaps"]).unwrap_err().to_string();
    assert!(error.contains("refused"), "{error}");

    cluster.restart_apiserver().unwrap();
    assert_eq!(cluster.url(), url);
    assert_eq!(cluster.kubectl(&["get", "configmaps", "-o=name"]).unwrap(), "configmap/one\nconfigmap/two\n");

    // A version from before the server's start is too old for a watch. The proxy sends the same error.
    let events = cluster.kubectl(&["get", "--raw", &watch(&version)]).unwrap();
    assert!(events.contains(r#""code":410"#), "{events}");
    let fault = FaultKind::DuringWatch { after: 0, what: WatchFault::Gone };
    let step = PlannedFault { path: CONFIG_MAPS.to_owned(), request_kind: RequestKind::Watch, nth: 1, fault };
    let proxy = Proxy::start(&cluster, FaultPlan { seed: None, faults: vec![step] }).unwrap();
    let kubeconfig = format!("--kubeconfig={}", proxy.kubeconfig().display());
    let proxied_events = cluster.kubectl(&[&kubeconfig, "get", "--raw", &watch("0")]).unwrap();
    assert_eq!(without_numbers(&proxied_events), without_numbers(&events));
}

#[test]
fn the_programs_work_together() {
    let Some(mut cluster) = start(ClusterOptions { service_accounts: true, ..ClusterOptions::default() })
    else {
        return;
    };
    cluster.start_controller_manager().unwrap();
    cluster.start_scheduler(16, &[]).unwrap();
    cluster.start_kwok(&Path::new(env!("CARGO_MANIFEST_DIR")).join("stages.yaml")).unwrap();
    let manifests = "
{apiVersion: v1, kind: Node, metadata: {name: node-1}, status: {allocatable: {cpu: '4', memory: 8Gi, pods: '10'}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: web}]}
";
    cluster.kubectl_with_input(&["create", "-f", "-"], manifests).unwrap();
    cluster.kubectl(&["rollout", "status", "deployment/web", "-n=shop", "--timeout=60s"]).unwrap();
    let pods = [
        "get",
        "pods",
        "-n=shop",
        "-o=jsonpath={range .items[*]}{.spec.nodeName} {.status.phase}{'\\n'}{end}",
    ];
    assert_eq!(cluster.kubectl(&pods).unwrap(), "node-1 Running\nnode-1 Running\n");
    // Waits until the namespace is gone.
    cluster.kubectl(&["delete", "namespace", "shop", "--timeout=60s"]).unwrap();

    cluster.check_running().unwrap();
    cluster.start_scheduler(1, &["--no-such-flag"]).unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    let error = loop {
        assert!(Instant::now() < end, "it still runs");
        if let Err(error) = cluster.check_running() {
            break error.to_string();
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(error.contains("unknown flag: --no-such-flag"), "{error}");
}
