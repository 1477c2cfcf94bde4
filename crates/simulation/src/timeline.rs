//! The virtual clock of a run, its agenda and its latencies.

use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::after;
use model::Moment;

use crate::agenda::{Agenda, Task};
use crate::eviction::EvictionCause;
use crate::ids::DemandId;
use crate::ids::PodId;
use crate::latency::{LatencyKind, LatencySampler};

/// The virtual clock of a run, its agenda and its latencies.
#[derive(Debug)]
pub(crate) struct Timeline {
    now: Moment,
    pub(crate) agenda: Agenda<RunTask>,
    pub(crate) latencies: LatencySampler,
}

/// A task of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RunTask {
    /// Create the next pod of a demand.
    CreatePod(DemandId),
    /// A pod's binding becomes visible.
    FinishBinding(PodId),
    /// The containers of a pod start.
    StartContainers(PodId),
    /// The containers of a pod exit.
    FinishContainers(PodId),
    /// A pod is evicted.
    Evict(PodId, EvictionCause),
    /// All victims of a pod are terminating.
    FinishPreemption(PodId),
    /// A pod's toleration of a taint expires, if its eviction is still due at that moment.
    EvictByTaint(PodId, Moment),
    /// A terminating pod can be removed.
    FinishDeletion(PodId),
    /// Pod GC of a deleted node.
    CollectPods(Arc<str>),
    /// Controllers sync.
    SyncControllers,
}

// === impl Timeline ===

impl Timeline {
    pub(crate) fn new(start: Moment, sampler: LatencySampler) -> Timeline {
        Timeline { now: start, agenda: Agenda::default(), latencies: sampler }
    }

    pub(crate) fn now(&self) -> Moment {
        self.now
    }

    /// Moves the clock forward. It never goes back.
    pub(crate) fn advance_to(&mut self, moment: Moment) {
        self.now = self.now.max(moment);
    }

    pub(crate) fn put(&mut self, at: Moment, task: RunTask) {
        self.agenda.put(at, task);
    }

    /// The latency of an operation that begins now.
    pub(crate) fn draw(&mut self, latency_kind: LatencyKind) -> Duration {
        self.latencies.draw(latency_kind, self.now)
    }

    /// When an operation that begins now is done.
    pub(crate) fn completion_time(&mut self, latency_kind: LatencyKind) -> Moment {
        after(self.now, self.draw(latency_kind))
    }
}

// === impl RunTask ===

impl Task for RunTask {
    fn finishes_soon(&self) -> bool {
        match self {
            RunTask::CreatePod(_)
            | RunTask::FinishBinding(_)
            | RunTask::Evict(..)
            | RunTask::FinishPreemption(_)
            | RunTask::FinishDeletion(_)
            | RunTask::SyncControllers => true,
            RunTask::StartContainers(_)
            | RunTask::FinishContainers(_)
            | RunTask::EvictByTaint(..)
            | RunTask::CollectPods(_) => false,
        }
    }
}
