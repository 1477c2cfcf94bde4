//! What can go wrong before anything can be compared.

use std::io;

/// What can go wrong before anything can be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be used.
    #[error("cannot {doing} {file}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        file: String,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A file is cut, or damaged.
    #[error("cannot read {file} beyond line {line}: it is cut or damaged")]
    Cut {
        /// The file.
        file: String,
        /// The last line that is whole.
        line: u64,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// A line does not hold what it should.
    #[error("{file}:{line}: {why}")]
    Bad {
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
    /// A way of drawing clusters that there is not.
    #[error("there is no family {unknown:?}; there are {known}")]
    Family {
        /// What was asked for.
        unknown: String,
        /// What there is.
        known: String,
    },
    /// The oracle did not do its work.
    #[error("the oracle ended ({status}):\n{said}")]
    Oracle {
        /// How it ended.
        status: std::process::ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// The oracle could not be built.
    #[error(transparent)]
    Peers(#[from] testcluster::Error),
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
