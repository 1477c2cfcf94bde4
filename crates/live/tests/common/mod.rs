//! What the tests of this crate share: a cluster, churn in it, a recording of it, and an undisturbed watch beside.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use http::Request;
use http_body_util::BodyExt;
use kube::client::{Body, Client};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use live::{Connection, Event, Known, News, Seen, Target, Wanted};
use model::{Key, Kind, Moment, Object, Observed, What};
use serde::Deserialize;
use serde_json::value::RawValue;
use testcluster::{Cluster, Options};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

/// A cluster of one's own; or none, and a word about it.
pub(crate) fn start(options: Options) -> Option<Cluster> {
    let cluster = Cluster::start(options).unwrap();
    if cluster.is_none() {
        // Not by a macro, whose output the test runner would keep to itself.
        std::io::stderr().write_all(b"skipped: no go\n").unwrap();
    }
    cluster
}

pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Moment::from_nanos(since.as_nanos() as i64)
}

/// A client that is not the recorder's.
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

/// Creates, changes and deletes pods and nodes, all at once; five changes for each of `count` names and kinds, of
/// which every third stays.
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
                    let one = format!("{path}/{name}");
                    send(&client, "POST", path, body).await;
                    for step in 0..3 {
                        let patch = format!(r#"{{"metadata":{{"labels":{{"step":"{step}"}}}}}}"#);
                        send(&client, "PATCH", &one, &patch).await;
                    }
                    if number % 3 != 0 {
                        send(&client, "DELETE", &format!("{one}?gracePeriodSeconds=0"), "").await;
                    }
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
}

/// Something that a watch saw.
pub(crate) struct Sight {
    pub(crate) at: Moment,
    pub(crate) word: String,
    pub(crate) object: Object,
}

/// What one watch saw from now on until an object of this name comes.
pub(crate) async fn undisturbed(client: Client, path: &'static str, until: &str) -> JoinHandle<Vec<Sight>> {
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
        let (mut buffer, mut seen) = (Vec::new(), Vec::new());
        loop {
            let frame = body.frame().await.unwrap().unwrap();
            buffer.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let line: Line<'_> = serde_json::from_slice(&line).unwrap();
                let object = Object::parse(line.object.get()).unwrap();
                let is_last = object.meta().name == until;
                seen.push(Sight { at: now(), word: line.r#type, object });
                if is_last {
                    return seen;
                }
            }
        }
    })
}

/// A recording going on.
pub(crate) struct Recording {
    events: Arc<Mutex<Vec<Event>>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<live::Result<()>>,
}

/// What a recording has said.
#[derive(Default)]
pub(crate) struct Film {
    pub(crate) events: Vec<Event>,
}

impl Recording {
    pub(crate) async fn start(kubeconfig: &Path, wanted: Wanted, known: Known) -> Recording {
        let connection = Connection::open(Some(kubeconfig), None).await.unwrap();
        let target = Target { source: "real".into(), connection };
        let (out, mut heard) = mpsc::channel(16);
        let (stop, stopped) = watch::channel(false);
        let events = Arc::new(Mutex::new(Vec::new()));
        let task = tokio::spawn(live::record(target, wanted, known, now, out, stopped));
        let all = events.clone();
        tokio::spawn(async move {
            while let Some(event) = heard.recv().await {
                all.lock().unwrap().push(event);
            }
        });
        Recording { events, stop, task }
    }

    pub(crate) fn film(&self) -> Film {
        Film { events: self.events.lock().unwrap().clone() }
    }

    /// Waits until it is so of what was said.
    pub(crate) async fn wait(&self, what: &str, is_so: impl Fn(&Film) -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !is_so(&self.film()) {
            let ended = self.task.is_finished();
            assert!(!ended && Instant::now() < end, "{what}; ended: {ended}; {}", self.film().in_words());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Stops it, which must not take long.
    pub(crate) async fn stop(self) -> Film {
        let began = Instant::now();
        self.stop.send(true).unwrap();
        self.task.await.unwrap().unwrap();
        assert!(began.elapsed() < Duration::from_millis(1100), "stopped after {:?}", began.elapsed());
        Film { events: self.events.lock().unwrap().clone() }
    }
}

impl Film {
    pub(crate) fn news(&self) -> impl Iterator<Item = &News> {
        self.events.iter().filter_map(|event| match event {
            Event::News(news) => Some(news),
            Event::Status(_) | Event::Trouble { .. } => None,
        })
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = &Observed> {
        self.news().flat_map(|news| &news.changes)
    }

    pub(crate) fn gaps(&self) -> impl Iterator<Item = &model::Gap> {
        self.news().flat_map(|news| &news.gaps)
    }

    /// The objects as they are after all of it.
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

    /// What the next recording knows of this one.
    pub(crate) fn known(&self) -> Known {
        let seen = || self.changes().map(|change| change.seen);
        let mut known = Known { from: seen().min(), until: seen().max(), ..Known::default() };
        for (kind, position) in self.news().flat_map(|news| &news.positions) {
            known.positions.insert(kind.clone(), position.clone());
        }
        for (key, object) in self.state() {
            let meta = object.meta();
            let text = |text: Option<std::borrow::Cow<'_, str>>| text.unwrap_or_default().into_owned().into();
            let seen = Seen { uid: text(meta.uid), resource_version: text(meta.resource_version) };
            known.objects.entry(key.kind).or_default().insert((key.namespace, key.name), seen);
        }
        known
    }

    /// What went on, for those who have to find out why a test failed.
    pub(crate) fn in_words(&self) -> String {
        let mut words = format!("{} changes, {} objects", self.changes().count(), self.state().len());
        for event in &self.events {
            match event {
                Event::Status(status) => {
                    words += &format!("\n{}: {:?}, {}", status.kind, status.state, status.objects)
                }
                Event::Trouble { kind, words: said } => words += &format!("\n{kind}: {said}"),
                Event::News(news) => {
                    for gap in &news.gaps {
                        words += &format!("\ngap {:?} {} .. {}: {}", gap.kinds, gap.from, gap.to, gap.why);
                    }
                }
            }
        }
        words
    }
}

/// What the server lists, by name, without the braces that open each.
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

/// What was recorded, in the same form: without the names that lists lack.
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
