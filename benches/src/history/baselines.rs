//! Baselines for the history file: a compressed stream, and a table with a row for each change.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use model::IncomingChange;
use rusqlite::{Connection, params};

use crate::Result;

/// The name of [`sqlite_rows`] in the results.
pub(super) const SQLITE: &str = "SQLite rows";
/// The name of [`zstd_stream`] in the results.
pub(super) const ZSTD: &str = "zstd -1";

const LEVEL: i32 = 1;
/// The number of changes per transaction, as in our own writer.
const TRANSACTION: usize = 4096;

/// The time and size of a plain table.
pub(super) struct TableResult {
    pub(super) took: Duration,
    pub(super) bytes: u64,
}

/// A plain table: one row per change, its object compressed by itself, no index, as durable as ours.
pub(super) fn sqlite_rows(path: &Path, changes: &[IncomingChange]) -> Result<TableResult> {
    let start = Instant::now();
    let mut connection = Connection::open(path)?;
    connection.execute_batch(
        "PRAGMA journal_mode = WAL;
         PRAGMA synchronous = NORMAL;
         CREATE TABLE change (seq INTEGER PRIMARY KEY, at INTEGER, what TEXT, api_group TEXT, kind TEXT,
                              namespace TEXT, name TEXT, object BLOB);",
    )?;
    let mut compressor = zstd::bulk::Compressor::new(LEVEL)?;
    for chunk in changes.chunks(TRANSACTION) {
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare_cached(
            "INSERT INTO change (at, what, api_group, kind, namespace, name, object) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )?;
        for IncomingChange { seen, key, what, .. } in chunk {
            insert.execute(params![
                seen.nanos(),
                what.event_type(),
                &*key.kind.group,
                &*key.kind.kind,
                &*key.namespace,
                &*key.name,
                compressor.compress(what.object().as_str().as_bytes())?,
            ])?;
        }
        drop(insert);
        transaction.commit()?;
    }
    let took = start.elapsed();
    // Closing moves the log into the file.
    connection.close().map_err(|(_, error)| error)?;
    let bytes = std::fs::metadata(path)?.len();
    std::fs::remove_file(path)?;
    Ok(TableResult { took, bytes })
}

/// The compressed size of all objects in one stream: small, but without random access.
pub(super) fn zstd_stream(changes: &[IncomingChange]) -> Result<u64> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    for observed in changes {
        encoder.write_all(observed.what.object().as_str().as_bytes())?;
        encoder.write_all(b"\n")?;
    }
    Ok(encoder.finish()?.len() as u64)
}
