//! Owners of pods, whether they were recorded, and the demands of their pods, in a file map: a long recording
//! has many of both.

use std::io;
use std::sync::Arc;

use model::{Kind, ObjectRef};
use simulation::DemandId;

use super::encoding::Field;
use super::file_map::FileMap;
use super::positioned_file::corrupt_file;

/// Owners of pods, whether they were recorded, and the demands of their pods in the order in which they were
/// observed.
#[derive(Debug, Default)]
pub(super) struct RecordedOwners {
    entries: FileMap,
    key: Vec<u8>,
}

/// A counter per owner, or per owner and slot.
#[derive(Debug, Default)]
pub(super) struct OwnerCounts {
    entries: FileMap,
    key: Vec<u8>,
}

/// The pods of an owner that a list or a count is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum PodSelection<'a> {
    All,
    /// Those in one slot.
    InSlot(Option<&'a Arc<str>>),
}

/// The number of demands in one entry of the map. The first entry of a list begins with the length of the list.
const CHUNK_LENGTH: u64 = 256;
const NUMBER_BYTES: usize = size_of::<u64>();
/// The chunk number of the entry that says that an owner was recorded itself.
const OWNER_ENTRY: u64 = u64::MAX;

// === impl RecordedOwners ===

impl RecordedOwners {
    /// Adds an owner that was recorded. Returns whether it is new.
    pub(super) fn add(&mut self, owner: &ObjectRef) -> io::Result<bool> {
        if self.contains(owner)? {
            return Ok(false);
        }
        self.entries.update(&self.key, |_| ())?;
        Ok(true)
    }

    /// Whether an owner was recorded.
    pub(super) fn contains(&mut self, owner: &ObjectRef) -> io::Result<bool> {
        write_key(&mut self.key, owner, PodSelection::All, OWNER_ENTRY);
        Ok(self.entries.get(&self.key)?.is_some())
    }

    /// Appends a pod of an owner, which need not be recorded itself.
    pub(super) fn push_pod(
        &mut self,
        owner: &ObjectRef,
        slot: Option<&Arc<str>>,
        demand: DemandId,
    ) -> io::Result<()> {
        self.push(owner, PodSelection::All, demand)?;
        self.push(owner, PodSelection::InSlot(slot), demand)
    }

    fn push(&mut self, owner: &ObjectRef, selection: PodSelection<'_>, demand: DemandId) -> io::Result<()> {
        write_key(&mut self.key, owner, selection, 0);
        let chunk = self.entries.update(&self.key, |entry| {
            if entry.is_empty() {
                0_u64.write(entry);
            }
            let length = number_at(entry, 0)?;
            entry[..NUMBER_BYTES].copy_from_slice(&(length + 1).to_le_bytes());
            let chunk = length / CHUNK_LENGTH;
            if chunk == 0 {
                demand.write(entry);
            }
            Some(chunk)
        })?;
        match chunk.ok_or_else(corrupt_file)? {
            0 => Ok(()),
            chunk => {
                write_key(&mut self.key, owner, selection, chunk);
                self.entries.update(&self.key, |entry| demand.write(entry))
            }
        }
    }

    /// The number of these pods of an owner.
    pub(super) fn pod_count(&mut self, owner: &ObjectRef, selection: PodSelection<'_>) -> io::Result<u64> {
        write_key(&mut self.key, owner, selection, 0);
        match self.entries.get(&self.key)? {
            None => Ok(0),
            Some(entry) => number_at(entry, 0).ok_or_else(corrupt_file),
        }
    }

    /// The demand of one of these pods.
    pub(super) fn pod(
        &mut self,
        owner: &ObjectRef,
        selection: PodSelection<'_>,
        index: u64,
    ) -> io::Result<DemandId> {
        let chunk = index / CHUNK_LENGTH;
        write_key(&mut self.key, owner, selection, chunk);
        let position = index % CHUNK_LENGTH + u64::from(chunk == 0);
        let entry = self.entries.get(&self.key)?.unwrap_or_default();
        number_at(entry, position as usize).map(DemandId).ok_or_else(corrupt_file)
    }
}

// === impl OwnerCounts ===

impl OwnerCounts {
    /// Returns the count for these pods of an owner.
    pub(super) fn get(&mut self, owner: &ObjectRef, selection: PodSelection<'_>) -> io::Result<u64> {
        write_key(&mut self.key, owner, selection, 0);
        match self.entries.get(&self.key)? {
            None => Ok(0),
            Some(entry) => number_at(entry, 0).ok_or_else(corrupt_file),
        }
    }

    /// Sets the count.
    pub(super) fn set(
        &mut self,
        owner: &ObjectRef,
        selection: PodSelection<'_>,
        count: u64,
    ) -> io::Result<()> {
        write_key(&mut self.key, owner, selection, 0);
        self.entries.update(&self.key, |entry| {
            entry.clear();
            count.write(entry);
        })
    }
}

fn write_key(key: &mut Vec<u8>, owner: &ObjectRef, selection: PodSelection<'_>, chunk: u64) {
    let ObjectRef { kind: Kind { group, kind }, namespace, name } = owner;
    key.clear();
    chunk.write(key);
    group.write(key);
    kind.write(key);
    namespace.write(key);
    name.write(key);
    match selection {
        PodSelection::All => {}
        PodSelection::InSlot(slot) => slot.cloned().write(key),
    }
}

fn number_at(entry: &[u8], position: usize) -> Option<u64> {
    Field::read(&mut entry.get(position * NUMBER_BYTES..)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> ObjectRef {
        ObjectRef::new(Kind::new("batch", "Job"), "a", name)
    }

    #[test]
    fn owners_are_known_once_they_are_recorded() {
        let mut owners = RecordedOwners::default();
        owners.push_pod(&owner("a"), None, DemandId(0)).unwrap();
        assert!(!owners.contains(&owner("a")).unwrap());
        assert!(owners.add(&owner("a")).unwrap());
        assert!(!owners.add(&owner("a")).unwrap());
        assert!(owners.contains(&owner("a")).unwrap() && !owners.contains(&owner("b")).unwrap());
    }

    #[test]
    fn pods_are_in_order_among_all_and_in_their_slot() {
        let mut owners = RecordedOwners::default();
        let slots: [Option<Arc<str>>; 3] = [None, Some("".into()), Some("1".into())];
        let pods: Vec<(usize, DemandId)> = (0..2_000).map(|id| (id as usize * 7 % 3, DemandId(id))).collect();
        for (slot, demand) in &pods {
            owners.push_pod(&owner("a"), slots[*slot].as_ref(), *demand).unwrap();
            owners.push_pod(&owner("b"), None, DemandId(demand.0 + 1)).unwrap();
        }
        let mut check = |selection, expected: Vec<DemandId>| {
            assert_eq!(owners.pod_count(&owner("a"), selection).unwrap(), expected.len() as u64);
            for (index, demand) in expected.into_iter().enumerate() {
                assert_eq!(owners.pod(&owner("a"), selection, index as u64).unwrap(), demand);
            }
        };
        check(PodSelection::All, pods.iter().map(|(_, demand)| *demand).collect());
        for (number, slot) in slots.iter().enumerate() {
            let in_slot = pods.iter().filter(|(slot, _)| *slot == number).map(|(_, demand)| *demand);
            check(PodSelection::InSlot(slot.as_ref()), in_slot.collect());
        }
        assert_eq!(owners.pod_count(&owner("c"), PodSelection::All).unwrap(), 0);
    }

    #[test]
    fn counts_are_separate() {
        let (mut counts, slot) = (OwnerCounts::default(), Arc::from("x"));
        let selections = [PodSelection::All, PodSelection::InSlot(None), PodSelection::InSlot(Some(&slot))];
        for (number, selection) in (1..).zip(selections) {
            assert_eq!(counts.get(&owner("a"), selection).unwrap(), 0);
            counts.set(&owner("a"), selection, number).unwrap();
        }
        let found = selections.map(|selection| counts.get(&owner("a"), selection).unwrap());
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(counts.get(&owner("b"), PodSelection::All).unwrap(), 0);
    }
}
