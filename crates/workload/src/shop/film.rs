//! Recorder of the shop's changes, with resource versions as an API server assigns them.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{IncomingChange, Key, Kind, Moment, Object, What};
use serde_json::json;
use simulation::{EvictionCause, Observer, SimulationEvent};

use super::nodes::{object, second};
use super::{LOOP_LASTS, yaml};
use crate::objects::SECOND;

/// Records a run. Before [`start_recording`](ShopRecorder::start_recording) it only keeps the current objects.
pub(super) struct Film {
    source: Arc<str>,
    /// All objects that exist, with the resource version of their last change.
    alive: BTreeMap<Key, (Object, u64)>,
    version: u64,
    /// Actions to be taken, by time and then in the order in which they were scheduled.
    later: BTreeMap<(Moment, u64), Later>,
    /// Events that have not expired, each with the number of its occurrences.
    said: BTreeMap<Said, (Object, u32)>,
    rolls: bool,
    changes: Vec<IncomingChange>,
    /// Preempted pods.
    preempted: Vec<(Moment, Key)>,
}

/// An action that is taken at a later time.
enum Later {
    /// The API server deletes an expired Event.
    Forget(Key, Said),
    /// The autoscaler's loop ends, and it writes its status.
    Tell(What),
}

/// The identity of an Event: the uid it regards, its reason and its note.
type Said = (String, String, String);

/// How long an API server keeps an Event (`--event-ttl`).
const EVENT_LASTS: i64 = 3_600 * SECOND;

/// The first resource version: that of a cluster which has run for a while.
const FIRST_VERSION: u64 = 51_400_000;

// === impl Film ===

impl Film {
    pub(super) fn new(source: &str) -> Film {
        Film {
            source: source.into(),
            alive: BTreeMap::new(),
            version: FIRST_VERSION,
            later: BTreeMap::new(),
            said: BTreeMap::new(),
            rolls: false,
            changes: Vec::new(),
            preempted: Vec::new(),
        }
    }

    pub(super) fn is_rolling(&self) -> bool {
        self.rolls
    }

    /// Starts recording, with a list of all objects.
    pub(super) fn roll(&mut self, at: Moment) {
        self.catch_up(at);
        self.rolls = true;
        let all = self.alive.values().map(|(object, version)| {
            IncomingChange::received(at, &self.source, What::Added(with_version(object, *version)))
        });
        self.changes.extend(all);
    }

    /// Takes the changes recorded since the last call.
    pub(super) fn developed(&mut self) -> impl Iterator<Item = IncomingChange> {
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
        self.alive.get(&key).map(|(object, _)| object)
    }

    /// All existing objects of a kind.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        let of_kind = self.alive.iter().filter(move |(key, _)| key.kind == kind);
        of_kind.map(|(key, (object, _))| (key, object))
    }

    /// The first pod that was preempted at or after a moment.
    pub(super) fn preempted_after(&self, from: Moment) -> Option<&Key> {
        self.preempted.iter().find(|(at, _)| *at >= from).map(|(_, key)| key)
    }

    fn take(&mut self, at: Moment, what: What) {
        self.version += 1;
        let key = what.object().key(&self.source);
        let now = with_version(what.object(), self.version);
        match &what {
            What::Deleted(_) => {
                self.alive.remove(&key);
            }
            What::Added(object) | What::Modified(object) => {
                self.alive.insert(key, (object.clone(), self.version));
            }
        }
        if self.rolls {
            let what = match what {
                What::Added(_) => What::Added(now),
                What::Modified(_) => What::Modified(now),
                What::Deleted(_) => What::Deleted(now),
            };
            self.changes.push(IncomingChange::received(at, &self.source, what));
        }
    }

    /// Takes the scheduled actions that are due until a moment.
    fn catch_up(&mut self, until: Moment) {
        while let Some(entry) = self.later.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), later) = entry.remove_entry();
            match later {
                Later::Tell(what) => self.take(at, what),
                Later::Forget(key, said) => {
                    self.said.remove(&said);
                    if let Some((event, _)) = self.alive.get(&key) {
                        let event = event.clone();
                        self.take(at, What::Deleted(event));
                    }
                }
            }
        }
    }

    /// Records an Event. A repeated Event about the same object becomes a series. The component that emits it counts
    /// the occurrences itself: the API server receives only the first two.
    fn say(&mut self, at: Moment, event: Object) {
        let Ok(mut value) = event.value() else { return };
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let said = (text(&value["regarding"]["uid"]), text(&value["reason"]), text(&value["note"]));
        match self.said.get_mut(&said) {
            None => {
                let key = event.key(&self.source);
                self.later
                    .insert((at.plus_nanos(EVENT_LASTS), self.version), Later::Forget(key, said.clone()));
                self.said.insert(said, (event.clone(), 1));
                self.take(at, What::Added(event));
            }
            Some((first, times)) => {
                *times += 1;
                if *times == 2
                    && let Ok(mut first) = first.value()
                {
                    first["series"] = json!({"count": 2, "lastObservedTime": value["eventTime"].take()});
                    self.take(at, What::Modified(object(&first)));
                }
            }
        }
    }

    /// Schedules the write of the autoscaler's status, which it makes after every loop.
    fn tell_status(&mut self, at: Moment, status: &serde_json::Value) {
        let (namespace, name) = ("kube-system", "cluster-autoscaler-status");
        let known = self.get(&Kind::new("", "ConfigMap"), namespace, name);
        let created = known
            .and_then(|map| map.value().ok()?["metadata"]["creationTimestamp"].as_str().map(str::to_owned));
        let is_new = created.is_none();
        let map = object(&json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": "0b1f6a2e-5d0c-4c53-a7f4-9e21c8d5e3b7",
                "creationTimestamp": created.unwrap_or_else(|| second(at)),
                "annotations": {"cluster-autoscaler.kubernetes.io/last-updated": status["time"]},
            },
            "data": {"status": yaml::printed(status)},
        }));
        let what = if is_new { What::Added(map) } else { What::Modified(map) };
        self.later.insert((at.plus_nanos(LOOP_LASTS), self.version), Later::Tell(what));
    }
}

impl Observer for Film {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        self.catch_up(at);
        match what {
            What::Added(event) if event.meta().kind == "Event" => self.say(at, event),
            what => self.take(at, what),
        }
    }

    fn on_event(&mut self, at: Moment, decided: &SimulationEvent<'_>) {
        match decided {
            SimulationEvent::LoopFinished { autoscaler, .. } => {
                if let Some(status) = autoscaler.status() {
                    self.tell_status(at, &status);
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
fn with_version(object: &Object, version: u64) -> Object {
    const METADATA: &str = r#""metadata":{"#;
    let text = object.as_str();
    // Pod templates have metadata too.
    let own = text.match_indices(METADATA).find(|(place, _)| depth(&text[..*place]) == 1);
    let Some(place) = own.map(|(place, _)| place + METADATA.len()) else { return object.clone() };
    Object::from_trusted(format!("{}\"resourceVersion\":\"{version}\",{}", &text[..place], &text[place..]))
}

/// The nesting depth of JSON objects at the end of a text.
fn depth(text: &str) -> i32 {
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
