//! The recorded outcome of a pod: its binding, deletion and Events.

use std::collections::BTreeMap;

use history::Selection;
use model::{Key, Kind, Moment, Window};
use query::OpenHistory;
use serde::Deserialize;

use super::PodSnapshot;
use super::pod_lifetime::PodLifetime;
use query::group_digits;

/// The recorded outcome of a pod, and the Events about it around a moment.
#[derive(Default)]
pub struct ObservedPodOutcome {
    /// The node, and the time of the binding; `None` if that was before the pod was first observed.
    pub bound: Option<(String, Option<Moment>)>,
    /// The nodes that it was nominated to.
    pub nominated: Vec<(Moment, String)>,
    /// `FailedScheduling` Events, by time.
    pub failed_scheduling: Vec<RecordedEvent>,
    /// Pods that were preempted for it.
    pub victims: Vec<RecordedEvent>,
    /// The `Preempted` Event about it.
    pub preempted: Option<RecordedEvent>,
    /// The preemptor, as `namespace/name`, if it was recorded.
    pub preempted_by: Option<String>,
    /// Events of an autoscaler about it, by time.
    pub autoscaler_events: Vec<RecordedEvent>,
    /// When its deletion began.
    pub deletion_began: Option<Moment>,
    /// When it was deleted.
    pub deleted_at: Option<Moment>,
}

/// A recorded Event.
#[derive(Clone)]
pub struct RecordedEvent {
    /// Its first occurrence.
    pub first: Moment,
    /// Its last occurrence.
    pub last: Moment,
    /// The number of occurrences.
    pub times: u64,
    /// The reason, such as `FailedScheduling`.
    pub reason: String,
    /// The message.
    pub message: String,
    /// The object that it regards, as `namespace/name`.
    pub object: String,
}

/// An Event of either API: `events.k8s.io` and the core group have different field names.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Event {
    metadata: Metadata,
    reason: Option<String>,
    note: Option<String>,
    message: Option<String>,
    event_time: Option<String>,
    series: Option<Series>,
    regarding: Option<Reference>,
    involved_object: Option<Reference>,
    related: Option<Reference>,
    count: Option<u64>,
    deprecated_count: Option<u64>,
    first_timestamp: Option<String>,
    deprecated_first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    deprecated_last_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    name: String,
    namespace: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    count: u64,
    last_observed_time: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Reference {
    kind: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
}

const MINUTE: i64 = 60_000_000_000;
/// Events are kept for an hour, and the scheduler repeats them more often than that.
const EVENTS_BEFORE: i64 = 60 * MINUTE;
const EVENTS_AFTER: i64 = 10 * MINUTE;
/// The maximum number of Events shown, those nearest to the moment.
const MAX_EVENTS: usize = 3;
const MAX_VICTIMS: usize = 100;

// === impl ObservedPodOutcome ===

impl ObservedPodOutcome {
    pub(crate) fn read(
        open_history: &OpenHistory,
        snapshot: &PodSnapshot,
        lifetime: &PodLifetime,
    ) -> anyhow::Result<ObservedPodOutcome> {
        let mut outcome = ObservedPodOutcome {
            bound: lifetime.bound.as_ref().map(|bound| (bound.node.clone(), bound.at())),
            nominated: lifetime.nominated.clone(),
            deletion_began: lifetime.deletion_began,
            deleted_at: lifetime.deleted_at,
            ..ObservedPodOutcome::default()
        };
        let moment = snapshot.as_of.moment();
        let window = Window {
            from: moment.plus_nanos(-EVENTS_BEFORE).max(lifetime.first_observed()).min(moment),
            to: moment
                .plus_nanos(EVENTS_AFTER)
                .min(lifetime.deleted_at.map_or(Moment::MAX, |deleted_at| deleted_at.plus_nanos(MINUTE))),
        };
        let kinds = vec![Kind::new("events.k8s.io", "Event"), Kind::new("", "Event")];
        let selection = Selection {
            kinds: Some(kinds),
            source: Some(snapshot.key.source.clone()),
            ..Selection::default()
        };
        // By name: an Event is updated, and may be recorded through both APIs.
        let mut failed: BTreeMap<(String, String), RecordedEvent> = BTreeMap::new();
        let mut scaling: BTreeMap<(String, String), RecordedEvent> = BTreeMap::new();
        let mut victims: BTreeMap<String, RecordedEvent> = BTreeMap::new();
        for change in open_history.history.between(window, &selection)? {
            let change = change?;
            let Some(object) = change.what.state() else { continue };
            // Most Events are irrelevant, and parsing one takes longer than this test.
            let is_candidate = |reason_text: &&str| object.as_str().contains(*reason_text);
            if !["\"FailedScheduling\"", "\"Preempted\"", "TriggerScaleUp\"", "\"TriggeredScaleUp\""]
                .iter()
                .any(is_candidate)
            {
                continue;
            }
            let Ok(event) = object.view::<Event>() else { continue };
            let recorded = event.recorded(change.seen);
            let refers_to_pod = |reference: Option<&Reference>| {
                reference.is_some_and(|reference| reference.refers_to(snapshot, lifetime.uid.as_deref()))
            };
            let regards_pod = refers_to_pod(event.regarded_object());
            match event.reason.as_deref() {
                Some("FailedScheduling") if regards_pod => {
                    let name = (event.metadata.namespace.clone().unwrap_or_default(), event.metadata.name);
                    failed.insert(name, recorded);
                }
                Some("TriggeredScaleUp" | "NotTriggerScaleUp") if regards_pod => {
                    let name = (event.metadata.namespace.clone().unwrap_or_default(), event.metadata.name);
                    scaling.insert(name, recorded);
                }
                Some("Preempted") if regards_pod => {
                    outcome.preempted_by = match event.preemptor() {
                        Some(uid) => pod_name_by_uid(open_history, &snapshot.key, uid, change.at)?,
                        None => None,
                    };
                    outcome.preempted = Some(recorded);
                }
                Some("Preempted") if victims.len() < MAX_VICTIMS => {
                    let is_preemptor =
                        event.preemptor().is_some_and(|uid| lifetime.uid.as_deref() == Some(uid));
                    if is_preemptor || refers_to_pod(event.related.as_ref()) {
                        victims.insert(recorded.object.clone(), recorded);
                    }
                }
                _ => {}
            }
        }
        let distance = |recorded: &RecordedEvent| {
            recorded.first.nanos_since(moment).max(moment.nanos_since(recorded.last)).max(0)
        };
        let nearest = |recorded: BTreeMap<(String, String), RecordedEvent>| {
            let mut recorded: Vec<RecordedEvent> = recorded.into_values().collect();
            recorded.sort_by_key(|recorded| (distance(recorded), recorded.first));
            recorded.truncate(MAX_EVENTS);
            recorded.sort_by_key(|recorded| recorded.first);
            recorded
        };
        outcome.failed_scheduling = nearest(failed);
        outcome.autoscaler_events = nearest(scaling);
        outcome.victims = victims.into_values().collect();
        outcome.victims.sort_by_key(|recorded| recorded.first);
        Ok(outcome)
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.bound.is_none()
            && self.nominated.is_empty()
            && self.failed_scheduling.is_empty()
            && self.victims.is_empty()
            && self.preempted.is_none()
            && self.deletion_began.is_none()
            && self.deleted_at.is_none()
    }
}

// === impl Event ===

impl Event {
    fn regarded_object(&self) -> Option<&Reference> {
        self.regarding.as_ref().or(self.involved_object.as_ref())
    }

    /// The uid of the preemptor. kube-scheduler writes it only in the message.
    fn preemptor(&self) -> Option<&str> {
        let text = self.note.as_deref().or(self.message.as_deref())?;
        let uid = text.strip_prefix("Preempted by pod ")?.split(' ').next()?;
        Some(uid).filter(|uid| !uid.is_empty())
    }

    /// Whether it regards a cluster-scoped object: by uid if both have one.
    pub(crate) fn regards(&self, kind: &str, name: &str, uid: Option<&str>) -> bool {
        self.regarded_object().is_some_and(|reference| {
            reference.kind.as_deref() == Some(kind)
                && reference.name.as_deref() == Some(name)
                && match (reference.uid.as_deref().filter(|own_uid| !own_uid.is_empty()), uid) {
                    // Some components write a node's name as its uid.
                    (Some(own_uid), Some(uid)) => own_uid == uid || own_uid == name,
                    _ => true,
                }
        })
    }

    /// Returns the recorded Event; `seen` is the time if it has none.
    pub(crate) fn recorded(&self, observed_at: Moment) -> RecordedEvent {
        let first_moment = |texts: &[&Option<String>]| {
            texts.iter().find_map(|text| text.as_deref().and_then(|text| text.parse::<Moment>().ok()))
        };
        let first = [&self.event_time, &self.first_timestamp, &self.deprecated_first_timestamp];
        let first = first_moment(&first).unwrap_or(observed_at);
        let in_series = self.series.as_ref().and_then(|series| first_moment(&[&series.last_observed_time]));
        let last =
            in_series.or_else(|| first_moment(&[&self.last_timestamp, &self.deprecated_last_timestamp]));
        let times = self.series.as_ref().map(|series| series.count).or(self.count).or(self.deprecated_count);
        let regarded = self.regarded_object().map(|regarded| {
            format!(
                "{}/{}",
                regarded.namespace.as_deref().unwrap_or(""),
                regarded.name.as_deref().unwrap_or("")
            )
        });
        RecordedEvent {
            first,
            last: last.unwrap_or(first).max(first),
            times: times.unwrap_or(1).max(1),
            reason: self.reason.clone().unwrap_or_default(),
            message: self.note.as_ref().or(self.message.as_ref()).cloned().unwrap_or_default(),
            object: regarded.unwrap_or_default(),
        }
    }
}

// === impl Reference ===

impl Reference {
    /// Whether it refers to the pod: by uid if it has one, as names are reused.
    fn refers_to(&self, snapshot: &PodSnapshot, uid: Option<&str>) -> bool {
        let is_equal = |text: &Option<String>, other: &str| text.as_deref().is_none_or(|text| text == other);
        is_equal(&self.kind, "Pod")
            && match (self.uid.as_deref().filter(|own_uid| !own_uid.is_empty()), uid) {
                (Some(own_uid), Some(uid)) => own_uid == uid,
                _ => {
                    self.name.as_deref() == Some(&*snapshot.key.name)
                        && is_equal(&self.namespace, &snapshot.key.namespace)
                }
            }
    }
}

/// The number of occurrences and the last one, as text that follows the first.
pub fn repetitions(event: &RecordedEvent) -> String {
    match event.times {
        ..=1 => String::new(),
        times => format!(" {} times until {}", group_digits(times), event.last),
    }
}

/// Returns the pod of that uid at a moment, as `namespace/name`, if it exists.
fn pod_name_by_uid(
    open_history: &OpenHistory,
    other: &Key,
    uid: &str,
    at: Moment,
) -> anyhow::Result<Option<String>> {
    let selection = Selection {
        kinds: Some(vec![other.kind.clone()]),
        source: Some(other.source.clone()),
        ..Selection::default()
    };
    let mut found = None;
    open_history.history.for_each_at(at, &selection, |version| {
        if version.object.meta().uid.as_deref() == Some(uid) {
            found = Some(format!("{}/{}", version.key.namespace, version.key.name));
        }
    })?;
    Ok(found)
}
