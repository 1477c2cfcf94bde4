//! The events that a recording emits, and the state from which an earlier recording is resumed.

use std::collections::HashMap;

use model::{Gap, IncomingChange, Kind, Moment, NamespacedName};

/// The identity of the last observed version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionId {
    /// Distinguishes objects that had the same name one after the other.
    pub uid: Box<str>,
    /// The server's `metadata.resourceVersion`.
    pub resource_version: Box<str>,
}

/// The state from which a recording is resumed: watch positions and known objects.
#[derive(Clone, Debug, Default)]
pub struct ResumeState {
    /// The last position of each kind.
    pub positions: HashMap<Kind, String>,
    /// The objects that existed.
    pub objects: HashMap<Kind, HashMap<NamespacedName, VersionId>>,
    /// The beginning of the earlier recording; `None` if there is none.
    pub from: Option<Moment>,
    /// The end of the earlier recording.
    pub until: Option<Moment>,
}

/// Observations that must become durable together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchBatch {
    /// In order of arrival.
    pub changes: Vec<IncomingChange>,
    /// Periods in which changes may have been missed.
    pub gaps: Vec<Gap>,
    /// Gaps that were reported as open, from the same moment on, and have ended.
    pub closed_gaps: Vec<Gap>,
    /// The position at which the watch of a kind resumes after these changes, with the moment up to which it is
    /// complete. The text is opaque to the caller: it is stored and passed back as [`ResumeState::positions`].
    pub positions: Vec<(Kind, String)>,
}

/// An event of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordingEvent {
    /// Changes, gaps and positions.
    Batch(WatchBatch),
    /// The status of a kind has changed.
    Status(KindStatus),
    /// A problem that the user should know of and may be able to solve.
    Warning {
        /// The kind that has the problem.
        kind: Kind,
        /// The message.
        message: String,
    },
}

/// The status of the watches of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindStatus {
    /// The kind.
    pub kind: Kind,
    /// The state of the watches.
    pub state: WatchState,
    /// The number of objects that pass the filter.
    pub objects: usize,
    /// When a response for it was last received.
    pub last_heard: Option<Moment>,
}

/// The state of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchState {
    /// Objects are being listed.
    Listing,
    /// The watch is open.
    Watching,
    /// Retrying after this failure.
    Waiting(String),
    /// Access is denied; retrying.
    AccessDenied,
}

// === impl WatchBatch ===

impl WatchBatch {
    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        let has_gaps = !self.gaps.is_empty() || !self.closed_gaps.is_empty();
        self.changes.is_empty() && !has_gaps && self.positions.is_empty()
    }
}
