//! The objects of a history as of a moment, or just before one of its changes.

use std::collections::BTreeMap;
use std::fmt;

use history::Selection;
use model::{Key, Moment, Object, What, Window};

use super::OpenHistory;

/// A moment, or a position among the changes of a moment.
#[derive(Clone, Copy)]
pub enum AsOf {
    /// After all changes at this moment.
    At(Moment),
    /// Just before the change with that sequence number, which took effect at this moment.
    Before(Moment, i64),
}

// === impl AsOf ===

impl AsOf {
    /// The moment itself.
    pub fn moment(self) -> Moment {
        match self {
            AsOf::At(moment) | AsOf::Before(moment, _) => moment,
        }
    }
}

impl fmt::Display for AsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AsOf::At(moment) => write!(f, "at {moment}"),
            AsOf::Before(moment, _) => write!(f, "just before {moment}"),
        }
    }
}

/// The objects as of a moment.
pub fn objects_as_of(
    open_history: &OpenHistory,
    selection: &Selection,
    as_of: AsOf,
) -> anyhow::Result<BTreeMap<Key, Object>> {
    let (moment, rest) = match as_of {
        AsOf::At(moment) => (moment, None),
        AsOf::Before(moment, seq) => (moment.plus_nanos(-1), Some((moment, seq))),
    };
    let mut objects = BTreeMap::new();
    open_history.history.for_each_at(moment, selection, |version| {
        objects.insert(version.key, version.object);
    })?;
    if let Some((from, seq)) = rest {
        let same_moment = Window { from, to: from.plus_nanos(1) };
        for change in open_history.history.between(same_moment, selection)? {
            let change = change?;
            if change.seq >= seq {
                break;
            }
            match change.what {
                What::Added(object) | What::Modified(object) => objects.insert(change.key, object),
                What::Deleted(_) => objects.remove(&change.key),
            };
        }
    }
    Ok(objects)
}
