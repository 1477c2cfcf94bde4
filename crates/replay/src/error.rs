//! Errors of replays in virtual time.

use std::io;
use std::path::PathBuf;

use simulation::InvalidPod;

/// Errors of replays in virtual time.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says it itself")]
pub enum Error {
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    InvalidPod(#[from] InvalidPod),
    #[error("cannot use temporary files in {}", folder.display())]
    TempFile { folder: PathBuf, source: io::Error },
    #[error("the replay was stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn temp_file(source: io::Error) -> Error {
        Error::TempFile { folder: std::env::temp_dir(), source }
    }
}
