//! The order in which the initial objects are created.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes::owners::{MAX_OWNERS, owner_references};
use model::{Key, Object};

use super::builtin;

/// Sorts objects into a valid creation order: objects that others need first, owners before dependents.
pub(super) fn in_creation_order(objects: Vec<(Key, Object)>) -> Vec<(Key, Object)> {
    let mut places = CreationRanks::default();
    let mut ranked = Vec::with_capacity(objects.len());
    for (key, object) in &objects {
        let owners = owner_references(object).into_iter().map(|owner| owner.uid.into()).collect();
        let place = Arc::new(CreationRank { rank: builtin::creation_rank(&key.kind), owners });
        if let Some(uid) = object.meta().uid {
            places.by_uid.insert((*uid).into(), place.clone());
        }
        ranked.push(place);
    }
    let mut ranked: Vec<_> = objects
        .into_iter()
        .zip(ranked)
        .map(|((key, object), place)| {
            ((places.rank_below_owners(&place, MAX_OWNERS), creation_timestamp(&object), key), object)
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
    fn rank_below_owners(&mut self, place: &CreationRank, left: usize) -> (usize, usize) {
        let last = place.owners.iter().filter_map(|uid| self.rank_of_owner(uid, left)).max();
        match last {
            Some((rank, depth)) if rank >= place.rank => (rank, depth + 1),
            _ => (place.rank, 0),
        }
    }

    fn rank_of_owner(&mut self, uid: &str, left: usize) -> Option<(usize, usize)> {
        if let Some(found) = self.computed.get(uid) {
            return *found;
        }
        let place = self.by_uid.get(uid)?.clone();
        if left == 0 {
            return Some((place.rank, 0));
        }
        self.computed.insert(uid.into(), None);
        let found = Some(self.rank_below_owners(&place, left - 1));
        self.computed.insert(uid.into(), found);
        found
    }
}

/// The creationTimestamp.
fn creation_timestamp(object: &Object) -> Option<String> {
    let object = object.value().ok()?;
    Some(object.pointer("/metadata/creationTimestamp")?.as_str()?.to_owned())
}
