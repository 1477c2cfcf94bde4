//! What a recorder sees of the shop: every change, with its place in the API server's history.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Key, Kind, Moment, Object, Observed, What};
use serde_json::json;
use simulation::{Decided, LostTo, Observer};

use super::nodes::{object, second};
use super::{LOOP_LASTS, yaml};
use crate::objects::SECOND;

/// Films a run. Before it [rolls](Film::roll) it only remembers what there is.
pub(super) struct Film {
    source: Arc<str>,
    /// All there is, with the version of its last change.
    alive: BTreeMap<Key, (Object, u64)>,
    version: u64,
    /// What is to happen, by time and in the order in which that was known.
    later: BTreeMap<(Moment, u64), Later>,
    /// Those that may be said again.
    said: BTreeMap<Said, (Object, u32)>,
    rolls: bool,
    changes: Vec<Observed>,
    /// Pods that had to make room.
    preempted: Vec<(Moment, Key)>,
}

/// What happens by itself.
enum Later {
    /// An API server forgets an Event.
    Forget(Key, Said),
    /// The autoscaler's loop is over, and it tells its status.
    Tell(What),
}

/// What an Event says: of whom, by which word, in which words.
type Said = (String, String, String);

/// How long an API server keeps an Event.
const EVENT_LASTS: i64 = 3_600 * SECOND;

/// What the first version is called: an old cluster has seen many.
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

    /// Begins to film, with a list of all there is.
    pub(super) fn roll(&mut self, at: Moment) {
        self.catch_up(at);
        self.rolls = true;
        let all = self.alive.values().map(|(object, version)| {
            Observed::received(at, &self.source, What::Added(with_version(object, *version)))
        });
        self.changes.extend(all);
    }

    /// What was filmed since it was last asked for.
    pub(super) fn developed(&mut self) -> impl Iterator<Item = Observed> {
        self.changes.drain(..)
    }

    /// An object that is there.
    pub(super) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<&Object> {
        let key = Key {
            source: self.source.clone(),
            kind: kind.clone(),
            namespace: namespace.into(),
            name: name.into(),
        };
        self.alive.get(&key).map(|(object, _)| object)
    }

    /// All there is of a kind.
    pub(super) fn all(&self, kind: Kind) -> impl Iterator<Item = (&Key, &Object)> {
        let of_kind = self.alive.iter().filter(move |(key, _)| key.kind == kind);
        of_kind.map(|(key, (object, _))| (key, object))
    }

    /// The first pod that had to make room from a moment on.
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
            self.changes.push(Observed::received(at, &self.source, what));
        }
    }

    /// Lets happen what happens by itself until a moment.
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

    /// Somebody says something. What is said again of the same object becomes a series, which whoever says it counts for
    /// itself: an API server hears of the first two times.
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

    /// The autoscaler tells its status, as it does after every loop.
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

    fn changed(&mut self, at: Moment, what: What) {
        self.catch_up(at);
        match what {
            What::Added(event) if event.meta().kind == "Event" => self.say(at, event),
            what => self.take(at, what),
        }
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        match decided {
            Decided::Looped { autoscaler, .. } => {
                if let Some(status) = autoscaler.status() {
                    self.tell_status(at, &status);
                }
            }
            Decided::Lost { pod, to: LostTo::Preemption(_), .. } => {
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

/// An object as an API server hands it out.
fn with_version(object: &Object, version: u64) -> Object {
    const METADATA: &str = r#""metadata":{"#;
    let text = object.as_str();
    // Templates have metadata too.
    let own = text.match_indices(METADATA).find(|(place, _)| depth(&text[..*place]) == 1);
    let Some(place) = own.map(|(place, _)| place + METADATA.len()) else { return object.clone() };
    Object::trusted(format!("{}\"resourceVersion\":\"{version}\",{}", &text[..place], &text[place..]))
}

/// How many objects are open where a text ends.
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
