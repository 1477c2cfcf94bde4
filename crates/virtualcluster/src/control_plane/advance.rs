//! Advances of a virtual clock: how far it moves, and what ends it before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use apiserver::StoreChange;
use model::Moment;

use super::{ControlPlane, EndlessStages, MAX_ATTEMPTS_TO_SETTLE, MAX_ROUNDS};

/// What ends an advance before its target: its own cancellation, or an interruption of all advances.
#[derive(Clone, Debug)]
pub(crate) struct AdvanceInterrupt {
    cancellation: AdvanceCancellation,
    /// The number of interruptions of all advances, now and when this one was requested.
    interruptions: Arc<AtomicU64>,
    interruptions_before: u64,
}

/// The cancellation of one advance, by the caller who no longer waits for it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct AdvanceCancellation(Arc<AtomicBool>);

/// A clock that cannot be moved, or not so far.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdvanceError {
    /// The clock moves by itself.
    #[error("the clock of this cluster is the wall clock: start it with --clock virtual")]
    RealClock,
    /// A moment never ends, since stages of an object have no delay.
    #[error("the clock stays at {at}: {stages}")]
    EndlessStages {
        /// The moment.
        at: Moment,
        /// The object, and its stages.
        stages: EndlessStages,
    },
    /// The components do not come to an end at a moment.
    #[error(
        "the clock stays at {at}: the components have not finished after {rounds} rounds; the last change was of {last}"
    )]
    Unsettled {
        /// The moment.
        at: Moment,
        /// How often all of them have worked.
        rounds: usize,
        /// The object that was changed last.
        last: String,
    },
    /// The duration is longer than [`MAX_ADVANCE`].
    #[error("the clock moves by at most {MAX_ADVANCE_DAYS} days (10 years) at once")]
    TooFar,
    /// It was cancelled, or the cluster was reset meanwhile.
    #[error("interrupted: the clock stays at {at}")]
    Interrupted {
        /// The moment that it had reached.
        at: Moment,
    },
    /// The cluster has ended.
    #[error("the cluster has ended")]
    Stopped,
}

/// The longest duration by which a virtual clock moves at once: 10 years.
pub const MAX_ADVANCE: Duration = Duration::from_secs(MAX_ADVANCE_DAYS * 24 * 3600);
const MAX_ADVANCE_DAYS: u64 = 3650;

/// How far a virtual clock moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvanceTarget {
    /// By a duration of at most [`MAX_ADVANCE`].
    By(Duration),
    /// Until nothing is about to happen by itself; at most by a day.
    UntilIdle,
}

/// How far a clock moves at most until nothing is about to happen: stages may follow each other forever.
const MAX_UNTIL_IDLE: Duration = Duration::from_secs(24 * 3600);

// === impl AdvanceInterrupt ===

impl AdvanceInterrupt {
    /// That of an advance which is requested now. `interruptions` counts those of all advances.
    pub(crate) fn new(cancellation: AdvanceCancellation, interruptions: Arc<AtomicU64>) -> AdvanceInterrupt {
        let interruptions_before = interruptions.load(Ordering::Acquire);
        AdvanceInterrupt { cancellation, interruptions, interruptions_before }
    }

    fn is_set(&self) -> bool {
        self.cancellation.0.load(Ordering::Acquire)
            || self.interruptions.load(Ordering::Acquire) != self.interruptions_before
    }
}

// === impl AdvanceCancellation ===

impl AdvanceCancellation {
    /// Ends the advance at the next task.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }
}

// === impl ControlPlane ===

impl ControlPlane {
    /// Whether the advance that runs is to end.
    pub(super) fn is_interrupted(&self) -> bool {
        self.advance_interrupt.as_ref().is_some_and(AdvanceInterrupt::is_set)
    }

    /// Moves the clock. It stays where a moment does not end, and where it is interrupted.
    pub(super) fn advance(&mut self, target: AdvanceTarget) -> Result<(), AdvanceError> {
        if !self.clock.is_virtual() {
            return Err(AdvanceError::RealClock);
        }
        let end = match target {
            AdvanceTarget::By(duration) => Some(kubernetes::time::after(self.clock.now(), duration)),
            AdvanceTarget::UntilIdle => None,
        };
        let patience = kubernetes::time::after(self.clock.now(), MAX_UNTIL_IDLE);
        loop {
            self.finish_moment()?;
            if self.is_interrupted() {
                return Err(AdvanceError::Interrupted { at: self.clock.now() });
            }
            let next = self.components.next_due(self.clock.now());
            match (next, end) {
                (Some(next), Some(end)) if next <= end => self.clock.set(next),
                (_, Some(end)) => {
                    self.clock.set(end);
                    return self.finish_moment();
                }
                (Some(next), None) if self.components.is_busy() && next <= patience => self.clock.set(next),
                (_, None) => return Ok(()),
            }
        }
    }

    /// Works until nothing is left to do at the moment that a virtual clock shows.
    fn finish_moment(&mut self) -> Result<(), AdvanceError> {
        let at = self.clock.now();
        let is_finished = (0..MAX_ATTEMPTS_TO_SETTLE).any(|_| self.work());
        if !is_finished && self.is_interrupted() {
            return Err(AdvanceError::Interrupted { at });
        }
        if let Some(stages) = self.components.endless_stages() {
            return Err(AdvanceError::EndlessStages { at, stages });
        }
        if is_finished {
            return Ok(());
        }
        let last = self.last_change.as_deref().map_or_else(String::new, |change| match change {
            StoreChange::Event(event) => {
                let meta = event.new.meta();
                format!("{} {}/{}", meta.kind, meta.namespace, meta.name)
            }
            StoreChange::Reset => "all objects".to_owned(),
        });
        Err(AdvanceError::Unsettled { at, rounds: MAX_ROUNDS * MAX_ATTEMPTS_TO_SETTLE, last })
    }
}
