//! What a file says, one thing after the other, and what it leaves unsaid.

use std::sync::Arc;

use model::{Gap, Moment, Object, Observed};

use crate::Result;

/// One thing a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// Something happened.
    Change(Observed),
    /// Something may have been missed.
    Gap(Gap),
    /// An object of a file that shows one moment and does not say which.
    Object(Object),
    /// The times of this recording are worked out, not recorded.
    TimesInferred(Arc<str>),
    /// What could not be taken as it is, and of which file, in words for the user.
    Warning(String),
}

/// What a file says.
pub type Items = Box<dyn Iterator<Item = Result<Item>> + Send>;

/// What files do not say themselves.
#[derive(Clone, Debug)]
pub struct Given {
    /// The recording they belong to.
    pub source: Arc<str>,
    /// When it was like this, or when it began. `None`: as the times inside the objects tell.
    pub at: Option<Moment>,
    /// The time on the wall: where nothing tells of another.
    pub now: Moment,
}
