//! Forgetting: the state at a moment becomes the beginning.

use std::collections::HashMap;
use std::path::Path;

use model::Moment;
use rusqlite::{Connection, params};

use crate::error::{Doing, Error, Result};
use crate::frame::{Codec, Pending, Row};
use crate::history::History;
use crate::intake::{Intake, Stream, streams};
use crate::lock::WriterLock;
use crate::pack::Block;
use crate::packer::remove_block;
use crate::schema::{self, Safety};
use crate::state::{Places, Tools, Until, fold_changes};

/// What pruning did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    /// The new beginning: the moment asked for, or the end of the history if that was earlier.
    pub begins: Moment,
    /// Changes before and after.
    pub changes: (u64, u64),
    /// Bytes of the file before and after.
    pub bytes: (u64, u64),
}

/// How much of a history is kept, at least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retention {
    /// The past, in nanoseconds; `None`: all.
    pub nanos: Option<i64>,
    /// Bytes of the file; `None`: as many as there are.
    pub bytes: Option<u64>,
}

/// Forgets what was before `moment`: every later moment shows what it did, and each object that was alive keeps its
/// last version as it was recorded.
pub fn prune(path: &Path, moment: Moment) -> Result<Pruned> {
    forget_before(path, moment, |connection| {
        // Without this the file keeps its size, and what was forgotten could be dug up.
        connection.execute_batch("VACUUM").doing("compact", path)
    })
}

/// Forgets like [`prune`], but without writing the whole file anew: for a history that is being recorded. What was
/// forgotten is overwritten with zeros, and the file shrinks by what becomes free at once.
pub fn forget(path: &Path, moment: Moment) -> Result<Pruned> {
    forget_before(path, moment, |_| Ok(()))
}

fn forget_before(
    path: &Path,
    moment: Moment,
    compact: impl FnOnce(&Connection) -> Result<()>,
) -> Result<Pruned> {
    if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    let _lock = WriterLock::take(path)?;
    let connection = schema::open_writable(path, Safety::Durable)?;
    let bytes_before = size(path)?;
    let doing = "prune";
    connection.execute_batch("PRAGMA secure_delete = ON").doing(doing, path)?;
    let changes_before = count(&connection).doing(doing, path)?;
    connection.execute_batch("BEGIN IMMEDIATE").doing(doing, path)?;
    let end: Option<i64> =
        connection.query_row("SELECT max(last_at) FROM source", [], |row| row.get(0)).doing(doing, path)?;
    let begins = end.map_or(moment, |end| moment.min(Moment::from_nanos(end)));
    if end.is_some() {
        let last_seq = Intake::open(&connection, path)?.last_seq();
        let mut tools = Tools::new();
        for stream in streams(&connection, path)? {
            prune_stream(&connection, path, &mut tools, &stream, begins)?;
        }
        prune_tables(&connection, begins, last_seq).doing(doing, path)?;
    }
    connection.execute_batch("COMMIT").doing(doing, path)?;
    compact(&connection)?;
    let changes_after = count(&connection).doing(doing, path)?;
    schema::close(connection, path)?;
    Ok(Pruned { begins, changes: (changes_before, changes_after), bytes: (bytes_before, size(path)?) })
}

// === impl Retention ===

impl Retention {
    /// A retention is kept to when it is exceeded by a tenth, not by every change.
    const SLACK: i64 = 10;

    /// Where a history should begin because of its age. `None`: it may stay as it is.
    pub fn by_age(&self, history: &History, now: Moment) -> Result<Option<Moment>> {
        let Some(nanos) = self.nanos else { return Ok(None) };
        let Some((begins, end)) = beginning_and_end(history)? else { return Ok(None) };
        let wanted = now.plus_nanos(nanos.saturating_neg()).min(end);
        Ok((wanted.nanos_since(begins) > nanos / Retention::SLACK).then_some(wanted))
    }

    /// Where a history should begin because of its size. `None`: it may stay as it is.
    pub fn by_size(&self, history: &History) -> Result<Option<Moment>> {
        let Some(bytes) = self.bytes else { return Ok(None) };
        let Some((begins, end)) = beginning_and_end(history)? else { return Ok(None) };
        let used = history.used_bytes()?;
        if used <= bytes {
            return Ok(None);
        }
        let too_many = used - (bytes - bytes / Retention::SLACK.cast_unsigned());
        let moment = history.end_of_first(too_many, begins)?.map(|moment| moment.min(end));
        Ok(moment.filter(|moment| *moment > begins))
    }
}

/// The first moment that can be shown, of whichever source, and the last.
fn beginning_and_end(history: &History) -> Result<Option<(Moment, Moment)>> {
    let pruned_to = history.pruned_to()?;
    // A source that ended before it would seem to begin there for ever.
    Ok(history.span()?.map(|(begins, end)| (pruned_to.map_or(begins, |moment| moment.max(begins)), end)))
}

/// Takes out what of a stream was up to and at `begins`, but for the last version of each object alive then.
///
/// Block by block, in order of arrival: each is read and removed, and what stays of it goes into a new one. So no more
/// than two blocks are in memory, however large the cluster is.
fn prune_stream(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    begins: Moment,
) -> Result<()> {
    let doing = "prune";
    let places = fold_changes(connection, path, tools, stream, Until::Moment(begins))?;
    let rows = Places { frames: Vec::new(), rows: places.rows };
    let mut alive: HashMap<i64, Vec<u32>> = places.frames.into_iter().collect();
    let mut remains =
        Remains { stream, codec: Codec::new(), pending: Pending::default(), blocks: Vec::new() };
    for Old { first_seq, frame: id, is_across } in
        old_blocks(connection, stream.id, begins).doing(doing, path)?
    {
        let mut stays = alive.remove(&id).unwrap_or_default();
        if !stays.is_empty() || is_across {
            let frame = tools.frame(connection, path, id)?;
            let later = (0u32..).zip(&frame.rows).filter(|(_, row)| row.at > begins);
            stays.extend(later.map(|(place, _)| place));
            tools.texts(path, id, &frame, &stays, |row, text| remains.push(row, text))?;
        }
        // Before the new ones come, which may begin where it began.
        remove_block(connection, stream.id, first_seq).doing(doing, path)?;
        remains.insert(connection, path)?;
    }
    tools.versions(connection, path, stream, &rows, |row, text| remains.push(row, text))?;
    remains.close();
    remains.insert(connection, path)?;
    remove_before(connection, stream.id, begins).doing(doing, path)
}

/// A block that begins before the history will.
struct Old {
    first_seq: i64,
    frame: i64,
    /// Whether it ends later.
    is_across: bool,
}

/// The old blocks of a stream, in order of arrival.
fn old_blocks(connection: &Connection, stream: i64, begins: Moment) -> rusqlite::Result<Vec<Old>> {
    connection
        .prepare_cached(
            "SELECT first_seq, frame, last_at > ?2 FROM block WHERE stream = ?1 AND first_at <= ?2 ORDER BY first_seq",
        )?
        .query_map(params![stream, begins.nanos()], |row| {
            Ok(Old { first_seq: row.get(0)?, frame: row.get(1)?, is_across: row.get(2)? })
        })?
        .collect()
}

/// What stays, on its way into new blocks.
struct Remains<'a> {
    stream: &'a Stream,
    codec: Codec,
    pending: Pending,
    /// Those that are full.
    blocks: Vec<Block>,
}

// === impl Remains ===

impl Remains<'_> {
    fn push(&mut self, row: &Row, text: &str) {
        self.pending.push(*row, text);
        if self.pending.is_full() {
            self.close();
        }
    }

    fn close(&mut self) {
        if !self.pending.rows.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            self.blocks.push(Block::pack(&mut self.codec, self.stream, &pending));
        }
    }

    fn insert(&mut self, connection: &Connection, path: &Path) -> Result<()> {
        self.blocks.drain(..).try_for_each(|block| block.insert(connection, path))
    }
}

/// Takes out the keyframes and rows of a stream up to and at `begins`.
fn remove_before(connection: &Connection, stream: i64, begins: Moment) -> rusqlite::Result<()> {
    let bounds = params![stream, begins.nanos()];
    for sql in [
        "DELETE FROM frame WHERE id IN (SELECT frame FROM keyframe WHERE stream = ?1 AND at <= ?2)",
        "DELETE FROM keyframe WHERE stream = ?1 AND at <= ?2",
        "DELETE FROM change WHERE stream = ?1 AND at <= ?2",
    ] {
        connection.execute(sql, bounds)?;
    }
    Ok(())
}

fn prune_tables(connection: &Connection, begins: Moment, last_seq: i64) -> rusqlite::Result<()> {
    let begins = begins.nanos();
    connection.execute("DELETE FROM former_life WHERE ended_at <= ?1", [begins])?;
    connection.execute(
        "DELETE FROM object WHERE ended_at <= ?1 AND id NOT IN (SELECT object FROM former_life)",
        [begins],
    )?;
    connection.execute("DELETE FROM gap WHERE to_at <= ?1", [begins])?;
    note_pruned(connection, Moment::from_nanos(begins), last_seq)
}

/// Writes down where the history begins, and which numbers were given out.
pub(crate) fn note_pruned(connection: &Connection, begins: Moment, last_seq: i64) -> rusqlite::Result<()> {
    let begins = begins.nanos();
    connection.execute("UPDATE source SET first_at = min(max(first_at, ?1), last_at)", [begins])?;
    connection.execute(
        "INSERT OR REPLACE INTO setting (name, value) VALUES ('pruned_to', ?1), ('last_seq', ?2)",
        [begins.to_string(), last_seq.to_string()],
    )?;
    Ok(())
}

fn count(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT (SELECT coalesce(sum(changes), 0) FROM block) + (SELECT count(*) FROM change)";
    connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|count| count as u64)
}

fn size(path: &Path) -> Result<u64> {
    std::fs::metadata(path).map(|file| file.len()).doing("read the size of", path)
}
