//! The objects of a history as of a moment, as exact as the history is.

use std::collections::BTreeMap;
use std::fmt;

use history::Selection;
use model::{Key, Moment, Object, What, Window};

use super::Chosen;

/// A moment, as exact as the history is.
#[derive(Clone, Copy)]
pub enum AsOf {
    /// With all that happened at it.
    At(Moment),
    /// Just before the change of that number, which took effect then.
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
pub fn objects(chosen: &Chosen, selection: &Selection, as_of: AsOf) -> anyhow::Result<BTreeMap<Key, Object>> {
    let (moment, rest) = match as_of {
        AsOf::At(moment) => (moment, None),
        AsOf::Before(moment, seq) => (moment.plus_nanos(-1), Some((moment, seq))),
    };
    let mut objects = BTreeMap::new();
    chosen.history.each_at(moment, selection, |version| {
        objects.insert(version.key, version.object);
    })?;
    if let Some((from, seq)) = rest {
        let same_moment = Window { from, to: from.plus_nanos(1) };
        for change in chosen.history.between(same_moment, selection)? {
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
