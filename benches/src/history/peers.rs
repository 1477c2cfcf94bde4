//! What one would do first: a compressed file, or a table with a row for each change.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use model::IncomingChange;
use rusqlite::{Connection, params};

use crate::Result;

/// What [`sqlite_rows`] is called in the table.
pub(super) const SQLITE: &str = "SQLite rows";
/// What [`zstd_stream`] is called in the table.
pub(super) const ZSTD: &str = "zstd -1";

const LEVEL: i32 = 1;
/// As many changes as our own writer takes into one transaction.
const TRANSACTION: usize = 4096;

/// What a plain table came to.
pub(super) struct Rows {
    pub(super) took: Duration,
    pub(super) bytes: u64,
}

/// A plain table: one row a change, its object compressed by itself, no index, as durable as ours.
pub(super) fn sqlite_rows(path: &Path, changes: &[IncomingChange]) -> Result<Rows> {
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
    // Closing brings what is in the log into the file.
    connection.close().map_err(|(_, error)| error)?;
    let bytes = std::fs::metadata(path)?.len();
    std::fs::remove_file(path)?;
    Ok(Rows { took, bytes })
}

/// The bytes of all objects, one after the other, in one compressed stream: small, but nothing in it can be found.
pub(super) fn zstd_stream(changes: &[IncomingChange]) -> Result<u64> {
    let mut encoder = zstd::Encoder::new(Vec::new(), LEVEL)?;
    for observed in changes {
        encoder.write_all(observed.what.object().as_str().as_bytes())?;
        encoder.write_all(b"\n")?;
    }
    Ok(encoder.finish()?.len() as u64)
}
