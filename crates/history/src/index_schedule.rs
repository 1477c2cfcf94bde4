//! The schedule of the object index: which blocks get their segment next.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension};

use crate::change_indexer::Stream;
use crate::error::{Error, ErrorContext, Result};
use crate::index_segment::{IndexEntry, IndexSegment, SegmentId};
use crate::members::{self, Member};

/// Blocks of a segment. An object is found by reading one leaf of each segment, and the member lists of the blocks that
/// have none yet; with this number both take about the same time.
const SEGMENT_BLOCKS: usize = if cfg!(test) { 3 } else { 128 };

/// Decides which segment is written next: the first that is missing. A migrated file lacks many.
#[derive(Default)]
pub(crate) struct IndexSchedule {
    streams: HashMap<i64, IndexProgress>,
}

struct IndexProgress {
    /// Whether a damaged list was found, so that nothing more is indexed.
    is_stopped: bool,
    /// Blocks up to this change have segments.
    until: i64,
    /// Upper bound of the number of blocks after `until`.
    blocks: usize,
}

impl Default for IndexProgress {
    fn default() -> IndexProgress {
        // Nothing is known about the blocks, so they have to be examined.
        IndexProgress { is_stopped: false, until: i64::MIN, blocks: usize::MAX }
    }
}

// === impl IndexSchedule ===

impl IndexSchedule {
    /// Counts a block that was written at the end of a stream.
    pub(crate) fn count_block(&mut self, stream: &Stream) {
        let progress = self.streams.entry(stream.id).or_default();
        progress.blocks = progress.blocks.saturating_add(1);
    }

    /// The next segment of a stream; it must be written before the next call. `None` if none is due.
    pub(crate) fn next_segment(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
    ) -> Result<Option<IndexSegment>> {
        let progress = self.streams.entry(stream.id).or_default();
        match progress.next_segment(connection, path, stream) {
            // Readers and `doctor` report the damage where it matters; writing new changes does not depend on it.
            Err(error) if error.is_damage() => {
                progress.is_stopped = true;
                Ok(None)
            }
            next => next,
        }
    }
}

// === impl IndexProgress ===

impl IndexProgress {
    fn next_segment(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
    ) -> Result<Option<IndexSegment>> {
        let doing = "index";
        if self.is_stopped {
            return Ok(None);
        }
        // The last block is not indexed, because it may be replaced by a larger one.
        while self.blocks > SEGMENT_BLOCKS {
            let next = next_segment_bounds(connection, stream.id, self.until).context(doing, path)?;
            let until = next.map_or(i64::MAX, |(seq, _)| seq - 1);
            let most = SEGMENT_BLOCKS as i64 + 1;
            let blocks = blocks_between(connection, path, stream, self.until, until, most)?;
            if blocks.len() > SEGMENT_BLOCKS || (next.is_some() && !blocks.is_empty()) {
                let segment = blocks_segment(stream, &blocks[..blocks.len().min(SEGMENT_BLOCKS)]);
                self.until = segment.last_seq();
                return Ok(Some(segment));
            }
            match next {
                // The end of a damaged segment may be before its beginning.
                Some((seq, last_seq)) => self.until = last_seq.max(seq),
                None => self.blocks = blocks.len(),
            }
        }
        Ok(None)
    }
}

/// A block's bounds and member list.
pub(crate) struct ListedBlock {
    pub(crate) first_seq: i64,
    pub(crate) last_seq: i64,
    pub(crate) members: Vec<Member>,
}

/// The entries of adjacent blocks, sorted.
pub(crate) fn block_entries(stream: &Stream, blocks: &[ListedBlock]) -> Vec<IndexEntry> {
    let entries =
        blocks.iter().flat_map(|block| IndexEntry::of_members(stream, &block.members, block.first_seq));
    IndexEntry::sorted(entries.collect())
}

/// The segment of adjacent blocks; there must be at least one.
fn blocks_segment(stream: &Stream, blocks: &[ListedBlock]) -> IndexSegment {
    let (first, last) = match blocks {
        [first, .., last] => (first, last),
        [only] => (only, only),
        [] => unreachable!("a segment has at least one block"),
    };
    let id = SegmentId { stream: stream.id, seq: first.first_seq };
    IndexSegment::new(id, last.last_seq, &block_entries(stream, blocks))
}

/// The first segment that begins after `after`: its first and last sequence number.
fn next_segment_bounds(
    connection: &Connection,
    stream: i64,
    after: i64,
) -> rusqlite::Result<Option<(i64, i64)>> {
    connection
        .prepare_cached(
            "SELECT seq, last_seq FROM object_index WHERE stream = ?1 AND seq > ?2 ORDER BY seq LIMIT 1",
        )?
        .query_row([stream, after], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
}

/// At most `most` of the blocks that begin after `after` and not after `until`.
pub(crate) fn blocks_between(
    connection: &Connection,
    path: &Path,
    stream: &Stream,
    after: i64,
    until: i64,
    most: i64,
) -> Result<Vec<ListedBlock>> {
    let doing = "read the blocks of";
    let mut statement = connection
        .prepare_cached(
            "SELECT first_seq, last_seq, members FROM block
             WHERE stream = ?1 AND first_seq > ?2 AND first_seq <= ?3 ORDER BY first_seq LIMIT ?4",
        )
        .context(doing, path)?;
    let mut rows = statement.query([stream.id, after, until, most]).context(doing, path)?;
    let mut blocks = Vec::new();
    while let Some(row) = rows.next().context(doing, path)? {
        let (first_seq, last_seq) = (row.get(0).context(doing, path)?, row.get(1).context(doing, path)?);
        let list = row.get_ref(2).context(doing, path)?.as_blob().ok().and_then(members::decode);
        let members = list.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("the object list of the block up to change {last_seq} of {}", stream.kind),
        })?;
        blocks.push(ListedBlock { first_seq, last_seq, members });
    }
    Ok(blocks)
}
