//! Check of the object index: every segment is complete and names exactly the blocks that hold each object.

use std::path::Path;

use rusqlite::Connection;

use crate::change_indexer::Stream;
use crate::error::{ErrorContext, Result};
use crate::index_schedule::{block_entries, blocks_between};
use crate::index_segment::SegmentId;
use crate::schema;

/// What is wrong with the segments of a stream, as text. Blocks without a segment are not damage.
pub(super) fn check_index(connection: &Connection, path: &Path, stream: &Stream) -> Result<Vec<String>> {
    let doing = "read the object index of";
    let mut findings = Vec::new();
    if !schema::has_object_index(connection).context(doing, path)? {
        return Ok(findings);
    }
    let mut covered_until = i64::MIN;
    for seq in segments(connection, stream.id).context(doing, path)? {
        let id = SegmentId { stream: stream.id, seq };
        let of = format!("the object index of the blocks of {} from change {seq}", stream.kind);
        let (last_seq, entries) = match id.read(connection).context(doing, path)? {
            Ok(segment) => segment,
            Err(why) => {
                findings.push(format!("{of} is damaged: {why}"));
                continue;
            }
        };
        let blocks = blocks_between(connection, path, stream, seq.saturating_sub(1), last_seq, i64::MAX)?;
        let is_exact = seq > covered_until
            && blocks.first().is_some_and(|first| first.first_seq == seq)
            && blocks.last().is_some_and(|last| last.last_seq == last_seq);
        if !is_exact || entries != block_entries(stream, &blocks) {
            findings.push(format!("{of} does not match their object lists"));
        }
        covered_until = covered_until.max(last_seq);
    }
    Ok(findings)
}

/// The ids of streams that the index knows and the history does not.
pub(super) fn unknown_streams(connection: &Connection, path: &Path) -> Result<Vec<i64>> {
    let read = || -> rusqlite::Result<Vec<i64>> {
        if !schema::has_object_index(connection)? {
            return Ok(Vec::new());
        }
        connection
            .prepare(
                "SELECT DISTINCT stream FROM object_index WHERE stream NOT IN (SELECT id FROM stream) ORDER BY 1",
            )?
            .query_map([], |row| row.get(0))?
            .collect()
    };
    read().context("read the object index of", path)
}

/// The first sequence numbers of all segments of a stream.
fn segments(connection: &Connection, stream: i64) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT DISTINCT seq FROM object_index WHERE stream = ?1 ORDER BY 1")?
        .query_map([stream], |row| row.get(0))?
        .collect()
}
