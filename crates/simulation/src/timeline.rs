//! The virtual clock of a run, its agenda, and how long steps take.

use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::after;
use model::Moment;

use crate::agenda::{Agenda, Task};
use crate::eviction::LostTo;
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::pace::{Pacer, Step};

/// The clock of a run, its agenda, and how long steps take.
#[derive(Debug)]
pub(crate) struct Timeline {
    now: Moment,
    pub(crate) agenda: Agenda<Due>,
    pub(crate) pacer: Pacer,
}

/// What a run has begun and has yet to finish.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// The pod of a demand is made, for the first time or again.
    Ask(DemandId),
    /// A pod is seen to be bound.
    Bind(PodId),
    /// The containers of a pod run.
    Start(PodId),
    /// The containers of a pod have ended.
    End(PodId),
    /// A pod is evicted.
    Lose(PodId, LostTo),
    /// All victims of a pod are marked for deletion.
    Preempted(PodId),
    /// A pod has stayed as long as it tolerates a taint, if that is still when its time is over.
    LoseToTaint(PodId, Moment),
    /// A pod is gone.
    Go(PodId),
    /// The pods of a node that is gone are deleted.
    Collect(Arc<str>),
    /// Controllers work on what is new.
    Work,
}

// === impl Timeline ===

impl Timeline {
    pub(crate) fn new(start: Moment, pacer: Pacer) -> Timeline {
        Timeline { now: start, agenda: Agenda::default(), pacer }
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Moves the clock forward. It never goes back.
    pub(crate) fn advance_to(&mut self, moment: Moment) {
        self.now = self.now.max(moment);
    }

    pub(crate) fn put(&mut self, at: Moment, due: Due) {
        self.agenda.put(at, due);
    }

    /// How long a step takes that begins now.
    pub(crate) fn draw(&mut self, step: Step) -> Duration {
        self.pacer.draw(step, self.now)
    }

    /// When a step ends that begins now.
    pub(crate) fn end_of(&mut self, step: Step) -> Moment {
        after(self.now, self.draw(step))
    }
}

// === impl Due ===

impl Task for Due {
    fn finishes_soon(&self) -> bool {
        match self {
            Due::Ask(_) | Due::Bind(_) | Due::Lose(..) | Due::Preempted(_) | Due::Go(_) | Due::Work => true,
            Due::Start(_) | Due::End(_) | Due::LoseToTaint(..) | Due::Collect(_) => false,
        }
    }
}
