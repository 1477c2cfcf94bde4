//! What can be wrong with a foreign file.

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
    /// Something in it is wrong.
    #[error("{file}, line {line}: {why}")]
    Bad {
        /// The file.
        file: String,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong, and what would be right.
        why: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
