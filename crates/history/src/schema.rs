//! The file itself: telling ours from others, versions, and how connections are set.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use crate::error::{Doing, Error, Result};

/// `KINE`, in the header of every history.
const APPLICATION_ID: i64 = 0x4b49_4e45;

/// Each step takes a file from the version of its index to the next.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql")];

/// Small pages, because frames of some ten kilobytes fill their last page only in part.
pub(crate) const PAGE_BYTES: usize = 4096;

/// How long a connection waits for another to finish a transaction.
const PATIENCE: Duration = Duration::from_secs(10);

/// More than there are different statements, so that none is ever parsed twice.
const STATEMENTS: usize = 64;

/// KiB of the file that a connection keeps in memory. A process may write many histories for months, and each cache
/// fills up in time; what is not in it the system still has.
const WRITER_CACHE: u32 = 8 << 10;
const READER_CACHE: u32 = 16 << 10;
/// For whoever reads most pages once.
pub(crate) const PACKER_CACHE: u32 = 2 << 10;

/// How a file that is to be written is kept safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Safety {
    /// Every commit survives the death of the process.
    Durable,
    /// Nothing survives: for a file that counts only when it is finished.
    Scratch,
}

/// Opens a history for writing, making or migrating it as needed.
pub(crate) fn open_writable(path: &Path, safety: Safety) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fresh = !path.exists();
    let mut connection = Connection::open_with_flags(path, flags).doing("open", path)?;
    if !fresh && !is_blank(&connection).doing("read", path)? {
        check(&connection, path)?;
    }
    match set_up(&mut connection, path, safety) {
        Ok(()) => Ok(connection),
        Err(error) => {
            drop(connection);
            if fresh {
                // A history of which nothing could be written is none.
                let _ = std::fs::remove_file(path);
            }
            Err(error)
        }
    }
}

/// Whether nothing was ever written: whoever made the file ended before its first transaction did.
fn is_blank(connection: &Connection) -> rusqlite::Result<bool> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0 && pragma("application_id")? == 0 && pragma("user_version")? == 0)
}

fn set_up(connection: &mut Connection, path: &Path, safety: Safety) -> Result<()> {
    let (journal, synchronous) = match safety {
        Safety::Durable => ("WAL", "NORMAL"),
        Safety::Scratch => ("OFF", "OFF"),
    };
    connection.busy_timeout(PATIENCE).doing("open", path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = {PAGE_BYTES};
             PRAGMA auto_vacuum = INCREMENTAL;
             PRAGMA journal_mode = {journal};
             PRAGMA synchronous = {synchronous};
             PRAGMA trusted_schema = OFF;
             PRAGMA cache_size = -{WRITER_CACHE};
             PRAGMA temp_store = MEMORY;"
        ))
        .doing("open", path)?;
    migrate(connection, path)
}

/// Opens a history for reading, also while another process writes it, and from a medium that cannot be written.
pub(crate) fn open_readable(path: &Path) -> Result<Connection> {
    if !path.exists() {
        return Err(Error::Missing(path.to_owned()));
    }
    if path.is_dir() {
        return Err(Error::NotOurs { path: path.to_owned(), why: "it is a folder".to_owned() });
    }
    let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, read).doing("open", path)?;
    connection.busy_timeout(PATIENCE).doing("open", path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    let connection = match check(&connection, path) {
        Ok(()) => connection,
        // A file left in write-ahead mode wants a shared-memory file beside it, which a read-only folder refuses.
        Err(Error::Sqlite { source, .. }) if is_refused(&source) => {
            let log = path
                .with_file_name(format!("{}-wal", path.file_name().unwrap_or_default().to_string_lossy()));
            if log.metadata().is_ok_and(|log| log.len() > 0) {
                return Err(Error::UncleanReadOnly(path.to_owned()));
            }
            let uri = format!("file:{}?immutable=1", uri_path(path));
            let connection =
                Connection::open_with_flags(uri, read | OpenFlags::SQLITE_OPEN_URI).doing("open", path)?;
            check(&connection, path)?;
            connection
        }
        Err(error) => return Err(error),
    };
    // A hostile schema cannot make a view call functions. The file is not mapped: that would hardly be faster, and all
    // of it that was ever read would count as this process's memory.
    connection
        .execute_batch(&format!(
            "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cache_size = -{READER_CACHE};"
        ))
        .doing("open", path)?;
    Ok(connection)
}

/// Closes a written history so that the file is alone: nothing beside it is needed to read it.
pub(crate) fn close(connection: Connection, path: &Path) -> Result<()> {
    let tidy_up = || -> rusqlite::Result<()> {
        // Whoever reads for long is not waited for.
        connection.busy_timeout(Duration::from_millis(100))?;
        // Dictionaries are for rows; when all are packed the next writer learns its own from its first ones.
        connection.execute("DELETE FROM dictionary WHERE NOT EXISTS (SELECT 1 FROM change)", [])?;
        // Rows that were packed leave free pages behind, after a burst more than there are others. SQLite gives back
        // one a step.
        let mut statement = connection.prepare("PRAGMA incremental_vacuum")?;
        let mut pages = statement.query([])?;
        while pages.next()?.is_some() {}
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;")
    };
    // A reader of another process holds on to the log; whoever closes last then finds it. That is no failure.
    match tidy_up() {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {}
        other => other.doing("close", path)?,
    }
    connection.close().map_err(|(_, error)| error).doing("close", path)
}

/// Whether this is a history of a version we know.
fn check(connection: &Connection, path: &Path) -> Result<()> {
    let pragma = |name: &str| -> Result<i64> {
        connection.pragma_query_value(None, name, |row| row.get(0)).doing("read", path)
    };
    let (id, version) = (pragma("application_id")?, pragma("user_version")?);
    if id != APPLICATION_ID {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .doing("read", path)?;
        let why = if tables == 0 { "it is empty" } else { "it is an SQLite file of another program" };
        return Err(Error::NotOurs { path: path.to_owned(), why: why.to_owned() });
    }
    let known = MIGRATIONS.len() as i64;
    if version > known {
        return Err(Error::TooNew { path: path.to_owned(), found: version, known });
    }
    if version < 1 {
        return Err(Error::Damaged { path: path.to_owned(), what: format!("it says version {version}") });
    }
    check_tables(connection, path)
}

/// That every table we query is a table, not a view that someone put in its place.
fn check_tables(connection: &Connection, path: &Path) -> Result<()> {
    const TABLES: [&str; 12] = [
        "block",
        "change",
        "dictionary",
        "former_life",
        "frame",
        "gap",
        "keyframe",
        "namespace",
        "object",
        "position",
        "setting",
        "stream",
    ];
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .doing("read the tables of", path)?;
    let found: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .doing("read the tables of", path)?;
    match TABLES.iter().find(|table| !found.iter().any(|name| name == *table)) {
        Some(table) => {
            Err(Error::NotOurs { path: path.to_owned(), why: format!("it has no table named {table}") })
        }
        None => Ok(()),
    }
}

/// The tables, indexes and views of ours that a file lacks or has otherwise.
pub(crate) fn altered(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let read = |connection: &Connection| -> rusqlite::Result<Vec<(String, Option<String>)>> {
        connection
            .prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    let fresh = Connection::open_in_memory()?;
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in MIGRATIONS.iter().take(usize::try_from(version).unwrap_or(0)) {
        fresh.execute_batch(step)?;
    }
    // Whatever else others have put there is theirs.
    let found = read(connection)?;
    let altered = read(&fresh)?.into_iter().filter(|made| !found.contains(made));
    Ok(altered.map(|(name, _)| name).collect())
}

fn migrate(connection: &mut Connection, path: &Path) -> Result<()> {
    let doing = "migrate";
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).doing(doing, path)?;
    let missing = MIGRATIONS.get(usize::try_from(version).unwrap_or(usize::MAX)..).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction().doing(doing, path)?;
    for step in missing {
        transaction.execute_batch(step).doing(doing, path)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID).doing(doing, path)?;
    transaction.pragma_update(None, "user_version", MIGRATIONS.len() as i64).doing(doing, path)?;
    transaction.commit().doing(doing, path)
}

fn is_refused(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// The characters that mean something in a URI, escaped.
fn uri_path(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}
