//! Pruning in bounded steps, each in its own transaction, between which the history can be written.
//!
//! The first step records the new beginning, before which nothing is shown from then on. The following steps remove
//! what no later moment needs, in an order that keeps the file a correct history after every step: keyframes before
//! the changes they were built from, changes before the names they refer to. An interrupted prune is restarted with
//! the first step.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};

use model::Moment;
use rusqlite::{Connection, OptionalExtension, params};

use crate::change_indexer::{Stream, streams};
use crate::counts::StreamCounts;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{FrameCodec, MAX_FRAME_BYTES, MAX_FRAME_VERSIONS, PendingVersions, VersionRow};
use crate::index_schedule::IndexSchedule;
use crate::index_segment::{self, IndexSegment};
use crate::pack::{Block, remove_block, remove_keyframe, remove_rows};
use crate::stream_state::{ReadPoint, VersionLocations, VersionReader, locate_state_from_changes};

/// Maximum number of blocks removed by one step.
const MAX_STEP_BLOCKS: usize = if cfg!(test) { 3 } else { 32 };
/// A step ends when the frames it removes reach this many bytes, because the write-ahead log has to hold them.
const MAX_STEP_BYTES: i64 = 1 << 20;
/// Number of names examined by one step.
const MAX_STEP_NAMES: usize = if cfg!(test) { 3 } else { 4096 };

const PRUNED_TO: &str = "pruned_to";
const LAST_SEQ: &str = "last_seq";
/// The beginning of the prune in progress; the last step deletes it.
const PRUNING: &str = "forgetting";

/// A prune in progress.
pub struct PruneHandle {
    answer: Receiver<Result<Moment>>,
}

/// The work of one transaction.
pub(crate) enum PruneStep {
    /// Records that nothing before this moment is shown any more.
    Begin(Moment),
    Keyframe {
        stream: i64,
        seq: i64,
    },
    Blocks {
        stream: i64,
        /// First sequence numbers of the blocks to remove.
        old: Vec<i64>,
        /// New blocks with the changes that are kept.
        new: Vec<Block>,
        /// Rows up to and including this moment are removed too.
        rows_until: Option<Moment>,
    },
    /// Writes an index segment that the removal of blocks made necessary.
    IndexSegment(IndexSegment),
    /// Former incarnations, by rowid.
    FormerIncarnations(Vec<i64>),
    /// Names without a live object.
    Names(Vec<UnusedName>),
    /// Completes the prune.
    End(Moment),
}

/// A directory entry to remove.
pub(crate) struct UnusedName {
    object: i64,
    stream: i64,
    ended_at: i64,
}

/// The moment up to which each stream is pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PruneBound {
    /// Up to and including the new beginning: there is no concurrent writer.
    AtNewBeginning,
    /// Before the last moment of its source, if that is earlier than the new beginning: changes that arrive meanwhile
    /// are never earlier than that moment.
    BehindWriter,
}

// === impl PruneHandle ===

impl PruneHandle {
    pub(crate) fn new(reply: Receiver<Result<Moment>>) -> PruneHandle {
        PruneHandle { answer: reply }
    }

    /// Waits until the prune is complete. Returns the new beginning.
    pub fn wait(self) -> Result<Moment> {
        self.answer.recv().unwrap_or_else(|_| Err(Error::writer_ended()))
    }

    /// The result; `None` while the prune is in progress.
    pub fn outcome(&self) -> Option<Result<Moment>> {
        match self.answer.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Error::writer_ended())),
        }
    }
}

// === impl PruneStep ===

impl PruneStep {
    /// Applies it, within a transaction. `last_seq` is the last sequence number assigned. Returns the stream and the
    /// number of rows deleted from `change`, if any could have been deleted.
    pub(crate) fn apply(
        &self,
        connection: &Connection,
        path: &Path,
        last_seq: i64,
    ) -> Result<Option<(i64, usize)>> {
        let doing = "prune";
        match self {
            PruneStep::Begin(new_start) => {
                record_pruning(connection, *new_start, last_seq)
                    .and_then(|()| write_setting(connection, PRUNING, new_start.nanos()))
                    .context(doing, path)?;
            }
            PruneStep::Keyframe { stream, seq } => {
                remove_keyframe(connection, *stream, *seq).context(doing, path)?;
            }
            PruneStep::Blocks { stream, old, new, rows_until } => {
                // All segments up to the last block are removed, so that even a damaged one cannot remain and hide the
                // new blocks. They are written again when all blocks of the stream are pruned.
                if let Some(last) = old.iter().max() {
                    index_segment::remove_until(connection, *stream, *last).context(doing, path)?;
                }
                // Removed first, because new blocks may have the same first sequence number.
                for first_seq in old {
                    remove_block(connection, *stream, *first_seq).context(doing, path)?;
                }
                new.iter().try_for_each(|block| block.insert(connection, path))?;
                if let Some(until) = rows_until {
                    let bounds = params![stream, until.nanos()];
                    let rows = remove_rows(connection, *stream, "at <= ?2", bounds).context(doing, path)?;
                    return Ok(Some((*stream, rows)));
                }
            }
            PruneStep::IndexSegment(segment) => segment.insert(connection).context(doing, path)?,
            PruneStep::FormerIncarnations(ids) => {
                let remove = || -> rusqlite::Result<()> {
                    let mut delete = connection.prepare_cached("DELETE FROM former_life WHERE rowid = ?1")?;
                    ids.iter().try_for_each(|id| delete.execute([id]).map(|_| ()))
                };
                remove().context(doing, path)?;
            }
            PruneStep::Names(names) => {
                names.iter().try_for_each(|name| name.remove(connection)).context(doing, path)?;
            }
            PruneStep::End(new_start) => {
                let end = || -> rusqlite::Result<()> {
                    connection.execute("DELETE FROM gap WHERE to_at <= ?1", [new_start.nanos()])?;
                    connection.execute("DELETE FROM setting WHERE name = ?1", [PRUNING])?;
                    Ok(())
                };
                end().context(doing, path)?;
            }
        }
        Ok(None)
    }
}

// === impl UnusedName ===

impl UnusedName {
    /// Removes it, unless it has been used again since it was found.
    fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        let removed = connection
            .prepare_cached(
                "DELETE FROM object WHERE id = ?1 AND ended_at = ?2
                 AND NOT EXISTS (SELECT 1 FROM former_life WHERE object = ?1)",
            )?
            .execute([self.object, self.ended_at])?;
        StreamCounts { objects: -(removed as i64), ..StreamCounts::default() }.add_to(connection, self.stream)
    }
}

/// Prunes everything before `moment`: calls `step` with each step, which must be applied when it returns. Returns the
/// new beginning: `moment`, or the end of the history if that is earlier, but never earlier than the previous
/// beginning.
pub(crate) fn run_prune(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    moment: Moment,
    bound: PruneBound,
    step: &mut dyn FnMut(PruneStep) -> Result<()>,
) -> Result<Moment> {
    let doing = "prune";
    let read = || -> rusqlite::Result<_> {
        let end: Option<i64> =
            connection.query_row("SELECT max(last_at) FROM source", [], |row| row.get(0))?;
        Ok((end, read_setting(connection, PRUNED_TO)?, read_setting(connection, PRUNING)?))
    };
    let (end, pruned_to, unfinished) = read().context(doing, path)?;
    let Some(end) = end else { return Ok(moment) };
    let cutoff = moment.nanos().min(end);
    if unfinished.is_none() && pruned_to.is_some_and(|pruned_to| pruned_to >= cutoff) {
        return Ok(Moment::from_nanos(pruned_to.unwrap_or(cutoff)));
    }
    let new_start = Moment::from_nanos(pruned_to.map_or(cutoff, |pruned_to| pruned_to.max(cutoff)));
    step(PruneStep::Begin(new_start))?;
    let stream_bounds = prune_bounds(connection, path, new_start, bound)?;
    for (stream, until) in &stream_bounds {
        prune_stream(connection, path, reader, stream, *until, step)?;
        let mut schedule = IndexSchedule::default();
        while let Some(segment) = schedule.next_segment(connection, path, stream)? {
            step(PruneStep::IndexSegment(segment))?;
        }
    }
    let untils: HashMap<i64, i64> =
        stream_bounds.iter().map(|(stream, until)| (stream.id, until.nanos())).collect();
    prune_former_incarnations(connection, path, &untils, step)?;
    prune_names(connection, path, &untils, step)?;
    step(PruneStep::End(new_start))?;
    Ok(new_start)
}

/// The beginning of a prune that was interrupted.
pub(crate) fn unfinished_prune(connection: &Connection) -> rusqlite::Result<Option<Moment>> {
    Ok(read_setting(connection, PRUNING)?.map(Moment::from_nanos))
}

/// Records the beginning of the history and the last sequence number assigned.
pub(crate) fn record_pruning(
    connection: &Connection,
    new_start: Moment,
    last_seq: i64,
) -> rusqlite::Result<()> {
    let nanos = new_start.nanos();
    connection.execute("UPDATE source SET first_at = min(max(first_at, ?1), last_at)", [nanos])?;
    write_setting(connection, PRUNED_TO, nanos)?;
    write_setting(connection, LAST_SEQ, last_seq)
}

fn write_setting(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)",
        params![name, value.to_string()],
    )?;
    Ok(())
}

fn read_setting(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .query_row("SELECT CAST(value AS INTEGER) FROM setting WHERE name = ?1", [name], |row| row.get(0))
        .optional()
}

/// All streams, with the moment up to and including which each is pruned.
fn prune_bounds(
    connection: &Connection,
    path: &Path,
    new_start: Moment,
    bound: PruneBound,
) -> Result<Vec<(Stream, Moment)>> {
    // Streams are read before the ends of their sources, so that each source is found.
    let streams = streams(connection, path)?;
    let read = || -> rusqlite::Result<HashMap<String, i64>> {
        connection
            .prepare("SELECT name, last_at FROM source WHERE last_at IS NOT NULL")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    let end_by_source = read().context("prune", path)?;
    let until = |stream: &Stream| match bound {
        PruneBound::AtNewBeginning => Some(new_start),
        PruneBound::BehindWriter => end_by_source
            .get(&*stream.source)
            .map(|end| new_start.min(Moment::from_nanos(*end).plus_nanos(-1))),
    };
    Ok(streams.into_iter().filter_map(|stream| until(&stream).map(|until| (stream, until))).collect())
}

/// Removes the changes of a stream up to and including `until`, except the last version of each object alive then.
///
/// Works block by block, in order of arrival: the changes to keep are copied into new blocks. So no more than two
/// blocks are unpacked in memory, however large the cluster is.
fn prune_stream(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    stream: &Stream,
    until: Moment,
    step: &mut dyn FnMut(PruneStep) -> Result<()>,
) -> Result<()> {
    let doing = "prune";
    for seq in old_keyframes(connection, stream.id, until).context(doing, path)? {
        step(PruneStep::Keyframe { stream: stream.id, seq })?;
    }
    let locations = locate_state_from_changes(connection, path, reader, stream, ReadPoint::Moment(until))?;
    let rows = VersionLocations { frames: Vec::new(), rows: locations.rows };
    let mut alive: HashMap<i64, Vec<u32>> = locations.frames.into_iter().collect();
    let mut rewriter = BlockRewriter::new(stream);
    for old in old_blocks(connection, stream.id, until).context(doing, path)? {
        let mut kept_indexes = alive.remove(&old.frame).unwrap_or_default();
        if !kept_indexes.is_empty() || old.ends_later {
            let frame = reader.read_frame(connection, path, old.frame)?;
            let later = (0u32..).zip(&frame.rows).filter(|(_, row)| row.at > until);
            kept_indexes.extend(later.map(|(index, _)| index));
            if kept_indexes.len() == frame.rows.len() && !old.is_small {
                // All of it is kept in place.
                rewriter.close_block();
                continue;
            }
            reader
                .read_objects(path, old.frame, &frame, &kept_indexes, |row, text| rewriter.push(row, text))?;
        }
        rewriter.mark_removed(&old);
        if rewriter.is_step_full() {
            rewriter.next_step(None).map_or(Ok(()), &mut *step)?;
        }
    }
    let has_rows = has_old_rows(connection, stream.id, until).context(doing, path)?;
    reader.read_versions(connection, path, stream, &rows, |row, text| rewriter.push(row, text))?;
    rewriter.next_step(has_rows.then_some(until)).map_or(Ok(()), step)
}

/// A block that begins before the new beginning.
struct OldBlock {
    first_seq: i64,
    frame: i64,
    packed: i64,
    /// Whether it ends after the new beginning.
    ends_later: bool,
    /// Whether it is small enough to be merged with others.
    is_small: bool,
}

/// Blocks that begin up to `until`, in order of arrival.
fn old_blocks(connection: &Connection, stream: i64, until: Moment) -> rusqlite::Result<Vec<OldBlock>> {
    connection
        .prepare_cached(
            "SELECT first_seq, frame, packed, last_at > ?2, changes <= ?3 AND raw <= ?4
             FROM block WHERE stream = ?1 AND first_at <= ?2 ORDER BY first_seq",
        )?
        .query_map(
            params![stream, until.nanos(), MAX_FRAME_VERSIONS as i64 / 2, MAX_FRAME_BYTES as i64 / 2],
            |row| {
                Ok(OldBlock {
                    first_seq: row.get(0)?,
                    frame: row.get(1)?,
                    packed: row.get(2)?,
                    ends_later: row.get(3)?,
                    is_small: row.get(4)?,
                })
            },
        )?
        .collect()
}

fn old_keyframes(connection: &Connection, stream: i64, until: Moment) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT DISTINCT seq FROM keyframe WHERE stream = ?1 AND at <= ?2 ORDER BY seq")?
        .query_map(params![stream, until.nanos()], |row| row.get(0))?
        .collect()
}

fn has_old_rows(connection: &Connection, stream: i64, until: Moment) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM change WHERE stream = ?1 AND at <= ?2)")?
        .query_row(params![stream, until.nanos()], |row| row.get(0))
}

fn prune_former_incarnations(
    connection: &Connection,
    path: &Path,
    untils: &HashMap<i64, i64>,
    step: &mut dyn FnMut(PruneStep) -> Result<()>,
) -> Result<()> {
    let sql = "SELECT former_life.rowid, object.stream, former_life.ended_at
               FROM former_life JOIN object ON object.id = former_life.object
               WHERE former_life.rowid > ?1 ORDER BY former_life.rowid LIMIT ?2";
    for_each_ended(connection, path, sql, untils, |old| {
        step(PruneStep::FormerIncarnations(old.into_iter().map(|name| name.object).collect()))
    })
}

fn prune_names(
    connection: &Connection,
    path: &Path,
    untils: &HashMap<i64, i64>,
    step: &mut dyn FnMut(PruneStep) -> Result<()>,
) -> Result<()> {
    let sql = "SELECT id, stream, ended_at FROM object WHERE id > ?1 ORDER BY id LIMIT ?2";
    for_each_ended(connection, path, sql, untils, |old| step(PruneStep::Names(old)))
}

/// Scans a table of incarnations by rowid; passes on those that ended before their stream's bound.
fn for_each_ended(
    connection: &Connection,
    path: &Path,
    sql: &str,
    untils: &HashMap<i64, i64>,
    mut each: impl FnMut(Vec<UnusedName>) -> Result<()>,
) -> Result<()> {
    let mut after = i64::MIN;
    loop {
        let read = || -> rusqlite::Result<Vec<(i64, i64, Option<i64>)>> {
            connection
                .prepare_cached(sql)?
                .query_map(params![after, MAX_STEP_NAMES as i64], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?
                .collect()
        };
        let found = read().context("prune", path)?;
        let Some((last, ..)) = found.last() else { return Ok(()) };
        after = *last;
        let old = found.into_iter().filter_map(|(object, stream, ended_at)| {
            let until = untils.get(&stream)?;
            Some(UnusedName { object, stream, ended_at: ended_at.filter(|end| end <= until)? })
        });
        let old: Vec<UnusedName> = old.collect();
        if !old.is_empty() {
            each(old)?;
        }
    }
}

/// Copies the changes of a stream that are kept into new blocks.
struct BlockRewriter<'a> {
    stream: &'a Stream,
    codec: FrameCodec,
    pending: PendingVersions,
    /// The block to which the last step wrote the pending changes, and their number then.
    written: Option<(i64, usize)>,
    /// For the next step.
    old: Vec<i64>,
    new: Vec<Block>,
    bytes: i64,
}

// === impl BlockRewriter ===

impl<'a> BlockRewriter<'a> {
    fn new(stream: &'a Stream) -> BlockRewriter<'a> {
        BlockRewriter {
            stream,
            codec: FrameCodec::new(),
            pending: PendingVersions::default(),
            written: None,
            old: Vec::new(),
            new: Vec::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, row: &VersionRow, text: &str) {
        self.pending.push(*row, text);
        if self.pending.is_full() {
            self.close_block();
        }
    }

    /// Marks a block for removal, after its changes to keep were pushed.
    fn mark_removed(&mut self, old: &OldBlock) {
        self.old.push(old.first_seq);
        self.bytes += old.packed;
    }

    fn is_step_full(&self) -> bool {
        self.old.len() >= MAX_STEP_BLOCKS || self.bytes >= MAX_STEP_BYTES
    }

    /// Closes the block being filled.
    fn close_block(&mut self) {
        self.pack_pending();
        self.pending = PendingVersions::default();
        self.written = None;
    }

    /// Packs the pending changes into a new block, replacing the one that already contains part of them.
    fn pack_pending(&mut self) {
        let rows = self.pending.rows.len();
        if rows == 0 || self.written.is_some_and(|(_, written)| written == rows) {
            return;
        }
        self.old.extend(self.written.map(|(first_seq, _)| first_seq));
        let block = Block::pack(&mut self.codec, self.stream, &self.pending);
        self.written = Some((block.first_seq(), rows));
        self.new.push(block);
    }

    /// The next step, if there is anything to do. It writes everything pushed so far; changes that do not fill a
    /// block stay pending and are written again together with later ones.
    fn next_step(&mut self, rows_until: Option<Moment>) -> Option<PruneStep> {
        self.pack_pending();
        if self.old.is_empty() && self.new.is_empty() && rows_until.is_none() {
            return None;
        }
        self.bytes = 0;
        Some(PruneStep::Blocks {
            stream: self.stream.id,
            old: std::mem::take(&mut self.old),
            new: std::mem::take(&mut self.new),
            rows_until,
        })
    }
}
