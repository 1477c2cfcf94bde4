//! What can be wrong with a foreign file.

use std::fmt;

/// What can be wrong with a foreign file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read or written: the system, or the decompressor, says why.
    #[error("cannot {doing} {file}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        file: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// It cannot be written.
    #[error("cannot write")]
    Write(#[from] std::io::Error),
    /// Something in it is wrong.
    #[error("{file}, {place}: {why}")]
    Bad {
        /// The file.
        file: String,
        /// Where in it: `line 7`, `byte 512`, `pod_info, row 3`.
        place: String,
        /// What is wrong, and what would be right.
        why: String,
    },
    /// It as a whole is not what it should be.
    #[error("{file}: {why}")]
    Unfit {
        /// The file.
        file: String,
        /// What is wrong, and what would be right.
        why: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

// === impl Error ===

impl Error {
    /// Something is wrong at a line, counted from 1.
    pub(crate) fn line(file: &str, line: u64, why: impl Into<String>) -> Error {
        Error::bad(file, format_args!("line {line}"), why)
    }

    /// Something is wrong at a place.
    pub(crate) fn bad(file: &str, place: impl fmt::Display, why: impl Into<String>) -> Error {
        Error::Bad { file: file.to_owned(), place: place.to_string(), why: why.into() }
    }

    /// The whole file is not what it should be.
    pub(crate) fn unfit(file: &str, why: impl Into<String>) -> Error {
        Error::Unfit { file: file.to_owned(), why: why.into() }
    }

    /// The file cannot be read.
    pub(crate) fn read(file: &str, source: std::io::Error) -> Error {
        Error::Io { doing: "read", file: file.to_owned(), source }
    }
}
