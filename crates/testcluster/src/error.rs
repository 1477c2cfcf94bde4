//! Errors of building and running the real programs.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

/// An error of building or running the real programs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or program cannot be used.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// No cache folder for built programs.
    #[error("there is no cache folder: set KINESCOPE_CACHE to one")]
    NoCache,
    /// A program ended unexpectedly or failed.
    #[error("{program} ended ({status}):\n{output}")]
    ProgramEnded {
        /// The program with its arguments.
        program: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its output.
        output: String,
    },
    /// The server runs but is not ready.
    #[error("kube-apiserver was not ready in {seconds} s:\n{output}")]
    NotReady {
        /// The timeout.
        seconds: u64,
        /// The end of its output.
        output: String,
    },
    /// A connection on loopback failed.
    #[error("cannot {doing}")]
    Network {
        /// The operation that failed.
        doing: &'static str,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// etcd's response was not as expected.
    #[error("etcd was asked {request} and answered {answer}")]
    Etcd {
        /// The path of the request.
        request: &'static str,
        /// The whole response.
        answer: String,
    },
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Adds the operation and the file to an I/O error.
pub(crate) trait IoContext<T> {
    fn io_context(self, doing: &'static str, path: &Path) -> Result<T>;
}

// === impl IoContext ===

impl<T> IoContext<T> for io::Result<T> {
    fn io_context(self, doing: &'static str, path: &Path) -> Result<T> {
        self.map_err(|source| Error::Io { doing, path: path.to_owned(), source })
    }
}
