//! Segments of the object index: for each object, the blocks that hold its versions, for up to 128 adjacent
//! blocks.
//!
//! A segment is stored as leaves of up to 128 entries. Each leaf states under its checksum which segment it
//! belongs to and which objects it is about, so that a missing, damaged or misplaced leaf cannot hide a
//! version.

use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::change_indexer::{self, Stream};
use crate::frame::ObjectId;
use crate::members::Member;
use crate::varint::{self, VarintReader};

/// Entries of a leaf, so that about eight leaves fit on a page. Tests use small leaves, so that segments have many.
const LEAF_ENTRIES: usize = if cfg!(test) { 3 } else { 128 };

/// The identity of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SegmentId {
    pub(crate) stream: i64,
    /// The first sequence number of its first block.
    pub(crate) seq: i64,
}

/// An object as the index knows it. Ids that are hashes are cut to 32 bits: another object with the same key only adds
/// a block in which the object is not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexKey(i64);

/// One block of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct IndexEntry {
    key: IndexKey,
    /// The block's first sequence number.
    block: i64,
}

/// A segment that is not written yet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct IndexSegment {
    id: SegmentId,
    last_seq: i64,
    /// The first key that each leaf is about, and its contents.
    leaves: Vec<(IndexKey, Vec<u8>)>,
}

/// The blocks of one object in a segment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SegmentMatch {
    /// The last sequence number that the segment covers.
    pub(crate) last_seq: i64,
    /// Their first sequence numbers, ascending.
    pub(crate) blocks: Vec<i64>,
}

/// A leaf that matches its checksum.
struct IndexLeaf {
    entries: Vec<IndexEntry>,
    /// The first key of the next leaf.
    until: Option<IndexKey>,
}

// === impl SegmentId ===

impl SegmentId {
    /// The last segment that begins at or before `seq`.
    pub(crate) fn last_until(
        connection: &Connection,
        stream: i64,
        seq: i64,
    ) -> rusqlite::Result<Option<SegmentId>> {
        connection
            .prepare_cached(
                "SELECT seq FROM object_index WHERE stream = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1",
            )?
            .query_row([stream, seq], |row| Ok(SegmentId { stream, seq: row.get(0)? }))
            .optional()
    }

    /// Finds an object. `None` if there is no such segment, or its leaf about that object is missing or damaged.
    pub(crate) fn find(
        self,
        connection: &Connection,
        key: IndexKey,
    ) -> rusqlite::Result<Option<SegmentMatch>> {
        let mut statement = connection.prepare_cached(
            "SELECT object, last_seq, entries FROM object_index
             WHERE stream = ?1 AND seq = ?2 AND object <= ?3 ORDER BY object DESC LIMIT 1",
        )?;
        let mut rows = statement.query([self.stream, self.seq, key.0])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let (from, last_seq) = (IndexKey(row.get(0)?), row.get(1)?);
        let leaf = row.get_ref(2)?.as_blob().ok().and_then(|bytes| self.decode_leaf(from, last_seq, bytes));
        let leaf = leaf.filter(|leaf| leaf.until.is_none_or(|until| key < until));
        Ok(leaf.map(|leaf| {
            let found = leaf.entries.iter().filter(|entry| entry.key == key);
            SegmentMatch { last_seq, blocks: found.map(|entry| entry.block).collect() }
        }))
    }

    /// All entries of the stored segment, and the last sequence number it covers. The error describes the damage.
    pub(crate) fn read(
        self,
        connection: &Connection,
    ) -> rusqlite::Result<Result<(i64, Vec<IndexEntry>), &'static str>> {
        let mut statement = connection.prepare_cached(
            "SELECT object, last_seq, entries FROM object_index
             WHERE stream = ?1 AND seq = ?2 ORDER BY object",
        )?;
        let mut rows = statement.query([self.stream, self.seq])?;
        let (mut entries, mut next, mut last) = (Vec::new(), Some(IndexKey::FIRST), None);
        while let Some(row) = rows.next()? {
            let (from, last_seq) = (IndexKey(row.get(0)?), row.get(1)?);
            let bytes = row.get_ref(2)?.as_blob().ok();
            let Some(leaf) = bytes.and_then(|bytes| self.decode_leaf(from, last_seq, bytes)) else {
                return Ok(Err("a leaf does not match its checksum"));
            };
            if next != Some(from) || last.is_some_and(|last| last != last_seq) {
                return Ok(Err("a leaf is missing"));
            }
            (next, last) = (leaf.until, Some(last_seq));
            entries.extend(leaf.entries);
        }
        Ok(match (next, last) {
            (None, Some(last_seq)) => Ok((last_seq, entries)),
            _ => Err("a leaf is missing"),
        })
    }

    /// Encodes a leaf about the keys from `from` to `until`.
    fn encode_leaf(
        self,
        from: IndexKey,
        last_seq: i64,
        entries: &[IndexEntry],
        until: Option<IndexKey>,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(6 * entries.len() + 16);
        varint::write_unsigned(&mut out, entries.len() as u64);
        // Ids are assigned in order, and objects change most when they are new: objects with adjacent ids are close to
        // each other, so that most distances take one or two bytes.
        let (mut last, mut block) = (0i64, self.seq);
        for entry in entries {
            varint::write_signed(&mut out, entry.key.0.wrapping_sub(last));
            varint::write_signed(&mut out, entry.block.wrapping_sub(block));
            (last, block) = (entry.key.0, entry.block);
        }
        // The next leaf begins after the last key, so the distance is never 0.
        varint::write_unsigned(&mut out, until.map_or(0, |until| until.0.wrapping_sub(last) as u64));
        let sum = self.leaf_checksum(from, last_seq, &out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    fn decode_leaf(self, from: IndexKey, last_seq: i64, bytes: &[u8]) -> Option<IndexLeaf> {
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if self.leaf_checksum(from, last_seq, body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = VarintReader(body);
        let count = usize::try_from(reader.number()?).ok().filter(|count| *count <= body.len())?;
        let mut entries = Vec::with_capacity(count);
        let (mut last, mut block) = (0i64, self.seq);
        for _ in 0..count {
            last = last.wrapping_add(reader.signed()?);
            block = block.wrapping_add(reader.signed()?);
            entries.push(IndexEntry { key: IndexKey(last), block });
        }
        let until = match reader.number()? {
            0 => None,
            distance => Some(IndexKey(last.wrapping_add(distance as i64))),
        };
        reader.0.is_empty().then_some(IndexLeaf { entries, until })
    }

    /// Covers the columns of the row too.
    fn leaf_checksum(self, from: IndexKey, last_seq: i64, body: &[u8]) -> u32 {
        let mut columns = [0; 32];
        let numbers = [self.stream, self.seq, from.0, last_seq];
        for (bytes, number) in columns.chunks_exact_mut(8).zip(numbers) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        xxh3_64_with_seed(body, xxh3_64(&columns)) as u32
    }
}

// === impl IndexKey ===

impl IndexKey {
    /// The key with which the first leaf of every segment begins.
    const FIRST: IndexKey = IndexKey(i64::MIN);

    pub(crate) fn new(stream: &Stream, object: ObjectId) -> IndexKey {
        match change_indexer::has_directory(&stream.kind) {
            true => IndexKey(object.0),
            false => IndexKey(object.0 >> 32),
        }
    }
}

// === impl IndexEntry ===

impl IndexEntry {
    /// The entries of the members of one block.
    pub(crate) fn of_members(
        stream: &Stream,
        members: &[Member],
        block: i64,
    ) -> impl Iterator<Item = IndexEntry> {
        members.iter().map(move |member| IndexEntry { key: IndexKey::new(stream, member.object), block })
    }

    /// Entries in the order in which they are stored, without duplicates.
    pub(crate) fn sorted(mut entries: Vec<IndexEntry>) -> Vec<IndexEntry> {
        entries.sort_unstable();
        entries.dedup();
        entries
    }
}

// === impl IndexSegment ===

impl IndexSegment {
    /// A segment with these entries, which must be sorted.
    pub(crate) fn new(id: SegmentId, last_seq: i64, entries: &[IndexEntry]) -> IndexSegment {
        let (mut leaves, mut from, mut rest) = (Vec::new(), IndexKey::FIRST, entries);
        loop {
            // All entries of a key are in one leaf.
            let split = rest.get(LEAF_ENTRIES).map_or(rest.len(), |next| {
                let before = rest[..LEAF_ENTRIES].partition_point(|entry| entry.key < next.key);
                let after = rest.partition_point(|entry| entry.key <= next.key);
                if before == 0 { after } else { before }
            });
            let (leaf, behind) = rest.split_at(split);
            let until = behind.first().map(|entry| entry.key);
            leaves.push((from, id.encode_leaf(from, last_seq, leaf, until)));
            let Some(until) = until else { break };
            (from, rest) = (until, behind);
        }
        IndexSegment { id, last_seq, leaves }
    }

    /// The last sequence number it covers.
    pub(crate) fn last_seq(&self) -> i64 {
        self.last_seq
    }

    /// Inserts it into the file.
    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut insert = connection.prepare_cached(
            "INSERT OR REPLACE INTO object_index (stream, seq, object, last_seq, entries)
             VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        let SegmentId { stream, seq } = self.id;
        for (from, entries) in &self.leaves {
            insert.execute(params![stream, seq, from.0, self.last_seq, entries])?;
        }
        Ok(())
    }
}

/// Deletes the segments of a stream that begin at or before a change.
pub(crate) fn remove_until(connection: &Connection, stream: i64, seq: i64) -> rusqlite::Result<()> {
    connection
        .prepare_cached("DELETE FROM object_index WHERE stream = ?1 AND seq <= ?2")?
        .execute([stream, seq])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_object_is_found_where_it_was_put(
            entries in proptest::collection::vec((-20i64..20, 0i64..6), 0..60), seq: i32, far: bool,
        ) {
            let id = SegmentId { stream: 7, seq: seq.into() };
            // Keys from one end of the numbers to the other, or close to each other.
            let key = |number: i64| IndexKey(if far { number << 58 } else { number });
            let entry = |(number, block): &(i64, i64)| IndexEntry { key: key(*number), block: id.seq + block };
            let entries = IndexEntry::sorted(entries.iter().map(entry).collect());
            let connection = Connection::open_in_memory().unwrap();
            connection.execute_batch(include_str!("schema_3.sql")).unwrap();
            // Neighbors, of which nothing may be found.
            for other in [SegmentId { seq: id.seq - 1, ..id }, SegmentId { stream: 8, ..id }] {
                let entry = IndexEntry { key: IndexKey(0), block: 99 };
                IndexSegment::new(other, 0, &[entry]).insert(&connection).unwrap();
            }
            let last_seq = id.seq + 100;
            IndexSegment::new(id, last_seq, &entries).insert(&connection).unwrap();
            prop_assert_eq!(id.read(&connection).unwrap(), Ok((last_seq, entries.clone())));
            for wanted in (-21..21).map(key) {
                let expected = entries.iter().filter(|entry| entry.key == wanted);
                let blocks = expected.map(|entry| entry.block).collect();
                prop_assert_eq!(
                    id.find(&connection, wanted).unwrap(),
                    Some(SegmentMatch { last_seq, blocks })
                );
            }
            remove_until(&connection, id.stream, id.seq).unwrap();
            prop_assert_eq!(id.find(&connection, key(0)).unwrap(), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(body: Vec<u8>) {
            let id = SegmentId { stream: 1, seq: 1 };
            let mut bytes = body.clone();
            bytes.extend_from_slice(&id.leaf_checksum(IndexKey::FIRST, 9, &body).to_le_bytes());
            id.decode_leaf(IndexKey::FIRST, 9, &bytes);
            prop_assert!(id.decode_leaf(IndexKey(0), 9, &bytes).is_none());
            prop_assert!(id.decode_leaf(IndexKey::FIRST, 8, &bytes).is_none());
        }
    }
}
