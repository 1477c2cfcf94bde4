//! The folder itself: one for each server, locked as long as the server lives.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// How the folders of all servers begin.
const PREFIX: &str = "kinescope-serve-";

/// A folder for the files of this process, removed at the end.
pub(super) struct ScratchFolder {
    folder: TempDir,
    /// Held by the system until the process ends, however it ends.
    _lock: File,
}

// === impl ScratchFolder ===

impl ScratchFolder {
    pub(super) fn create(place: &Path) -> io::Result<ScratchFolder> {
        // Before it is locked another server may take it for a leftover: the lock counts if the folder is still there.
        for _ in 0..100 {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
            let Ok(lock) = File::open(folder.path()) else { continue };
            if lock.try_lock().is_ok() && folder.path().is_dir() {
                return Ok(ScratchFolder { folder, _lock: lock });
            }
        }
        Err(io::Error::other("other servers remove it again and again"))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of servers that do not live any more. What cannot be removed is left: it may be another user's.
pub(super) fn remove_leftovers() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        // Of the entry itself: a link is not followed.
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_folder || !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        if let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
