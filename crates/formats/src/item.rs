//! The items that readers return, and the options they take.

use std::sync::Arc;

use model::{Gap, IncomingChange, Moment, Object};

use crate::Result;

/// One item read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportItem {
    /// A change of an object.
    Change(IncomingChange),
    /// A time in which changes may have been missed.
    Gap(Gap),
    /// An object of a snapshot that does not contain the objects' times.
    Object(Object),
    /// The time at which a snapshot was taken, after its objects.
    CaptureTime(Moment),
    /// The times of this source are inferred, not recorded.
    TimesInferred(Arc<str>),
    /// A message to the user about something that was not read as it is, with the file's name.
    Warning(String),
}

/// The items of a file.
pub type ImportItems = Box<dyn Iterator<Item = Result<ImportItem>> + Send>;

/// Values that a file does not contain.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The source of the changes.
    pub source: Arc<str>,
    /// The time of a snapshot or the beginning of a recording. `None`: from the times inside the objects.
    pub at: Option<Moment>,
    /// The current time, used where no other time is known.
    pub now: Moment,
}
