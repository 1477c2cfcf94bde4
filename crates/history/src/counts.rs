//! Counts of what each stream holds, updated in the transactions that change it.

use rusqlite::{Connection, OptionalExtension, params};

use crate::schema;

/// Counts of a stream, or a change of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamCounts {
    /// Changes in blocks, the bytes of their objects, and the bytes of their frames.
    pub(crate) changes: i64,
    pub(crate) raw: i64,
    pub(crate) packed: i64,
    /// Bytes of the frames of keyframes.
    pub(crate) keyframe_packed: i64,
    /// Changes that are not packed yet, and the bytes of their objects.
    pub(crate) rows: i64,
    pub(crate) row_raw: i64,
    /// Object names in the directory, and how many of them are alive.
    pub(crate) objects: i64,
    pub(crate) alive: i64,
}

// === impl StreamCounts ===

impl StreamCounts {
    /// Adds these to the stored counts of a stream.
    pub(crate) fn add_to(&self, connection: &Connection, stream: i64) -> rusqlite::Result<()> {
        if *self == StreamCounts::default() {
            return Ok(());
        }
        connection
            .prepare_cached(
                "INSERT INTO stream_count
                     (stream, changes, raw, packed, keyframe_packed, rows, row_raw, objects, alive)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
                 ON CONFLICT (stream) DO UPDATE SET
                     changes = changes + excluded.changes,
                     raw = raw + excluded.raw,
                     packed = packed + excluded.packed,
                     keyframe_packed = keyframe_packed + excluded.keyframe_packed,
                     rows = rows + excluded.rows,
                     row_raw = row_raw + excluded.row_raw,
                     objects = objects + excluded.objects,
                     alive = alive + excluded.alive",
            )?
            .execute(params![
                stream,
                self.changes,
                self.raw,
                self.packed,
                self.keyframe_packed,
                self.rows,
                self.row_raw,
                self.objects,
                self.alive
            ])?;
        Ok(())
    }

    /// The counts of a stream. A file of schema version 1 stores none: there they are computed.
    pub(crate) fn of(connection: &Connection, stream: i64) -> rusqlite::Result<StreamCounts> {
        match schema::has_stream_counts(connection)? {
            true => StreamCounts::stored(connection, stream),
            false => StreamCounts::recount(connection, stream),
        }
    }

    /// The stored counts of a stream.
    pub(crate) fn stored(connection: &Connection, stream: i64) -> rusqlite::Result<StreamCounts> {
        let counts = connection
            .prepare_cached(
                "SELECT changes, raw, packed, keyframe_packed, rows, row_raw, objects, alive
                 FROM stream_count WHERE stream = ?1",
            )?
            .query_row([stream], |row| {
                Ok(StreamCounts {
                    changes: row.get(0)?,
                    raw: row.get(1)?,
                    packed: row.get(2)?,
                    keyframe_packed: row.get(3)?,
                    rows: row.get(4)?,
                    row_raw: row.get(5)?,
                    objects: row.get(6)?,
                    alive: row.get(7)?,
                })
            })
            .optional()?;
        Ok(counts.unwrap_or_default())
    }

    /// The counts computed from the tables, in time linear in the size of the stream.
    pub(crate) fn recount(connection: &Connection, stream: i64) -> rusqlite::Result<StreamCounts> {
        let numbers = |sql: &str| {
            connection
                .prepare_cached(sql)?
                .query_row([stream], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        };
        let (changes, raw, packed) = numbers(
            "SELECT coalesce(sum(changes), 0), coalesce(sum(raw), 0), coalesce(sum(packed), 0)
             FROM block WHERE stream = ?1",
        )?;
        let (keyframe_packed, _, _): (i64, i64, i64) =
            numbers("SELECT coalesce(sum(packed), 0), 0, 0 FROM keyframe WHERE stream = ?1")?;
        let (rows, row_raw, _): (i64, i64, i64) =
            numbers("SELECT count(*), coalesce(sum(length), 0), 0 FROM change WHERE stream = ?1")?;
        let (objects, alive, _): (i64, i64, i64) =
            numbers("SELECT count(*), count(*) - count(ended_at), 0 FROM object WHERE stream = ?1")?;
        Ok(StreamCounts { changes, raw, packed, keyframe_packed, rows, row_raw, objects, alive })
    }
}
