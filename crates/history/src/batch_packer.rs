//! Packing of large batches: their changes become blocks at once, without being rows first.
//!
//! A row is compressed, inserted, read, decompressed and deleted before its change is in a block. Changes that arrive in
//! large batches, as in the first list of a cluster or when the recorder falls behind, skip all of that.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use model::{IncomingChange, Kind};
use rusqlite::Connection;

use crate::change_indexer::Stream;
use crate::error::{ErrorContext, Result};
use crate::frame::{MAX_FRAME_BYTES, MAX_FRAME_VERSIONS, PendingVersions, VersionRow};
use crate::pack::{Block, WrittenBlock, last_packed_seq};
use crate::stream_state::VersionReader;

/// Packs the changes of large batches.
pub(crate) struct BatchPacker {
    reader: VersionReader,
    /// The streams of the current batch, by id; `None` for those whose changes become rows.
    streams: BTreeMap<i64, Option<UnpackedStream>>,
    /// Blocks that the packer has not counted.
    written: Vec<WrittenBlock>,
}

/// The changes of a stream that are not in a block yet.
pub(crate) struct UnpackedStream {
    pub(crate) stream: Arc<Stream>,
    pub(crate) pending: PendingVersions,
    /// Some of them are rows, which their block replaces.
    has_rows: bool,
}

/// The kinds of which a batch has enough changes for a block.
pub(crate) struct LargeKinds<'a>(Vec<(&'a Arc<str>, &'a Kind)>);

// === impl LargeKinds ===

impl<'a> LargeKinds<'a> {
    pub(crate) fn of(changes: &'a [IncomingChange]) -> LargeKinds<'a> {
        // A batch has few kinds, and most changes are of the same kind as the one before.
        let mut sizes: Vec<(&Arc<str>, &Kind, usize, usize)> = Vec::new();
        for change in changes {
            let key = &change.key;
            let is_same = |(source, kind, ..): &(&Arc<str>, &Kind, usize, usize)| {
                **source == key.source && **kind == key.kind
            };
            let index = sizes.iter().rposition(is_same).unwrap_or_else(|| {
                sizes.push((&key.source, &key.kind, 0, 0));
                sizes.len() - 1
            });
            sizes[index].2 += 1;
            sizes[index].3 += change.what.object().as_str().len();
        }
        let large = sizes.into_iter().filter(|(_, _, count, bytes)| is_large(*count, *bytes));
        LargeKinds(large.map(|(source, kind, ..)| (source, kind)).collect())
    }

    pub(crate) fn contains(&self, stream: &Stream) -> bool {
        self.0.iter().any(|(source, kind)| **source == stream.source && **kind == stream.kind)
    }
}

/// Whether changes are enough for a block. A smaller one would take more space, and is left to the packer.
fn is_large(count: usize, bytes: usize) -> bool {
    count >= MAX_FRAME_VERSIONS / 2 || bytes >= MAX_FRAME_BYTES / 2
}

// === impl BatchPacker ===

impl BatchPacker {
    pub(crate) fn new() -> BatchPacker {
        BatchPacker { reader: VersionReader::new(), streams: BTreeMap::new(), written: Vec::new() }
    }

    /// Whether the changes of a stream in this batch are packed; `None` before its first change.
    pub(crate) fn is_packed(&self, stream: i64) -> Option<bool> {
        self.streams.get(&stream).map(Option::is_some)
    }

    /// Leaves the changes of a stream in this batch to the packer.
    pub(crate) fn skip(&mut self, stream: i64) {
        self.streams.insert(stream, None);
    }

    /// Begins to pack a stream, with its rows if it has any: no row may be older than a block.
    pub(crate) fn begin(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Arc<Stream>,
        has_rows: bool,
    ) -> Result<()> {
        let pending = PendingVersions::default();
        let mut unpacked = UnpackedStream { stream: stream.clone(), pending, has_rows };
        if has_rows {
            let after = last_packed_seq(connection, stream.id).context("read a block of", path)?;
            let mut after = after.unwrap_or(i64::MIN);
            loop {
                self.reader.rows.read(connection, path, stream, after, &mut unpacked.pending)?;
                if !unpacked.pending.is_full() {
                    break;
                }
                after = unpacked.pending.rows.last().map_or(after, |row| row.seq);
                self.written.push(unpacked.write_block(connection, path, &mut self.reader)?);
                unpacked.has_rows = true;
            }
        }
        self.streams.insert(stream.id, Some(unpacked));
        Ok(())
    }

    /// Adds a change to a stream that is packed.
    pub(crate) fn push(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        row: VersionRow,
        text: &str,
    ) -> Result<()> {
        let BatchPacker { reader, streams, written } = self;
        let unpacked = streams.get_mut(&stream.id).and_then(Option::as_mut);
        let unpacked = unpacked.expect("the stream has begun");
        unpacked.pending.push(row, text);
        if unpacked.pending.is_full() {
            written.push(unpacked.write_block(connection, path, reader)?);
        }
        Ok(())
    }

    /// Ends a batch. Returns the changes that are not enough for a block, which become rows.
    pub(crate) fn finish(&mut self, connection: &Connection, path: &Path) -> Result<Vec<UnpackedStream>> {
        let mut rest = Vec::new();
        for mut unpacked in std::mem::take(&mut self.streams).into_values().flatten() {
            if is_large(unpacked.pending.rows.len(), unpacked.pending.text.len()) {
                self.written.push(unpacked.write_block(connection, path, &mut self.reader)?);
            }
            debug_assert!(!unpacked.has_rows, "rows come first, and the batch alone is enough for a block");
            rest.push(unpacked);
        }
        Ok(rest)
    }

    /// Takes the blocks that the packer has to count.
    pub(crate) fn take_written(&mut self) -> Vec<WrittenBlock> {
        std::mem::take(&mut self.written)
    }
}

// === impl UnpackedStream ===

impl UnpackedStream {
    /// Writes its changes as a block, in the place of their rows.
    fn write_block(
        &mut self,
        connection: &Connection,
        path: &Path,
        reader: &mut VersionReader,
    ) -> Result<WrittenBlock> {
        let block = Block::pack(&mut reader.codec, &self.stream, &self.pending);
        block.insert(connection, path)?;
        if std::mem::take(&mut self.has_rows) {
            block.remove_rows(connection, path)?;
        }
        self.pending.rows.clear();
        self.pending.text.clear();
        Ok(block.written())
    }
}
