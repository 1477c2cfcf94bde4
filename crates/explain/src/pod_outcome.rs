//! The recorded outcome of a pod: its binding, deletion and Events.

use std::collections::BTreeMap;

use history::Selection;
use kubernetes::objects::{EventView, ObjectReference};
use model::{Key, Kind, Moment, NamespacedName, Window};
use query::OpenHistory;

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
        let mut failed: BTreeMap<NamespacedName, RecordedEvent> = BTreeMap::new();
        let mut scaling: BTreeMap<NamespacedName, RecordedEvent> = BTreeMap::new();
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
            let Ok(event) = EventView::parse(object) else { continue };
            let recorded = RecordedEvent::new(&event, change.seen);
            let refers_to_pod =
                |reference: &ObjectReference| refers_to_pod(reference, snapshot, lifetime.uid.as_deref());
            let regards_pod = refers_to_pod(&event.regarding);
            match &*event.reason {
                "FailedScheduling" if regards_pod => {
                    failed.insert(event.metadata.namespaced_name(), recorded);
                }
                "TriggeredScaleUp" | "NotTriggerScaleUp" if regards_pod => {
                    scaling.insert(event.metadata.namespaced_name(), recorded);
                }
                "Preempted" if regards_pod => {
                    outcome.preempted_by = match preemptor(&event) {
                        Some(uid) => pod_name_by_uid(open_history, &snapshot.key, uid, change.at)?,
                        None => None,
                    };
                    outcome.preempted = Some(recorded);
                }
                "Preempted" if victims.len() < MAX_VICTIMS => {
                    let is_preemptor =
                        preemptor(&event).is_some_and(|uid| lifetime.uid.as_deref() == Some(uid));
                    if is_preemptor || event.related.as_ref().is_some_and(refers_to_pod) {
                        victims.insert(recorded.object.clone(), recorded);
                    }
                }
                _ => {}
            }
        }
        let distance = |recorded: &RecordedEvent| {
            recorded.first.nanos_since(moment).max(moment.nanos_since(recorded.last)).max(0)
        };
        let nearest = |recorded: BTreeMap<NamespacedName, RecordedEvent>| {
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

// === impl RecordedEvent ===

impl RecordedEvent {
    /// An Event as recorded; `observed_at` is its time if it has none.
    pub(crate) fn new(event: &EventView, observed_at: Moment) -> RecordedEvent {
        let first = event.event_time.or(event.first_timestamp).unwrap_or(observed_at);
        let last = event.series.and_then(|series| series.last_observed).or(event.last_timestamp);
        let times = event.series.map(|series| series.count).or(event.count);
        let ObjectReference { namespace, name, .. } = &event.regarding;
        RecordedEvent {
            first,
            last: last.unwrap_or(first).max(first),
            times: times.unwrap_or(1).max(1),
            reason: event.reason.to_string(),
            message: event.message.to_string(),
            object: if name.is_empty() { String::new() } else { format!("{namespace}/{name}") },
        }
    }
}

/// The uid of the preemptor. kube-scheduler writes it only in the message.
fn preemptor(event: &EventView) -> Option<&str> {
    let uid = event.message.strip_prefix("Preempted by pod ")?.split(' ').next()?;
    Some(uid).filter(|uid| !uid.is_empty())
}

/// Whether an Event regards a cluster-scoped object: by uid if both have one.
pub(crate) fn regards(event: &EventView, kind: &str, name: &str, uid: Option<&str>) -> bool {
    let regarding = &event.regarding;
    // Some components write a node's name as its uid.
    let has_uid = |uid: &str| regarding.uid.is_empty() || *regarding.uid == *uid || *regarding.uid == *name;
    *regarding.kind == *kind && *regarding.name == *name && uid.is_none_or(has_uid)
}

/// Whether a reference is to the pod: by uid if it has one, as names are reused.
fn refers_to_pod(reference: &ObjectReference, snapshot: &PodSnapshot, uid: Option<&str>) -> bool {
    let is_equal = |text: &str, other: &str| text.is_empty() || text == other;
    is_equal(&reference.kind, "Pod")
        && match uid.filter(|_| !reference.uid.is_empty()) {
            Some(uid) => *reference.uid == *uid,
            None => {
                reference.name == snapshot.key.name && is_equal(&reference.namespace, &snapshot.key.namespace)
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
