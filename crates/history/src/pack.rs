//! From changes to blocks, and from blocks to keyframes.

use std::collections::HashMap;
use std::path::Path;

use rusqlite::{Connection, OptionalExtension, params};

use crate::counts::StreamCounts;
use crate::error::{Doing, Result};
use crate::frame::{Codec, Pending, Role};
use crate::intake::Stream;
use crate::members;
use crate::state::{Tools, Until, fold};

/// A keyframe is due when the blocks since the last one take so many times the room it will take itself: keyframes
/// then add an eighth at most. Where nothing is ever deleted none is due, and none would help.
const KEYFRAME_EVERY: i64 = 8;
/// Different objects have less in common than versions of one: in the films a version takes twice as much in a
/// keyframe as in a block.
const KEYFRAME_SHARE: i64 = 2;
/// A keyframe is never worth its rows before so many blocks.
const KEYFRAME_BLOCKS: i64 = 4;

/// A block that is packed but not in the file.
pub(crate) struct Block {
    stream: i64,
    first_seq: i64,
    last_seq: i64,
    first_at: i64,
    last_at: i64,
    changes: usize,
    /// Objects added less objects deleted.
    births: i64,
    raw: usize,
    members: Vec<u8>,
    frame: Vec<u8>,
}

/// One part of a keyframe that is packed but not in the file.
pub(crate) struct KeyframePart {
    objects: usize,
    members: Vec<u8>,
    frame: Vec<u8>,
}

/// When each stream's next keyframe is due.
#[derive(Default)]
pub(crate) struct KeyframeClock {
    streams: HashMap<i64, Due>,
}

#[derive(Clone, Copy, Default)]
struct Due {
    /// Blocks and their bytes since the last keyframe.
    blocks: i64,
    bytes: i64,
    /// Objects alive, more or less.
    alive: i64,
}

// === impl Block ===

impl Block {
    /// Packs changes that follow each other in one stream; there must be some.
    pub(crate) fn pack(codec: &mut Codec, stream: &Stream, pending: &Pending) -> Block {
        let (first, last) = match &pending.rows[..] {
            [first, .., last] => (first, last),
            [only] => (only, only),
            [] => unreachable!("a block of no changes is never asked for"),
        };
        debug_assert!(pending.rows.is_sorted_by_key(|row| (row.seq, row.at)));
        Block {
            stream: stream.id,
            first_seq: first.seq,
            last_seq: last.seq,
            first_at: first.at.nanos(),
            last_at: last.at.nanos(),
            changes: pending.rows.len(),
            births: pending.rows.iter().map(|row| row.code.birth()).sum(),
            raw: pending.text.len(),
            members: members::encode(&members::members(&pending.rows)),
            frame: codec.pack(Role::Changes, &stream.source, &stream.kind, pending),
        }
    }

    /// Puts it in the file.
    pub(crate) fn insert(&self, connection: &Connection, path: &Path) -> Result<()> {
        let frame = insert_frame(connection, &self.frame).doing("write a frame to", path)?;
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
            .doing("write a block to", path)
    }

    fn counts(&self) -> StreamCounts {
        StreamCounts {
            changes: self.changes as i64,
            raw: self.raw as i64,
            packed: self.packed(),
            ..StreamCounts::default()
        }
    }

    /// Takes the rows it was packed from out of the file.
    pub(crate) fn remove_rows(&self, connection: &Connection, path: &Path) -> Result<()> {
        let packed = params![self.stream, self.first_seq, self.last_seq];
        remove_rows(connection, self.stream, "seq BETWEEN ?2 AND ?3", packed).doing("pack", path)?;
        Ok(())
    }

    /// The number of its first change, by which the file knows it.
    pub(crate) fn first_seq(&self) -> i64 {
        self.first_seq
    }

    /// The number and the moment of its last change.
    pub(crate) fn end(&self) -> (i64, i64) {
        (self.last_seq, self.last_at)
    }

    fn packed(&self) -> i64 {
        self.frame.len() as i64
    }
}

// === impl KeyframePart ===

impl KeyframePart {
    fn pack(codec: &mut Codec, stream: &Stream, pending: &Pending) -> KeyframePart {
        KeyframePart {
            objects: pending.rows.len(),
            members: members::encode(&members::members(&pending.rows)),
            frame: codec.pack(Role::Keyframe, &stream.source, &stream.kind, pending),
        }
    }
}

// === impl KeyframeClock ===

impl KeyframeClock {
    /// Counts a block that is about to be put in the file; says whether a keyframe is due behind it.
    pub(crate) fn tick(
        &mut self,
        connection: &Connection,
        path: &Path,
        tools: &mut Tools,
        stream: &Stream,
        block: &Block,
    ) -> Result<bool> {
        let due = match self.streams.get_mut(&stream.id) {
            Some(due) => due,
            None => {
                let (blocks, bytes) =
                    since_keyframe(connection, stream.id).doing("read the blocks of", path)?;
                let state = fold(connection, path, tools, stream, Until::Seq(i64::MAX), None)?;
                let alive = state.frames.iter().map(|(_, places)| places.len() as i64).sum();
                self.streams.entry(stream.id).or_insert(Due { blocks, bytes, alive })
            }
        };
        due.blocks += 1;
        due.bytes += block.packed();
        due.alive = (due.alive + block.births).max(0);
        let estimate = due.alive * KEYFRAME_SHARE * block.packed() / block.changes as i64;
        Ok(due.blocks >= KEYFRAME_BLOCKS && due.bytes >= KEYFRAME_EVERY * estimate)
    }

    /// Starts anew behind a keyframe of so many objects.
    pub(crate) fn reset(&mut self, stream: &Stream, parts: &[KeyframePart]) {
        let alive = parts.iter().map(|part| part.objects as i64).sum();
        self.streams.insert(stream.id, Due { blocks: 0, bytes: 0, alive });
    }
}

/// The state of a stream after change `seq`, which ends a block, packed.
pub(crate) fn keyframe(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    seq: i64,
) -> Result<Vec<KeyframePart>> {
    let places = fold(connection, path, tools, stream, Until::Seq(seq), None)?;
    let (mut codec, mut parts, mut pending) = (Codec::new(), Vec::new(), Pending::default());
    tools.versions(connection, path, stream, &places, |row, text| {
        pending.push(*row, text);
        if pending.is_full() {
            parts.push(KeyframePart::pack(&mut codec, stream, &std::mem::take(&mut pending)));
        }
    })?;
    // An empty state is a state too: without a part there would be no keyframe.
    if !pending.rows.is_empty() || parts.is_empty() {
        parts.push(KeyframePart::pack(&mut codec, stream, &pending));
    }
    Ok(parts)
}

/// Puts a keyframe in the file.
pub(crate) fn insert_keyframe(
    connection: &Connection,
    path: &Path,
    stream: i64,
    seq: i64,
    at: i64,
    parts: &[KeyframePart],
) -> Result<()> {
    for (part, number) in parts.iter().zip(0i64..) {
        let frame = insert_frame(connection, &part.frame).doing("write a keyframe to", path)?;
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
            .doing("write a keyframe to", path)?;
    }
    let keyframe_packed = parts.iter().map(|part| part.frame.len() as i64).sum();
    StreamCounts { keyframe_packed, ..StreamCounts::default() }
        .add_to(connection, stream)
        .doing("write a keyframe to", path)
}

/// Takes a block and its frame out of the file.
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

/// Takes a keyframe and its frames out of the file.
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

/// Takes rows of a stream out of the file, those for which `condition` holds; says how many.
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

/// How many blocks there are since the last keyframe, and their bytes.
fn since_keyframe(connection: &Connection, stream: i64) -> rusqlite::Result<(i64, i64)> {
    connection.query_row(
        "SELECT count(*), coalesce(sum(packed), 0) FROM block WHERE stream = ?1
         AND first_seq > (SELECT coalesce(max(seq), 0) FROM keyframe WHERE stream = ?1)",
        [stream],
        |row| Ok((row.get(0)?, row.get(1)?)),
    )
}
