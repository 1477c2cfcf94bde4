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
    pub(super) fn new(mut lives: Vec<PodLifecycle>) -> LifecycleTimeline {
        // Lifecycles with the same start stay in the order of the trace.
        lives.sort_by_key(|life| start_time(life.ran));
        LifecycleTimeline { lifecycles: lives, started: 0, ends: BinaryHeap::new() }
    }

    pub(super) fn get(&self, life: usize) -> &PodLifecycle {
        &self.lifecycles[life]
    }

    /// The next start or end, if it is not after `until`.
    pub(super) fn next(&mut self, until: Moment) -> Option<LifecycleChange> {
        let begins = self.lifecycles.get(self.started).map(|life| start_time(life.ran));
        let ends = self.ends.peek().map(|Reverse((at, _))| *at);
        let at = begins.into_iter().chain(ends).min().filter(|at| *at <= until)?;
        if ends == Some(at) {
            let Reverse((_, life)) = self.ends.pop().expect("it was there a line ago");
            return Some(LifecycleChange { at, lifecycle: life, ran: self.lifecycles[life].ran });
        }
        let life = self.started;
        self.started += 1;
        let ran = match self.lifecycles[life].ran {
            PodLifecycleData::Finished(start, end) => {
                // With differing clocks a pod may end before it starts.
                self.ends.push(Reverse((end.max(start), life)));
                PodLifecycleData::Running(start)
            }
            ran => ran,
        };
        Some(LifecycleChange { at, lifecycle: life, ran })
    }
}

/// When a pod started; the earliest moment if it never did.
pub(super) fn start_time(ran: PodLifecycleData) -> Moment {
    match ran {
        PodLifecycleData::Empty => Moment::MIN,
        PodLifecycleData::Running(start) | PodLifecycleData::Finished(start, _) => start,
    }
}
