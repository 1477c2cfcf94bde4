//! What can go wrong with a peer.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// What can go wrong with a peer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or a program of ours cannot be used.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// No place to keep what is built.
    #[error("there is no cache folder: set KINESCOPE_CACHE to one")]
    NoCache,
    /// A program came to an end that it should not have come to.
    #[error("{program} ended ({status}):\n{said}")]
    Ended {
        /// The program, and what it was asked.
        program: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it said.
        said: String,
    },
    /// The server runs, but does not answer.
    #[error("kube-apiserver was not ready in {seconds} s:\n{said}")]
    NotReady {
        /// How long it was given.
        seconds: u64,
        /// The end of what it said.
        said: String,
    },
    /// A connection on loopback failed.
    #[error("cannot {doing}")]
    Network {
        /// What was being done.
        doing: &'static str,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// etcd answered something else.
    #[error("etcd was asked {asked} and answered {answer}")]
    Etcd {
        /// The path of the request.
        asked: &'static str,
        /// The whole answer.
        answer: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Says what was being done to which file.
pub(crate) trait Doing<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T>;
}

// === impl Doing ===

impl<T> Doing<T> for io::Result<T> {
    fn doing(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { doing, path: path.to_owned(), source })
    }
}
