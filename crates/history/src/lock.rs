//! The writer lock: a lock file beside the history, so that there is one writer at a time.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorContext, Result};
use crate::schema;

/// Held while a process writes; the operating system releases it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct WriterLock {
    path: PathBuf,
    _file: File,
}

impl WriterLock {
    /// Takes the lock of `history`; fails with the holder's process id if another process has it.
    pub(crate) fn take(history: &Path) -> Result<WriterLock> {
        let path = lock_path(history);
        // The holder removes the file when it is done, so a process that opened the file just before that locks an
        // unlinked file. Hence the check below: the lock is valid only if the path still leads to the locked file.
        for _ in 0..100 {
            let mut options = File::options();
            options.create(true).truncate(false).read(true).write(true);
            let opened = schema::owner_only(&mut options).open(&path);
            let mut file = opened.map_err(|source| cannot_lock(history, source))?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // The process id is optional: without it the message is still correct.
                    let _ = file.read_to_string(&mut holder);
                    let holder = holder.trim();
                    let holder =
                        if holder.is_empty() { String::new() } else { format!(" (process {holder})") };
                    return Err(Error::Busy { path: history.to_owned(), holder });
                }
                Err(fs::TryLockError::Error(source)) => {
                    return Err(Error::Io { doing: "lock", path: history.to_owned(), source });
                }
            }
            if is_same_file(&file, &path) {
                file.set_len(0).context("lock", history)?;
                write!(file, "{}", std::process::id()).context("lock", history)?;
                return Ok(WriterLock { path, _file: file });
            }
        }
        Err(Error::Busy { path: history.to_owned(), holder: String::new() })
    }

    /// The path of the lock file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // A lock file left behind does no harm: the lock counts, not the file.
        let _ = fs::remove_file(&self.path);
    }
}

/// Why the lock file of `history` cannot be opened. A missing folder is the user's mistake, and is named.
fn cannot_lock(history: &Path, source: io::Error) -> Error {
    match require_folder(history) {
        Err(error) => error,
        Ok(()) => Error::Io { doing: "lock", path: history.to_owned(), source },
    }
}

/// Fails if the folder that a history is to be written into does not exist.
pub fn require_folder(history: &Path) -> Result<()> {
    match history.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Some(folder) => Err(Error::NoFolder { path: history.to_owned(), folder: folder.to_owned() }),
        None => Ok(()),
    }
}

fn lock_path(history: &Path) -> PathBuf {
    let mut name = history.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    history.with_file_name(name)
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(locked), Ok(on_disk)) => locked.ino() == on_disk.ino() && locked.dev() == on_disk.dev(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.exists()
}
