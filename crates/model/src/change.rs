//! Changes of objects: what happened to an object, and when.

use std::sync::Arc;

use crate::{Key, Moment, Object};

/// The kind of change, with the object it applies to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The object was created, or first seen.
    Added(Object),
    /// The object was updated to this version.
    Modified(Object),
    /// The object was deleted. Holds the object received with the delete event: the last state, or a stub if the
    /// format carries no more.
    Deleted(Object),
}

/// A change that has not been assigned a sequence number and an effective moment yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncomingChange {
    /// The time on the observer's clock, even if that clock is wrong.
    pub seen: Moment,
    /// The object's name.
    pub key: Key,
    /// What happened to it.
    pub what: What,
    /// Derived rather than received: a delete detected by a relist, or an object synthesized by an importer.
    pub inferred: bool,
}

/// One change of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The order of arrival, which is the order of the history.
    pub seq: i64,
    /// When it took effect: the time seen, or that of the source's previous change if that was later.
    pub at: Moment,
    /// The time on the observer's clock.
    pub seen: Moment,
    /// The object's name.
    pub key: Key,
    /// What happened to it.
    pub what: What,
    /// Derived rather than received.
    pub inferred: bool,
}

// === impl What ===

impl What {
    /// The object received with the change.
    pub fn object(&self) -> &Object {
        match self {
            What::Added(object) | What::Modified(object) | What::Deleted(object) => object,
        }
    }

    /// The object's state after the change; `None` after a delete.
    pub fn state(&self) -> Option<&Object> {
        match self {
            What::Added(object) | What::Modified(object) => Some(object),
            What::Deleted(_) => None,
        }
    }

    /// The event type in the watch protocol.
    pub fn event_type(&self) -> &'static str {
        match self {
            What::Added(_) => "ADDED",
            What::Modified(_) => "MODIFIED",
            What::Deleted(_) => "DELETED",
        }
    }

    /// The same kind of change with another object, such as a rewritten form of it.
    #[must_use]
    pub fn with_object(&self, object: Object) -> What {
        match self {
            What::Added(_) => What::Added(object),
            What::Modified(_) => What::Modified(object),
            What::Deleted(_) => What::Deleted(object),
        }
    }
}

// === impl IncomingChange ===

impl IncomingChange {
    /// A change received at `seen` from `source`. The key is read from the object.
    pub fn received(seen: Moment, source: &Arc<str>, what: What) -> IncomingChange {
        let key = what.object().key(source);
        IncomingChange { seen, key, what, inferred: false }
    }
}
