//! A map in temporary files, so that memory use does not follow the number of its entries.
//!
//! Entries in use are cached. When the cache is full, changed entries are appended to a file, and the cache is emptied.
//! The entries of one bucket form a chain in that file, the newest first; another file holds the head of each chain. A
//! small map writes no file. The files are unlinked: they disappear when the process closes them or is killed.

use std::fs::File;
use std::hash::BuildHasher;
use std::io::{self, BufWriter, Read, Write};

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::positioned_file::{PositionedFile, corrupt_file};

/// A map from bytes to bytes.
#[derive(Debug)]
pub(super) struct FileMap {
    cache: FxHashMap<Box<[u8]>, CachedEntry>,
    /// The approximate memory use of the cache.
    cached_bytes: usize,
    max_cached_bytes: usize,
    files: Option<MapFiles>,
    /// Entries were lost when the files could not be written.
    is_incomplete: bool,
}

#[derive(Debug)]
struct CachedEntry {
    /// `None` if the map has no such entry.
    value: Option<Vec<u8>>,
    /// The files do not hold this value.
    is_changed: bool,
}

#[derive(Debug)]
struct MapFiles {
    /// The newest record of each bucket.
    heads: File,
    records: File,
    /// The length of `records`.
    end: u64,
}

/// The fixed part of a record. The key follows, then the value.
struct RecordHeader {
    /// The next older record of the bucket.
    older: RecordRef,
    key_length: u32,
    /// `REMOVED` if the entry was removed.
    value_length: u32,
}

/// The offset of a record plus one; zero if there is none, as in a new file.
type RecordRef = u64;

/// The memory use at which the cache is emptied.
const MAX_CACHED_BYTES: usize = 8 << 20;
/// The memory that an entry takes beside its key and value.
const ENTRY_OVERHEAD: usize = 96;
/// Chains stay short up to tens of millions of records. The file of heads is sparse.
const BUCKETS: u64 = 1 << 20;
const HEAD_BYTES: usize = size_of::<RecordRef>();
const HEADER_BYTES: usize = 16;
const REMOVED: u32 = u32::MAX;
/// The number of bytes that are read at once. Most records are shorter.
const READ_BYTES: usize = 512;
const WRITE_BUFFER_BYTES: usize = 1 << 18;

// === impl FileMap ===

impl Default for FileMap {
    fn default() -> FileMap {
        FileMap::with_cache(MAX_CACHED_BYTES)
    }
}

impl FileMap {
    fn with_cache(max_cached_bytes: usize) -> FileMap {
        FileMap {
            cache: FxHashMap::default(),
            cached_bytes: 0,
            max_cached_bytes,
            files: None,
            is_incomplete: false,
        }
    }

    /// Returns a value.
    pub(super) fn get(&mut self, key: &[u8]) -> io::Result<Option<&[u8]>> {
        Ok(self.load(key)?.value.as_deref())
    }

    /// Changes a value, which is empty if it is new.
    pub(super) fn update<R>(&mut self, key: &[u8], change: impl FnOnce(&mut Vec<u8>) -> R) -> io::Result<R> {
        let entry = self.load(key)?;
        entry.is_changed = true;
        let value = entry.value.get_or_insert_default();
        let length_before = value.len();
        let result = change(value);
        let length = value.len();
        self.cached_bytes = self.cached_bytes + length - length_before;
        Ok(result)
    }

    /// Removes and returns a value.
    pub(super) fn take(&mut self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let entry = self.load(key)?;
        let value = entry.value.take();
        entry.is_changed |= value.is_some();
        self.cached_bytes -= value.as_ref().map_or(0, Vec::len);
        Ok(value)
    }

    /// Returns the cached entry of a key, which is read if it is not cached.
    fn load(&mut self, key: &[u8]) -> io::Result<&mut CachedEntry> {
        if self.is_incomplete {
            return Err(io::Error::other("entries were lost when a temporary file could not be written"));
        }
        if !self.cache.contains_key(key) {
            if self.cached_bytes >= self.max_cached_bytes {
                self.empty_cache()?;
            }
            let value = match &self.files {
                Some(files) => files.read(key)?,
                None => None,
            };
            self.cached_bytes += ENTRY_OVERHEAD + key.len() + value.as_ref().map_or(0, Vec::len);
            self.cache.insert(key.into(), CachedEntry { value, is_changed: false });
        }
        Ok(self.cache.get_mut(key).expect("it is cached now"))
    }

    /// Writes the changed entries, and forgets all.
    fn empty_cache(&mut self) -> io::Result<()> {
        let files = match &mut self.files {
            Some(files) => files,
            None => self.files.insert(MapFiles::new()?),
        };
        self.cached_bytes = 0;
        let appended = files.append(self.cache.drain().filter(|(_, entry)| entry.is_changed));
        self.is_incomplete = appended.is_err();
        appended
    }
}

// === impl MapFiles ===

impl MapFiles {
    fn new() -> io::Result<MapFiles> {
        let heads = tempfile::tempfile()?;
        heads.set_len(BUCKETS * HEAD_BYTES as u64)?;
        Ok(MapFiles { heads, records: tempfile::tempfile()?, end: 0 })
    }

    fn append(&mut self, entries: impl Iterator<Item = (Box<[u8]>, CachedEntry)>) -> io::Result<()> {
        let position = PositionedFile::new(&self.records, self.end);
        let mut records = BufWriter::with_capacity(WRITE_BUFFER_BYTES, position);
        for (key, CachedEntry { value, .. }) in entries {
            let bucket = bucket_of(&key);
            let header = RecordHeader {
                older: self.head(bucket)?,
                key_length: length_of(&key)?,
                value_length: value.as_deref().map_or(Ok(REMOVED), length_of)?,
            };
            let value = value.unwrap_or_default();
            records.write_all(&header.to_bytes())?;
            records.write_all(&key)?;
            records.write_all(&value)?;
            let reference: RecordRef = self.end + 1;
            self.head_file(bucket).write_all(&reference.to_le_bytes())?;
            self.end += (HEADER_BYTES + key.len() + value.len()) as u64;
        }
        records.flush()
    }

    /// Reads the newest value of a key.
    fn read(&self, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
        let mut record = Vec::new();
        let mut next = self.head(bucket_of(key))?;
        while let Some(offset) = next.checked_sub(1) {
            let header = self.read_record(offset, &mut record)?;
            let (record_key, value) = record[HEADER_BYTES..].split_at(header.key_length as usize);
            if record_key == key {
                return Ok((header.value_length != REMOVED).then(|| value.to_vec()));
            }
            next = header.older;
        }
        Ok(None)
    }

    /// Reads a record as a whole.
    fn read_record(&self, offset: u64, record: &mut Vec<u8>) -> io::Result<RecordHeader> {
        let mut file = PositionedFile::new(&self.records, offset);
        record.resize(READ_BYTES, 0);
        let read_length = file.read_up_to(record)?;
        let header = RecordHeader::parse(&record[..read_length]).ok_or_else(corrupt_file)?;
        record.resize(header.record_length(), 0);
        if let Some(rest) = record.get_mut(read_length..) {
            file.read_exact(rest)?;
        }
        Ok(header)
    }

    fn head(&self, bucket: u64) -> io::Result<RecordRef> {
        let mut bytes = [0; HEAD_BYTES];
        self.head_file(bucket).read_exact(&mut bytes)?;
        Ok(RecordRef::from_le_bytes(bytes))
    }

    fn head_file(&self, bucket: u64) -> PositionedFile<'_> {
        PositionedFile::new(&self.heads, bucket * HEAD_BYTES as u64)
    }
}

/// Which bucket it is has no effect on the map's content.
fn bucket_of(key: &[u8]) -> u64 {
    FxBuildHasher.hash_one(key) % BUCKETS
}

fn length_of(bytes: &[u8]) -> io::Result<u32> {
    let length = u32::try_from(bytes.len()).ok().filter(|length| *length != REMOVED);
    length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "an entry is too long"))
}

// === impl RecordHeader ===

impl RecordHeader {
    fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.older.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.key_length.to_le_bytes());
        bytes[12..].copy_from_slice(&self.value_length.to_le_bytes());
        bytes
    }

    fn parse(bytes: &[u8]) -> Option<RecordHeader> {
        let (older, bytes) = bytes.split_first_chunk()?;
        let (key_length, bytes) = bytes.split_first_chunk()?;
        let (value_length, _) = bytes.split_first_chunk()?;
        Some(RecordHeader {
            older: RecordRef::from_le_bytes(*older),
            key_length: u32::from_le_bytes(*key_length),
            value_length: u32::from_le_bytes(*value_length),
        })
    }

    fn record_length(&self) -> usize {
        let value_length = if self.value_length == REMOVED { 0 } else { self.value_length as usize };
        HEADER_BYTES + self.key_length as usize + value_length
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Operation {
        Append(u8, Vec<u8>),
        Take(u8),
        Get(u8),
    }

    fn operation() -> impl Strategy<Value = Operation> {
        prop_oneof![
            (any::<u8>(), vec(any::<u8>(), 0..700)).prop_map(|(key, value)| Operation::Append(key, value)),
            any::<u8>().prop_map(Operation::Take),
            any::<u8>().prop_map(Operation::Get),
        ]
    }

    /// Keys of several lengths, some longer than what is read at once.
    fn key(number: u8) -> Vec<u8> {
        vec![number; usize::from(number) * 3]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn it_holds_what_a_map_in_memory_holds(
            operations in vec(operation(), 0..400),
            max_cached_bytes in 0_usize..20_000,
        ) {
            let mut file_map = FileMap::with_cache(max_cached_bytes);
            let mut map: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
            for operation in operations {
                match operation {
                    Operation::Append(number, bytes) => {
                        let append = |value: &mut Vec<u8>| {
                            value.extend_from_slice(&bytes);
                            value.len()
                        };
                        let length = file_map.update(&key(number), append).unwrap();
                        prop_assert_eq!(length, append(map.entry(number).or_default()));
                    }
                    Operation::Take(number) => {
                        prop_assert_eq!(file_map.take(&key(number)).unwrap(), map.remove(&number));
                    }
                    Operation::Get(number) => {
                        let value = file_map.get(&key(number)).unwrap();
                        prop_assert_eq!(value, map.get(&number).map(Vec::as_slice));
                    }
                }
            }
            for number in 0..=u8::MAX {
                let value = file_map.get(&key(number)).unwrap();
                prop_assert_eq!(value, map.get(&number).map(Vec::as_slice));
            }
        }
    }

    #[test]
    fn its_cache_is_bounded() {
        let mut file_map = FileMap::with_cache(10_000);
        for number in 0..10_000_u64 {
            file_map.update(&number.to_le_bytes(), |value| value.extend_from_slice(&[1; 100])).unwrap();
            assert!(file_map.cached_bytes < 10_000 + 500 && file_map.cache.len() < 100);
        }
    }
}
