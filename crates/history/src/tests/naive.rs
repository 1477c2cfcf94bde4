//! The simplest thing that could be called a history: a list that is gone through from the start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Change, Key, Moment, Observed, Version, Window};

#[derive(Default)]
pub(super) struct Naive {
    changes: Vec<Change>,
    next_seq: i64,
    ends: HashMap<Arc<str>, Moment>,
    begins: Option<Moment>,
}

impl Naive {
    pub(super) fn push(&mut self, observed: &Observed) {
        let Observed { seen, key, what, inferred } = observed.clone();
        let end = self.ends.entry(key.source.clone()).or_insert(Moment::MIN);
        *end = seen.max(*end);
        self.next_seq += 1;
        self.changes.push(Change { seq: self.next_seq, at: *end, seen, key, what, inferred });
    }

    pub(super) fn at(&self, moment: Moment) -> Vec<Version> {
        let mut state: BTreeMap<&Key, &Change> = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.at <= moment) {
            match change.what.state() {
                Some(_) => state.insert(&change.key, change),
                None => state.remove(&change.key),
            };
        }
        let version = |change: &Change| Version {
            seq: change.seq,
            at: change.at,
            key: change.key.clone(),
            object: change.what.object().clone(),
        };
        state.into_values().map(version).collect()
    }

    pub(super) fn between(&self, window: Window) -> Vec<Change> {
        let mut found: Vec<Change> =
            self.changes.iter().filter(|change| window.contains(change.at)).cloned().collect();
        found.sort_by_key(|change| (change.at, change.seq));
        found
    }

    pub(super) fn of(&self, key: &Key) -> Vec<Change> {
        self.changes.iter().filter(|change| change.key == *key).cloned().collect()
    }

    /// Forgets what was before a moment, while nobody writes.
    pub(super) fn prune(&mut self, moment: Moment) {
        if self.begin_at(moment) {
            let state: Vec<i64> = self.at(moment).into_iter().map(|version| version.seq).collect();
            self.changes.retain(|change| change.at > moment || state.contains(&change.seq));
        }
    }

    /// Forgets what was before a moment as a writer does: of a source that ended before, its last moment stays.
    pub(super) fn forget(&mut self, moment: Moment) {
        if self.begin_at(moment) {
            let cut = |key: &Key| moment.min(self.ends[&key.source].plus_nanos(-1));
            let is_last = |change: &Change| {
                let state = self.at(cut(&change.key));
                state.iter().any(|version| version.seq == change.seq)
            };
            let stays = |change: &&Change| change.at > cut(&change.key) || is_last(change);
            self.changes = self.changes.iter().filter(stays).cloned().collect();
        }
    }

    fn begin_at(&mut self, moment: Moment) -> bool {
        let is_later = self.begins.is_none_or(|begins| begins < moment);
        if is_later {
            self.begins = Some(moment);
        }
        is_later
    }

    /// Where it begins when it is told to begin at a moment.
    pub(super) fn beginning(&self, moment: Moment) -> Moment {
        let wanted = self.end().map_or(moment, |end| end.min(moment));
        self.begins.map_or(wanted, |begins| begins.max(wanted))
    }

    pub(super) fn end(&self) -> Option<Moment> {
        self.ends.values().max().copied()
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.changes.iter().map(|change| change.key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    pub(super) fn sources(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }
}
