//! The file itself: telling ours from others, versions, and how connections are set.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Doing, Error, Result};

/// `KINE`, in the header of every history.
const APPLICATION_ID: i64 = 0x4b49_4e45;

/// Each step takes a file from the version of its index to the next.
const MIGRATIONS: &[&str] = &[include_str!("schema.sql"), include_str!("schema_2.sql")];

/// The first version that keeps counts.
const COUNTS_VERSION: i64 = 2;

/// Small pages, because frames of some ten kilobytes fill their last page only in part.
pub(crate) const PAGE_BYTES: usize = 4096;

/// How long a connection waits for another to finish a transaction.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

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
    let fresh = !exists(path)?;
    if fresh {
        make_private(path)?;
    }
    let open = || -> Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags).doing("open", path)?;
        if !fresh && !is_blank(&connection).doing("read", path)? {
            check(&connection, path)?;
        }
        set_up(&mut connection, path, safety)?;
        Ok(connection)
    };
    let opened = open();
    if opened.is_err() && fresh {
        // A history of which nothing could be written is none.
        let _ = std::fs::remove_file(path);
    }
    opened
}

/// Whether there is a file. An error is no "no": the disk may have failed, and whoever believes that there is nothing may
/// put something in its place.
pub fn exists(path: &Path) -> Result<bool> {
    path.try_exists().doing("look for", path)
}

/// Makes an empty file that only its owner can read, unless there is one. SQLite gives what it puts beside a file the
/// rights of the file.
pub(crate) fn make_private(path: &Path) -> Result<()> {
    let mut options = File::options();
    match private(options.write(true).create_new(true)).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error).doing("make", path),
        _ => Ok(()),
    }
}

/// What is made so is its owner's alone.
pub(crate) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
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
    if !exists(path)? {
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
        // Rows that were packed leave free pages behind, after a burst more than there are others.
        give_back(&connection, free_pages(&connection)?)?;
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;")
    };
    // A reader of another process holds on to the log; whoever closes last then finds it. That is no failure.
    match tidy_up() {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {}
        other => other.doing("close", path)?,
    }
    connection.close().map_err(|(_, error)| error).doing("close", path)
}

/// Pages of the file that hold nothing.
pub(crate) fn free_pages(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
}

/// Makes the file shorter by so many of its free pages.
pub(crate) fn give_back(connection: &Connection, pages: i64) -> rusqlite::Result<()> {
    if pages <= 0 {
        return Ok(());
    }
    // SQLite gives back one a step.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut given = statement.query([])?;
    while given.next()?.is_some() {}
    Ok(())
}

/// Puts what is in the log beside the file into it, so that the log begins anew. If a reader needs the log it stays, and
/// it is an error if it has more than `most` pages then.
pub(crate) fn empty_log(connection: &Connection, most: i64) -> rusqlite::Result<()> {
    let (is_held, pages): (bool, i64) =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if is_held && pages > most {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(
            busy,
            Some("a reader needs the log beside it".to_owned()),
        ));
    }
    Ok(())
}

/// Closes a damaged history as it is. SQLite would move its log into it, and remove the log.
pub(crate) fn abandon(connection: Connection, path: &Path) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).doing("close", path)?;
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
    check_tables(connection, path, version)
}

/// Whether the file has counts of what its streams hold.
pub(crate) fn keeps_counts(connection: &Connection) -> rusqlite::Result<bool> {
    let version: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    Ok(version >= COUNTS_VERSION)
}

/// That every table we query is a table, not a view that someone put in its place.
fn check_tables(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .doing("read the tables of", path)?;
    let found: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .doing("read the tables of", path)?;
    match tables(version).find(|table| !found.iter().any(|name| name == table)) {
        Some(table) => {
            Err(Error::NotOurs { path: path.to_owned(), why: format!("it has no table named {table}") })
        }
        None => Ok(()),
    }
}

/// The names of the tables of a version, as the statements that make them have them.
fn tables(version: i64) -> impl Iterator<Item = &'static str> {
    let steps = MIGRATIONS.iter().take(usize::try_from(version).unwrap_or(0));
    steps
        .flat_map(|step| step.lines())
        .filter_map(|line| line.strip_prefix("CREATE TABLE "))
        .filter_map(|rest| rest.split_whitespace().next())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bulk, History, Writer};

    #[test]
    fn a_view_in_the_place_of_any_table_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let version = MIGRATIONS.len() as i64;
        assert_eq!(tables(version).count(), 14);
        for table in tables(version) {
            let path = folder.path().join(table);
            drop(open_writable(&path, Safety::Durable).unwrap());
            let connection = Connection::open(&path).unwrap();
            connection
                .execute_batch(&format!(
                    "PRAGMA foreign_keys = OFF; ALTER TABLE {table} RENAME TO theirs;
                     CREATE VIEW {table} AS SELECT * FROM theirs;"
                ))
                .unwrap();
            drop(connection);
            let refusal = format!("it has no table named {table}");
            let is_refused = |error: Error| matches!(error, Error::NotOurs { why, .. } if why == refusal);
            assert!(History::open(&path).is_err_and(is_refused), "{table}");
            assert!(Writer::open(&path).is_err_and(is_refused), "{table}");
        }
    }

    /// Whatever the reason is that a file cannot be looked at: this one is a link that leads to itself.
    #[cfg(unix)]
    #[test]
    fn what_cannot_be_looked_for_is_not_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.kine");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let is_told = |error: Error| matches!(error, Error::Io { doing: "look for", .. });
        assert!(History::open(&path).is_err_and(is_told));
        assert!(Writer::open(&path).is_err_and(is_told));
        assert!(Bulk::into(&path).is_err_and(is_told));
        assert!(crate::prune(&path, model::Moment::MAX).is_err_and(is_told));
        assert!(crate::forget(&path, model::Moment::MAX).is_err_and(is_told));
        let other = folder.path().join("other.kine");
        drop(open_writable(&other, Safety::Durable).unwrap());
        assert!(crate::salvage(&other, &path).is_err_and(is_told));
    }
}
