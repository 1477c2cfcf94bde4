//! What every format that is written has in common.

use std::collections::BTreeMap;

use model::{Change, Gap};

use crate::Result;

/// Writes changes in a format.
///
/// Changes come in their order. Where something was there before, it comes first, as additions at the beginning; a
/// format that shows one moment gets the objects of that moment as additions.
pub trait Writer {
    /// Takes a change.
    fn change(&mut self, change: &Change) -> Result<()>;
    /// Takes a time in which something may have been missed.
    fn gap(&mut self, gap: &Gap) -> Result<()>;
    /// Writes what is left to be written.
    fn finish(self: Box<Self>) -> Result<Written>;
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The changes, or objects of a moment, that are in the file.
    pub count: u64,
    /// What is not.
    pub left_out: LeftOut,
}

/// What a format has no place for, as it is told to the user: `changes of Event`, 312.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<String, u64>);

// === impl LeftOut ===

impl LeftOut {
    /// One more of these, named in the plural, the noun first.
    pub fn count(&mut self, what: &str) {
        match self.0.get_mut(what) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(what.to_owned(), 1)),
        }
    }

    /// What was left out and how often, in order of the words.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(what, count)| (&**what, *count))
    }
}
