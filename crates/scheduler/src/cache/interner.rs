//! An interning table with reference counts: values that many pods share are stored once and referred to by identifier.

use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Interned keys and their values, by identifier.
#[derive(Debug)]
pub(crate) struct Interner<K, V> {
    /// The last serial issued.
    last_serial: u64,
    ids_by_key: FxHashMap<K, u32>,
    slots: Vec<Option<InternedEntry<K, V>>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct InternedEntry<K, V> {
    serial: u64,
    key: K,
    value: V,
    ref_count: u32,
}

impl<K, V> Default for Interner<K, V> {
    fn default() -> Interner<K, V> {
        Interner { last_serial: 0, ids_by_key: FxHashMap::default(), slots: Vec::new(), free: Vec::new() }
    }
}

impl<K: Clone + Eq + Hash, V> Interner<K, V> {
    /// Adds a reference to a key, calling `make` for its value if it is new. Returns its identifier and whether it is
    /// new.
    pub(super) fn acquire(&mut self, key: K, make: impl FnOnce(&K) -> V) -> (u32, bool) {
        if let Some(&id) = self.ids_by_key.get(&key) {
            self.entry_mut(id).ref_count += 1;
            return (id, false);
        }
        let id = self.free.pop().unwrap_or(self.slots.len() as u32);
        self.last_serial += 1;
        let slot = Some(InternedEntry {
            serial: self.last_serial,
            value: make(&key),
            key: key.clone(),
            ref_count: 1,
        });
        if id as usize == self.slots.len() {
            self.slots.push(slot);
        } else {
            self.slots[id as usize] = slot;
        }
        self.ids_by_key.insert(key, id);
        (id, true)
    }

    /// Drops a reference. Returns key and value if it was the last one.
    pub(super) fn release(&mut self, id: u32) -> Option<(K, V)> {
        let slot = self.entry_mut(id);
        slot.ref_count -= 1;
        if slot.ref_count > 0 {
            return None;
        }
        let slot = self.slots[id as usize].take().expect("an ID is used only while it is referenced");
        self.ids_by_key.remove(&slot.key);
        self.free.push(id);
        Some((slot.key, slot.value))
    }

    pub(super) fn key(&self, id: u32) -> &K {
        &self.entry(id).key
    }

    pub(super) fn value(&self, id: u32) -> &V {
        &self.entry(id).value
    }

    pub(super) fn value_mut(&mut self, id: u32) -> &mut V {
        &mut self.entry_mut(id).value
    }

    /// The serial of a key; unlike its identifier it is never reused.
    pub(super) fn serial(&self, id: u32) -> u64 {
        self.entry(id).serial
    }

    /// Whether this is the serial of the key that now has the identifier.
    pub(super) fn has_serial(&self, id: u32, serial: u64) -> bool {
        matches!(self.slots.get(id as usize), Some(Some(entry)) if entry.serial == serial)
    }

    /// The number of keys.
    pub(super) fn len(&self) -> usize {
        self.ids_by_key.len()
    }

    /// All keys with mutable values.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        self.slots.iter_mut().flatten().map(|slot| (&slot.key, &mut slot.value))
    }

    /// All keys and values, by identifier.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &K, &V)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(id, slot)| slot.as_ref().map(|slot| (id as u32, &slot.key, &slot.value)))
    }

    fn entry(&self, id: u32) -> &InternedEntry<K, V> {
        self.slots[id as usize].as_ref().expect("an ID is used only while it is referenced")
    }

    fn entry_mut(&mut self, id: u32) -> &mut InternedEntry<K, V> {
        self.slots[id as usize].as_mut().expect("an ID is used only while it is referenced")
    }
}
