//! Forgetting: the state at a moment becomes the beginning.

use std::path::Path;

use model::Moment;
use rusqlite::{Connection, params};

use crate::error::{Doing, Error, Result};
use crate::frame::{Pending, Row};
use crate::intake::{Intake, Stream, streams};
use crate::lock::WriterLock;
use crate::pack::Block;
use crate::schema::{self, Safety};
use crate::state::{Tools, Until, fold};

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

/// Forgets what was before `moment`: every later moment shows what it did, and each object that was alive keeps its
/// last version as it was recorded.
pub fn prune(path: &Path, moment: Moment) -> Result<Pruned> {
    if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    let _lock = WriterLock::take(path)?;
    let connection = schema::open_writable(path, Safety::Durable)?;
    let bytes_before = size(path)?;
    let doing = "prune";
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
    // Without this the file keeps its size, and what was forgotten could be dug up.
    connection.execute_batch("VACUUM").doing("compact", path)?;
    let changes_after = count(&connection).doing(doing, path)?;
    schema::close(connection, path)?;
    Ok(Pruned { begins, changes: (changes_before, changes_after), bytes: (bytes_before, size(path)?) })
}

fn prune_stream(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    begins: Moment,
) -> Result<()> {
    let doing = "prune";
    // The last version of each object that is alive, in order of arrival; and what follows in the block across.
    let places = fold(connection, path, tools, stream, Until::Moment(begins), None)?;
    let mut kept: Vec<(Row, String)> = Vec::new();
    tools.versions(connection, path, stream, &places, |row, text| kept.push((*row, text.to_owned())))?;
    let across: Vec<i64> = connection
        .prepare_cached("SELECT frame FROM block WHERE stream = ?1 AND first_at <= ?2 AND last_at > ?2")
        .and_then(|mut select| {
            select.query_map(params![stream.id, begins.nanos()], |row| row.get(0))?.collect()
        })
        .doing(doing, path)?;
    for id in across {
        let frame = tools.frame(connection, path, id)?;
        let later: Vec<u32> =
            (0u32..).zip(&frame.rows).filter(|(_, row)| row.at > begins).map(|(place, _)| place).collect();
        tools.texts(path, id, &frame, &later, |row, text| kept.push((*row, text.to_owned())))?;
    }
    kept.sort_unstable_by_key(|(row, _)| row.seq);

    remove_before(connection, stream.id, begins).doing(doing, path)?;
    let mut pending = Pending::default();
    for (row, text) in &kept {
        pending.push(*row, text);
        if pending.is_full() {
            Block::pack(&mut tools.codec, stream, &std::mem::take(&mut pending)).insert(connection, path)?;
        }
    }
    if !pending.rows.is_empty() {
        Block::pack(&mut tools.codec, stream, &pending).insert(connection, path)?;
    }
    Ok(())
}

/// Takes out everything of a stream that holds changes up to and at `begins`.
fn remove_before(connection: &Connection, stream: i64, begins: Moment) -> rusqlite::Result<()> {
    let bounds = params![stream, begins.nanos()];
    for sql in [
        "DELETE FROM frame WHERE id IN (SELECT frame FROM block WHERE stream = ?1 AND first_at <= ?2)",
        "DELETE FROM block WHERE stream = ?1 AND first_at <= ?2",
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
