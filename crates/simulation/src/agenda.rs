//! What is due, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use model::Moment;

use super::given::DemandId;
use super::told::{LostTo, PodId};

/// What is due, by time and then in the order in which it was put down.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    heap: BinaryHeap<Reverse<Entry>>,
    count: u64,
    /// How many entries will soon be done with.
    passing: usize,
}

/// Something that was begun, and comes to its end.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// The pod of a demand is made, for the first time or again.
    Ask(DemandId),
    /// A pod is seen to be bound.
    Bind(PodId),
    /// The containers of a pod run.
    Start(PodId),
    /// They have ended.
    End(PodId),
    /// A pod loses its place.
    Lose(PodId, LostTo),
    /// All victims of a pod are marked for deletion.
    Preempted(PodId),
    /// A pod has stayed as long as it tolerates a taint, if that is still when its time is over.
    LoseToTaint(PodId, Moment),
    /// A pod is gone.
    Go(PodId),
    /// The pods of a node that is gone go.
    Collect(Arc<str>),
    /// Controllers look at what is new.
    Work,
}

#[derive(Debug, PartialEq, Eq)]
struct Entry {
    at: Moment,
    count: u64,
    due: Due,
}

impl Agenda {
    pub(super) fn put(&mut self, at: Moment, due: Due) {
        self.count += 1;
        self.passing += usize::from(due.is_passing());
        self.heap.push(Reverse(Entry { at, count: self.count, due }));
    }

    /// When something is due next.
    pub(super) fn next(&self) -> Option<Moment> {
        self.heap.peek().map(|Reverse(entry)| entry.at)
    }

    /// The next thing that is due by now.
    pub(super) fn take(&mut self, now: Moment) -> Option<Due> {
        self.next().filter(|at| *at <= now)?;
        let Reverse(Entry { due, .. }) = self.heap.pop()?;
        self.passing -= usize::from(due.is_passing());
        Some(due)
    }

    /// Whether something was begun that is soon done with, and others wait for it.
    pub(super) fn is_busy(&self) -> bool {
        self.passing > 0
    }
}

// === impl Due ===

impl Due {
    /// Not what containers do by themselves, what a taint still allows, nor the pods of a node that is gone, which are
    /// missed only after a while: all that may take long.
    fn is_passing(&self) -> bool {
        match self {
            Due::Ask(_) | Due::Bind(_) | Due::Lose(..) | Due::Preempted(_) | Due::Go(_) | Due::Work => true,
            Due::Start(_) | Due::End(_) | Due::LoseToTaint(..) | Due::Collect(_) => false,
        }
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.at, self.count).cmp(&(other.at, other.count))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
