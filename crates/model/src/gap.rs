//! Gaps: times in which changes may have been missed.

use std::sync::Arc;

use crate::{Kind, Moment};

/// A time in which changes may have been missed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The source that was not observed.
    pub source: Arc<str>,
    /// The kinds affected; empty means all kinds of the source.
    pub kinds: Vec<Kind>,
    /// The last moment at which the source was observed before the gap.
    pub from: Moment,
    /// The moment at which observation resumed; [`Moment::MAX`] while the gap is open.
    pub to: Moment,
    /// The reason, as text for the user.
    pub why: String,
}

// === impl Gap ===

impl Gap {
    /// Whether the gap has not ended: the kinds affected are no longer recorded.
    pub fn is_open(&self) -> bool {
        self.to == Moment::MAX
    }

    /// Whether objects of a kind may have been missed.
    pub fn concerns(&self, kind: &Kind) -> bool {
        self.kinds.is_empty() || self.kinds.contains(kind)
    }
}
