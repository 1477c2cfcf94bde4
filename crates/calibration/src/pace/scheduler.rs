//! The scheduler's loop as its Events and what it writes show it.
//!
//! A refusal has an Event with the scheduler's own time of it; the pod's status follows when the write is done. The next
//! refusal ends the wait for that write at the latest, and where it comes right behind, it is the end of it.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use rustc_hash::{FxHashMap, FxHasher};
use simulation::pace::Step;
use smallvec::SmallVec;

use super::objects::EventJson;
use super::samples::Samples;
use super::{PATIENCE, Pod, between, earlier};

/// What was told lately and may still be out of order.
#[derive(Debug, Default)]
pub(super) struct SchedulerLoop {
    /// By the scheduler's time, then by the order of arrival.
    told: BTreeMap<(Moment, u64), Told>,
    arrived: u64,
    /// Pods that were placed without a refusal: when they came and when they showed their node.
    bound: VecDeque<(Moment, Moment)>,
    /// When writes of refusals began: those not yet settled, and the last before them.
    writing: VecDeque<Moment>,
}

#[derive(Debug)]
enum Told {
    /// A pod was refused, with this message. Of a second Event of a series only the time is told.
    Refused { pod: Arc<str>, message: Option<u64> },
    /// A victim is marked for deletion.
    Preempted { by: Arc<str> },
}

/// What was last written into a pod's status about its refusal.
#[derive(Debug, Default)]
pub(super) struct Writes {
    last: Option<u64>,
    /// When, and a hash of the message.
    lately: SmallVec<[(Moment, u64); Writes::MOST]>,
}

/// A write that takes longer has another cause.
const LONGEST_WRITE: Duration = Duration::from_secs(2);

/// A refused pod is not tried again for so long: what is written within it was written because of that refusal.
const LEAST_BACKOFF: Duration = Duration::from_secs(1);

/// A refusal that comes so soon after what the last one wrote was seen has waited for it.
const RIGHT_BEHIND: Duration = Duration::from_millis(20);

/// Between refusals that are further apart the scheduler had nothing to do.
const LONGEST_ATTEMPT: Duration = Duration::from_millis(10);

/// A write that began longer ago does not delay a pod that comes now.
const QUIET: Duration = Duration::from_millis(500);

/// Of more refusals than this in three seconds the others are not measured.
const MOST_TOLD: usize = 65_536;

/// Longer messages are cut in Events, but not before.
const TOLD_IN_FULL: usize = 1000;

// === impl SchedulerLoop ===

impl SchedulerLoop {
    pub(super) fn event(&mut self, at: Moment, event: EventJson) {
        let is_first = event.series.is_none();
        let told = match &*event.reason {
            "FailedScheduling" => {
                let message = is_first.then(|| message_hash(&event.note));
                Told::Refused { pod: event.regarding.uid.into(), message }
            }
            "Preempted" if is_first => match preemptor(&event.note) {
                Some(by) => Told::Preempted { by: by.into() },
                None => return,
            },
            _ => return,
        };
        let moment = event.series.map_or(event.event_time, |series| series.last_observed_time);
        // One that is late is from before the recording; one from the future is of another clock.
        let Some(moment) = moment.filter(|moment| earlier(at, PATIENCE) < *moment && *moment <= at) else {
            return;
        };
        if self.told.len() < MOST_TOLD {
            self.arrived += 1;
            self.told.insert((moment, self.arrived), told);
        }
    }

    /// A new pod was placed that had not been refused.
    pub(super) fn bound(&mut self, came: Moment, bound: Moment) {
        self.bound.push_back((came, bound));
    }

    /// Measures what happened until then. Nothing of that time is to come any more.
    pub(super) fn settle(
        &mut self,
        until: Moment,
        pods: &mut FxHashMap<Arc<str>, Pod>,
        samples: &mut Samples,
    ) {
        while let Some(first) = self.told.first_entry().filter(|first| first.key().0 <= until) {
            let ((moment, _), told) = first.remove_entry();
            match told {
                Told::Refused { pod, message } => {
                    // What came before the pod was known may have been written unseen.
                    if let Some(pod) = pods.get_mut(&pod).filter(|pod| pod.since <= moment) {
                        pod.decided = Some(moment);
                        self.refused(moment, pod.writes.took(moment, message), message.is_some(), samples);
                    }
                }
                Told::Preempted { by } => {
                    if let Some(preemptor) = pods.get_mut(&by)
                        && let Some(decided) = preemptor.decided.replace(moment)
                    {
                        samples.add(Step::Preempt, decided, between(decided, moment));
                    }
                }
            }
        }
        while let Some((came, bound)) = self.bound.front().copied().filter(|(_, bound)| *bound <= until) {
            self.bound.pop_front();
            let earlier_writes = self.writing.partition_point(|began| *began <= bound);
            let last_write = earlier_writes.checked_sub(1).map(|place| self.writing[place]);
            // Nothing stood before the pod: what it waited for is its binding.
            if last_write.is_none_or(|began| began < earlier(came, QUIET)) {
                samples.add(Step::Bind, came, between(came, bound));
            }
        }
        while self.writing.get(1).is_some_and(|second| *second <= until) {
            self.writing.pop_front();
        }
    }

    /// The pod was refused at this moment, and the write that told so was seen so much later.
    fn refused(&mut self, moment: Moment, seen: Option<Duration>, is_first: bool, samples: &mut Samples) {
        let is_refusal = |told: &Told| matches!(told, Told::Refused { .. });
        let next =
            self.told.iter().find(|(_, told)| is_refusal(told)).map(|((next, _), _)| between(moment, *next));
        match (seen, next) {
            (Some(seen), next) => {
                let took = next.filter(|next| *next <= seen + RIGHT_BEHIND).unwrap_or(seen);
                samples.add(Step::Refuse, moment, took);
                self.writing.push_back(moment);
            }
            (None, Some(next)) if is_first && next < LONGEST_ATTEMPT => {
                samples.add(Step::Attempt, moment, next)
            }
            (None, _) => {}
        }
    }
}

// === impl Writes ===

impl Writes {
    /// More than a scheduler writes about one pod before its refusals are settled.
    const MOST: usize = 4;

    /// A version of the pod that says why it was refused. Most say what the one before did.
    pub(super) fn see(&mut self, at: Moment, message: &str, nominated: &str) {
        let mut hasher = FxHasher::default();
        (message, nominated).hash(&mut hasher);
        let now = Some(hasher.finish());
        if std::mem::replace(&mut self.last, now) != now {
            if self.lately.len() == Writes::MOST {
                self.lately.remove(0);
            }
            self.lately.push((at, message_hash(message)));
        }
    }

    /// How long after that moment a write was seen with this message, or with any where it is not known.
    fn took(&self, moment: Moment, message: Option<u64>) -> Option<Duration> {
        let is_it = |(at, written): &&(Moment, u64)| {
            let took = between(moment, *at);
            let longest = if message.is_some() { LONGEST_WRITE } else { LEAST_BACKOFF };
            *at >= moment && took <= longest && message.is_none_or(|message| message == *written)
        };
        self.lately.iter().find(is_it).map(|(at, _)| between(moment, *at))
    }
}

/// The uid in `Preempted by pod 5c1f… on node n1`. The Event refers to no object for it.
fn preemptor(note: &str) -> Option<&str> {
    note.strip_prefix("Preempted by pod ")?.split(' ').next()
}

fn message_hash(message: &str) -> u64 {
    let bytes = message.as_bytes();
    let mut hasher = FxHasher::default();
    bytes[..bytes.len().min(TOLD_IN_FULL)].hash(&mut hasher);
    hasher.finish()
}
