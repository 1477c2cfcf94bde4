//! Recorder of the shop's changes, with resource versions as an API server assigns them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{IncomingChange, Key, Kind, Moment, Object, What};
use serde_json::json;
use simulation::{EvictionCause, Observer, SimulationEvent};

use super::nodes::{format_seconds, parse_object};
use super::{LOOP_DURATION, yaml};
use crate::objects::SECOND;

/// Records a run. Before [`start_recording`](ShopRecorder::start_recording) it only keeps the current objects.
pub(super) struct ShopRecorder {
    source: Arc<str>,
    /// All objects that exist, with the resource version of their last change.
    objects: BTreeMap<Key, (Object, u64)>,
    version: u64,
    /// Actions to be taken, by time and then in the order in which they were scheduled.
    scheduled: BTreeMap<(Moment, u64), ScheduledAction>,
    /// Events that have not expired, each with the number of its occurrences.
    recent_events: BTreeMap<EventIdentity, (Object, u32)>,
    is_recording: bool,
    changes: Vec<IncomingChange>,
    /// Preempted pods.
    preempted: Vec<(Moment, Key)>,
}

/// An action that is taken at a later time.
enum ScheduledAction {
    /// The API server deletes an expired Event.
    ExpireEvent(Key, EventIdentity),
    /// The autoscaler's loop ends, and it writes its status.
    WriteStatus(What),
}

/// The identity of an Event: the uid it regards, its reason and its note.
type EventIdentity = (String, String, String);

/// How long an API server keeps an Event (`--event-ttl`).
const EVENT_TTL: i64 = 3_600 * SECOND;

/// The first resource version: that of a cluster which has run for a while.
const FIRST_VERSION: u64 = 51_400_000;

// === impl ShopRecorder ===

impl ShopRecorder {
    pub(super) fn new(source: &str) -> ShopRecorder {
        ShopRecorder {
            source: source.into(),
            objects: BTreeMap::new(),
            version: FIRST_VERSION,
            scheduled: BTreeMap::new(),
            recent_events: BTreeMap::new(),
            is_recording: false,
            changes: Vec::new(),
            preempted: Vec::new(),
        }
    }

    pub(super) fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Starts recording, with a list of all objects.
    pub(super) fn start_recording(&mut self, at: Moment) {
        self.run_due_actions(at);
        self.is_recording = true;
        let all = self.objects.values().map(|(object, version)| {
            IncomingChange::received(at, &self.source, What::Added(with_resource_version(object, *version)))
        });
        self.changes.extend(all);
    }

    /// Takes the changes recorded since the last call.
    pub(super) fn take_changes(&mut self) -> impl Iterator<Item = IncomingChange> {
        self.changes.drain(..)
    }

    /// An existing object.
    pub(super) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Object> {
        let key = Key {
            source: self.source.clone(),
            kind: kind.clone(),
            namespace: namespace.into(),
            name: name.into(),
        };
        self.objects.get(&key).map(|(object, _)| object)
    }

    /// All existing objects of a kind.
    pub(super) fn objects_of_kind(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        let of_kind = self.objects.iter().filter(move |(key, _)| key.kind == kind);
        of_kind.map(|(key, (object, _))| (key, object))
    }

    /// The first pod that was preempted at or after a moment.
    pub(super) fn first_preempted(&self, from: Moment) -> Option<&Key> {
        self.preempted.iter().find(|(at, _)| *at >= from).map(|(_, key)| key)
    }

    fn record(&mut self, at: Moment, what: What) {
        self.version += 1;
        let key = what.object().key(&self.source);
        let now = with_resource_version(what.object(), self.version);
        match &what {
            What::Deleted(_) => {
                self.objects.remove(&key);
            }
            What::Added(object) | What::Modified(object) => {
                self.objects.insert(key, (object.clone(), self.version));
            }
        }
        if self.is_recording {
            let what = match what {
                What::Added(_) => What::Added(now),
                What::Modified(_) => What::Modified(now),
                What::Deleted(_) => What::Deleted(now),
            };
            self.changes.push(IncomingChange::received(at, &self.source, what));
        }
    }

    /// Takes the scheduled actions that are due until a moment.
    fn run_due_actions(&mut self, until: Moment) {
        while let Some(entry) = self.scheduled.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), later) = entry.remove_entry();
            match later {
                ScheduledAction::WriteStatus(what) => self.record(at, what),
                ScheduledAction::ExpireEvent(key, said) => {
                    self.recent_events.remove(&said);
                    if let Some((event, _)) = self.objects.get(&key) {
                        let event = event.clone();
                        self.record(at, What::Deleted(event));
                    }
                }
            }
        }
    }

    /// Records an Event. A repeated Event about the same object becomes a series. The component that emits it counts
    /// the occurrences itself: the API server receives only the first two.
    fn record_event(&mut self, at: Moment, event: Object) {
        let Ok(mut value) = event.value() else { return };
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let identity = (text(&value["regarding"]["uid"]), text(&value["reason"]), text(&value["note"]));
        match self.recent_events.get_mut(&identity) {
            None => {
                let key = event.key(&self.source);
                self.scheduled.insert(
                    (at.plus_nanos(EVENT_TTL), self.version),
                    ScheduledAction::ExpireEvent(key, identity.clone()),
                );
                self.recent_events.insert(identity, (event.clone(), 1));
                self.record(at, What::Added(event));
            }
            Some((first, times)) => {
                *times += 1;
                if *times == 2
                    && let Ok(mut first) = first.value()
                {
                    first["series"] = json!({"count": 2, "lastObservedTime": value["eventTime"].take()});
                    self.record(at, What::Modified(parse_object(&first)));
                }
            }
        }
    }

    /// Schedules the write of the autoscaler's status, which it makes after every loop.
    fn schedule_status_write(&mut self, at: Moment, status: &serde_json::Value) {
        let (namespace, name) = ("kube-system", "cluster-autoscaler-status");
        let existing = self.get(&Kind::new("", "ConfigMap"), namespace, name);
        let created = existing
            .and_then(|map| map.value().ok()?["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        let is_new = created.is_none();
        let map = parse_object(&json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": "0b1f6a2e-5d0c-4c53-a7f4-9e21c8d5e3b7",
                "creationTimestamp": created.unwrap_or_else(|| format_seconds(at)),
                "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": status["time"]},
            },
            "data": {"status": yaml::to_yaml(status)},
        }));
        let what = if is_new { What::Added(map) } else { What::Modified(map) };
        self.scheduled
            .insert((at.plus_nanos(LOOP_DURATION), self.version), ScheduledAction::WriteStatus(what));
    }
}

impl Observer for ShopRecorder {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        self.run_due_actions(at);
        match what {
            What::Added(event) if event.meta().kind == "Event" => self.record_event(at, event),
            what => self.record(at, what),
        }
    }

    fn on_event(&mut self, at: Moment, decided: &SimulationEvent<'_>) {
        match decided {
            SimulationEvent::LoopFinished { autoscaler, .. } => {
                if let Some(status) = autoscaler.status() {
                    self.schedule_status_write(at, &status);
                }
            }
            SimulationEvent::PodEvicted { pod, cause: EvictionCause::Preemption(_), .. } => {
                let key = Key {
                    source: self.source.clone(),
                    kind: Kind::new("", "Pod"),
                    namespace: pod.namespace.clone(),
                    name: pod.name.clone(),
                };
                self.preempted.push((at, key));
            }
            _ => {}
        }
    }
}

/// The object with `metadata.resourceVersion` set.
fn with_resource_version(object: &Object, version: u64) -> Object {
    const METADATA: &str = r#""metadata":{"#;
    let text = object.as_str();
    // Pod templates have metadata too.
    let own = text.match_indices(METADATA).find(|(place, _)| json_depth(&text[..*place]) == 1);
    let Some(position) = own.map(|(place, _)| place + METADATA.len()) else { return object.clone() };
    Object::from_trusted(format!(
        "{}\"resourceVersion\":\"{version}\",{}",
        &text[..position],
        &text[position..]
    ))
}

/// The nesting depth of JSON objects at the end of a text.
fn json_depth(text: &str) -> i32 {
    let (mut depth, mut is_quoted, mut is_escaped) = (0, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' if !is_quoted => depth += 1,
            b'}' if !is_quoted => depth -= 1,
            _ => {}
        }
    }
    depth
}
