//! What can go wrong with a history file.

use std::path::{Path, PathBuf};

/// A disk that fails, which `std::io::ErrorKind` has no word for. The number is the same on every Unix.
const EIO: i32 = 5;

/// What can go wrong with a history file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// SQLite refused.
    #[error("cannot {doing} {path}")]
    Sqlite {
        /// What was being done.
        doing: &'static str,
        /// The history.
        path: PathBuf,
        /// SQLite's reason.
        #[source]
        source: rusqlite::Error,
    },
    /// The operating system refused.
    #[error("cannot {doing} {path}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// There is no such file.
    #[error("there is no history at {0}")]
    Missing(PathBuf),
    /// The file exists already.
    #[error("{0} exists already")]
    Exists(PathBuf),
    /// The file is something else.
    #[error("{path} is not a Kinescope history: {why}")]
    NotOurs {
        /// The file.
        path: PathBuf,
        /// What gives it away.
        why: String,
    },
    /// The file was written by a later version of this program.
    #[error("{path} has file version {found}, this program reads up to {known}: use a newer kinescope")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// Another process writes to it.
    #[error("{path} is being written by another process{holder}: only one may write at a time")]
    Busy {
        /// The history.
        path: PathBuf,
        /// ` (process 4711)`, where it said so.
        holder: String,
    },
    /// What is stored contradicts its own checksum or itself.
    #[error(
        "{path} is damaged: {what} (`kinescope doctor` tells more, `doctor --salvage` keeps what can be read)"
    )]
    Damaged {
        /// The history.
        path: PathBuf,
        /// What, and where.
        what: String,
    },
    /// The directory is read-only, but the file was not closed in order.
    #[error(
        "{0} was not closed cleanly and its folder cannot be written: copy it with its -wal file to where it can"
    )]
    UncleanReadOnly(PathBuf),
    /// An object too large to keep.
    #[error("{key} at {seen} is {bytes} bytes long, the most a history holds is {most}")]
    TooLarge {
        /// The object's name.
        key: model::Key,
        /// When it was seen.
        seen: model::Moment,
        /// Its size.
        bytes: usize,
        /// The limit.
        most: usize,
    },
    /// An import that would fall into what is already recorded.
    #[error(
        "source {name:?} is already in the history up to {end}, and this begins at {found}: \
         import it under another name with --source, or only what is later"
    )]
    Overlap {
        /// The source's name.
        name: String,
        /// Where the source ends.
        end: model::Moment,
        /// The first moment of what was to be added.
        found: model::Moment,
    },
    /// A moment that was pruned away.
    #[error("the history begins at {begins}: what was before {asked} is gone", asked = asked)]
    BeforeStart {
        /// The moment asked for.
        asked: model::Moment,
        /// The earliest moment that can be shown.
        begins: model::Moment,
    },
    /// The thread that writes has ended because of an earlier error.
    #[error("the history's writer has stopped: {why}")]
    Stopped {
        /// The error.
        why: String,
        /// Whether it may go well later.
        may_pass: bool,
        /// Whether what is stored makes no sense.
        is_damage: bool,
    },
}

impl Error {
    /// The thread that writes is not there any more, and nobody knows why.
    pub(crate) fn ended() -> Error {
        Error::Stopped { why: "its thread has ended".to_owned(), may_pass: false, is_damage: false }
    }

    /// Nothing more is written, because the file is damaged.
    pub(crate) fn abandoned() -> Error {
        Error::Stopped { why: "it is damaged".to_owned(), may_pass: false, is_damage: true }
    }

    /// Whether what is stored makes no sense: no other try helps.
    pub fn is_damage(&self) -> bool {
        use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
        match self {
            Error::Damaged { .. } => true,
            // Columns and keys are always what the schema says.
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

    /// Whether another process is in the way and it may go well later.
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

    /// Whether there is no room for what was to be written, or the file may not be that long.
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

    /// Whether it may go well later: the disk is full or fails, or another process is in the way.
    pub fn may_pass(&self) -> bool {
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
            Error::Stopped { may_pass, .. } => *may_pass,
            error => error.is_busy(),
        }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Attaches what was being done to an SQLite error.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => {
                Error::NotOurs { path: path.to_owned(), why: "it is no SQLite file".to_owned() }
            }
            Some(rusqlite::ErrorCode::DatabaseCorrupt) => {
                Error::Damaged { path: path.to_owned(), what: format!("cannot {doing}: {source}") }
            }
            _ => Error::Sqlite { doing, path: path.to_owned(), source },
        })
    }
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { doing, path: path.to_owned(), source })
    }
}
