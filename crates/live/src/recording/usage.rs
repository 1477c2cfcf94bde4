//! Samples of the usage of nodes and pods, taken from `metrics.k8s.io` at an interval.
//!
//! The metrics server keeps only the latest sample, so it must be polled. A sample becomes one small object per node
//! (`NodeUsage`) and one per namespace (`NamespaceUsage`, with the containers of its pods), in the API group
//! `kinescope.io`.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::{Gap, IncomingChange, Kind, Moment, NamespacedName, Object, What};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{FLUSH_TIMEOUT, Shared, wait_for_stop};
use crate::list_watch::{GAP_REPORT_INTERVAL_NANOS, RequestFailure, WatchSubject};
use crate::recording_event::{RecordingEvent, ResumeState, VersionId, WatchBatch};
use crate::url::percent_encode;

const METRICS_API: &str = "/apis/metrics.k8s.io/v1beta1";
const GROUP: &str = "kinescope.io";
const NODE_USAGE: &str = "NodeUsage";
const NAMESPACE_USAGE: &str = "NamespaceUsage";

/// Samples usage until it is stopped.
pub(super) struct UsageSampler {
    shared: Arc<Shared>,
    /// Only these namespaces; all if it is empty.
    namespaces: Vec<String>,
    interval: Duration,
    /// The content of the last sample of each node and namespace, by kind.
    last: HashMap<&'static str, BTreeMap<String, VersionId>>,
    /// The beginning of the current gap, and its reason.
    ongoing_gap: Option<(Moment, String)>,
    /// The moment of the last sample.
    last_sample: Option<Moment>,
}

/// The content of a sample, by the name of the node or namespace, without kind and metadata.
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

/// The recorded part of NodeMetrics.
#[derive(Serialize)]
struct NodeUsage<'a> {
    timestamp: &'a str,
    window: &'a str,
    usage: &'a RawValue,
}

/// The recorded part of the PodMetrics of a namespace.
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

/// Reports the samples of an earlier recording as deleted, when usage is no longer sampled.
pub(super) fn end_sampling(source: &Arc<str>, resume_state: &ResumeState, now: Moment) -> WatchBatch {
    let changes = [NODE_USAGE, NAMESPACE_USAGE].into_iter().flat_map(|kind| {
        let subject = watch_subject(source, kind);
        let objects = resume_state.objects.get(&subject.kind).into_iter().flatten();
        let mut objects: Vec<(&NamespacedName, &VersionId)> = objects.collect();
        objects.sort_unstable_by_key(|(name, _)| *name);
        objects
            .into_iter()
            .map(|(name, version)| subject.inferred_delete(name, version, now))
            .collect::<Vec<_>>()
    });
    WatchBatch { changes: changes.collect(), ..WatchBatch::default() }
}

// === impl UsageSampler ===

impl UsageSampler {
    pub(super) fn new(
        shared: Arc<Shared>,
        namespaces: Vec<String>,
        interval: Duration,
        resume_state: &ResumeState,
    ) -> UsageSampler {
        let versions_of = |kind: &'static str| {
            let objects = resume_state.objects.get(&Kind::new(GROUP, kind)).into_iter().flatten();
            (kind, objects.map(|(name, version)| (name.name.to_string(), version.clone())).collect())
        };
        let last: HashMap<_, BTreeMap<String, VersionId>> =
            [NODE_USAGE, NAMESPACE_USAGE].map(versions_of).into();
        let was_sampled = last.values().any(|objects| !objects.is_empty());
        let ongoing_gap = resume_state.until.filter(|_| was_sampled);
        let ongoing_gap = ongoing_gap.map(|until| (until, "usage was not sampled".to_owned()));
        UsageSampler { shared, namespaces, interval, last, ongoing_gap, last_sample: None }
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut ticks = interval(self.interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_warning = String::new();
        loop {
            let sample = async {
                ticks.tick().await;
                self.sample().await
            };
            let result = tokio::select! {
                result = sample => result,
                () = wait_for_stop(&mut stop) => return self.send_last_gap().await,
            };
            let now = (self.shared.clock)();
            let event = match result {
                Ok(sample) => {
                    last_warning.clear();
                    RecordingEvent::Batch(self.batch_for(&sample, now))
                }
                Err(failure) => {
                    let message = format!("usage cannot be sampled: {failure}");
                    let since = self.last_sample.unwrap_or(now);
                    let (since, _) = self.ongoing_gap.get_or_insert((since, message.clone()));
                    if now.nanos_since(*since) >= GAP_REPORT_INTERVAL_NANOS {
                        RecordingEvent::Batch(self.report_gap(now))
                    } else if message == last_warning {
                        continue;
                    } else {
                        last_warning.clone_from(&message);
                        RecordingEvent::Warning { kind: Kind::new(GROUP, NODE_USAGE), message }
                    }
                }
            };
            if self.shared.output.send(event).await.is_err() {
                return;
            }
        }
    }

    /// Reports the ongoing gap until now, and continues it.
    fn report_gap(&mut self, now: Moment) -> WatchBatch {
        let gap = self.ongoing_gap.as_mut().map(|(since, why)| {
            let from = std::mem::replace(since, now);
            let kinds = [NODE_USAGE, NAMESPACE_USAGE].map(|kind| Kind::new(GROUP, kind)).into();
            // The clock may have been set back.
            let (from, to) = (from.min(now), from.max(now));
            Gap { source: self.shared.source.clone(), kinds, from, to, why: why.clone() }
        });
        WatchBatch { gaps: gap.into_iter().collect(), ..WatchBatch::default() }
    }

    /// Reports the ongoing gap when the recording stops: a later recording begins its own gap only there.
    async fn send_last_gap(mut self) {
        let batch = self.report_gap((self.shared.clock)());
        if !batch.is_empty() {
            // If it is not received in time, this is like a kill.
            let _ = timeout(FLUSH_TIMEOUT, self.shared.output.send(RecordingEvent::Batch(batch))).await;
        }
    }

    async fn sample(&self) -> Result<Sample, RequestFailure> {
        let mut sample = Sample::default();
        let nodes = self.get(&format!("{METRICS_API}/nodes")).await?;
        for node in parse_list(&nodes)?.items {
            if let Some(usage) = node.usage {
                let node_usage = NodeUsage { timestamp: &node.timestamp, window: &node.window, usage };
                sample.nodes.insert(node.metadata.name.clone(), to_json(&node_usage));
            }
        }
        let all = self.namespaces.is_empty().then(|| format!("{METRICS_API}/pods"));
        let chosen = self
            .namespaces
            .iter()
            .map(|name| format!("{METRICS_API}/namespaces/{}/pods", percent_encode(name)));
        for path in all.into_iter().chain(chosen) {
            sample.add_pods(&parse_list(&self.get(&path).await?)?);
        }
        Ok(sample)
    }

    async fn get(&self, path: &str) -> Result<Vec<u8>, RequestFailure> {
        self.shared.connection.get(path, "application/json").await
    }

    /// The changes that a sample makes to the history.
    fn batch_for(&mut self, sample: &Sample, now: Moment) -> WatchBatch {
        let mut batch = WatchBatch::default();
        for (kind, objects) in [(NODE_USAGE, &sample.nodes), (NAMESPACE_USAGE, &sample.namespaces)] {
            let subject = watch_subject(&self.shared.source, kind);
            let last = self.last.entry(kind).or_default();
            let removed: Vec<String> =
                last.keys().filter(|name| !objects.contains_key(*name)).cloned().collect();
            for name in removed {
                let version = last.remove(&name);
                let deleted =
                    version.map(|version| subject.inferred_delete(&cluster_scoped(&name), &version, now));
                batch.changes.extend(deleted);
            }
            for (name, content) in objects {
                let (object, version) = usage_object(kind, name, content);
                let what = match last.insert(name.clone(), version.clone()) {
                    Some(previous) if previous == version => continue,
                    Some(_) => What::Modified(object),
                    None => What::Added(object),
                };
                let observed = IncomingChange::received(now, &self.shared.source, what);
                batch.changes.push(IncomingChange { inferred: true, ..observed });
            }
        }
        batch.gaps = self.report_gap(now).gaps;
        self.ongoing_gap = None;
        self.last_sample = Some(now);
        batch
    }
}

// === impl Sample ===

impl Sample {
    fn add_pods(&mut self, list: &List<'_>) {
        let mut namespaces: BTreeMap<&str, NamespaceUsage<'_>> = BTreeMap::new();
        for pod in &list.items {
            let containers =
                pod.containers.iter().map(|container| (&*container.name, container.usage)).collect();
            let usage = PodUsage { timestamp: &pod.timestamp, window: &pod.window, containers };
            let namespace_usage = namespaces.entry(&pod.metadata.namespace).or_default();
            namespace_usage.pods.insert(&pod.metadata.name, usage);
        }
        let namespaces = namespaces.into_iter().map(|(name, usage)| (name.to_owned(), to_json(&usage)));
        self.namespaces.extend(namespaces);
    }
}

fn parse_list(bytes: &[u8]) -> Result<List<'_>, RequestFailure> {
    serde_json::from_slice(bytes)
        .map_err(|error| RequestFailure::from_message(format!("invalid metrics: {error}")))
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers serialize as JSON")
}

/// An object with this content; the hash of the content serves as its resourceVersion.
fn usage_object(kind: &str, name: &str, content: &str) -> (Object, VersionId) {
    let content_hash = format!("{:016x}", model::ContentHash::of(content).0);
    let metadata = serde_json::json!({ "name": name, "resourceVersion": content_hash });
    let members = content.strip_prefix('{').unwrap_or(content);
    let object = format!(r#"{{"apiVersion":"{GROUP}/v1","kind":"{kind}","metadata":{metadata},{members}"#);
    (Object::from_trusted(object), VersionId { uid: "".into(), resource_version: content_hash.into() })
}

fn watch_subject(source: &Arc<str>, kind: &str) -> WatchSubject {
    let kind = Kind::new(GROUP, kind);
    WatchSubject { source: source.clone(), api_version: format!("{GROUP}/v1"), kind, keep: |_| true }
}

fn cluster_scoped(name: &str) -> NamespacedName {
    NamespacedName::new("", name)
}
