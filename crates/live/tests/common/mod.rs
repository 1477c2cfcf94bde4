//! Shared test helpers: a cluster, churn in it, a recording of it, and an undisturbed watch for comparison.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use http::Request;
use http_body_util::BodyExt;
use kube::client::{Body, Client};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use live::{Connection, RecordedCluster, RecordingEvent, ResumeState, VersionId, WatchBatch, WatchScope};
use model::{IncomingChange, Key, Kind, Moment, NamespacedName, Object, What};
use serde::Deserialize;
use serde_json::value::RawValue;
use testcluster::{Cluster, ClusterOptions};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// A new cluster; `None`, with a message, if Go is not installed.
pub(crate) fn start(options: ClusterOptions) -> Option<Cluster> {
    let cluster = Cluster::start(options).unwrap();
    if cluster.is_none() {
        // Not by a macro, whose output the test runner would capture.
        std::io::stderr().write_all(b"skipped: no go\n").unwrap();
    }
    cluster
}

pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Moment::from_nanos(since.as_nanos() as i64)
}

/// A client independent of the recorder.
pub(crate) async fn client(cluster: &Cluster) -> Client {
    let kubeconfig = Kubeconfig::read_from(cluster.kubeconfig()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

pub(crate) async fn send(client: &Client, method: &str, path: &str, body: &str) -> String {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("Content-Type", kind);
    client.request_text(request.body(body.as_bytes().to_vec()).unwrap()).await.unwrap()
}

/// Creates, changes and deletes pods and nodes concurrently: five changes for each of `count` names and kinds, of which
/// every third stays.
pub(crate) async fn churn(client: &Client, name: &str, count: usize) {
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let (client, name) = (client.clone(), name.to_owned());
        tasks.spawn(async move {
            for number in (worker..count).step_by(8) {
                let name = format!("{name}-{number}");
                let pod = format!(
                    r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"a","image":"a"}}]}}}}"#
                );
                let node = format!(r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"{name}"}}}}"#);
                for (path, body) in [("/api/v1/namespaces/default/pods", &pod), ("/api/v1/nodes", &node)] {
                    let object_path = format!("{path}/{name}");
                    send(&client, "POST", path, body).await;
                    for step in 0..3 {
                        let patch = format!(r#"{{"metadata":{{"labels":{{"step":"{step}"}}}}}}"#);
                        send(&client, "PATCH", &object_path, &patch).await;
                    }
                    if number % 3 != 0 {
                        send(&client, "DELETE", &format!("{object_path}?gracePeriodSeconds=0"), "").await;
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// A received watch event.
pub(crate) struct ReceivedEvent {
    pub(crate) at: Moment,
    pub(crate) event_type: String,
    pub(crate) object: Object,
}

/// Watches from now on until an object of this name arrives.
pub(crate) async fn watch_undisturbed(
    client: Client,
    path: &'static str,
    until: &str,
) -> JoinHandle<Vec<ReceivedEvent>> {
    #[derive(Deserialize)]
    struct Line<'a> {
        r#type: String,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    let list: serde_json::Value = serde_json::from_str(&send(&client, "GET", path, "").await).unwrap();
    let version = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let until = until.to_owned();
    let request =
        Request::get(format!("{path}?watch=true&resourceVersion={version}")).body(Body::empty()).unwrap();
    let mut body = client.send(request).await.unwrap().into_body();
    tokio::spawn(async move {
        let (mut buffer, mut received) = (Vec::new(), Vec::new());
        loop {
            let frame = body.frame().await.unwrap().unwrap();
            buffer.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let line: Line<'_> = serde_json::from_slice(&line).unwrap();
                let object = Object::parse(line.object.get()).unwrap();
                let is_last = object.meta().name == until;
                received.push(ReceivedEvent { at: now(), event_type: line.r#type, object });
                if is_last {
                    return received;
                }
            }
        }
    })
}

/// A running recording.
pub(crate) struct RunningRecording {
    events: Arc<Mutex<Vec<RecordingEvent>>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<live::Result<()>>,
}

/// The events of a recording.
#[derive(Default)]
pub(crate) struct RecordedEvents {
    pub(crate) events: Vec<RecordingEvent>,
}

impl RunningRecording {
    pub(crate) async fn start(
        kubeconfig: &Path,
        scope: WatchScope,
        resume_state: ResumeState,
    ) -> RunningRecording {
        let connection = Connection::open(Some(kubeconfig), None).await.unwrap();
        let target = RecordedCluster { source: "real".into(), connection };
        let (sender, mut receiver) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(false);
        let events = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(live::record(target, scope, resume_state, now, sender, stopped));
        let collected = events.clone();
        tokio::spawn(async move {
            while let Some(event) = receiver.recv().await {
                collected.lock().unwrap().push(event);
            }
        });
        RunningRecording { events, stop, task }
    }

    pub(crate) fn events_so_far(&self) -> RecordedEvents {
        RecordedEvents { events: self.events.lock().unwrap().clone() }
    }

    /// Waits until the events satisfy a condition.
    pub(crate) async fn wait(&self, what: &str, condition: impl Fn(&RecordedEvents) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !condition(&self.events_so_far()) {
            let ended = self.task.is_finished();
            assert!(
                !ended && Instant::now() < end,
                "{what}; ended: {ended}; {}",
                self.events_so_far().summary()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops it, within the time limit.
    pub(crate) async fn stop(self) -> RecordedEvents {
        let began = Instant::now();
        self.stop.send(true).unwrap();
        self.task.await.unwrap().unwrap();
        assert!(began.elapsed() < Duration::from_millis(1100), "stopped after {:?}", began.elapsed());
        RecordedEvents { events: self.events.lock().unwrap().clone() }
    }
}

impl RecordedEvents {
    pub(crate) fn batches(&self) -> impl Iterator<Item = &WatchBatch> {
        self.events.iter().filter_map(|event| match event {
            RecordingEvent::Batch(batch) => Some(batch),
            RecordingEvent::Status(_) | RecordingEvent::Warning { .. } => None,
        })
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &IncomingChange> {
        self.batches().flat_map(|batch| &batch.changes)
    }

    pub(crate) fn gaps(&self) -> impl Iterator<Item = &model::Gap> {
        self.batches().flat_map(|batch| &batch.gaps)
    }

    /// The objects after all changes.
    pub(crate) fn state(&self) -> BTreeMap<Key, Object> {
        let mut state = BTreeMap::new();
        for change in self.changes() {
            match &change.what {
                What::Added(object) | What::Modified(object) => {
                    state.insert(change.key.clone(), object.clone())
                }
                What::Deleted(_) => state.remove(&change.key),
            };
        }
        state
    }

    pub(crate) fn has(&self, kind: &str, name: &str) -> bool {
        self.state().keys().any(|key| key.kind.to_string() == kind && *key.name == *name)
    }

    /// The state from which the next recording resumes.
    pub(crate) fn resume_state(&self) -> ResumeState {
        let seen = || self.changes().map(|change| change.seen);
        let mut resume_state =
            ResumeState { from: seen().min(), until: seen().max(), ..ResumeState::default() };
        for (kind, position) in self.batches().flat_map(|batch| &batch.positions) {
            resume_state.positions.insert(kind.clone(), position.clone());
        }
        for (key, object) in self.state() {
            let meta = object.meta();
            let text = |text: Option<std::borrow::Cow<'_, str>>| text.unwrap_or_default().into_owned().into();
            let seen = VersionId { uid: text(meta.uid), resource_version: text(meta.resource_version) };
            resume_state
                .objects
                .entry(key.kind)
                .or_default()
                .insert(NamespacedName::new(key.namespace, key.name), seen);
        }
        resume_state
    }

    /// A summary for failure messages.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!("{} changes, {} objects", self.changes().count(), self.state().len());
        for event in &self.events {
            match event {
                RecordingEvent::Status(status) => {
                    text += &format!("\n{}: {:?}, {}", status.kind, status.state, status.objects)
                }
                RecordingEvent::Warning { kind, message } => text += &format!("\n{kind}: {message}"),
                RecordingEvent::Batch(batch) => {
                    for gap in &batch.gaps {
                        text += &format!("\ngap {:?} {} .. {}: {}", gap.kinds, gap.from, gap.to, gap.why);
                    }
                }
            }
        }
        text
    }
}

/// The server's objects by name, without the opening brace.
pub(crate) async fn listed(client: &Client, path: &str) -> BTreeMap<(String, String), String> {
    #[derive(Deserialize)]
    struct List<'a> {
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Item {
        metadata: HashMap<String, serde_json::Value>,
    }
    let text = send(client, "GET", path, "").await;
    let list: List<'_> = serde_json::from_str(&text).unwrap();
    let entry = |item: &&RawValue| {
        let Item { metadata } = serde_json::from_str(item.get()).unwrap();
        let field = |name| metadata.get(name).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        ((field("namespace"), field("name")), item.get()[1..].to_owned())
    };
    list.items.iter().map(entry).collect()
}

/// The recorded objects in the same form: without apiVersion and kind.
pub(crate) fn recorded(state: &BTreeMap<Key, Object>, kind: &Kind) -> BTreeMap<(String, String), String> {
    let bare = |object: &Object| {
        let meta = object.meta();
        let (api_version, name) =
            (format!(r#""apiVersion":"{}","#, meta.api_version), format!(r#""kind":"{}","#, meta.kind));
        object.as_str()[1..].replacen(&api_version, "", 1).replacen(&name, "", 1)
    };
    let of_kind = state.iter().filter(|(key, _)| key.kind == *kind);
    of_kind.map(|(key, object)| ((key.namespace.to_string(), key.name.to_string()), bare(object))).collect()
}
