//! A real API server, and clients of the test that change and watch its objects.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};

use http::Request;
use http_body_util::BodyExt;
use kube::client::{Body, Client};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use model::{Kind, Moment, Object};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;
use serde_json::value::RawValue;
use testcluster::{Cluster, ClusterOptions};
use tokio::task::{JoinHandle, JoinSet};

/// Kinds whose objects need no other objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TestKind {
    Pods,
    Deployments,
    PriorityClasses,
    Namespaces,
    Claims,
    Nodes,
}

/// An event that a watch of the test received.
#[derive(Clone, Debug)]
pub(crate) struct WatchedEvent {
    /// When it was received; `Moment::MIN` for objects that existed before.
    pub(crate) at: Moment,
    pub(crate) event_type: String,
    pub(crate) object: Object,
}

/// Workers that create, change and delete objects.
pub(crate) struct Churn {
    stop: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    workers: JoinSet<()>,
}

/// A password in the environment of every pod.
pub(crate) const PASSWORD: &str = "hunter2";

/// Starts a cluster; `None`, with a message, if it cannot be built.
pub(crate) fn start(options: ClusterOptions) -> Option<Cluster> {
    let cluster = Cluster::start(options).unwrap();
    if cluster.is_none() {
        // Written directly: the test runner captures the output of print macros.
        std::io::stderr().write_all(b"skipped: no go\n").unwrap();
    }
    cluster
}

/// A cluster shared by several tests, stopped with the last of them.
pub(crate) fn shared() -> Option<Arc<Cluster>> {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    let mut shared = SHARED.lock().unwrap();
    let cluster = match shared.upgrade() {
        Some(cluster) => cluster,
        None => Arc::new(start(ClusterOptions::default())?),
    };
    *shared = Arc::downgrade(&cluster);
    Some(cluster)
}

/// A random seed, printed so that a failure can be reproduced.
pub(crate) fn seed() -> u64 {
    let seed = std::env::var("KINESCOPE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    eprintln!("seed {seed}: set KINESCOPE_TEST_SEED to try another");
    seed
}

pub(crate) fn now() -> Moment {
    moment(SystemTime::now())
}

pub(crate) fn moment(time: SystemTime) -> Moment {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Moment::from_nanos(since.as_nanos() as i64)
}

/// A client of the test.
pub(crate) async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn send(client: &Client, method: &str, path: &str, body: &str) -> String {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
    let response = client.request_text(request.body(body.as_bytes().to_vec()).unwrap()).await;
    response.unwrap_or_else(|error| panic!("{method} {path}: {error}"))
}

/// Lists and then watches, until an object of this name arrives.
pub(crate) async fn watch(client: &Client, path: &str, until: &str) -> JoinHandle<Vec<WatchedEvent>> {
    #[derive(Deserialize)]
    struct Line<'a> {
        r#type: String,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let (version, existing) = list(client, path).await;
    let mut seen: Vec<WatchedEvent> = existing
        .into_iter()
        .map(|object| WatchedEvent { at: Moment::MIN, event_type: "ADDED".to_owned(), object })
        .collect();
    let request =
        Request::get(format!("{path}?watch=true&resourceVersion={version}")).body(Body::empty()).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    let until = until.to_owned();
    tokio::spawn(async move {
        let mut buffer = Vec::new();
        loop {
            let frame = body.frame().await.unwrap().unwrap();
            buffer.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let line: Line<'_> = serde_json::from_slice(&line).unwrap();
                let object = Object::parse(line.object.get()).unwrap();
                let is_last = object.meta().name == until;
                seen.push(WatchedEvent { at: now(), event_type: line.r#type, object });
                if is_last {
                    return seen;
                }
            }
        }
    })
}

/// Lists a resource: its resource version and objects, with apiVersion and kind filled in from the list, as watches
/// have them.
pub(crate) async fn list(client: &Client, path: &str) -> (String, Vec<Object>) {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct List<'a> {
        api_version: String,
        kind: String,
        metadata: serde_json::Value,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let text = send(client, "GET", path, "").await;
    let list: List<'_> = serde_json::from_str(&text).unwrap();
    let kind = list.kind.strip_suffix("List").unwrap();
    let names = format!(r#"{{"kind":"{kind}","apiVersion":"{}","#, list.api_version);
    // Custom resources carry apiVersion and kind themselves.
    let object = |item: &&RawValue| {
        let named = || Object::parse(&format!("{names}{}", &item.get()[1..]));
        Object::parse(item.get()).or_else(|_| named()).unwrap()
    };
    let objects = list.items.iter().map(object).collect();
    (list.metadata["resourceVersion"].as_str().unwrap().to_owned(), objects)
}

// === impl TestKind ===

impl TestKind {
    pub(crate) const ALL: [TestKind; 6] = [
        TestKind::Pods,
        TestKind::Deployments,
        TestKind::PriorityClasses,
        TestKind::Namespaces,
        TestKind::Claims,
        TestKind::Nodes,
    ];

    pub(crate) fn kind(self) -> Kind {
        match self {
            TestKind::Pods => Kind::new("", "Pod"),
            TestKind::Deployments => Kind::new("apps", "Deployment"),
            TestKind::PriorityClasses => Kind::new("scheduling.k8s.io", "PriorityClass"),
            TestKind::Namespaces => Kind::new("", "Namespace"),
            TestKind::Claims => Kind::new("", "PersistentVolumeClaim"),
            TestKind::Nodes => Kind::new("", "Node"),
        }
    }

    /// The kind's name in kubectl.
    pub(crate) fn kubectl_name(self) -> &'static str {
        match self {
            TestKind::Pods => "pods",
            TestKind::Deployments => "deploy",
            TestKind::PriorityClasses => "priorityclasses",
            TestKind::Namespaces => "ns",
            TestKind::Claims => "pvc",
            TestKind::Nodes => "nodes",
        }
    }

    /// The path for list and watch in all namespaces.
    pub(crate) fn path(self) -> &'static str {
        match self {
            TestKind::Pods => "/api/v1/pods",
            TestKind::Deployments => "/apis/apps/v1/deployments",
            TestKind::PriorityClasses => "/apis/scheduling.k8s.io/v1/priorityclasses",
            TestKind::Namespaces => "/api/v1/namespaces",
            TestKind::Claims => "/api/v1/persistentvolumeclaims",
            TestKind::Nodes => "/api/v1/nodes",
        }
    }

    /// The path for create.
    fn create_path(self) -> &'static str {
        match self {
            TestKind::Pods => "/api/v1/namespaces/default/pods",
            TestKind::Deployments => "/apis/apps/v1/namespaces/default/deployments",
            TestKind::Claims => "/api/v1/namespaces/default/persistentvolumeclaims",
            TestKind::PriorityClasses | TestKind::Namespaces | TestKind::Nodes => self.path(),
        }
    }

    fn manifest(self, name: &str) -> String {
        let spec = format!(
            r#"{{"containers":[{{"name":"a","image":"a","env":[{{"name":"PASSWORD","value":"{PASSWORD}"}}]}}]}}"#
        );
        let (api_version, kind, rest) = match self {
            TestKind::Pods => ("v1", "Pod", format!(r#","spec":{spec}"#)),
            TestKind::Deployments => {
                let template = format!(r#"{{"metadata":{{"labels":{{"app":"{name}"}}}},"spec":{spec}}}"#);
                let selector = format!(r#"{{"matchLabels":{{"app":"{name}"}}}}"#);
                let rest = format!(r#","spec":{{"selector":{selector},"template":{template}}}"#);
                ("apps/v1", "Deployment", rest)
            }
            TestKind::PriorityClasses => {
                ("scheduling.k8s.io/v1", "PriorityClass", r#","value":7"#.to_owned())
            }
            TestKind::Namespaces => ("v1", "Namespace", String::new()),
            TestKind::Claims => {
                let spec =
                    r#","spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}"#;
                ("v1", "PersistentVolumeClaim", spec.to_owned())
            }
            TestKind::Nodes => ("v1", "Node", String::new()),
        };
        format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"{name}"}}{rest}}}"#)
    }

    pub(crate) async fn create(self, client: &Client, name: &str) {
        send(client, "POST", self.create_path(), &self.manifest(name)).await;
    }

    pub(crate) async fn label(self, client: &Client, name: &str, value: &str) {
        let patch = format!(r#"{{"metadata":{{"labels":{{"turn":"{value}"}}}}}}"#);
        send(client, "PATCH", &format!("{}/{name}", self.create_path()), &patch).await;
    }

    /// Deletes the object at once: there is no kubelet to finish a graceful deletion.
    pub(crate) async fn delete(self, client: &Client, name: &str) {
        let one = format!("{}/{name}", self.create_path());
        send(client, "DELETE", &format!("{one}?gracePeriodSeconds=0"), "").await;
        match self {
            TestKind::Claims => {
                drop(send(client, "PATCH", &one, r#"{"metadata":{"finalizers":null}}"#).await)
            }
            TestKind::Namespaces => {
                let free = format!(
                    r#"{{"apiVersion":"v1","kind":"Namespace","metadata":{{"name":"{name}"}},"spec":{{"finalizers":[]}}}}"#
                );
                send(client, "PUT", &format!("{one}/finalize"), &free).await;
            }
            TestKind::Pods | TestKind::Deployments | TestKind::PriorityClasses | TestKind::Nodes => {}
        }
    }
}

// === impl WatchedEvent ===

impl WatchedEvent {
    pub(crate) fn is_delete(&self) -> bool {
        self.event_type == "DELETED"
    }

    pub(crate) fn version(&self) -> u64 {
        self.object.meta().resource_version.unwrap().parse().unwrap()
    }

    /// Whether the object existed before the watch.
    pub(crate) fn is_initial(&self) -> bool {
        self.at == Moment::MIN
    }
}

// === impl Churn ===

impl Churn {
    /// Starts `workers`, each with its own connection, that make a change every `pace` until stopped.
    pub(crate) async fn start(
        cluster: &Cluster,
        seed: u64,
        test_kinds: &'static [TestKind],
        workers: u64,
        pace: Duration,
    ) -> Churn {
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut tasks = JoinSet::new();
        for worker in 0..workers {
            let client = client(cluster).await;
            let mut rng = Pcg64::seed_from_u64(seed ^ (worker << 32));
            let (stop, made) = (stop.clone(), made.clone());
            tasks.spawn(async move {
                let mut alive = BTreeSet::new();
                let mut ticks = tokio::time::interval(pace);
                while !stop.load(Ordering::SeqCst) {
                    ticks.tick().await;
                    let test_kind = test_kinds[rng.random_range(0..test_kinds.len())];
                    let name = format!("w{worker}-{}", rng.random_range(0..8));
                    let turn = made.fetch_add(1, Ordering::SeqCst).to_string();
                    if alive.insert((test_kind, name.clone())) {
                        test_kind.create(&client, &name).await;
                        continue;
                    }
                    match (rng.random_range(0..10), test_kind) {
                        (0..2, _) => {
                            alive.remove(&(test_kind, name.clone()));
                            test_kind.delete(&client, &name).await;
                        }
                        (2..6, TestKind::Nodes) => heartbeat(&client, &name).await,
                        _ => test_kind.label(&client, &name, &turn).await,
                    }
                }
            });
        }
        Churn { stop, made, workers: tasks }
    }

    /// The number of changes made so far.
    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::SeqCst)
    }

    pub(crate) async fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::SeqCst);
        while let Some(ended) = self.workers.join_next().await {
            ended.unwrap();
        }
        self.made()
    }
}

/// A kubelet's heartbeat, which is irrelevant to scheduling.
async fn heartbeat(client: &Client, name: &str) {
    let patch = format!(
        r#"{{"status":{{"conditions":[{{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"{}","lastTransitionTime":"2026-11-01T00:00:00Z"}}]}}}}"#,
        now()
    );
    send(client, "PATCH", &format!("/api/v1/nodes/{name}/status"), &patch).await;
}
