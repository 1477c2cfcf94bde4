//! Playback of a recording to our scheduler as the real one received it, with an attempt of ours at each real decision.
//!
//! Certain: the real scheduler decides one pod after the other; it knows its own decisions at once; its pod watch
//! delivers versions in order, so the pod version it had shows how much of the watch it had received, and the pod's
//! next version how much it had not. Assumed: how long a binding takes to reach the server, and how far the scheduler's
//! watches were ahead of or behind the recording's own.

use model::{Moment, What};
use rustc_hash::FxHashMap;
use scheduler::{Decision, Explanation, Scheduler, Settings};

use super::{Decided, Did, Film, Seen};

/// The latencies that a recording does not show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Nanoseconds from a decision for a node until the server has stored the binding.
    pub binding_takes: i64,
    /// Nanoseconds by which the scheduler's watches were behind the recording's.
    pub watch_behind: i64,
}

/// One real decision, and our scheduler's explanation in the same state of the cluster.
pub(super) struct Asked<'a> {
    pub(super) decided: &'a Decided,
    pub(super) at: Moment,
    /// `None` if the pod does not exist.
    pub(super) explanation: Option<Explanation>,
    /// How many pods have a nominated node.
    pub(super) nominated: usize,
}

impl Guess {
    /// The assumption that fits the recordings best.
    pub const BEST: Guess = Guess { binding_takes: 5_000_000, watch_behind: 0 };
}

/// Our scheduler with the watch events that the real one had received so far.
struct Screen<'a> {
    seen: &'a [Seen],
    scheduler: Scheduler,
    /// The index of the latest watch event applied for each uid.
    newest: FxHashMap<usize, usize>,
    nominated: usize,
}

// === impl Film ===

impl Film {
    /// Plays the recording and reports the selected decisions, in the order in which they were taken, with their index.
    /// `evaluated_nodes` holds how many nodes each decision evaluated; missing numbers are computed and stored.
    pub(super) fn play(
        &self,
        guess: Guess,
        looked_at: &mut [Option<usize>],
        wanted: impl Fn(usize) -> bool,
        mut tell: impl FnMut(usize, Asked<'_>),
    ) {
        let times = times(&self.seen, &self.decided, guess);
        let mut order: Vec<usize> = (0..self.decided.len()).collect();
        order.sort_by_key(|index| (times[*index], self.decided[*index].looked_at));
        let limits = limits(&self.decided, &order);
        // The scheduler knows its own writes before its watch delivers them.
        let mut is_own = vec![false; self.seen.len()];
        for write in self.decided.iter().flat_map(|one| [one.promise, one.write]).flatten() {
            is_own[write] = true;
        }
        let (pods, others): (Vec<usize>, Vec<usize>) =
            (0..self.seen.len()).partition(|index| self.seen[*index].pod.is_some());
        let (mut pods, mut others) = (pods.into_iter().peekable(), others.into_iter().peekable());
        let mut screen = Screen::new(&self.seen);
        for (index, limit) in order.into_iter().zip(limits) {
            let (decided, at) = (&self.decided[index], times[index]);
            let has_come = |index: &usize| self.seen[*index].at.plus_nanos(guess.watch_behind) <= at;
            while let Some(other) = others.next_if(has_come) {
                screen.show(at, other);
            }
            let shown = decided.looked_at.unwrap_or_default();
            while let Some(pod) = pods.next_if(|index| {
                let version = version(&self.seen, *index);
                version <= shown || has_come(index) && version < limit
            }) {
                if !is_own[pod] || version(&self.seen, pod) <= shown {
                    screen.show(at, pod);
                }
            }
            let is_wanted = decided.is_compared && wanted(index);
            if is_wanted || looked_at[index].is_none() {
                let explanation = screen.scheduler.explain(at, &decided.namespace, &decided.name);
                looked_at[index].get_or_insert_with(|| explanation.as_ref().map_or(0, nodes_looked_at));
                if is_wanted {
                    tell(index, Asked { decided, at, explanation, nominated: screen.nominated });
                }
            }
            // A search begins where the previous one ended, so one that evaluates few nodes moves all that follow.
            screen.scheduler.rotate_start_node(looked_at[index].unwrap_or_default());
            if let Some(write) = decided.write {
                screen.show(at, write);
            }
        }
    }
}

fn nodes_looked_at(explanation: &Explanation) -> usize {
    match &explanation.decision {
        Decision::Placed(placement) => placement.evaluated_nodes,
        Decision::Refused(_) => explanation.nodes.len(),
        Decision::Skipped(_) | Decision::Gated(_) | Decision::Failed(_) => 0,
    }
}

/// Estimates when each decision was taken.
fn times(seen: &[Seen], decided: &[Decided], guess: Guess) -> Vec<Moment> {
    // The Event of a failure is stamped at once, that of a binding when the server has answered.
    let mut times: Vec<Moment> = decided.iter().map(|one| one.stamped).collect();
    // The moments by which everything up to a version had been stored.
    let mut written: Vec<(u64, Moment)> = Vec::new();
    for one in decided {
        written.extend(one.looked_at.map(|version| (version, one.stamped)));
        written.extend(one.write.map(|write| (version(seen, write), one.stamped)));
        written.extend(one.promise.map(|promise| (version(seen, promise), seen[promise].at)));
    }
    written.extend(seen.iter().filter_map(|one| Some((one.pod.as_ref()?.version, one.at))));
    written.sort_unstable();
    // A stored binding had been decided before.
    let mut bound: Vec<(u64, usize)> = Vec::new();
    // A failure is stored before the next decision is taken: bindings with later versions were decided after it.
    let mut refused: Vec<(u64, Moment)> = Vec::new();
    for (index, one) in decided.iter().enumerate() {
        let Some(write) = one.promise.or(one.write) else { continue };
        match one.did {
            Did::Bound(_) => bound.push((version(seen, write), index)),
            Did::Refused(_) => refused.push((version(seen, write), one.stamped)),
        }
    }
    bound.sort_unstable_by(|a, b| b.cmp(a));
    refused.sort_unstable();
    let mut earliest = Moment::MAX;
    for (version, index) in bound {
        while let Some((_, at)) = written.pop_if(|(other, _)| *other >= version) {
            earliest = earliest.min(at);
        }
        let latest = earliest.plus_nanos(-guess.binding_takes);
        let before = refused.partition_point(|(other, _)| *other < version);
        let last = before.checked_sub(1).map_or(Moment::MIN, |last| refused[last].1);
        times[index] = latest.max(last.plus_nanos(1));
    }
    in_order_of_the_queue(decided, &mut times);
    behind_what_had_not_seen_as_much(decided, &mut times);
    times
}

/// Moves bindings so that first attempts are in the order of the queue, as they always are. Failures stay at their
/// Events' times.
fn in_order_of_the_queue(decided: &[Decided], times: &mut [Moment]) {
    let fresh = decided.iter().enumerate();
    let mut queue: Vec<(i64, Option<u64>, usize)> =
        fresh.filter_map(|(index, one)| Some((one.fresh?, one.looked_at, index))).collect();
    queue.sort_unstable();
    for same_priority in queue.chunk_by(|a, b| a.0 == b.0) {
        let is_bound = |index: usize| matches!(decided[index].did, Did::Bound(_));
        let mut next = Moment::MAX;
        for (_, _, index) in same_priority.iter().rev().copied() {
            if is_bound(index) {
                times[index] = times[index].min(next);
            }
            next = times[index];
        }
        let mut refused = Moment::MIN;
        for (_, _, index) in same_priority.iter().copied() {
            if is_bound(index) {
                times[index] = times[index].max(refused.plus_nanos(1));
            } else {
                refused = times[index];
            }
        }
    }
}

/// Moves a binding after those failures whose pod watch was less far than the binding's.
fn behind_what_had_not_seen_as_much(decided: &[Decided], times: &mut [Moment]) {
    let refused = decided.iter().filter(|one| matches!(one.did, Did::Refused(_)));
    let mut unseen: Vec<(u64, Moment)> =
        refused.filter_map(|one| Some((one.not_seen?, one.stamped))).collect();
    unseen.sort_unstable();
    let mut last = Moment::MIN;
    for (_, at) in &mut unseen {
        last = last.max(*at);
        *at = last;
    }
    for (one, time) in decided.iter().zip(times) {
        if let (Did::Bound(_), Some(looked_at)) = (&one.did, one.looked_at) {
            let before = unseen.partition_point(|(version, _)| *version <= looked_at);
            let last = before.checked_sub(1).map_or(Moment::MIN, |last| unseen[last].1);
            *time = last.plus_nanos(1).max(*time);
        }
    }
}

/// For each decision in order, the first pod version that the watch had not delivered: a version that a later decision
/// had not received, an earlier one had not received either.
fn limits(decided: &[Decided], order: &[usize]) -> Vec<u64> {
    let mut limit = u64::MAX;
    let mut limits: Vec<u64> = order
        .iter()
        .rev()
        .map(|index| {
            limit = limit.min(decided[*index].not_seen.unwrap_or(u64::MAX));
            limit
        })
        .collect();
    limits.reverse();
    limits
}

fn version(seen: &[Seen], index: usize) -> u64 {
    seen[index].pod.as_ref().map_or(0, |pod| pod.version)
}

// === impl Screen ===

impl<'a> Screen<'a> {
    fn new(seen: &'a [Seen]) -> Screen<'a> {
        let scheduler = Scheduler::new(Settings::default());
        Screen { seen, scheduler, newest: FxHashMap::default(), nominated: 0 }
    }

    /// Applies a watch event, unless a later one of the same object was applied already.
    fn show(&mut self, now: Moment, index: usize) {
        let life = self.seen[index].life;
        let before = self.newest.get(&life).copied();
        if before.is_some_and(|before| before >= index) {
            return;
        }
        self.nominated -= before.map_or(0, |before| self.promises(before));
        self.nominated += self.promises(index);
        self.newest.insert(life, index);
        self.scheduler.apply(now, &self.seen[index].what);
    }

    /// 1 if this is a pod that has a nominated node and is not bound, else 0.
    fn promises(&self, index: usize) -> usize {
        let seen = &self.seen[index];
        let is_there = !matches!(seen.what, What::Deleted(_));
        let waits = seen.pod.as_ref().is_some_and(|pod| pod.node.is_empty() && !pod.nominated.is_empty());
        usize::from(is_there && waits)
    }
}
