//! Samples of what nodes and pods use, taken from `metrics.k8s.io` at an interval.
//!
//! The server forgets each sample when the next one is there, so they can be had in no other way. A sample becomes one
//! small object for each node (`NodeUsage`) and one for each namespace (`NamespaceUsage`, with the containers of its
//! pods), both of the API group `kinescope.io`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::{Gap, Kind, Moment, Object, Observed, What};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::{Desk, stopped};
use crate::news::{Event, Known, Name, News, Seen};
use crate::url::encoded;
use crate::watching::{Failure, Subject};

const API: &str = "/apis/metrics.k8s.io/v1beta1";
const GROUP: &str = "kinescope.io";
const NODES: &str = "NodeUsage";
const NAMESPACES: &str = "NamespaceUsage";

/// Takes samples until it is told to stop.
pub(super) struct UsageSampler {
    desk: Arc<Desk>,
    /// Only these; all if it is empty.
    namespaces: Vec<String>,
    interval: Duration,
    /// The content of the last sample of each node and namespace, by kind.
    last: HashMap<&'static str, BTreeMap<String, Seen>>,
    /// Since when there was no sample, and why.
    missing: Option<(Moment, String)>,
    /// The moment of the last sample.
    sampled: Option<Moment>,
}

/// One object of a sample, before it has a kind and metadata.
#[derive(Default)]
struct Sample {
    nodes: BTreeMap<String, String>,
    namespaces: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    items: Vec<Metrics<'a>>,
}

/// `NodeMetrics` or `PodMetrics`.
#[derive(Deserialize)]
struct Metrics<'a> {
    metadata: Metadata,
    #[serde(default)]
    timestamp: String,
    #[serde(default)]
    window: String,
    /// Of a node.
    #[serde(borrow)]
    usage: Option<&'a RawValue>,
    /// Of a pod.
    #[serde(borrow, default)]
    containers: Vec<Container<'a>>,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    #[serde(default)]
    namespace: String,
}

#[derive(Deserialize)]
struct Container<'a> {
    name: String,
    #[serde(borrow)]
    usage: &'a RawValue,
}

/// What is kept of a node's metrics.
#[derive(Serialize)]
struct NodeUsage<'a> {
    timestamp: &'a str,
    window: &'a str,
    usage: &'a RawValue,
}

/// What is kept of the metrics of a namespace's pods.
#[derive(Default, Serialize)]
struct NamespaceUsage<'a> {
    /// Pod, container, usage.
    pods: BTreeMap<&'a str, PodUsage<'a>>,
}

#[derive(Serialize)]
struct PodUsage<'a> {
    timestamp: &'a str,
    window: &'a str,
    containers: BTreeMap<&'a str, &'a RawValue>,
}

/// Ends what an earlier run has sampled and this one does not.
pub(super) fn end(source: &Arc<str>, known: &Known, now: Moment) -> News {
    let changes = [NODES, NAMESPACES].into_iter().flat_map(|kind| {
        let subject = subject(source, kind);
        let objects = known.objects.get(&subject.kind).into_iter().flatten();
        let mut objects: Vec<(&Name, &Seen)> = objects.collect();
        objects.sort_unstable_by_key(|(name, _)| *name);
        objects.into_iter().map(|(name, seen)| subject.deleted(name, seen, now)).collect::<Vec<_>>()
    });
    News { changes: changes.collect(), ..News::default() }
}

// === impl UsageSampler ===

impl UsageSampler {
    pub(super) fn new(
        desk: Arc<Desk>,
        namespaces: Vec<String>,
        interval: Duration,
        known: &Known,
    ) -> UsageSampler {
        let of_kind = |kind: &'static str| {
            let objects = known.objects.get(&Kind::new(GROUP, kind)).into_iter().flatten();
            (kind, objects.map(|((_, name), seen)| (name.to_string(), seen.clone())).collect())
        };
        let last: HashMap<_, BTreeMap<String, Seen>> = [NODES, NAMESPACES].map(of_kind).into();
        let was_sampled = last.values().any(|objects| !objects.is_empty());
        let missing = known.until.filter(|_| was_sampled);
        let missing = missing.map(|until| (until, "usage was not sampled".to_owned()));
        UsageSampler { desk, namespaces, interval, last, missing, sampled: None }
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut trouble = String::new();
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = stopped(&mut stop) => return,
            }
            let taken = tokio::select! {
                taken = self.take() => taken,
                () = stopped(&mut stop) => return,
            };
            let now = (self.desk.clock)();
            let event = match taken {
                Ok(sample) => {
                    trouble.clear();
                    Event::News(self.told(&sample, now))
                }
                Err(failure) => {
                    let words = format!("usage cannot be sampled for now: {failure}");
                    let since = self.sampled.unwrap_or(now);
                    self.missing.get_or_insert((since, words.clone()));
                    if words == trouble {
                        continue;
                    }
                    trouble.clone_from(&words);
                    Event::Trouble { kind: Kind::new(GROUP, NODES), words }
                }
            };
            if self.desk.out.send(event).await.is_err() {
                return;
            }
        }
    }

    async fn take(&self) -> Result<Sample, Failure> {
        let mut sample = Sample::default();
        let nodes = self.get(&format!("{API}/nodes")).await?;
        for one in read(&nodes)?.items {
            if let Some(usage) = one.usage {
                let kept = NodeUsage { timestamp: &one.timestamp, window: &one.window, usage };
                sample.nodes.insert(one.metadata.name.clone(), text(&kept));
            }
        }
        let all = self.namespaces.is_empty().then(|| format!("{API}/pods"));
        let chosen = self.namespaces.iter().map(|name| format!("{API}/namespaces/{}/pods", encoded(name)));
        for path in all.into_iter().chain(chosen) {
            sample.add_pods(&read(&self.get(&path).await?)?);
        }
        Ok(sample)
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, Failure> {
        self.desk.connection.get(path, "application/json").await
    }

    /// What a sample changes in the history.
    fn told(&mut self, sample: &Sample, now: Moment) -> News {
        let mut news = News::default();
        for (kind, objects) in [(NODES, &sample.nodes), (NAMESPACES, &sample.namespaces)] {
            let subject = subject(&self.desk.source, kind);
            let last = self.last.entry(kind).or_default();
            let gone: Vec<String> =
                last.keys().filter(|name| !objects.contains_key(*name)).cloned().collect();
            for name in gone {
                let seen = last.remove(&name);
                let deleted = seen.map(|seen| subject.deleted(&in_cluster(&name), &seen, now));
                news.changes.extend(deleted);
            }
            for (name, content) in objects {
                let (object, seen) = made(kind, name, content);
                let what = match last.insert(name.clone(), seen.clone()) {
                    Some(before) if before == seen => continue,
                    Some(_) => What::Modified(object),
                    None => What::Added(object),
                };
                let observed = Observed::received(now, &self.desk.source, what);
                news.changes.push(Observed { inferred: true, ..observed });
            }
        }
        if let Some((from, why)) = self.missing.take() {
            let kinds = [NODES, NAMESPACES].map(|kind| Kind::new(GROUP, kind)).into();
            news.gaps.push(Gap { source: self.desk.source.clone(), kinds, from, to: now, why });
        }
        self.sampled = Some(now);
        news
    }
}

// === impl Sample ===

impl Sample {
    fn add_pods(&mut self, list: &List<'_>) {
        let mut namespaces: BTreeMap<&str, NamespaceUsage<'_>> = BTreeMap::new();
        for pod in &list.items {
            let containers = pod.containers.iter().map(|one| (&*one.name, one.usage)).collect();
            let usage = PodUsage { timestamp: &pod.timestamp, window: &pod.window, containers };
            let of_namespace = namespaces.entry(&pod.metadata.namespace).or_default();
            of_namespace.pods.insert(&pod.metadata.name, usage);
        }
        let namespaces = namespaces.into_iter().map(|(name, usage)| (name.to_owned(), text(&usage)));
        self.namespaces.extend(namespaces);
    }
}

fn read(bytes: &[u8]) -> Result<List<'_>, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::said(format!("metrics are unreadable: {error}")))
}

fn text(kept: &impl Serialize) -> String {
    serde_json::to_string(kept).expect("texts and numbers are JSON")
}

/// An object with this content, and the mark by which it is known again: the server has none for it.
fn made(kind: &str, name: &str, content: &str) -> (Object, Seen) {
    let mark = format!("{:016x}", model::ContentHash::of(content).0);
    let metadata = serde_json::json!({ "name": name, "resourceVersion": mark });
    let members = content.strip_prefix('{').unwrap_or(content);
    let object = format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"{kind}","metadata":{metadata},{members}"#);
    (Object::trusted(object), Seen { uid: "".into(), resource_version: mark.into() })
}

fn subject(source: &Arc<str>, kind: &str) -> Subject {
    let kind = Kind::new(GROUP, kind);
    Subject { source: source.clone(), api_version: format!("{GROUP}/v1"), kind, keep: |_| true }
}

fn in_cluster(name: &str) -> Name {
    ("".into(), name.into())
}
