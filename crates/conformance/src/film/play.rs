//! Plays a film to our scheduler as the real one saw it, and asks ours where the real one decided.
//!
//! What is certain: the real scheduler decides one pod after the other; it knows its own decisions at once; its watch
//! of pods shows versions in their order, so that the version it looked at tells how much of the watch it had seen, and
//! the next one of that pod how much it had not. What is guessed: how long the way of a binding to the server takes,
//! and how much earlier or later than the film's own watch the scheduler's watches were.

use model::{Moment, What};
use rustc_hash::FxHashMap;
use scheduler::{Decision, Explanation, Scheduler, Settings};

use super::{Decided, Did, Film, Seen};

/// What can only be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guess {
    /// Nanoseconds from a decision for a node to the server's having written it down.
    pub binding_takes: i64,
    /// Nanoseconds by which the scheduler's watches were behind the film's.
    pub watch_behind: i64,
}

/// What is known when our scheduler is asked.
pub(super) struct Asked<'a> {
    pub(super) decided: &'a Decided,
    pub(super) at: Moment,
    /// `None` if the pod is not there.
    pub(super) explanation: Option<Explanation>,
    /// How many pods are promised a node.
    pub(super) nominated: usize,
}

impl Guess {
    /// What fits best.
    pub const BEST: Guess = Guess { binding_takes: 5_000_000, watch_behind: 0 };
}

/// The film so far, as the real scheduler knows it.
struct Screen<'a> {
    seen: &'a [Seen],
    scheduler: Scheduler,
    /// The newest that is known of each life, by its place in the film.
    newest: FxHashMap<usize, usize>,
    nominated: usize,
}

// === impl Film ===

impl Film {
    /// Plays the film and asks about those decisions that are wanted, in the order in which they were taken. Each is
    /// named by its place among all. `looked_at` tells on how many nodes each looked; what it does not know yet is
    /// asked and put there.
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
        // What comes by the watch is not news where the scheduler itself had done it.
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
            // A search begins where the one before has ended: one that looks at few nodes moves all that follow.
            screen.scheduler.rotate(looked_at[index].unwrap_or_default());
            if let Some(write) = decided.write {
                screen.show(at, write);
            }
        }
    }
}

fn nodes_looked_at(explanation: &Explanation) -> usize {
    match &explanation.decision {
        Decision::Placed(placement) => placement.looked_at,
        Decision::Refused(_) => explanation.nodes.len(),
        Decision::Skipped(_) | Decision::Gated(_) | Decision::Failed(_) => 0,
    }
}

/// When each decision was taken, as far as can be told.
fn times(seen: &[Seen], decided: &[Decided], guess: Guess) -> Vec<Moment> {
    // A refusal is stamped at once, a binding when the server has answered.
    let mut times: Vec<Moment> = decided.iter().map(|one| one.stamped).collect();
    // No later than these moments had all up to such a version been written down.
    let mut written: Vec<(u64, Moment)> = Vec::new();
    for one in decided {
        written.extend(one.looked_at.map(|version| (version, one.stamped)));
        written.extend(one.write.map(|write| (version(seen, write), one.stamped)));
        written.extend(one.promise.map(|promise| (version(seen, promise), seen[promise].at)));
    }
    written.extend(seen.iter().filter_map(|one| Some((one.pod.as_ref()?.version, one.at))));
    written.sort_unstable();
    // What was written down by then had been decided before.
    let mut bound: Vec<(u64, usize)> = Vec::new();
    // A refusal is written down before the next decision is taken: bindings after it in the store came after it.
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

/// Moves bindings so that pods tried for the first time are tried in the order of the queue, as they always are.
/// Refusals stay where their stamps put them.
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

/// Moves bindings behind those refusals that had not seen a version of pods which the binding had.
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

/// For each decision in their order the version of pods that the watch had not shown by then: what a later decision
/// had not seen, an earlier one had not seen either.
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

    /// Shows something, unless something newer of the same object was shown already.
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

    /// One if this is a pod that is promised a node and has none.
    fn promises(&self, index: usize) -> usize {
        let seen = &self.seen[index];
        let is_there = !matches!(seen.what, What::Deleted(_));
        let waits = seen.pod.as_ref().is_some_and(|pod| pod.node.is_empty() && !pod.nominated.is_empty());
        usize::from(is_there && waits)
    }
}
