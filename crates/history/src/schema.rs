//! Schema, file versions, and how SQLite connections are opened, configured and closed.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::error::{Error, ErrorContext, Result};

/// `KINE`, in the header of every history.
const APPLICATION_ID: i64 = 0x4b49_4e45;

/// Each migration upgrades a file from the version of its index to the next.
const MIGRATIONS: &[&str] =
    &[include_str!("schema.sql"), include_str!("schema_2.sql"), include_str!("schema_3.sql")];

/// The first version that stores counts.
const COUNTS_VERSION: i64 = 2;
/// The first version with an object index.
const INDEX_VERSION: i64 = 3;

/// Small pages, because frames of some ten kilobytes fill their last page only partly.
pub(crate) const PAGE_BYTES: usize = 4096;

/// How long a connection waits for another to finish a transaction.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// More than the number of distinct statements, so that none is prepared twice.
const STATEMENT_CACHE: usize = 64;

/// Page cache per connection in KiB. A process may write many histories for months, and each cache fills up in time;
/// the operating system caches the rest.
const WRITER_CACHE: u32 = 8 << 10;
const READER_CACHE: u32 = 16 << 10;
/// For a connection that reads most pages once.
pub(crate) const PACKER_CACHE: u32 = 2 << 10;

/// Durability of a file that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Durability {
    /// Every commit survives the death of the process.
    EveryCommit,
    /// Nothing is durable before the file is finished.
    OnlyWhenFinished,
}

/// Opens a history for writing, creating or migrating it as needed.
pub(crate) fn open_writable(path: &Path, safety: Durability) -> Result<Connection> {
    open_prepared(path, safety, |connection| {
        let transaction = connection.transaction().context("migrate", path)?;
        migrate(&transaction, path)?;
        transaction.commit().context("migrate", path)
    })
}

/// The same, and begins a transaction. A migration takes effect only if it is committed.
pub(crate) fn open_transaction(path: &Path, safety: Durability) -> Result<Connection> {
    open_prepared(path, safety, |connection| {
        connection.execute_batch("BEGIN IMMEDIATE").context("write to", path)?;
        migrate(connection, path)
    })
}

fn open_prepared(
    path: &Path,
    safety: Durability,
    prepare: impl FnOnce(&mut Connection) -> Result<()>,
) -> Result<Connection> {
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let fresh = !exists(path)?;
    if fresh {
        create_owner_only(path)?;
    }
    let open = || -> Result<Connection> {
        let mut connection = Connection::open_with_flags(path, flags).context("open", path)?;
        if !fresh && !is_empty_database(&connection).context("read", path)? {
            check_version(&connection, path)?;
        }
        configure(&mut connection, path, safety)?;
        prepare(&mut connection)?;
        Ok(connection)
    };
    let opened = open();
    if opened.is_err() && fresh {
        // A new file in which nothing could be written is removed.
        let _ = std::fs::remove_file(path);
    }
    opened
}

/// Whether there is a file. An error does not mean that there is none: the disk may have failed, and a caller that
/// assumes there is no file may overwrite it.
pub fn exists(path: &Path) -> Result<bool> {
    path.try_exists().context("find", path)
}

/// Creates an empty file readable by its owner only, unless one exists. SQLite gives its side files the same
/// permissions.
pub(crate) fn create_owner_only(path: &Path) -> Result<()> {
    let mut options = File::options();
    match owner_only(options.write(true).create_new(true)).open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error).context("create", path),
        _ => Ok(()),
    }
}

/// Makes files created with these options accessible to their owner only.
pub(crate) fn owner_only(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Whether nothing was ever written: the process that created the file ended before its first commit.
fn is_empty_database(connection: &Connection) -> rusqlite::Result<bool> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let tables: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(tables == 0 && pragma("application_id")? == 0 && pragma("user_version")? == 0)
}

fn configure(connection: &mut Connection, path: &Path, safety: Durability) -> Result<()> {
    let (journal, synchronous) = match safety {
        Durability::EveryCommit => ("WAL", "NORMAL"),
        Durability::OnlyWhenFinished => ("OFF", "OFF"),
    };
    connection.busy_timeout(BUSY_TIMEOUT).context("open", path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    // Otherwise some statements are planned again for each value that is bound to them.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).context("open", path)?;
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
        .context("open", path)
}

/// Opens a history for reading, also while another process writes it, and on read-only media.
pub(crate) fn open_readable(path: &Path) -> Result<Connection> {
    if !exists(path)? {
        return Err(Error::Missing(path.to_owned()));
    }
    if path.is_dir() {
        return Err(Error::NotAHistory {
            path: path.to_owned(),
            why: "it is a folder, not a file".to_owned(),
        });
    }
    let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, read).context("open", path)?;
    connection.busy_timeout(BUSY_TIMEOUT).context("open", path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_CACHE);
    let connection = match check_version(&connection, path) {
        Ok(()) => connection,
        // A file left in WAL mode needs a shared-memory file, which cannot be created in a read-only directory.
        Err(Error::Sqlite { source, .. }) if is_open_refused(&source) => {
            let log = path
                .with_file_name(format!("{}-wal", path.file_name().unwrap_or_default().to_string_lossy()));
            if log.metadata().is_ok_and(|log| log.len() > 0) {
                return Err(Error::UncleanReadOnly(path.to_owned()));
            }
            let uri = format!("file:{}?immutable=1", uri_path(path));
            let connection =
                Connection::open_with_flags(uri, read | OpenFlags::SQLITE_OPEN_URI).context("open", path)?;
            check_version(&connection, path)?;
            connection
        }
        Err(error) => return Err(error),
    };
    // A hostile schema cannot make a view call functions. The file is not memory-mapped: that would hardly be faster,
    // and all pages ever read would count as memory of this process.
    connection
        .execute_batch(&format!(
            "PRAGMA trusted_schema = OFF; PRAGMA query_only = ON; PRAGMA cache_size = -{READER_CACHE};"
        ))
        .context("open", path)?;
    Ok(connection)
}

/// Closes a written history so that the file alone is complete, without a write-ahead log.
pub(crate) fn close(connection: Connection, path: &Path) -> Result<()> {
    let tidy_up = || -> rusqlite::Result<()> {
        // Does not wait for long-running readers.
        connection.busy_timeout(Duration::from_millis(100))?;
        // Dictionaries are needed only for rows; when all are packed, the next writer trains new ones.
        connection.execute("DELETE FROM dictionary WHERE NOT EXISTS (SELECT 1 FROM change)", [])?;
        // Packed rows leave free pages behind; after a burst most of the file may be free.
        vacuum_pages(&connection, free_pages(&connection)?)?;
        connection.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); PRAGMA journal_mode = DELETE;")
    };
    // A reader in another process may keep the log in use; the last connection to close then checkpoints it. That is
    // no failure.
    match tidy_up() {
        Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy) => {}
        other => other.context("close", path)?,
    }
    connection.close().map_err(|(_, error)| error).context("close", path)
}

/// Number of free pages in the file.
pub(crate) fn free_pages(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "freelist_count", |row| row.get(0))
}

/// Truncates the file by up to this many free pages.
pub(crate) fn vacuum_pages(connection: &Connection, pages: i64) -> rusqlite::Result<()> {
    if pages <= 0 {
        return Ok(());
    }
    // SQLite frees one page per step.
    let mut statement = connection.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Checkpoints and truncates the write-ahead log. If a reader needs the log it stays; that is an error if it then has
/// more than `most` pages.
pub(crate) fn checkpoint(connection: &Connection, most: i64) -> rusqlite::Result<()> {
    let (is_held, pages): (bool, i64) =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if is_held && pages > most {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(
            busy,
            Some("a reader still uses the write-ahead log".to_owned()),
        ));
    }
    Ok(())
}

/// Closes a damaged history without a checkpoint, which would change the file and remove its log.
pub(crate) fn abandon(connection: Connection, path: &Path) -> Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).context("close", path)?;
    connection.close().map_err(|(_, error)| error).context("close", path)
}

/// Checks that this is a history of a supported version.
fn check_version(connection: &Connection, path: &Path) -> Result<()> {
    let pragma = |name: &str| -> Result<i64> {
        connection.pragma_query_value(None, name, |row| row.get(0)).context("read", path)
    };
    let (id, version) = (pragma("application_id")?, pragma("user_version")?);
    if id != APPLICATION_ID {
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .context("read", path)?;
        let why = if tables == 0 { "it is empty" } else { "SQLite file of another program" };
        return Err(Error::NotAHistory { path: path.to_owned(), why: why.to_owned() });
    }
    let newest_version = MIGRATIONS.len() as i64;
    if version > newest_version {
        return Err(Error::TooNew { path: path.to_owned(), found: version, known: newest_version });
    }
    if version < 1 {
        return Err(Error::Damaged { path: path.to_owned(), what: format!("invalid version {version}") });
    }
    check_tables(connection, path, version)
}

/// Whether the file stores counts of its streams.
pub(crate) fn has_stream_counts(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(file_version(connection)? >= COUNTS_VERSION)
}

/// Whether the file has an object index.
pub(crate) fn has_object_index(connection: &Connection) -> rusqlite::Result<bool> {
    Ok(file_version(connection)? >= INDEX_VERSION)
}

/// The version as of the transaction: another process may migrate the file while it is open here.
fn file_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))
}

/// Checks that every table we query is a table, not a view put in its place.
fn check_tables(connection: &Connection, path: &Path, version: i64) -> Result<()> {
    let mut statement = connection
        .prepare("SELECT name FROM sqlite_schema WHERE type = 'table'")
        .context("read the tables of", path)?;
    let found: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .and_then(Iterator::collect)
        .context("read the tables of", path)?;
    match table_names(version).find(|table| !found.iter().any(|name| name == table)) {
        Some(table) => {
            Err(Error::NotAHistory { path: path.to_owned(), why: format!("table {table} is missing") })
        }
        None => Ok(()),
    }
}

/// The names of the tables of a version, from its CREATE TABLE statements.
fn table_names(version: i64) -> impl Iterator<Item = &'static str> {
    let steps = MIGRATIONS.iter().take(usize::try_from(version).unwrap_or(0));
    steps
        .flat_map(|step| step.lines())
        .filter_map(|line| line.strip_prefix("CREATE TABLE "))
        .filter_map(|rest| rest.split_whitespace().next())
}

/// The tables, indexes and views of the schema that are missing or altered.
pub(crate) fn altered_schema_objects(connection: &Connection) -> rusqlite::Result<Vec<String>> {
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
    // Additional objects in the schema are ignored.
    let found = read(connection)?;
    let altered = read(&fresh)?.into_iter().filter(|made| !found.contains(made));
    Ok(altered.map(|(name, _)| name).collect())
}

/// Upgrades the file to the newest version, within a transaction.
fn migrate(connection: &Connection, path: &Path) -> Result<()> {
    let doing = "migrate";
    let version: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).context(doing, path)?;
    let missing = MIGRATIONS.get(usize::try_from(version).unwrap_or(usize::MAX)..).unwrap_or_default();
    if missing.is_empty() {
        return Ok(());
    }
    for step in missing {
        connection.execute_batch(step).context(doing, path)?;
    }
    connection.pragma_update(None, "application_id", APPLICATION_ID).context(doing, path)?;
    connection.pragma_update(None, "user_version", MIGRATIONS.len() as i64).context(doing, path)
}

fn is_open_refused(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Percent-encodes the characters that are special in a URI.
fn uri_path(path: &Path) -> String {
    path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BulkWriter, History, Writer};

    #[test]
    fn a_view_in_the_place_of_any_table_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let version = MIGRATIONS.len() as i64;
        assert_eq!(table_names(version).count(), 15);
        for table in table_names(version) {
            let path = folder.path().join(table);
            drop(open_writable(&path, Durability::EveryCommit).unwrap());
            let connection = Connection::open(&path).unwrap();
            connection
                .execute_batch(&format!(
                    "PRAGMA foreign_keys = OFF; ALTER TABLE {table} RENAME TO theirs;
                     CREATE VIEW {table} AS SELECT * FROM theirs;"
                ))
                .unwrap();
            drop(connection);
            let refusal = format!("table {table} is missing");
            let is_refused = |error: Error| matches!(error, Error::NotAHistory { why, .. } if why == refusal);
            assert!(History::open(&path).is_err_and(is_refused), "{table}");
            assert!(Writer::open(&path).is_err_and(is_refused), "{table}");
        }
    }

    /// A file whose existence cannot be checked: here a symbolic link to itself.
    #[cfg(unix)]
    #[test]
    fn a_file_that_cannot_be_examined_is_not_reported_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.kine");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let is_find_error = |error: Error| matches!(error, Error::Io { doing: "find", .. });
        assert!(History::open(&path).is_err_and(is_find_error));
        assert!(Writer::open(&path).is_err_and(is_find_error));
        assert!(BulkWriter::open(&path).is_err_and(is_find_error));
        assert!(crate::prune(&path, model::Moment::MAX).is_err_and(is_find_error));
        assert!(crate::prune_incrementally(&path, model::Moment::MAX).is_err_and(is_find_error));
        let other = folder.path().join("other.kine");
        drop(open_writable(&other, Durability::EveryCommit).unwrap());
        assert!(crate::salvage(&other, &path).is_err_and(is_find_error));
    }
}
