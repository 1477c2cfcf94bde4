//! What came of deeds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::transplant::Deed;
use crate::watching::Failure;

/// What came of a deed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was done.
    Done(Done),
    /// It was the end of what another deed had begun.
    Finished,
    /// There was nothing to do.
    Left(Left),
    /// The server would not have it.
    Refused(Failure),
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Done {
    Created,
    Changed,
    Bound,
    Deleted,
}

/// Why there was nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// An object of that name was there already, and is left as it is.
    WasThere,
    /// It is none that was made here.
    NotOurs,
    /// A namespace or a definition that would take objects of others along.
    HoldsOthers,
    /// It is gone in the target.
    Gone,
    /// It could not be created.
    NeverThere,
    /// The server has no such kind.
    NoSuchKind,
    /// The target's scheduler was faster.
    BoundElsewhere,
}

/// How often something was told, and of which object first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// How often.
    pub count: u64,
    /// The first time, in full.
    pub first: String,
}

/// What came of all deeds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// What was done, with how often.
    pub done: BTreeMap<Done, u64>,
    /// What was left, by why.
    pub left: BTreeMap<Left, Told>,
    /// What was refused, by kind and what was to be done, and the server's status.
    pub refused: BTreeMap<String, Told>,
    /// How late deeds were begun that were due, in milliseconds.
    late: BTreeMap<u64, u64>,
}

// === impl Done ===

impl Done {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Done::Created => "created",
            Done::Changed => "changed",
            Done::Bound => "bound",
            Done::Deleted => "deleted",
        }
    }
}

// === impl Tally ===

impl Tally {
    pub(super) fn note(&mut self, deed: &Deed, outcome: &Outcome, late: Option<Duration>) {
        if let Some(late) = late {
            *self.late.entry(late.as_millis().try_into().unwrap_or(u64::MAX)).or_default() += 1;
        }
        let (address, word) = (&deed.address, deed.doing.word());
        match outcome {
            Outcome::Done(done) => *self.done.entry(*done).or_default() += 1,
            Outcome::Finished => {}
            Outcome::Left(left) => {
                let first = || format!("{word} {address}");
                self.left
                    .entry(*left)
                    .and_modify(|told| told.count += 1)
                    .or_insert_with(|| Told::once(first()));
            }
            Outcome::Refused(failure) => {
                let status = failure.status.map_or("no answer".to_owned(), |status| status.to_string());
                let first = || format!("{address}: {failure}");
                let key = format!("{word} {}: {status}", address.kind);
                self.refused
                    .entry(key)
                    .and_modify(|told| told.count += 1)
                    .or_insert_with(|| Told::once(first()));
            }
        }
    }

    /// How many deeds there were.
    pub fn count(&self) -> u64 {
        self.done.values().sum::<u64>()
            + self.left.values().chain(self.refused.values()).map(|told| told.count).sum::<u64>()
    }

    /// How late deeds were begun that were due, of so many the latest: half of them for 0.5. `None` if none was due.
    pub fn late(&self, share: f64) -> Option<Duration> {
        let count: u64 = self.late.values().sum();
        let wanted = (count as f64 * share).ceil() as u64;
        let mut seen = 0;
        let mut counted = self.late.iter().map(|(millis, count)| {
            seen += count;
            (*millis, seen)
        });
        counted
            .find(|(_, seen)| *seen >= wanted && *seen > 0)
            .map(|(millis, _)| Duration::from_millis(millis))
    }
}

// === impl Told ===

impl Told {
    fn once(first: String) -> Told {
        Told { count: 1, first }
    }
}

// === impl Left ===

impl Left {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Left::WasThere => "was there before and is left as it is",
            Left::NotOurs => "not made by this replay",
            Left::HoldsOthers => "not deleted, for objects of others would go with it",
            Left::Gone => "gone in the target",
            Left::NeverThere => "could not be created",
            Left::NoSuchKind => "of a kind that the server does not have",
            Left::BoundElsewhere => "bound elsewhere by the target's scheduler",
        }
    }
}
