//! Playback of a recording to our scheduler as the real one received it, with an attempt of ours at each real decision.
//!
//! Certain: the real scheduler decides one pod after the other; it knows its own decisions at once; its pod watch
//! delivers versions in order, so the pod version it had shows how much of the watch it had received, and the pod's
//! next version how much it had not. Assumed: how long a binding takes to reach the server, and how far the scheduler's
//! watches were ahead of or behind the recording's own.

use model::{Moment, What};
use rustc_hash::FxHashMap;
use scheduler::{Decision, Explanation, Scheduler, Settings};

use super::{AttemptOutcome, RecordedDecision, WatchEvent, WatchRecording};

/// The latencies that a recording does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingAssumption {
    /// Nanoseconds from a decision for a node until the server has stored the binding.
    pub binding_latency: i64,
    /// Nanoseconds by which the scheduler's watches were behind the recording's.
    pub watch_lag: i64,
}

/// One real decision, and our scheduler's explanation in the same state of the cluster.
pub(super) struct PlayedDecision<'a> {
    pub(super) decided: &'a RecordedDecision,
    pub(super) at: Moment,
    /// `None` if the pod does not exist.
    pub(super) explanation: Option<Explanation>,
    /// How many pods have a nominated node.
    pub(super) nominated: usize,
}

impl TimingAssumption {
    /// The assumption that fits the recordings best.
    pub const BEST_FIT: TimingAssumption = TimingAssumption { binding_latency: 5_000_000, watch_lag: 0 };
}

/// Our scheduler with the watch events that the real one had received so far.
struct SchedulerPlayback<'a> {
    events: &'a [WatchEvent],
    scheduler: Scheduler,
    /// The index of the latest watch event applied for each uid.
    latest: FxHashMap<usize, usize>,
    nominated: usize,
}

// === impl WatchRecording ===

impl WatchRecording {
    /// Plays the recording and reports the selected decisions, in the order in which they were taken, with their index.
    /// `evaluated_nodes` holds how many nodes each decision evaluated; missing numbers are computed and stored.
    pub(super) fn play_back(
        &self,
        assumption: TimingAssumption,
        evaluated_nodes: &mut [Option<usize>],
        wanted: impl Fn(usize) -> bool,
        mut report: impl FnMut(usize, PlayedDecision<'_>),
    ) {
        let times = estimate_times(&self.events, &self.decisions, assumption);
        let mut order: Vec<usize> = (0..self.decisions.len()).collect();
        order.sort_by_key(|index| (times[*index], self.decisions[*index].seen_version));
        let limits = version_limits(&self.decisions, &order);
        // The scheduler knows its own writes before its watch delivers them.
        let mut is_own = vec![false; self.events.len()];
        for write in self.decisions.iter().flat_map(|one| [one.nomination_index, one.write_index]).flatten() {
            is_own[write] = true;
        }
        let (pods, others): (Vec<usize>, Vec<usize>) =
            (0..self.events.len()).partition(|index| self.events[*index].pod.is_some());
        let (mut pods, mut others) = (pods.into_iter().peekable(), others.into_iter().peekable());
        let mut playback = SchedulerPlayback::new(&self.events);
        for (index, limit) in order.into_iter().zip(limits) {
            let (decision, at) = (&self.decisions[index], times[index]);
            let has_arrived = |index: &usize| self.events[*index].at.plus_nanos(assumption.watch_lag) <= at;
            while let Some(other) = others.next_if(has_arrived) {
                playback.apply_event(at, other);
            }
            let seen_version = decision.seen_version.unwrap_or_default();
            while let Some(pod) = pods.next_if(|index| {
                let version = version(&self.events, *index);
                version <= seen_version || has_arrived(index) && version < limit
            }) {
                if !is_own[pod] || version(&self.events, pod) <= seen_version {
                    playback.apply_event(at, pod);
                }
            }
            let is_wanted = decision.is_compared && wanted(index);
            if is_wanted || evaluated_nodes[index].is_none() {
                let explanation = playback.scheduler.explain(at, &decision.namespace, &decision.name);
                evaluated_nodes[index]
                    .get_or_insert_with(|| explanation.as_ref().map_or(0, evaluated_node_count));
                if is_wanted {
                    report(
                        index,
                        PlayedDecision { decided: decision, at, explanation, nominated: playback.nominated },
                    );
                }
            }
            // A search begins where the previous one ended, so one that evaluates few nodes moves all that follow.
            playback.scheduler.rotate_start_node(evaluated_nodes[index].unwrap_or_default());
            if let Some(write) = decision.write_index {
                playback.apply_event(at, write);
            }
        }
    }
}

fn evaluated_node_count(explanation: &Explanation) -> usize {
    match &explanation.decision {
        Decision::Scheduled(placement) => placement.evaluated_nodes,
        Decision::Unschedulable(_) => explanation.nodes.len(),
        Decision::Skipped(_) | Decision::Gated(_) | Decision::Failed(_) => 0,
    }
}

/// Estimates when each decision was taken.
fn estimate_times(
    events: &[WatchEvent],
    decisions: &[RecordedDecision],
    assumption: TimingAssumption,
) -> Vec<Moment> {
    // The Event of a failure is stamped at once, that of a binding when the server has answered.
    let mut times: Vec<Moment> = decisions.iter().map(|one| one.event_time).collect();
    // The moments by which everything up to a version had been stored.
    let mut stored: Vec<(u64, Moment)> = Vec::new();
    for one in decisions {
        stored.extend(one.seen_version.map(|version| (version, one.event_time)));
        stored.extend(one.write_index.map(|write| (version(events, write), one.event_time)));
        stored.extend(
            one.nomination_index.map(|nomination| (version(events, nomination), events[nomination].at)),
        );
    }
    stored.extend(events.iter().filter_map(|one| Some((one.pod.as_ref()?.version, one.at))));
    stored.sort_unstable();
    // A stored binding had been decided before.
    let mut bound: Vec<(u64, usize)> = Vec::new();
    // A failure is stored before the next decision is taken: bindings with later versions were decided after it.
    let mut failed: Vec<(u64, Moment)> = Vec::new();
    for (index, one) in decisions.iter().enumerate() {
        let Some(write) = one.nomination_index.or(one.write_index) else { continue };
        match one.outcome {
            AttemptOutcome::Bound(_) => bound.push((version(events, write), index)),
            AttemptOutcome::Unschedulable(_) => failed.push((version(events, write), one.event_time)),
        }
    }
    bound.sort_unstable_by(|a, b| b.cmp(a));
    failed.sort_unstable();
    let mut earliest = Moment::MAX;
    for (version, index) in bound {
        while let Some((_, at)) = stored.pop_if(|(other, _)| *other >= version) {
            earliest = earliest.min(at);
        }
        let latest = earliest.plus_nanos(-assumption.binding_latency);
        let before = failed.partition_point(|(other, _)| *other < version);
        let last = before.checked_sub(1).map_or(Moment::MIN, |last| failed[last].1);
        times[index] = latest.max(last.plus_nanos(1));
    }
    order_by_queue(decisions, &mut times);
    order_by_watch_progress(decisions, &mut times);
    times
}

/// Moves bindings so that first attempts are in the order of the queue, as they always are. Failures stay at their
/// Events' times.
fn order_by_queue(decisions: &[RecordedDecision], times: &mut [Moment]) {
    let indexed = decisions.iter().enumerate();
    let mut queue: Vec<(i64, Option<u64>, usize)> = indexed
        .filter_map(|(index, one)| Some((one.first_attempt_priority?, one.seen_version, index)))
        .collect();
    queue.sort_unstable();
    for same_priority in queue.chunk_by(|a, b| a.0 == b.0) {
        let is_bound = |index: usize| matches!(decisions[index].outcome, AttemptOutcome::Bound(_));
        let mut next = Moment::MAX;
        for (_, _, index) in same_priority.iter().rev().copied() {
            if is_bound(index) {
                times[index] = times[index].min(next);
            }
            next = times[index];
        }
        let mut last_failure = Moment::MIN;
        for (_, _, index) in same_priority.iter().copied() {
            if is_bound(index) {
                times[index] = times[index].max(last_failure.plus_nanos(1));
            } else {
                last_failure = times[index];
            }
        }
    }
}

/// Moves a binding after those failures whose pod watch was less far than the binding's.
fn order_by_watch_progress(decisions: &[RecordedDecision], times: &mut [Moment]) {
    let failed = decisions.iter().filter(|one| matches!(one.outcome, AttemptOutcome::Unschedulable(_)));
    let mut unseen: Vec<(u64, Moment)> =
        failed.filter_map(|one| Some((one.unseen_version?, one.event_time))).collect();
    unseen.sort_unstable();
    let mut last = Moment::MIN;
    for (_, at) in &mut unseen {
        last = last.max(*at);
        *at = last;
    }
    for (one, time) in decisions.iter().zip(times) {
        if let (AttemptOutcome::Bound(_), Some(seen_version)) = (&one.outcome, one.seen_version) {
            let before = unseen.partition_point(|(version, _)| *version <= seen_version);
            let last = before.checked_sub(1).map_or(Moment::MIN, |last| unseen[last].1);
            *time = last.plus_nanos(1).max(*time);
        }
    }
}

/// For each decision in order, the first pod version that the watch had not delivered: a version that a later decision
/// had not received, an earlier one had not received either.
fn version_limits(decisions: &[RecordedDecision], order: &[usize]) -> Vec<u64> {
    let mut limit = u64::MAX;
    let mut limits: Vec<u64> = order
        .iter()
        .rev()
        .map(|index| {
            limit = limit.min(decisions[*index].unseen_version.unwrap_or(u64::MAX));
            limit
        })
        .collect();
    limits.reverse();
    limits
}

fn version(events: &[WatchEvent], index: usize) -> u64 {
    events[index].pod.as_ref().map_or(0, |pod| pod.version)
}

// === impl SchedulerPlayback ===

impl<'a> SchedulerPlayback<'a> {
    fn new(events: &'a [WatchEvent]) -> SchedulerPlayback<'a> {
        let scheduler = Scheduler::new(Settings::default());
        SchedulerPlayback { events, scheduler, latest: FxHashMap::default(), nominated: 0 }
    }

    /// Applies a watch event, unless a later one of the same object was applied already.
    fn apply_event(&mut self, now: Moment, index: usize) {
        let uid_index = self.events[index].uid_index;
        let before = self.latest.get(&uid_index).copied();
        if before.is_some_and(|before| before >= index) {
            return;
        }
        self.nominated -= before.map_or(0, |before| self.nominated_count(before));
        self.nominated += self.nominated_count(index);
        self.latest.insert(uid_index, index);
        self.scheduler.apply(now, &self.events[index].what);
    }

    /// 1 if this is a pod that has a nominated node and is not bound, else 0.
    fn nominated_count(&self, index: usize) -> usize {
        let event = &self.events[index];
        let exists = !matches!(event.what, What::Deleted(_));
        let is_nominated =
            event.pod.as_ref().is_some_and(|pod| pod.node.is_empty() && !pod.nominated.is_empty());
        usize::from(exists && is_nominated)
    }
}
