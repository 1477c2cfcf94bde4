//! Things that many pods share, each kept once and counted: pods refer to them by number.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Things by number.
#[derive(Debug)]
pub(crate) struct Registry<K, V> {
    /// How many things there ever were.
    taken: u64,
    by_key: FxHashMap<K, u32>,
    slots: Vec<Option<Slot<K, V>>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot<K, V> {
    serial: u64,
    key: K,
    value: V,
    users: u32,
}

impl<K, V> Default for Registry<K, V> {
    fn default() -> Registry<K, V> {
        Registry { taken: 0, by_key: FxHashMap::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, V> Registry<K, V> {
    /// The number of a thing; one more uses it. `make` is asked if it is new, and told so by the second answer.
    pub(super) fn take(&mut self, key: K, make: impl FnOnce(&K) -> V) -> (u32, bool) {
        if let Some(&id) = self.by_key.get(&key) {
            self.slot(id).users += 1;
            return (id, false);
        }
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        self.taken += 1;
        let slot = Some(Slot { serial: self.taken, value: make(&key), key: key.clone(), users: 1 });
        if id as usize == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[id as usize] = slot;
        }
        self.by_key.insert(key, id);
        (id, true)
    }

    /// One less uses it. If that was the last one, it is given back.
    pub(super) fn give_back(&mut self, id: u32) -> Option<(K, V)> {
        let slot = self.slot(id);
        slot.users -= 1;
        if slot.users > 0 {
            return None;
        }
        let slot = self.slots[id as usize].take().expect("a number is used while somebody uses it");
        self.by_key.remove(&slot.key);
        self.free.push(id);
        Some((slot.key, slot.value))
    }

    pub(super) fn key(&self, id: u32) -> &K {
        &self.existing(id).key
    }

    pub(super) fn value(&self, id: u32) -> &V {
        &self.existing(id).value
    }

    pub(super) fn value_mut(&mut self, id: u32) -> &mut V {
        &mut self.slot(id).value
    }

    /// A number that is never given out again, unlike its own.
    pub(super) fn serial(&self, id: u32) -> u64 {
        self.existing(id).serial
    }

    /// How many things there are.
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    /// All there are, to be changed.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.slots.iter_mut().flatten().map(|slot| (&slot.key, &mut slot.value))
    }

    /// All there are, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(id, slot)| slot.as_ref().map(|slot| (id as u32, &slot.key, &slot.value)))
    }

    fn existing(&self, id: u32) -> &Slot<K, V> {
        self.slots[id as usize].as_ref().expect("a number is used while somebody uses it")
    }

    fn slot(&mut self, id: u32) -> &mut Slot<K, V> {
        self.slots[id as usize].as_mut().expect("a number is used while somebody uses it")
    }
}
