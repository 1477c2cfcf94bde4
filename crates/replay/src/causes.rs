//! Causes from effects: what of a recording was given, and what was decided.
//!
//! A recorded pod is an effect. Behind it stands a demand: its owner wanted a pod. A pod that was evicted and made again
//! is one demand with two lives; how often that happens in a run is for the run to decide. What an owner deletes, what
//! people delete, how long containers ran: that is given.
//!
//! The recording is read twice. The first time [`Survey`] tells which pods belong together and how each life ended; the
//! second time [`Script`](crate::script::Script) hands out what is given, in order.

pub(crate) mod made;
pub(crate) mod objects;
mod owners;
mod record;
mod store;
mod survey;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use simulation::{Again, DemandId, Life, Runs};

use self::store::Stored;

pub use self::made::Made;

pub(crate) use store::Lives;
pub use survey::Survey;

/// What stands behind the recorded pods. It lies on disk; only how much there is of it is in memory.
#[derive(Debug)]
pub struct Causes {
    stored: Stored,
    /// How much was recorded.
    pub totals: Totals,
    /// Those that controllers of the run make.
    pub made: Made,
    /// What could not be told, in words, and how often.
    pub untold: BTreeMap<&'static str, u64>,
}

/// How much was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Demands.
    pub demands: u64,
    /// Pods that were bound within the window.
    pub bound: u64,
    /// Pods that lost their place, by how.
    pub lost: BTreeMap<Lost, u64>,
}

/// A demand as the recording shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its pods.
    pub lives: Vec<Life>,
    /// What else was seen of each of them.
    pub seen: Vec<LifeSeen>,
    /// For how long its owner had not made another when no more was seen, if the last was lost.
    pub unmade: Option<Duration>,
    /// Its containers end by themselves.
    pub runs: Option<Runs>,
    /// It was made because that one had ended.
    pub after: Option<DemandId>,
    /// Who makes it again.
    pub again: Again,
    /// What its owner or others do to it, by time.
    pub acts: Vec<(Moment, Act)>,
}

/// What is done to a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Act {
    /// It is not wanted any more.
    Withdrawn,
    /// Its pod is deleted, by people.
    Deleted,
    /// It had ended, and nobody needs to know of it any more.
    CleanedUp,
}

/// What was seen of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LifeSeen {
    /// When it came.
    pub came: Moment,
    /// When it was bound.
    pub bound: Option<Moment>,
    /// What the node was like that it was bound to.
    pub class: Option<Arc<str>>,
    /// When its deletion began.
    pub leaving: Option<Moment>,
    /// How it lost its place, if it did.
    pub lost: Option<Lost>,
}

/// How a recorded pod lost its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// To one of higher priority.
    Preempted,
    /// The autoscaler drained its node.
    ScaledDown,
    /// To a taint.
    Tainted,
    /// With its node.
    NodeGone,
    /// To people, who drained its node or deleted it.
    People,
}

// === impl Causes ===

impl Causes {
    /// What stands behind a demand.
    pub fn get(&self, demand: DemandId) -> io::Result<Cause> {
        self.stored.get(demand)
    }

    /// The recorded pods in the order in which they were first seen.
    pub(crate) fn lives(&self) -> Lives<'_> {
        self.stored.lives()
    }
}

// === impl LifeSeen ===

impl LifeSeen {
    /// When it was bound, if that was after the window had begun. One that came with its node was bound by nobody.
    pub fn bound_after(&self, from: Moment) -> Option<Moment> {
        self.bound.filter(|bound| *bound > from && *bound > self.came)
    }
}
