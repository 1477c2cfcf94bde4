//! Pod lifecycles: when the containers of a pod ran, from one version of the pod and over all of its versions.
//!
//! SimKube's tracer derives the same, but from one version at a time and by name alone; comments note where it loses
//! information that is kept here.

use std::collections::BTreeMap;

use model::{Key, Moment, Object, What};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

/// When the containers of a pod ran, from the first start to the last end; SimKube's `PodLifecycleData`. Kubernetes
/// reports both in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodLifecycleData {
    /// No container has started.
    Empty,
    /// Containers are running, or will be restarted.
    Running(Moment),
    /// All containers have ended for good.
    Finished(Moment, Moment),
}

/// A pod from its creation to its end. Pods are told apart by uid: another pod of the same name has its own
/// lifecycle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLifecycle {
    /// The pod's key.
    pub key: Key,
    /// The pod's uid, if known.
    pub uid: Option<String>,
    /// When it was created, or first seen if that is unknown.
    pub created: Moment,
    /// When its containers ran.
    pub data: PodLifecycleData,
    /// When it was deleted, or the latest possible moment if the delete was missed; `None` if it still exists.
    pub deleted: Option<Moment>,
    /// The first version with a started container, from which SimKube takes owners and spec; for a pod that never
    /// started, its last version.
    pub pod: Object,
}

/// Derives pod lifecycles from changes. It holds one version of each existing pod.
#[derive(Debug, Default)]
pub struct PodLifecycleTracker {
    open: BTreeMap<Key, OpenLifecycle>,
    /// The pod deleted last: its delete may be reported twice.
    last_deleted: Option<(Key, Option<String>)>,
}

/// The lifecycle data that SimKube reads from one version of a pod.
///
/// It starts with the earliest start of any container and ends with the latest end, if as many regular containers are
/// terminated as there are in the spec. Earlier runs of the containers are ignored, and so is whether they will be
/// restarted. Malformed fields count as absent.
pub fn lifecycle_data(pod: &Object) -> PodLifecycleData {
    PodVersion::read(pod).data
}

/// The lifecycle of a pod that has not ended.
#[derive(Debug)]
struct OpenLifecycle {
    lifecycle: PodLifecycle,
    first_start: Option<Moment>,
    last_start: Option<Moment>,
    last_end: Option<Moment>,
    /// Whether a container is known to be running.
    running: bool,
    /// When it was first seen that no container will be restarted.
    ended_at: Option<Moment>,
    is_complete: bool,
}

/// The relevant fields of one version of a pod.
#[derive(Debug)]
struct PodVersion {
    uid: Option<String>,
    created: Option<Moment>,
    data: PodLifecycleData,
    first_start: Option<Moment>,
    last_start: Option<Moment>,
    last_end: Option<Moment>,
    /// Whether a container is running that keeps the pod from completing; `None` if there are no container statuses.
    running: Option<bool>,
    /// Whether no container will be restarted.
    has_ended: bool,
    /// Whether the pod has ended and all end times are known, so that later versions add nothing.
    is_complete: bool,
}

/// One run of a container.
#[derive(Clone, Copy, Debug)]
struct ContainerRun {
    start: Option<Moment>,
    /// `None` if it is running, or its end time is unknown, as on a lost node.
    end: Option<Moment>,
}

// === impl PodLifecycleTracker ===

impl PodLifecycleTracker {
    /// An empty tracker.
    pub fn new() -> PodLifecycleTracker {
        PodLifecycleTracker::default()
    }

    /// Applies a change of a pod. Returns the lifecycle that it ended: the pod's own, or that of an earlier pod of
    /// its name.
    ///
    /// SimKube goes by name: a pod re-created under its name, as by a StatefulSet, overwrites the earlier lifecycle.
    pub fn apply(&mut self, at: Moment, key: &Key, what: &What) -> Option<PodLifecycle> {
        let version = PodVersion::read(what.object());
        let deleted = matches!(what, What::Deleted(_));
        let again = self
            .last_deleted
            .as_ref()
            .is_some_and(|(gone, uid)| gone == key && may_be_same_uid(uid, &version.uid));
        if deleted && again && !self.open.contains_key(key) {
            return None;
        }
        let mut ended = None;
        if let Some(open) = self.open.get(key)
            && !may_be_same_uid(&open.lifecycle.uid, &version.uid)
        {
            if version.created.is_some_and(|created| created < open.lifecycle.created) {
                // A late event of a pod that has already ended.
                return None;
            }
            // A name is free again before the next pod of that name is created.
            let gone = version.created.map_or(at, |created| created.min(at));
            ended = self.open.remove(key).map(|open| open.end(Some(gone)));
        }
        let open = self
            .open
            .entry(key.clone())
            .or_insert_with(|| OpenLifecycle::new(at, key, what.object(), &version));
        open.apply(at, version, what);
        if deleted && ended.is_none() {
            self.last_deleted = Some((key.clone(), open.lifecycle.uid.clone()));
            ended = self.open.remove(key).map(|open| open.end(Some(at)));
        } else if deleted {
            // One change ends one lifecycle: this one is returned with the next pod of the name, or at the end.
            open.lifecycle.deleted = Some(at);
        }
        ended
    }

    /// The lifecycles of the pods that still exist, sorted by key.
    pub fn finish(self) -> impl Iterator<Item = PodLifecycle> {
        self.open.into_values().map(|open| open.end(None))
    }
}

// === impl OpenLifecycle ===

impl OpenLifecycle {
    fn new(at: Moment, key: &Key, pod: &Object, version: &PodVersion) -> OpenLifecycle {
        let lifecycle = PodLifecycle {
            key: key.clone(),
            uid: version.uid.clone(),
            created: version.created.unwrap_or(at),
            data: PodLifecycleData::Empty,
            deleted: None,
            pod: pod.clone(),
        };
        OpenLifecycle {
            lifecycle,
            first_start: None,
            last_start: None,
            last_end: None,
            running: false,
            ended_at: None,
            is_complete: false,
        }
    }

    fn apply(&mut self, at: Moment, version: PodVersion, what: &What) {
        // KWOK writes new end times into pods that ended long ago.
        if self.lifecycle.deleted.is_some() || self.is_complete {
            return;
        }
        if let What::Deleted(_) = what
            && version.has_no_status()
        {
            // A stub: what earlier versions said still holds.
            return;
        }
        if self.first_start.is_none() {
            self.lifecycle.pod = what.object().clone();
        }
        self.lifecycle.uid = self.lifecycle.uid.take().or(version.uid);
        self.first_start = [self.first_start, version.first_start].into_iter().flatten().min();
        self.last_start = self.last_start.max(version.last_start);
        self.last_end = self.last_end.max(version.last_end);
        self.running = version.running.unwrap_or(self.running);
        self.ended_at = if version.has_ended { self.ended_at.or(Some(at)) } else { None };
        self.is_complete = version.is_complete;
    }

    /// The lifecycle as far as it is known, with the moment of the delete, if there was one.
    fn end(mut self, deleted: Option<Moment>) -> PodLifecycle {
        self.lifecycle.deleted = self.lifecycle.deleted.or(deleted);
        self.lifecycle.data = match (self.first_start, self.ended_at.or(self.lifecycle.deleted)) {
            (None, _) => PodLifecycleData::Empty,
            (Some(start), None) => PodLifecycleData::Running(start),
            (Some(start), Some(over)) => PodLifecycleData::Finished(start, self.last_end(over).max(start)),
        };
        self.lifecycle
    }

    /// When the last container ended, given that none runs after `over`.
    ///
    /// A container whose end was not seen ended by then: with the pod's delete, or with an eviction or the loss of
    /// its node, of which the phase may be the only trace. SimKube ignores the phase and lets such a pod run until
    /// its delete, for which it takes the second of receipt.
    fn last_end(&self, over: Moment) -> Moment {
        match self.last_end {
            Some(end) if !self.running && self.last_start <= Some(end) => end,
            _ => over,
        }
    }
}

// === impl PodVersion ===

impl PodVersion {
    /// Reads the relevant fields; malformed ones count as absent.
    fn read(pod: &Object) -> PodVersion {
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
        let regular_now = container_runs(regular, "state");
        let all_ended = regular_now.iter().filter(|run| run.end.is_some()).count() == spec.containers.len();
        let now = [container_runs(init, "state"), regular_now].concat();
        let run_with_known_times = |run: &ContainerRun| ContainerRun {
            start: run.start.filter(|start| *start != NEVER_STARTED),
            ..*run
        };
        let all: Vec<ContainerRun> =
            [&now, &container_runs(init, "lastState"), &container_runs(regular, "lastState")]
                .into_iter()
                .flatten()
                .map(run_with_known_times)
                .collect();
        let over = matches!(status["phase"].as_str(), Some("Succeeded" | "Failed"));
        let goes_on = now.iter().any(|run| run.end.is_none());
        PodVersion {
            uid: pod.meta().uid.map(|uid| uid.into_owned()),
            created: moment(&metadata.creation_timestamp),
            data: match (first_start(&now), last_end(&now)) {
                (None, _) => PodLifecycleData::Empty,
                (Some(start), Some(end)) if all_ended => PodLifecycleData::Finished(start, end),
                (Some(start), _) => PodLifecycleData::Running(start),
            },
            first_start: first_start(&all),
            last_start: all.iter().filter_map(|run| run.start).max(),
            last_end: last_end(&all),
            // A sidecar among the init containers does not keep a pod from completing.
            running: (!init.is_empty() || !regular.is_empty()).then_some(goes_on && !all_ended),
            has_ended: over,
            is_complete: over && all_ended && !goes_on,
        }
    }

    fn has_no_status(&self) -> bool {
        self.first_start.is_none() && self.last_end.is_none() && self.running.is_none() && !self.has_ended
    }
}

/// The start time of a container that could not be started. SimKube takes it for the pod's start.
const NEVER_STARTED: Moment = Moment::from_nanos(0);

/// The containers' current runs (`state`) or previous runs (`lastState`). SimKube ignores the latter: it keeps the
/// first start it saw, which does not fit the end of a pod that was restarted meanwhile.
fn container_runs(containers: &[Value], state: &str) -> Vec<ContainerRun> {
    containers.iter().filter_map(|container| container_run(&container[state])).collect()
}

/// `None` for a waiting container, or one that reports two states at once.
fn container_run(state: &Value) -> Option<ContainerRun> {
    match (&state["running"], &state["terminated"], &state["waiting"]) {
        (running @ Value::Object(_), Value::Null, Value::Null) => {
            Some(ContainerRun { start: moment(&running["startedAt"]), end: None })
        }
        (Value::Null, ended @ Value::Object(_), Value::Null) => {
            Some(ContainerRun { start: moment(&ended["startedAt"]), end: moment(&ended["finishedAt"]) })
        }
        _ => None,
    }
}

fn first_start(runs: &[ContainerRun]) -> Option<Moment> {
    runs.iter().filter_map(|run| run.start).min()
}

fn last_end(runs: &[ContainerRun]) -> Option<Moment> {
    runs.iter().filter_map(|run| run.end).max()
}

fn moment(value: &Value) -> Option<Moment> {
    value.as_str()?.parse().ok()
}

fn entries(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Whether two uids may belong to one pod: an unknown uid matches any.
fn may_be_same_uid(a: &Option<String>, b: &Option<String>) -> bool {
    a.is_none() || b.is_none() || a == b
}

#[cfg(test)]
mod tests;
