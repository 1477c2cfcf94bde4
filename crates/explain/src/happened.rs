//! What really happened to a pod, as far as the history knows.

use std::collections::BTreeMap;

use history::Selection;
use model::{Key, Kind, Moment, Window};
use query::Chosen;
use serde::Deserialize;

use super::Case;
use super::life::Life;
use query::grouped;

/// What became of a pod, and what its scheduler said around the moment.
#[derive(Default)]
pub struct Happened {
    /// The node, and when; no time if that was before the history saw the pod.
    pub bound: Option<(String, Option<Moment>)>,
    /// Nodes it was promised.
    pub nominated: Vec<(Moment, String)>,
    /// What the scheduler wrote to it when it found no node, in order of time.
    pub failed: Vec<Said>,
    /// Pods that were deleted to make room for it.
    pub victims: Vec<Said>,
    /// It was deleted to make room for another.
    pub preempted: Option<Said>,
    /// That other pod, as `namespace/name`, if the history knows it.
    pub preempted_by: Option<String>,
    /// What an autoscaler told it, in order of time.
    pub scaling: Vec<Said>,
    /// When its deletion began.
    pub deletion: Option<Moment>,
    /// When it was gone.
    pub gone: Option<Moment>,
}

/// An event.
#[derive(Clone)]
pub struct Said {
    /// When it was first said.
    pub first: Moment,
    /// When it was last said the same way.
    pub last: Moment,
    /// How often it was said.
    pub times: u64,
    /// `FailedScheduling`.
    pub reason: String,
    /// What was said.
    pub text: String,
    /// The pod it is about, as `namespace/name`.
    pub about: String,
}

/// An event of either API: `events.k8s.io` and the core one tell the same under other names.
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
/// Events are kept for an hour, and the scheduler repeats itself more often than that.
const BEFORE: i64 = 60 * MINUTE;
const AFTER: i64 = 10 * MINUTE;
/// So many of the events that say no, those nearest to the moment.
const MOST_SAID: usize = 3;
const MOST_VICTIMS: usize = 100;

// === impl Happened ===

impl Happened {
    pub(crate) fn read(chosen: &Chosen, case: &Case, life: &Life) -> anyhow::Result<Happened> {
        let mut happened = Happened {
            bound: life.bound.as_ref().map(|bound| (bound.node.clone(), bound.at())),
            nominated: life.nominated.clone(),
            deletion: life.deletion,
            gone: life.gone,
            ..Happened::default()
        };
        let moment = case.as_of.moment();
        let window = Window {
            from: moment.plus_nanos(-BEFORE).max(life.from()).min(moment),
            to: moment.plus_nanos(AFTER).min(life.gone.map_or(Moment::MAX, |gone| gone.plus_nanos(MINUTE))),
        };
        let kinds = vec![Kind::new("events.k8s.io", "Event"), Kind::new("", "Event")];
        let selection =
            Selection { kinds: Some(kinds), source: Some(case.key.source.clone()), ..Selection::default() };
        // By name, for one event changes, and may be seen through both APIs.
        let mut failed: BTreeMap<(String, String), Said> = BTreeMap::new();
        let mut scaling: BTreeMap<(String, String), Said> = BTreeMap::new();
        let mut victims: BTreeMap<String, Said> = BTreeMap::new();
        for change in chosen.history.between(window, &selection)? {
            let change = change?;
            let Some(object) = change.what.state() else { continue };
            // Most events are of no interest, and reading one takes longer than finding that out.
            let is_candidate = |word: &&str| object.as_str().contains(*word);
            if !["\"FailedScheduling\"", "\"Preempted\"", "TriggerScaleUp\"", "\"TriggeredScaleUp\""]
                .iter()
                .any(is_candidate)
            {
                continue;
            }
            let Ok(event) = object.view::<Event>() else { continue };
            let said = event.said(change.seen);
            let is_it = |reference: Option<&Reference>| {
                reference.is_some_and(|reference| reference.means(case, life.uid.as_deref()))
            };
            let about_it = is_it(event.about());
            match event.reason.as_deref() {
                Some("FailedScheduling") if about_it => {
                    let name = (event.metadata.namespace.clone().unwrap_or_default(), event.metadata.name);
                    failed.insert(name, said);
                }
                Some("TriggeredScaleUp" | "NotTriggerScaleUp") if about_it => {
                    let name = (event.metadata.namespace.clone().unwrap_or_default(), event.metadata.name);
                    scaling.insert(name, said);
                }
                Some("Preempted") if about_it => {
                    happened.preempted_by = match event.preemptor() {
                        Some(uid) => name_of(chosen, &case.key, uid, change.at)?,
                        None => None,
                    };
                    happened.preempted = Some(said);
                }
                Some("Preempted") if victims.len() < MOST_VICTIMS => {
                    let by_it = event.preemptor().is_some_and(|uid| life.uid.as_deref() == Some(uid));
                    if by_it || is_it(event.related.as_ref()) {
                        victims.insert(said.about.clone(), said);
                    }
                }
                _ => {}
            }
        }
        let distance = |said: &Said| said.first.nanos_since(moment).max(moment.nanos_since(said.last)).max(0);
        let nearest = |said: BTreeMap<(String, String), Said>| {
            let mut said: Vec<Said> = said.into_values().collect();
            said.sort_by_key(|said| (distance(said), said.first));
            said.truncate(MOST_SAID);
            said.sort_by_key(|said| said.first);
            said
        };
        happened.failed = nearest(failed);
        happened.scaling = nearest(scaling);
        happened.victims = victims.into_values().collect();
        happened.victims.sort_by_key(|said| said.first);
        Ok(happened)
    }

    /// Whether the history knows nothing.
    pub fn is_nothing(&self) -> bool {
        self.bound.is_none()
            && self.nominated.is_empty()
            && self.failed.is_empty()
            && self.victims.is_empty()
            && self.preempted.is_none()
            && self.deletion.is_none()
            && self.gone.is_none()
    }
}

// === impl Event ===

impl Event {
    fn about(&self) -> Option<&Reference> {
        self.regarding.as_ref().or(self.involved_object.as_ref())
    }

    /// The uid of the pod for which another was deleted. kube-scheduler tells it in the text alone.
    fn preemptor(&self) -> Option<&str> {
        let text = self.note.as_deref().or(self.message.as_deref())?;
        let uid = text.strip_prefix("Preempted by pod ")?.split(' ').next()?;
        Some(uid).filter(|uid| !uid.is_empty())
    }

    /// Whether it is about that object of no namespace: by its uid if both have one.
    pub(crate) fn is_about(&self, kind: &str, name: &str, uid: Option<&str>) -> bool {
        self.about().is_some_and(|about| {
            about.kind.as_deref() == Some(kind)
                && about.name.as_deref() == Some(name)
                && match (about.uid.as_deref().filter(|own| !own.is_empty()), uid) {
                    // Some name a node where its uid belongs.
                    (Some(own), Some(uid)) => own == uid || own == name,
                    _ => true,
                }
        })
    }

    /// What it says; `seen` where it does not say when.
    pub(crate) fn said(&self, seen: Moment) -> Said {
        let read = |texts: &[&Option<String>]| {
            texts.iter().find_map(|text| text.as_deref().and_then(|text| text.parse::<Moment>().ok()))
        };
        let first = [&self.event_time, &self.first_timestamp, &self.deprecated_first_timestamp];
        let first = read(&first).unwrap_or(seen);
        let in_series = self.series.as_ref().and_then(|series| read(&[&series.last_observed_time]));
        let last = in_series.or_else(|| read(&[&self.last_timestamp, &self.deprecated_last_timestamp]));
        let times = self.series.as_ref().map(|series| series.count).or(self.count).or(self.deprecated_count);
        let about = self.about().map(|about| {
            format!("{}/{}", about.namespace.as_deref().unwrap_or(""), about.name.as_deref().unwrap_or(""))
        });
        Said {
            first,
            last: last.unwrap_or(first).max(first),
            times: times.unwrap_or(1).max(1),
            reason: self.reason.clone().unwrap_or_default(),
            text: self.note.as_ref().or(self.message.as_ref()).cloned().unwrap_or_default(),
            about: about.unwrap_or_default(),
        }
    }
}

// === impl Reference ===

impl Reference {
    /// Whether it means the pod: by its uid if it has one, for names are used again.
    fn means(&self, case: &Case, uid: Option<&str>) -> bool {
        let same = |text: &Option<String>, other: &str| text.as_deref().is_none_or(|text| text == other);
        same(&self.kind, "Pod")
            && match (self.uid.as_deref().filter(|own| !own.is_empty()), uid) {
                (Some(own), Some(uid)) => own == uid,
                _ => {
                    self.name.as_deref() == Some(&*case.key.name)
                        && same(&self.namespace, &case.key.namespace)
                }
            }
    }
}

/// How often something was said and until when, in words that follow it.
pub fn times(said: &Said) -> String {
    match said.times {
        ..=1 => String::new(),
        times => format!(" {} times until {}", grouped(times), said.last),
    }
}

/// The pod of that uid, as `namespace/name`, if it is there at a moment.
fn name_of(chosen: &Chosen, other: &Key, uid: &str, at: Moment) -> anyhow::Result<Option<String>> {
    let selection = Selection {
        kinds: Some(vec![other.kind.clone()]),
        source: Some(other.source.clone()),
        ..Selection::default()
    };
    let mut found = None;
    chosen.history.each_at(at, &selection, |version| {
        if version.object.meta().uid.as_deref() == Some(uid) {
            found = Some(format!("{}/{}", version.key.namespace, version.key.name));
        }
    })?;
    Ok(found)
}
