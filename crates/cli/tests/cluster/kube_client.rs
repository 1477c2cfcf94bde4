//! kube-rs on a virtual cluster: discovery, watchers, a reflector, patches and evictions.

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, EvictParams, ListParams, Patch, PatchParams, PostParams};
use kube::client::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::discovery::Discovery;
use kube::runtime::reflector;
use kube::runtime::watcher::{self, Event};
use serde_json::json;
use tokio_stream::{Stream, StreamExt};

use crate::common::command;
use crate::server::Server;

pub(crate) async fn connect(folder: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(folder.join("kinescope.kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn pod(name: &str) -> Pod {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "busybox:1"}]},
    });
    serde_json::from_value(pod).unwrap()
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// Reads events until one is as expected.
async fn wait_for<S>(events: &mut S, what: &str, mut is_expected: impl FnMut(&Event<Pod>) -> bool)
where
    S: Stream<Item = Result<Event<Pod>, watcher::Error>> + Unpin,
{
    let found = async {
        while let Some(event) = events.next().await {
            if is_expected(&event.unwrap()) {
                return;
            }
        }
        panic!("the watch ended before {what}");
    };
    tokio::time::timeout(Duration::from_secs(60), found).await.unwrap_or_else(|_| panic!("no {what}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kube_rs_works_on_a_virtual_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let _server = Server::of(command(folder.path()).args(["cluster", "--nodes", "2"]));
    let client = connect(folder.path()).await;
    let discovery = Discovery::new(client.clone()).run_aggregated().await.unwrap();
    let deployments = discovery.get("apps").and_then(|apps| apps.recommended_kind("Deployment"));
    assert_eq!(deployments.unwrap().0.plural, "deployments");

    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut events = Box::pin(watcher::watcher(pods.clone(), config.labels("app=web")));
        wait_for(&mut events, "the initial list", |event| matches!(event, Event::InitDone)).await;
        pods.create(&PostParams::default(), &pod("a")).await.unwrap();
        let is_running =
            |event: &Event<Pod>| matches!(event, Event::Apply(pod) if phase(pod) == Some("Running"));
        wait_for(&mut events, "a running pod", is_running).await;
        // A pod that leaves the selection is deleted for the watch.
        let relabeled = json!({"metadata": {"labels": {"app": "other"}}});
        pods.patch("a", &PatchParams::default(), &Patch::Merge(relabeled)).await.unwrap();
        wait_for(&mut events, "a pod that left", |event| matches!(event, Event::Delete(_))).await;
        pods.delete("a", &DeleteParams::default()).await.unwrap();
        while pods.get_opt("a").await.unwrap().is_some() {
            tokio::task::yield_now().await;
        }
    }

    let (store, writer) = reflector::store();
    let mut reflected =
        Box::pin(reflector(writer, watcher::watcher(pods.clone(), watcher::Config::default())));
    pods.create(&PostParams::default(), &pod("b")).await.unwrap();
    wait_for(
        &mut reflected,
        "a reflected pod",
        |event| matches!(event, Event::Apply(pod) | Event::InitApply(pod) if phase(pod) == Some("Running")),
    )
    .await;
    // Pods of the first list are in the store when the list is complete.
    if store.state().is_empty() {
        wait_for(&mut reflected, "the whole list", |event| matches!(event, Event::InitDone)).await;
    }
    assert_eq!(store.state().len(), 1);

    let strategic = json!({"metadata": {"annotations": {"note": "x"}}});
    let patched = pods.patch("b", &PatchParams::default(), &Patch::Strategic(strategic)).await.unwrap();
    assert_eq!(patched.metadata.annotations.unwrap()["note"], "x");
    let stale = pod("b");
    let refused = pods.create(&PostParams::default(), &stale).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.is_already_exists()));
    pods.evict("b", &EvictParams::default()).await.unwrap();
    wait_for(&mut reflected, "an evicted pod", |event| matches!(event, Event::Delete(_))).await;
    assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
}
