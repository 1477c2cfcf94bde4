//! Why a history cannot be played.

use std::io;
use std::path::PathBuf;

use simulation::BadGiven;

/// Why a history cannot be played.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each says it itself")]
pub enum Error {
    #[error(transparent)]
    History(#[from] history::Error),
    #[error(transparent)]
    Given(#[from] BadGiven),
    #[error("cannot keep what stands behind the recorded pods in temporary files in {}", folder.display())]
    Kept { folder: PathBuf, source: io::Error },
    #[error("the replay was stopped")]
    Stopped,
}

impl Error {
    pub(crate) fn kept(source: io::Error) -> Error {
        Error::Kept { folder: std::env::temp_dir(), source }
    }
}
