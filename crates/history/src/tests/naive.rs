//! A naive model of a history: a list of changes, scanned from the start.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Change, IncomingChange, Key, Moment, ObjectVersion, Window};

#[derive(Default)]
pub(super) struct NaiveHistory {
    changes: Vec<Change>,
    next_seq: i64,
    ends: HashMap<Arc<str>, Moment>,
    begins: Option<Moment>,
}

impl NaiveHistory {
    pub(super) fn push(&mut self, observed: &IncomingChange) {
        let IncomingChange { seen, key, what, inferred } = observed.clone();
        let end = self.ends.entry(key.source.clone()).or_insert(Moment::MIN);
        *end = seen.max(*end);
        self.next_seq += 1;
        self.changes.push(Change { seq: self.next_seq, at: *end, seen, key, what, inferred });
    }

    pub(super) fn at(&self, moment: Moment) -> Vec<ObjectVersion> {
        let mut state: BTreeMap<&Key, &Change> = BTreeMap::new();
        for change in self.changes.iter().filter(|change| change.at <= moment) {
            match change.what.state() {
                Some(_) => state.insert(&change.key, change),
                None => state.remove(&change.key),
            };
        }
        let version = |change: &Change| ObjectVersion {
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

    /// Prunes without a concurrent writer.
    pub(super) fn prune(&mut self, moment: Moment) {
        if self.begin_at(moment) {
            let state: Vec<i64> = self.at(moment).into_iter().map(|version| version.seq).collect();
            self.changes.retain(|change| change.at > moment || state.contains(&change.seq));
        }
    }

    /// Prunes as a writer does: the last moment of a source that ended earlier is kept.
    pub(super) fn prune_behind_writer(&mut self, moment: Moment) {
        if self.begin_at(moment) {
            let cut = |key: &Key| moment.min(self.ends[&key.source].plus_nanos(-1));
            let is_last = |change: &Change| {
                let state = self.at(cut(&change.key));
                state.iter().any(|version| version.seq == change.seq)
            };
            let is_kept = |change: &&Change| change.at > cut(&change.key) || is_last(change);
            self.changes = self.changes.iter().filter(is_kept).cloned().collect();
        }
    }

    fn begin_at(&mut self, moment: Moment) -> bool {
        let is_later = self.begins.is_none_or(|start| start < moment);
        if is_later {
            self.begins = Some(moment);
        }
        is_later
    }

    /// The beginning after a prune to `moment`.
    pub(super) fn beginning(&self, moment: Moment) -> Moment {
        let wanted = self.end().map_or(moment, |end| end.min(moment));
        self.begins.map_or(wanted, |start| start.max(wanted))
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
