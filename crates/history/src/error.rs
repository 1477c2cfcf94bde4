//! Errors of history files.

use std::path::{Path, PathBuf};

/// `EIO`, a failing disk, for which `std::io::ErrorKind` has no variant. The number is the same on every Unix.
const EIO: i32 = 5;

/// An error of a history file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite returned an error.
    #[error("cannot {doing} {path}")]
    Sqlite {
        /// The action that failed.
        doing: &'static str,
        /// The history.
        path: PathBuf,
        /// SQLite's error.
        #[source]
        source: rusqlite::Error,
    },
    /// The operating system returned an error.
    #[error("cannot {doing} {path}")]
    Io {
        /// The action that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// There is no such file.
    #[error("history {0} not found")]
    Missing(PathBuf),
    /// The folder of a file to be written does not exist.
    #[error("cannot write {path}: there is no folder {folder}; create it, or name a file in another one")]
    NoFolder {
        /// The file.
        path: PathBuf,
        /// The folder that is missing.
        folder: PathBuf,
    },
    /// The file exists already.
    #[error("{0} already exists")]
    Exists(PathBuf),
    /// The file is not a history.
    #[error("{path} is not a Kinescope history: {why}")]
    NotAHistory {
        /// The file.
        path: PathBuf,
        /// How that was detected.
        why: String,
    },
    /// The file was written by a later version of this program.
    #[error("{path} has file version {found}, supported are versions up to {known}: use a newer kinescope")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// Another process writes to it.
    #[error("{path} is in use by another process{holder}: only one process can write at a time")]
    Busy {
        /// The history.
        path: PathBuf,
        /// ` (process 4711)`, if the lock file has the process id.
        holder: String,
    },
    /// Stored data contradicts its checksum or other data.
    #[error(
        "{path} is damaged: {what} (`kinescope doctor` shows details, `doctor --salvage` copies all readable changes)"
    )]
    Damaged {
        /// The history.
        path: PathBuf,
        /// The damage and its location.
        what: String,
    },
    /// The directory is read-only, but the file was not closed properly.
    #[error(
        "{0} was not closed cleanly and its folder is read-only: copy it with its -wal file to a writable folder"
    )]
    UncleanReadOnly(PathBuf),
    /// An object that exceeds the size limit.
    #[error("{key} at {seen} has {bytes} bytes, the maximum is {most}")]
    TooLarge {
        /// The object's key.
        key: model::Key,
        /// When it was seen.
        seen: model::Moment,
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// An import that overlaps the recorded time of a source.
    #[error(
        "source {name:?} is already in the history up to {end}, and the input begins at {found}: specify another name with --source, or import only later changes"
    )]
    Overlap {
        /// The source's name.
        name: String,
        /// Where the source ends.
        end: model::Moment,
        /// The first moment of the import.
        found: model::Moment,
    },
    /// A moment before the pruned beginning.
    #[error("{asked} is before the start of the history, {begins}: earlier changes were pruned", asked = asked)]
    BeforeStart {
        /// The requested moment.
        asked: model::Moment,
        /// The earliest moment that can be shown.
        begins: model::Moment,
    },
    /// The writer thread has ended because of an earlier error.
    #[error("the history's writer has stopped: {why}")]
    Stopped {
        /// The error.
        why: String,
        /// Whether a retry may succeed.
        is_transient: bool,
        /// Whether the stored data is damaged.
        is_damage: bool,
    },
}

impl Error {
    /// The writer thread has ended for an unknown reason.
    pub(crate) fn writer_ended() -> Error {
        Error::Stopped {
            why: "the writer thread has ended".to_owned(),
            is_transient: false,
            is_damage: false,
        }
    }

    /// Writing was stopped because the file is damaged.
    pub(crate) fn writer_abandoned() -> Error {
        Error::Stopped { why: "the history is damaged".to_owned(), is_transient: false, is_damage: true }
    }

    /// Whether the stored data is damaged, so that no retry can succeed.
    pub fn is_damage(&self) -> bool {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
        match self {
            Error::Damaged { .. } => true,
            // Column types and keys always conform to the schema unless the file is damaged.
            Error::Sqlite { source, .. } => {
                matches!(
                    source,
                    FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..)
                ) || source.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation)
            }
            Error::Stopped { is_damage, .. } => *is_damage,
            _ => false,
        }
    }

    /// Whether another process holds a lock, so that a retry may succeed.
    pub fn is_busy(&self) -> bool {
        use rusqlite::ErrorCode::{DatabaseBusy, DatabaseLocked};
        match self {
            Error::Busy { .. } => true,
            Error::Sqlite { source, .. } => {
                matches!(source.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked))
            }
            _ => false,
        }
    }

    /// Whether the disk, the quota or the file size limit is exhausted.
    pub fn is_full(&self) -> bool {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match self {
            Error::Sqlite { source, .. } => {
                let extended = source.sqlite_error().map(|error| error.extended_code);
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
                    || extended == Some(rusqlite::ffi::SQLITE_IOERR_WRITE)
            }
            Error::Io { source, .. } => matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge),
            _ => false,
        }
    }

    /// Whether a retry may succeed: the disk is full or fails, or another process holds a lock.
    pub fn is_transient(&self) -> bool {
        use rusqlite::ErrorCode::{CannotOpen, DiskFull, ReadOnly, SystemIoFailure};
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        match self {
            Error::Sqlite { source, .. } => {
                self.is_busy()
                    || matches!(
                        source.sqlite_error_code(),
                        Some(DiskFull | SystemIoFailure | CannotOpen | ReadOnly)
                    )
            }
            Error::Io { source, .. } => {
                matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge | ReadOnlyFilesystem)
                    || source.raw_os_error() == Some(EIO)
            }
            Error::Stopped { is_transient, .. } => *is_transient,
            error => error.is_busy(),
        }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the failed action and the path to an SQLite or I/O error.
pub(crate) trait ErrorContext<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> ErrorContext<T> for rusqlite::Result<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                Error::NotAHistory { path: path.to_owned(), why: "not an SQLite file".to_owned() }
            }
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                Error::Damaged { path: path.to_owned(), what: format!("cannot {doing}: {source}") }
            }
            _ => Error::Sqlite { doing, path: path.to_owned(), source },
        })
    }
}

impl<T> ErrorContext<T> for std::io::Result<T> {
    fn context(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { doing, path: path.to_owned(), source })
    }
}
