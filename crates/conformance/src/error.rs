//! Errors that prevent a comparison.

use std::io;

/// An error that prevents a comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be used.
    #[error("cannot {doing} {file}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        file: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file is truncated or damaged.
    #[error("cannot read {file} beyond line {line}: it is truncated or damaged")]
    Truncated {
        /// The file.
        file: String,
        /// The last complete line.
        line: u64,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A line has invalid content.
    #[error("{file}:{line}: {why}")]
    BadLine {
        /// The file.
        file: String,
        /// The line.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A file holds nothing to compare.
    #[error("{file} holds {what}")]
    Empty {
        /// The file.
        file: String,
        /// What is missing.
        what: &'static str,
    },
    /// An unknown family of cases.
    #[error("there is no family {unknown:?}; there are {known}")]
    UnknownFamily {
        /// The family requested.
        unknown: String,
        /// The families that exist.
        known: String,
    },
    /// The oracle failed.
    #[error("the oracle ended ({status}):\n{stderr}")]
    Oracle {
        /// Its exit status.
        status: std::process::ExitStatus,
        /// The last lines of its standard error.
        stderr: String,
    },
    /// The oracle could not be built.
    #[error(transparent)]
    TestCluster(#[from] testcluster::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
