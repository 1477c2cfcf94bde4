//! The temporary folder of a server process, locked as long as the process lives.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// The prefix of the folder's name.
const PREFIX: &str = "kinescope-serve-";

/// The folder for the files of this process, removed when dropped.
pub(super) struct ScratchFolder {
    folder: TempDir,
    /// The kernel releases the lock when the process ends, even if it is killed.
    _lock: File,
}

// === impl ScratchFolder ===

impl ScratchFolder {
    pub(super) fn create(parent: &Path) -> io::Result<ScratchFolder> {
        // Until the folder is locked another server may remove it as a leftover, so check after locking that it still
        // exists.
        for _ in 0..100 {
            let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let Ok(lock) = File::open(folder.path()) else { continue };
            if lock.try_lock().is_ok() && folder.path().is_dir() {
                return Ok(ScratchFolder { folder, _lock: lock });
            }
        }
        Err(io::Error::other("other servers keep removing it"))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of servers that no longer run. Failures are ignored: the folder may belong to another user.
pub(super) fn remove_leftovers() {
    let entries = fs::read_dir(std::env::temp_dir()).into_iter().flatten().flatten();
    for entry in entries {
        // The type of the entry itself: symbolic links are not followed.
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
