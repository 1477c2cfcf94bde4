//! Packing rows into blocks, and states into keyframes.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use crate::change_indexer::Stream;
use crate::counts::StreamCounts;
use crate::error::{ErrorContext, Result};
use crate::frame::{FrameCodec, FrameRole, PendingVersions};
use crate::members;
use crate::stream_state::{ReadPoint, VersionReader, locate_state};

/// A keyframe is due when the blocks since the last one take this many times the estimated size of the keyframe, so
/// keyframes add an eighth at most. A stream in which nothing is ever deleted gets none, and needs none.
const KEYFRAME_BLOCK_RATIO: i64 = 8;
/// Different objects have less in common than versions of one object: in the recorded test clusters a version takes
/// twice as much space in a keyframe as in a block.
const KEYFRAME_VERSION_COST: i64 = 2;
/// Minimum number of blocks between two keyframes; with fewer a keyframe is not worth its table rows.
const MIN_KEYFRAME_BLOCKS: i64 = 4;

/// A packed block that is not written yet.
pub(crate) struct Block {
    stream: i64,
    first_seq: i64,
    last_seq: i64,
    first_at: i64,
    last_at: i64,
    changes: usize,
    /// Number of objects added minus number deleted.
    object_delta: i64,
    raw: usize,
    members: Vec<u8>,
    frame: Vec<u8>,
}

/// A block that is in the file, as the schedules of keyframes and of the index count it.
pub(crate) struct WrittenBlock {
    pub(crate) stream: i64,
    /// Sequence number and moment of its last change.
    pub(crate) end: (i64, i64),
    pub(crate) size: BlockSize,
}

/// The size of a block.
#[derive(Clone, Copy)]
pub(crate) struct BlockSize {
    changes: i64,
    /// Number of objects added minus number deleted.
    object_delta: i64,
    packed: i64,
}

/// One part of a packed keyframe that is not written yet.
pub(crate) struct KeyframePart {
    objects: usize,
    members: Vec<u8>,
    frame: Vec<u8>,
}

/// Decides when each stream's next keyframe is due.
#[derive(Default)]
pub(crate) struct KeyframeSchedule {
    streams: HashMap<i64, KeyframeProgress>,
}

#[derive(Clone, Copy, Default)]
struct KeyframeProgress {
    /// Number and bytes of blocks since the last keyframe.
    blocks: i64,
    bytes: i64,
    /// Approximate number of live objects.
    alive: i64,
}

// === impl Block ===

impl Block {
    /// Packs consecutive changes of one stream; there must be at least one.
    pub(crate) fn pack(codec: &mut FrameCodec, stream: &Stream, pending: &PendingVersions) -> Block {
        let (first, last) = match &pending.rows[..] {
            [first, .., last] => (first, last),
            [only] => (only, only),
            [] => unreachable!("a block has at least one change"),
        };
        debug_assert!(pending.rows.is_sorted_by_key(|row| (row.seq, row.at)));
        Block {
            stream: stream.id,
            first_seq: first.seq,
            last_seq: last.seq,
            first_at: first.at.nanos(),
            last_at: last.at.nanos(),
            changes: pending.rows.len(),
            object_delta: pending.rows.iter().map(|row| row.code.object_delta()).sum(),
            raw: pending.text.len(),
            members: members::encode(&members::member_list(&pending.rows)),
            frame: codec.pack(FrameRole::Changes, &stream.source, &stream.kind, pending),
        }
    }

    /// Inserts it into the file.
    pub(crate) fn insert(&self, connection: &Connection, path: &Path) -> Result<()> {
        let frame = insert_frame(connection, &self.frame).context("write a frame to", path)?;
        connection
            .prepare_cached(
                "INSERT INTO block (stream, first_seq, last_seq, first_at, last_at, changes, raw, packed, frame, members)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    self.stream,
                    self.first_seq,
                    self.last_seq,
                    self.first_at,
                    self.last_at,
                    self.changes as i64,
                    self.raw as i64,
                    self.frame.len() as i64,
                    frame,
                    self.members
                ])
            })
            .and_then(|_| self.counts().add_to(connection, self.stream))
            .context("write a block to", path)
    }

    fn counts(&self) -> StreamCounts {
        StreamCounts {
            changes: self.changes as i64,
            raw: self.raw as i64,
            packed: self.packed(),
            ..StreamCounts::default()
        }
    }

    /// Deletes the rows it was packed from.
    pub(crate) fn remove_rows(&self, connection: &Connection, path: &Path) -> Result<()> {
        let packed = params![self.stream, self.first_seq, self.last_seq];
        remove_rows(connection, self.stream, "seq BETWEEN ?2 AND ?3", packed).context("pack", path)?;
        Ok(())
    }

    /// The sequence number of its first change, which is its key in the table.
    pub(crate) fn first_seq(&self) -> i64 {
        self.first_seq
    }

    /// Sequence number and moment of its last change.
    pub(crate) fn end(&self) -> (i64, i64) {
        (self.last_seq, self.last_at)
    }

    pub(crate) fn size(&self) -> BlockSize {
        BlockSize { changes: self.changes as i64, object_delta: self.object_delta, packed: self.packed() }
    }

    /// The block, as it is counted once it is in the file.
    pub(crate) fn written(&self) -> WrittenBlock {
        WrittenBlock { stream: self.stream, end: self.end(), size: self.size() }
    }

    fn packed(&self) -> i64 {
        self.frame.len() as i64
    }
}

// === impl KeyframePart ===

impl KeyframePart {
    fn pack(codec: &mut FrameCodec, stream: &Stream, pending: &PendingVersions) -> KeyframePart {
        KeyframePart {
            objects: pending.rows.len(),
            members: members::encode(&members::member_list(&pending.rows)),
            frame: codec.pack(FrameRole::Keyframe, &stream.source, &stream.kind, pending),
        }
    }
}

// === impl KeyframeSchedule ===

impl KeyframeSchedule {
    /// Counts a block that is about to be written, or was; returns whether a keyframe is due after it.
    pub(crate) fn count_block(
        &mut self,
        connection: &Connection,
        path: &Path,
        reader: &mut VersionReader,
        stream: &Stream,
        block: BlockSize,
        is_written: bool,
    ) -> Result<bool> {
        let is_new = !self.streams.contains_key(&stream.id);
        if is_new {
            let (blocks, bytes) =
                blocks_since_keyframe(connection, stream.id).context("read the blocks of", path)?;
            let state = locate_state(connection, path, reader, stream, ReadPoint::Seq(i64::MAX))?;
            let alive = state.frames.iter().map(|(_, locations)| locations.len() as i64).sum();
            self.streams.insert(stream.id, KeyframeProgress { blocks, bytes, alive });
        }
        let due = self.streams.entry(stream.id).or_default();
        // What was read from the file includes a block that was written.
        if !(is_new && is_written) {
            due.blocks += 1;
            due.bytes += block.packed;
            due.alive = (due.alive + block.object_delta).max(0);
        }
        let estimate = due.alive * KEYFRAME_VERSION_COST * block.packed / block.changes;
        Ok(due.blocks >= MIN_KEYFRAME_BLOCKS && due.bytes >= KEYFRAME_BLOCK_RATIO * estimate)
    }

    /// Resets the count after a keyframe.
    pub(crate) fn reset(&mut self, stream: &Stream, parts: &[KeyframePart]) {
        let alive = parts.iter().map(|part| part.objects as i64).sum();
        self.streams.insert(stream.id, KeyframeProgress { blocks: 0, bytes: 0, alive });
    }
}

/// Packs the state of a stream after change `seq`, which must end a block.
pub(crate) fn pack_keyframe(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    codec: &mut FrameCodec,
    stream: &Stream,
    seq: i64,
) -> Result<Vec<KeyframePart>> {
    let locations = locate_state(connection, path, reader, stream, ReadPoint::Seq(seq))?;
    let (mut parts, mut pending) = (Vec::new(), PendingVersions::default());
    reader.read_versions(connection, path, stream, &locations, |row, text| {
        pending.push(*row, text);
        if pending.is_full() {
            parts.push(KeyframePart::pack(codec, stream, &std::mem::take(&mut pending)));
        }
    })?;
    // An empty state also needs a part, or there would be no keyframe.
    if !pending.rows.is_empty() || parts.is_empty() {
        parts.push(KeyframePart::pack(codec, stream, &pending));
    }
    Ok(parts)
}

/// Inserts a keyframe into the file.
pub(crate) fn insert_keyframe(
    connection: &Connection,
    path: &Path,
    stream: i64,
    seq: i64,
    at: i64,
    parts: &[KeyframePart],
) -> Result<()> {
    for (part, number) in parts.iter().zip(0i64..) {
        let frame = insert_frame(connection, &part.frame).context("write a keyframe to", path)?;
        connection
            .prepare_cached(
                "INSERT INTO keyframe (stream, seq, part, at, objects, packed, frame, members)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    stream,
                    seq,
                    number,
                    at,
                    part.objects as i64,
                    part.frame.len() as i64,
                    frame,
                    part.members
                ])
            })
            .context("write a keyframe to", path)?;
    }
    let keyframe_packed = parts.iter().map(|part| part.frame.len() as i64).sum();
    StreamCounts { keyframe_packed, ..StreamCounts::default() }
        .add_to(connection, stream)
        .context("write a keyframe to", path)
}

/// Deletes a block and its frame. No index segment may cover it.
pub(crate) fn remove_block(connection: &Connection, stream: i64, first_seq: i64) -> rusqlite::Result<()> {
    let removed = connection
        .prepare_cached(
            "DELETE FROM block WHERE stream = ?1 AND first_seq = ?2 RETURNING frame, changes, raw, packed",
        )?
        .query_row([stream, first_seq], |row| {
            let counts = StreamCounts {
                changes: -row.get::<_, i64>(1)?,
                raw: -row.get::<_, i64>(2)?,
                packed: -row.get::<_, i64>(3)?,
                ..StreamCounts::default()
            };
            Ok((row.get(0)?, counts))
        })
        .optional()?;
    let Some((frame, counts)) = removed else { return Ok(()) };
    remove_frame(connection, frame)?;
    counts.add_to(connection, stream)
}

/// Deletes a keyframe and its frames.
pub(crate) fn remove_keyframe(connection: &Connection, stream: i64, seq: i64) -> rusqlite::Result<()> {
    let parts: Vec<(i64, i64)> = connection
        .prepare_cached("DELETE FROM keyframe WHERE stream = ?1 AND seq = ?2 RETURNING frame, packed")?
        .query_map([stream, seq], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    for (frame, _) in &parts {
        remove_frame(connection, *frame)?;
    }
    let keyframe_packed = -parts.iter().map(|(_, packed)| packed).sum::<i64>();
    StreamCounts { keyframe_packed, ..StreamCounts::default() }.add_to(connection, stream)
}

/// Deletes the rows of a stream for which `condition` holds; returns their number.
pub(crate) fn remove_rows(
    connection: &Connection,
    stream: i64,
    condition: &str,
    bounds: &[&dyn rusqlite::ToSql],
) -> rusqlite::Result<usize> {
    let lengths: Vec<i64> = connection
        .prepare_cached(&format!("DELETE FROM change WHERE stream = ?1 AND {condition} RETURNING length"))?
        .query_map(bounds, |row| row.get(0))?
        .collect::<rusqlite::Result<_>>()?;
    let counts = StreamCounts {
        rows: -(lengths.len() as i64),
        row_raw: -lengths.iter().sum::<i64>(),
        ..StreamCounts::default()
    };
    counts.add_to(connection, stream)?;
    Ok(lengths.len())
}

fn remove_frame(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    connection.prepare_cached("DELETE FROM frame WHERE id = ?1")?.execute([id])?;
    Ok(())
}

fn insert_frame(connection: &Connection, bytes: &[u8]) -> rusqlite::Result<i64> {
    connection.prepare_cached("INSERT INTO frame (bytes) VALUES (?1)")?.execute([bytes])?;
    Ok(connection.last_insert_rowid())
}

/// Number and bytes of the blocks since the last keyframe.
fn blocks_since_keyframe(connection: &Connection, stream: i64) -> rusqlite::Result<(i64, i64)> {
    connection.query_row(
        "SELECT count(*), coalesce(sum(packed), 0) FROM block WHERE stream = ?1
         AND first_seq > (SELECT coalesce(max(seq), 0) FROM keyframe WHERE stream = ?1)",
        [stream],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}
/// The last sequence number that is in a block of a stream; `None` if there is no block.
pub(crate) fn last_packed_seq(connection: &Connection, stream: i64) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT last_seq FROM block WHERE stream = ?1 ORDER BY first_seq DESC LIMIT 1")?
        .query_row([stream], |row| row.get(0))
        .optional()
}
