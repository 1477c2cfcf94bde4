//! When the containers of pods ran: from what one version of a pod says, and over its whole life.
//!
//! SimKube's tracer derives the same from what it sees, one version at a time and by name alone; where it loses what is
//! kept here, the place says so.

use std::collections::BTreeMap;

use model::{Key, Moment, Object, What};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// When the containers of a pod ran, from the first start to the last end. Kubernetes tells both in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// None has started.
    Not,
    /// They run, or will be started again.
    Since(Moment),
    /// All have ended for good.
    Between(Moment, Moment),
}

/// A pod from its creation to its end. The uid makes the life: another pod of the same name has its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Life {
    /// The pod's name.
    pub key: Key,
    /// The pod's uid, if anything tells.
    pub uid: Option<String>,
    /// When it was created, or first seen where it does not say.
    pub created: Moment,
    /// When its containers ran.
    pub ran: Ran,
    /// When it was deleted, or at the latest where that was missed; `None` if it is still there.
    pub deleted: Option<Moment>,
    /// The first version whose containers had started, which is the one that SimKube takes owners and spec from; the
    /// last version of a pod that never started.
    pub pod: Object,
}

/// Puts the lives of pods together out of their changes. It holds the pods that are there, one version of each.
#[derive(Debug, Default)]
pub struct PodLives {
    open: BTreeMap<Key, Open>,
    /// The pod whose delete came last: news of it may come twice.
    gone: Option<(Key, Option<String>)>,
}

/// What SimKube reads out of one version of a pod.
///
/// It starts with the earliest start of any container and ends with the latest end, if as many regular containers are
/// terminated as there are. Earlier runs of the containers do not count, nor does whether they will be started again.
/// What is not as Kubernetes writes it counts as absent.
pub fn ran(pod: &Object) -> Ran {
    Version::read(pod).ran
}

/// A life that goes on.
#[derive(Debug)]
struct Open {
    life: Life,
    first_start: Option<Moment>,
    last_start: Option<Moment>,
    last_end: Option<Moment>,
    /// Whether the pod has a run that goes on, as far as is known.
    running: bool,
    /// When it was first seen that no container will be started again.
    over: Option<Moment>,
    settled: bool,
}

/// What one version of a pod says.
#[derive(Debug)]
struct Version {
    uid: Option<String>,
    created: Option<Moment>,
    ran: Ran,
    first_start: Option<Moment>,
    last_start: Option<Moment>,
    last_end: Option<Moment>,
    /// Whether a run goes on that keeps the pod from being finished; `None` if it says nothing of its containers.
    running: Option<bool>,
    /// Whether no container will be started again.
    over: bool,
    /// Whether it is over and all ends are known, so that nothing can be added.
    settled: bool,
}

/// One run of a container.
#[derive(Clone, Copy, Debug)]
struct Run {
    start: Option<Moment>,
    /// `None` if it goes on, or ended without anyone knowing when, as with a node that was lost.
    end: Option<Moment>,
}

// === impl PodLives ===

impl PodLives {
    /// Before any change.
    pub fn new() -> PodLives {
        PodLives::default()
    }

    /// Takes a change of a pod, and gives the life that it ended: the pod's, or that of an earlier one of its name.
    ///
    /// SimKube goes by name: a pod made again under its name, as a StatefulSet does it, overwrites the life before.
    pub fn pod(&mut self, at: Moment, key: &Key, what: &What) -> Option<Life> {
        let version = Version::read(what.object());
        let deleted = matches!(what, What::Deleted(_));
        let again = self.gone.as_ref().is_some_and(|(gone, uid)| gone == key && same(uid, &version.uid));
        if deleted && again && !self.open.contains_key(key) {
            return None;
        }
        let mut ended = None;
        if let Some(open) = self.open.get(key)
            && !same(&open.life.uid, &version.uid)
        {
            if version.created.is_some_and(|created| created < open.life.created) {
                // Late news of a life that is over.
                return None;
            }
            // A name is free again before the next pod of that name is created.
            let gone = version.created.map_or(at, |created| created.min(at));
            ended = self.open.remove(key).map(|open| open.end(Some(gone)));
        }
        let open =
            self.open.entry(key.clone()).or_insert_with(|| Open::new(at, key, what.object(), &version));
        open.see(at, version, what);
        if deleted && ended.is_none() {
            self.gone = Some((key.clone(), open.life.uid.clone()));
            ended = self.open.remove(key).map(|open| open.end(Some(at)));
        } else if deleted {
            // One change gives one life: this one waits for the next pod of the name, or the end.
            open.life.deleted = Some(at);
        }
        ended
    }

    /// The lives of the pods that are still there, sorted by key.
    pub fn finish(self) -> impl Iterator<Item = Life> {
        self.open.into_values().map(|open| open.end(None))
    }
}

// === impl Open ===

impl Open {
    fn new(at: Moment, key: &Key, pod: &Object, version: &Version) -> Open {
        let life = Life {
            key: key.clone(),
            uid: version.uid.clone(),
            created: version.created.unwrap_or(at),
            ran: Ran::Not,
            deleted: None,
            pod: pod.clone(),
        };
        Open {
            life,
            first_start: None,
            last_start: None,
            last_end: None,
            running: false,
            over: None,
            settled: false,
        }
    }

    fn see(&mut self, at: Moment, version: Version, what: &What) {
        // KWOK writes a new end into pods that have long ended.
        if self.life.deleted.is_some() || self.settled {
            return;
        }
        if let What::Deleted(_) = what
            && version.says_nothing()
        {
            // A stub: what was seen before still holds.
            return;
        }
        if self.first_start.is_none() {
            self.life.pod = what.object().clone();
        }
        self.life.uid = self.life.uid.take().or(version.uid);
        self.first_start = [self.first_start, version.first_start].into_iter().flatten().min();
        self.last_start = self.last_start.max(version.last_start);
        self.last_end = self.last_end.max(version.last_end);
        self.running = version.running.unwrap_or(self.running);
        self.over = if version.over { self.over.or(Some(at)) } else { None };
        self.settled = version.settled;
    }

    /// The life as far as it is known, if the pod was deleted then or is still there.
    fn end(mut self, deleted: Option<Moment>) -> Life {
        self.life.deleted = self.life.deleted.or(deleted);
        self.life.ran = match (self.first_start, self.over.or(self.life.deleted)) {
            (None, _) => Ran::Not,
            (Some(start), None) => Ran::Since(start),
            (Some(start), Some(over)) => Ran::Between(start, self.last_end(over).max(start)),
        };
        self.life
    }

    /// When the last container ended, knowing that none runs after `over`.
    ///
    /// A container that was not seen to end did so by then: with the pod's delete, or with an eviction or the loss of
    /// its node, whose only trace may be the phase. SimKube takes no notice of the phase and lets such a pod run until
    /// its delete, to which it gives the second of receipt.
    fn last_end(&self, over: Moment) -> Moment {
        match self.last_end {
            Some(end) if !self.running && self.last_start <= Some(end) => end,
            _ => over,
        }
    }
}

// === impl Version ===

impl Version {
    /// What a pod's own fields say; nothing where they are not as Kubernetes writes them.
    fn read(pod: &Object) -> Version {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Pod {
            metadata: Metadata,
            spec: Spec,
            status: Value,
        }
        #[derive(Default, Deserialize)]
        #[serde(default, rename_all = "camelCase")]
        struct Metadata {
            creation_timestamp: Value,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Spec {
            containers: Vec<IgnoredAny>,
        }
        let Pod { metadata, spec, status } = pod.view().unwrap_or_default();
        let [init, regular] =
            ["initContainerStatuses", "containerStatuses"].map(|list| entries(&status[list]));
        let regular_now = runs(regular, "state");
        let all_ended = regular_now.iter().filter(|run| run.end.is_some()).count() == spec.containers.len();
        let now = [runs(init, "state"), regular_now].concat();
        let known = |run: &Run| Run { start: run.start.filter(|start| *start != NEVER_STARTED), ..*run };
        let all: Vec<Run> = [&now, &runs(init, "lastState"), &runs(regular, "lastState")]
            .into_iter()
            .flatten()
            .map(known)
            .collect();
        let over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        let goes_on = now.iter().any(|run| run.end.is_none());
        Version {
            uid: pod.meta().uid.map(|uid| uid.into_owned()),
            created: moment(&metadata.creation_timestamp),
            ran: match (first_start(&now), last_end(&now)) {
                (None, _) => Ran::Not,
                (Some(start), Some(end)) if all_ended => Ran::Between(start, end),
                (Some(start), _) => Ran::Since(start),
            },
            first_start: first_start(&all),
            last_start: all.iter().filter_map(|run| run.start).max(),
            last_end: last_end(&all),
            // A sidecar among the init containers does not keep a pod from being finished.
            running: (!init.is_empty() || !regular.is_empty()).then_some(goes_on && !all_ended),
            over,
            settled: over && all_ended && !goes_on,
        }
    }

    fn says_nothing(&self) -> bool {
        self.first_start.is_none() && self.last_end.is_none() && self.running.is_none() && !self.over
    }
}

/// What a container that could not be started has as its start. SimKube takes it for the pod's.
const NEVER_STARTED: Moment = Moment::from_nanos(0);

/// The containers' current runs (`state`) or those before them (`lastState`), which SimKube takes no notice of: it
/// keeps the first start it saw, and the end of a pod that was restarted meanwhile does not fit that any more.
fn runs(containers: &[Value], state: &str) -> Vec<Run> {
    containers.iter().filter_map(|container| run(&container[state])).collect()
}

/// `None` for a container that waits, or one that is said to be in two states at once.
fn run(state: &Value) -> Option<Run> {
    match (&state["running"], &state["terminated"], &state["waiting"]) {
        (running @ Value::Object(_), Value::Null, Value::Null) => {
            Some(Run { start: moment(&running["startedAt"]), end: None })
        }
        (Value::Null, ended @ Value::Object(_), Value::Null) => {
            Some(Run { start: moment(&ended["startedAt"]), end: moment(&ended["finishedAt"]) })
        }
        _ => None,
    }
}

fn first_start(runs: &[Run]) -> Option<Moment> {
    runs.iter().filter_map(|run| run.start).min()
}

fn last_end(runs: &[Run]) -> Option<Moment> {
    runs.iter().filter_map(|run| run.end).max()
}

fn moment(value: &Value) -> Option<Moment> {
    value.as_str()?.parse().ok()
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether two uids may be of one pod: where one is unknown, its name decides.
fn same(a: &Option<String>, b: &Option<String>) -> bool {
    a.is_none() || b.is_none() || a == b
}

#[cfg(test)]
mod tests;
