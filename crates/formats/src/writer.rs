//! The interface of all writers, and the summary of what they wrote.

use std::collections::BTreeMap;

use model::{Change, Gap};

use crate::Result;

/// Writes changes in a format.
///
/// Changes come in their order. The objects that exist at the beginning come first, as additions; a snapshot format
/// gets the objects of its moment as additions.
pub trait Writer {
    /// Writes a change.
    fn change(&mut self, change: &Change) -> Result<()>;
    /// Writes a gap.
    fn gap(&mut self, gap: &Gap) -> Result<()>;
    /// Writes everything that is pending, and returns the summary.
    fn finish(self: Box<Self>) -> Result<WriteSummary>;
}

/// The summary of what was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WriteSummary {
    /// The number of changes, or objects of a snapshot, in the file.
    pub count: u64,
    /// What is not in the file.
    pub left_out: LeftOutCounts,
    /// What is in the file because programs that read it need it, and was not among the changes.
    pub added: Vec<String>,
}

/// Counts of what a format cannot represent, by category, as shown to the user: `changes of Event`, 312.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOutCounts(BTreeMap<String, u64>);

// === impl LeftOutCounts ===

impl LeftOutCounts {
    /// Counts one more of a category, which is a plural with the noun first.
    pub fn count(&mut self, category: &str) {
        match self.0.get_mut(category) {
            Some(count) => *count += 1,
            None => drop(self.0.insert(category.to_owned(), 1)),
        }
    }

    /// The categories and their counts, in alphabetical order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(category, count)| (&**category, *count))
    }
}
