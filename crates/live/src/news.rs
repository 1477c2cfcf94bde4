//! What a recording says, and what it is told of the one before it.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Gap, Kind, Moment, Observed};

/// A namespace, empty for objects of the whole cluster, and a name.
pub type Name = (Arc<str>, Arc<str>);

/// The version of an object that was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Separates the lives of one name.
    pub uid: Box<str>,
    /// The server's mark for this version.
    pub resource_version: Box<str>,
}

/// What a recording knows from before: where to go on, and what was there.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The last position told of each kind.
    pub positions: HashMap<Kind, String>,
    /// The objects there were.
    pub objects: HashMap<Kind, HashMap<Name, Seen>>,
    /// The beginning of what was recorded; `None` if nothing was.
    pub from: Option<Moment>,
    /// The end of it.
    pub until: Option<Moment>,
}

/// What has been learnt, to become durable together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// In order of arrival.
    pub changes: Vec<Observed>,
    /// What was missed.
    pub gaps: Vec<Gap>,
    /// Gaps that were told as open ones, from the same moment on, and have ended.
    pub closed_gaps: Vec<Gap>,
    /// Where watching goes on after these changes, and up to which moment all was told. What is in such a text is the
    /// recorder's business: it is kept, and given back as [`Known::positions`].
    pub positions: Vec<(Kind, String)>,
}

/// Something a recording says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something was learnt.
    News(News),
    /// How a kind is getting on.
    Status(KindStatus),
    /// Something a user should know of and may be able to help.
    Trouble {
        /// The kind it is about.
        kind: Kind,
        /// What it is.
        words: String,
    },
}

/// How a kind is getting on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindStatus {
    /// The kind.
    pub kind: Kind,
    /// What is being done.
    pub state: State,
    /// How many objects of it there are, of those that are told.
    pub objects: usize,
    /// When the server last said something about it.
    pub last_heard: Option<Moment>,
}

/// What is being done about a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Its objects are being listed.
    Listing,
    /// Its changes arrive.
    Watching,
    /// It will be tried again, for this reason.
    Waiting(String),
    /// The server does not let us see it; it will be tried again.
    Forbidden,
}

// === impl News ===

impl News {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        let has_gaps = !self.gaps.is_empty() || !self.closed_gaps.is_empty();
        self.changes.is_empty() && !has_gaps && self.positions.is_empty()
    }
}
