//! What was missed, recorded as missed.

use std::sync::Arc;

use crate::{Kind, Moment};

/// A time in which something may have been missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The recording that missed it.
    pub source: Arc<str>,
    /// The kinds it concerns; empty means all of the source's.
    pub kinds: Vec<Kind>,
    /// When the last thing before it was seen.
    pub from: Moment,
    /// When seeing began again; [`Moment::MAX`] while it has not: the gap is open.
    pub to: Moment,
    /// Why, in words for the user.
    pub why: String,
}

// === impl Gap ===

impl Gap {
    /// Whether it has not ended: what it concerns is not recorded any more.
    pub fn is_open(&self) -> bool {
        self.to == Moment::MAX
    }

    /// Whether objects of a kind may have been missed.
    pub fn concerns(&self, kind: &Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(kind)
    }
}
