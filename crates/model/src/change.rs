//! What happened to an object, and when.

use std::sync::Arc;

use crate::{Key, Moment, Object};

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// The object came to be, or was first seen.
    Added(Object),
    /// The object is now this.
    Modified(Object),
    /// The object is gone. What was received with the news: the last state, or a stub where a format has no more.
    Deleted(Object),
}

/// Something seen happening that has no place in a history yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The time on the observer's clock, however wrong.
    pub seen: Moment,
    /// The object's name.
    pub key: Key,
    /// What happened to it.
    pub what: What,
    /// Worked out rather than received: a delete noticed at a relist, an object that an importer had to make up.
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
    /// Worked out rather than received.
    pub inferred: bool,
}

// === impl What ===

impl What {
    /// The object as it came with the news.
    pub fn object(&self) -> &Object {
        match self {
            What::Added(object) | What::Modified(object) | What::Deleted(object) => object,
        }
    }

    /// The object as it stands after this: nothing after a delete.
    pub fn state(&self) -> Option<&Object> {
        match self {
            What::Added(object) | What::Modified(object) => Some(object),
            What::Deleted(_) => None,
        }
    }

    /// The word the watch protocol uses.
    pub fn word(&self) -> &'static str {
        match self {
            What::Added(_) => "ADDED",
            What::Modified(_) => "MODIFIED",
            What::Deleted(_) => "DELETED",
        }
    }

    /// The same news about another form of the object.
    #[must_use]
    pub fn with(&self, object: Object) -> What {
        match self {
            What::Added(_) => What::Added(object),
            What::Modified(_) => What::Modified(object),
            What::Deleted(_) => What::Deleted(object),
        }
    }
}

// === impl Observed ===

impl Observed {
    /// Something received at `seen` from `source`. The key is read from the object itself.
    pub fn received(seen: Moment, source: &Arc<str>, what: What) -> Observed {
        let key = what.object().key(source);
        Observed { seen, key, what, inferred: false }
    }
}
