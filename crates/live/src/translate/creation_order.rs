//! The order in which the initial objects are created.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes::owners::{MAX_OWNERS, owner_references};
use model::{Key, Object};

use super::builtin;

/// Sorts objects into a valid creation order: objects that others need first, owners before dependents.
pub(super) fn in_creation_order(objects: Vec<(Key, Object)>) -> Vec<(Key, Object)> {
    let mut ranks = CreationRanks::default();
    let mut ranked = Vec::with_capacity(objects.len());
    for (key, object) in &objects {
        let owners = owner_references(object).into_iter().map(|owner| (*owner.uid).into()).collect();
        let entry = Arc::new(CreationRank { rank: builtin::creation_rank(&key.kind), owners });
        if let Some(uid) = object.meta().uid {
            ranks.by_uid.insert((*uid).into(), entry.clone());
        }
        ranked.push(entry);
    }
    let mut ranked: Vec<_> = objects
        .into_iter()
        .zip(ranked)
        .map(|((key, object), entry)| {
            ((ranks.rank_below_owners(&entry, MAX_OWNERS), creation_timestamp(&object), key), object)
        })
        .collect();
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    ranked.into_iter().map(|((.., key), object)| (key, object)).collect()
}

/// The rank of an object's kind, and its owners.
struct CreationRank {
    rank: usize,
    /// Their uids.
    owners: Vec<Box<str>>,
}

/// The ranks of all objects, by uid.
#[derive(Default)]
struct CreationRanks {
    by_uid: HashMap<Box<str>, Arc<CreationRank>>,
    /// Computed ranks; `None` while one is being computed, which breaks ownership cycles.
    computed: HashMap<Box<str>, Option<(usize, usize)>>,
}

impl CreationRanks {
    /// The rank of an object, or of its last owner, and its depth below that owner. In chains longer than any real one
    /// the upper end is ignored.
    fn rank_below_owners(&mut self, entry: &CreationRank, remaining_depth: usize) -> (usize, usize) {
        let highest = entry.owners.iter().filter_map(|uid| self.rank_of_owner(uid, remaining_depth)).max();
        match highest {
            Some((rank, depth)) if rank >= entry.rank => (rank, depth + 1),
            _ => (entry.rank, 0),
        }
    }

    fn rank_of_owner(&mut self, uid: &str, left: usize) -> Option<(usize, usize)> {
        if let Some(computed) = self.computed.get(uid) {
            return *computed;
        }
        let entry = self.by_uid.get(uid)?.clone();
        if left == 0 {
            return Some((entry.rank, 0));
        }
        self.computed.insert(uid.into(), None);
        let computed = Some(self.rank_below_owners(&entry, left - 1));
        self.computed.insert(uid.into(), computed);
        computed
    }
}

/// The creationTimestamp.
fn creation_timestamp(object: &Object) -> Option<String> {
    let object = object.value().ok()?;
    Some(object.pointer("/metadata/creationTimestamp")?.as_str()?.to_owned())
}
