//! The order in which what is there at the beginning can be created.

use std::collections::HashMap;
use std::sync::Arc;

use kubernetes::owners::{MAX_OWNERS, owner_references};
use model::{Key, Object};

use super::builtin;

/// Objects in an order in which they can be created: what others need first, owners before what they own.
pub(super) fn sorted(objects: Vec<(Key, Object)>) -> Vec<(Key, Object)> {
    let mut places = Places::default();
    let mut ranked = Vec::with_capacity(objects.len());
    for (key, object) in &objects {
        let owners = owner_references(object).into_iter().map(|owner| owner.uid.into()).collect();
        let place = Arc::new(Place { rank: builtin::rank(&key.kind), owners });
        if let Some(uid) = object.meta().uid {
            places.of.insert((*uid).into(), place.clone());
        }
        ranked.push(place);
    }
    let mut ranked: Vec<_> = objects
        .into_iter()
        .zip(ranked)
        .map(|((key, object), place)| {
            ((places.below_owners(&place, MAX_OWNERS), created(&object), key), object)
        })
        .collect();
    ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
    ranked.into_iter().map(|((.., key), object)| (key, object)).collect()
}

/// Where an object belongs among others.
struct Place {
    rank: usize,
    /// By their uids.
    owners: Vec<Box<str>>,
}

/// The places of all objects, by uid.
#[derive(Default)]
struct Places {
    of: HashMap<Box<str>, Arc<Place>>,
    /// What was found out: nothing of those that are being looked at, which own themselves then.
    found: HashMap<Box<str>, Option<(usize, usize)>>,
}

impl Places {
    /// The rank of an object, or that of the last of its owners, and how many of those there are above it. Of a longer
    /// chain than any real one the upper end does not count.
    fn below_owners(&mut self, place: &Place, left: usize) -> (usize, usize) {
        let last = place.owners.iter().filter_map(|uid| self.find(uid, left)).max();
        match last {
            Some((rank, depth)) if rank >= place.rank => (rank, depth + 1),
            _ => (place.rank, 0),
        }
    }

    fn find(&mut self, uid: &str, left: usize) -> Option<(usize, usize)> {
        if let Some(found) = self.found.get(uid) {
            return *found;
        }
        let place = self.of.get(uid)?.clone();
        if left == 0 {
            return Some((place.rank, 0));
        }
        self.found.insert(uid.into(), None);
        let found = Some(self.below_owners(&place, left - 1));
        self.found.insert(uid.into(), found);
        found
    }
}

/// When an object was created, as it says itself.
fn created(object: &Object) -> Option<String> {
    let object = object.value().ok()?;
    Some(object.pointer("/metadata/creationTimestamp")?.as_str()?.to_owned())
}
