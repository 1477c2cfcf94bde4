//! Errors of reading and writing foreign files.

use std::fmt;

/// An error of reading or writing a foreign file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read or written: an error of the system or the decompressor.
    #[error("cannot {doing} {file}")]
    Io {
        /// The operation, an infinitive.
        doing: &'static str,
        /// The file.
        file: String,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The output cannot be written.
    #[error("cannot write")]
    Write(#[from] std::io::Error),
    /// The file is invalid at a position.
    #[error("{file}, {place}: {why}")]
    InvalidAt {
        /// The file.
        file: String,
        /// The position: `line 7`, `byte 512`, `pod_info, row 3`.
        place: String,
        /// What is wrong, and what is expected.
        why: String,
    },
    /// The file as a whole is invalid.
    #[error("{file}: {why}")]
    InvalidFile {
        /// The file.
        file: String,
        /// What is wrong, and what is expected.
        why: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

// === impl Error ===

impl Error {
    /// The file is invalid at a line, counted from 1.
    pub(crate) fn invalid_line(file: &str, line: u64, why: impl Into<String>) -> Error {
        Error::invalid_at(file, format_args!("line {line}"), why)
    }

    /// The file is invalid at a position.
    pub(crate) fn invalid_at(file: &str, location: impl fmt::Display, why: impl Into<String>) -> Error {
        Error::InvalidAt { file: file.to_owned(), place: location.to_string(), why: why.into() }
    }

    /// The file as a whole is invalid.
    pub(crate) fn invalid_file(file: &str, why: impl Into<String>) -> Error {
        Error::InvalidFile { file: file.to_owned(), why: why.into() }
    }

    /// The file cannot be read.
    pub(crate) fn cannot_read(file: &str, source: std::io::Error) -> Error {
        Error::Io { doing: "read", file: file.to_owned(), source }
    }
}
