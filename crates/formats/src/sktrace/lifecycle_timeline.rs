//! The starts and ends of pod lifecycles in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use kubernetes::pod_lifecycles::PodLifecycleData;
use model::Moment;

use super::outline::PodLifecycle;

pub(super) struct LifecycleTimeline {
    /// Sorted by start.
    lifecycles: Vec<PodLifecycle>,
    /// How many have started.
    started: usize,
    /// The ends of those that have started.
    ends: BinaryHeap<Reverse<(Moment, usize)>>,
}

/// The start or the end of a pod's lifecycle.
pub(super) struct LifecycleChange {
    pub(super) at: Moment,
    /// The lifecycle's index.
    pub(super) lifecycle: usize,
    /// When the pod ran, as known from this moment on.
    pub(super) ran: PodLifecycleData,
}

// === impl LifecycleTimeline ===

impl LifecycleTimeline {
    pub(super) fn new(mut lifecycles: Vec<PodLifecycle>) -> LifecycleTimeline {
        // Lifecycles with the same start stay in the order of the trace.
        lifecycles.sort_by_key(|lifecycle| start_time(lifecycle.ran));
        LifecycleTimeline { lifecycles, started: 0, ends: BinaryHeap::new() }
    }

    pub(super) fn get(&self, life: usize) -> &PodLifecycle {
        &self.lifecycles[life]
    }

    /// The next start or end, if it is not after `until`.
    pub(super) fn next(&mut self, until: Moment) -> Option<LifecycleChange> {
        let next_start = self.lifecycles.get(self.started).map(|lifecycle| start_time(lifecycle.ran));
        let next_end = self.ends.peek().map(|Reverse((at, _))| *at);
        let at = next_start.into_iter().chain(next_end).min().filter(|at| *at <= until)?;
        if next_end == Some(at) {
            let Reverse((_, lifecycle)) = self.ends.pop().expect("the heap was just peeked");
            return Some(LifecycleChange { at, lifecycle, ran: self.lifecycles[lifecycle].ran });
        }
        let lifecycle = self.started;
        self.started += 1;
        let ran = match self.lifecycles[lifecycle].ran {
            PodLifecycleData::Finished(start, end) => {
                // With differing clocks a pod may end before it starts.
                self.ends.push(Reverse((end.max(start), lifecycle)));
                PodLifecycleData::Running(start)
            }
            ran => ran,
        };
        Some(LifecycleChange { at, lifecycle, ran })
    }
}

/// When a pod started; the earliest moment if it never did.
pub(super) fn start_time(data: PodLifecycleData) -> Moment {
    match data {
        PodLifecycleData::Empty => Moment::MIN,
        PodLifecycleData::Running(start) | PodLifecycleData::Finished(start, _) => start,
    }
}
