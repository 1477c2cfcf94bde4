//! Latencies of the scheduler's loop, measured from its Events and status writes.
//!
//! An unschedulable attempt has an Event with the scheduler's own time; the pod's status follows when the write is
//! done. The next such attempt ends the wait for that write at the latest; if it follows immediately, it marks the end.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kubernetes::objects::EventView;
use model::Moment;
use rustc_hash::{FxHashMap, FxHasher};
use simulation::latency::LatencyKind;
use smallvec::SmallVec;

use super::samples::LatencySamples;
use super::{MAX_EVENT_LAG, MeasuredPod, between, earlier};

/// Recent events of the scheduler, which may still arrive out of order.
#[derive(Debug, Default)]
pub(super) struct SchedulerLoopMeter {
    /// By the scheduler's time, then by the order of arrival.
    events: BTreeMap<(Moment, u64), SchedulerEvent>,
    event_count: u64,
    /// Pods that were scheduled at the first attempt: when they were created, and when their binding was observed.
    bound: VecDeque<(Moment, Moment)>,
    /// When status writes of unschedulable pods began: the pending ones, and the last before them.
    writes: VecDeque<Moment>,
}

#[derive(Debug)]
enum SchedulerEvent {
    /// A pod was unschedulable, with the hash of the message. Repetitions in a series have a time only.
    Unschedulable { pod: Arc<str>, message: Option<u64> },
    /// A victim was preempted.
    Preempted { by: Arc<str> },
}

/// The last status writes about a pod being unschedulable.
#[derive(Debug, Default)]
pub(super) struct StatusWrites {
    last: Option<u64>,
    /// The time, and a hash of the message.
    recent: SmallVec<[(Moment, u64); StatusWrites::MAX_WRITES]>,
}

/// The maximum duration of a status write.
const MAX_WRITE_DURATION: Duration = Duration::from_secs(2);

/// The minimum backoff of an unschedulable pod: a write within it belongs to that attempt.
const MIN_BACKOFF: Duration = Duration::from_secs(1);

/// An attempt that follows the observed write of the previous one this soon has waited for it.
const MAX_RESPONSE_DELAY: Duration = Duration::from_millis(20);

/// The maximum duration of an attempt: between attempts that are further apart the scheduler was idle.
const MAX_ATTEMPT_DURATION: Duration = Duration::from_millis(10);

/// A write that began longer ago does not delay a pod that is created now.
const MAX_WRITE_EFFECT: Duration = Duration::from_millis(500);

/// The maximum number of pending events; further ones are not measured.
const MAX_PENDING_EVENTS: usize = 65_536;

/// Events truncate longer messages, but keep at least this many bytes.
const UNTRUNCATED_NOTE_BYTES: usize = 1000;

// === impl SchedulerLoopMeter ===

impl SchedulerLoopMeter {
    pub(super) fn observe_event(&mut self, at: Moment, event: &EventView) {
        let is_first = event.series.is_none();
        let scheduler_event = match &*event.reason {
            "FailedScheduling" => {
                let message = is_first.then(|| message_hash(&event.message));
                SchedulerEvent::Unschedulable { pod: event.regarding.uid.clone(), message }
            }
            "Preempted" if is_first => match preemptor(&event.message) {
                Some(preemptor_uid) => SchedulerEvent::Preempted { by: preemptor_uid.into() },
                None => return,
            },
            _ => return,
        };
        let moment = event.series.map_or(event.event_time, |series| series.last_observed);
        // An Event that is late is from before the recording; one from the future is due to a clock difference.
        let Some(moment) = moment.filter(|moment| earlier(at, MAX_EVENT_LAG) < *moment && *moment <= at)
        else {
            return;
        };
        if self.events.len() < MAX_PENDING_EVENTS {
            self.event_count += 1;
            self.events.insert((moment, self.event_count), scheduler_event);
        }
    }

    /// A new pod was scheduled at the first attempt.
    pub(super) fn pod_bound(&mut self, created: Moment, bound: Moment) {
        self.bound.push_back((created, bound));
    }

    /// Measures what happened until a moment, after which no event of that time arrives.
    pub(super) fn measure_until(
        &mut self,
        until: Moment,
        pods: &mut FxHashMap<Arc<str>, MeasuredPod>,
        samples: &mut LatencySamples,
    ) {
        while let Some(first) = self.events.first_entry().filter(|first| first.key().0 <= until) {
            let ((moment, _), scheduler_event) = first.remove_entry();
            match scheduler_event {
                SchedulerEvent::Unschedulable { pod, message } => {
                    // A write before the pod was first observed may have been missed.
                    if let Some(pod) = pods.get_mut(&pod).filter(|pod| pod.since <= moment) {
                        pod.decided = Some(moment);
                        self.measure_attempt(
                            moment,
                            pod.writes.duration_since(moment, message),
                            message.is_some(),
                            samples,
                        );
                    }
                }
                SchedulerEvent::Preempted { by } => {
                    if let Some(preemptor) = pods.get_mut(&by)
                        && let Some(decided_at) = preemptor.decided.replace(moment)
                    {
                        samples.add(LatencyKind::Preempt, decided_at, between(decided_at, moment));
                    }
                }
            }
        }
        while let Some((created, bound)) = self.bound.front().copied().filter(|(_, bound)| *bound <= until) {
            self.bound.pop_front();
            let earlier_writes = self.writes.partition_point(|began| *began <= bound);
            let last_write = earlier_writes.checked_sub(1).map(|index| self.writes[index]);
            // No write delayed the pod: all of the time is its binding.
            if last_write.is_none_or(|began| began < earlier(created, MAX_WRITE_EFFECT)) {
                samples.add(LatencyKind::Bind, created, between(created, bound));
            }
        }
        while self.writes.get(1).is_some_and(|second| *second <= until) {
            self.writes.pop_front();
        }
    }

    /// A pod was unschedulable at a moment, and the status write was observed this much later.
    fn measure_attempt(
        &mut self,
        moment: Moment,
        write_duration: Option<Duration>,
        is_first: bool,
        samples: &mut LatencySamples,
    ) {
        let is_unschedulable = |scheduler_event: &SchedulerEvent| {
            matches!(scheduler_event, SchedulerEvent::Unschedulable { .. })
        };
        let next = self
            .events
            .iter()
            .find(|(_, scheduler_event)| is_unschedulable(scheduler_event))
            .map(|((next, _), _)| between(moment, *next));
        match (write_duration, next) {
            (Some(write_duration), next) => {
                let duration = next
                    .filter(|next| *next <= write_duration + MAX_RESPONSE_DELAY)
                    .unwrap_or(write_duration);
                samples.add(LatencyKind::StatusPatch, moment, duration);
                self.writes.push_back(moment);
            }
            (None, Some(next)) if is_first && next < MAX_ATTEMPT_DURATION => {
                samples.add(LatencyKind::Attempt, moment, next)
            }
            (None, _) => {}
        }
    }
}

// === impl StatusWrites ===

impl StatusWrites {
    /// More writes than a scheduler makes for one pod before its attempts are measured.
    const MAX_WRITES: usize = 4;

    /// Takes a version of an unschedulable pod. Most repeat the previous message.
    pub(super) fn observe(&mut self, at: Moment, message: &str, nominated: &str) {
        let mut hasher = FxHasher::default();
        (message, nominated).hash(&mut hasher);
        let now = Some(hasher.finish());
        if std::mem::replace(&mut self.last, now) != now {
            if self.recent.len() == StatusWrites::MAX_WRITES {
                self.recent.remove(0);
            }
            self.recent.push((at, message_hash(message)));
        }
    }

    /// Returns how long after a moment a write was observed with this message, or with any if it is `None`.
    fn duration_since(&self, moment: Moment, message: Option<u64>) -> Option<Duration> {
        let is_match = |(at, written): &&(Moment, u64)| {
            let elapsed = between(moment, *at);
            let longest = if message.is_some() { MAX_WRITE_DURATION } else { MIN_BACKOFF };
            *at >= moment && elapsed <= longest && message.is_none_or(|message| message == *written)
        };
        self.recent.iter().find(is_match).map(|(at, _)| between(moment, *at))
    }
}

/// Returns the uid in `Preempted by pod 5c1f… on node n1`. The Event has no reference to that pod.
fn preemptor(note: &str) -> Option<&str> {
    note.strip_prefix("Preempted by pod ")?.split(' ').next()
}

fn message_hash(message: &str) -> u64 {
    let bytes = message.as_bytes();
    let mut hasher = FxHasher::default();
    bytes[..bytes.len().min(UNTRUNCATED_NOTE_BYTES)].hash(&mut hasher);
    hasher.finish()
}
