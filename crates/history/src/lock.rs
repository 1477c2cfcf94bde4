//! One writer at a time: a lock file beside the history.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::error::{Doing, Error, Result};
use crate::schema;

/// Held while a process writes; the operating system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub(crate) struct WriterLock {
    path: PathBuf,
    _file: File,
}

impl WriterLock {
    /// Takes the lock of `history`, or says who has it.
    pub(crate) fn take(history: &Path) -> Result<WriterLock> {
        let path = beside(history);
        // The holder removes the file when it is done; whoever opened it just before then holds a lock on nothing.
        // Looking again settles it: the lock counts if the path still leads to the file that was locked.
        for _ in 0..100 {
            let mut options = File::options();
            options.create(true).truncate(false).read(true).write(true);
            let mut file = schema::private(&mut options).open(&path).doing("lock", history)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(fs::TryLockError::WouldBlock) => {
                    let mut holder = String::new();
                    // The number is a courtesy: without it the message is still right.
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
                file.set_len(0).doing("lock", history)?;
                write!(file, "{}", std::process::id()).doing("lock", history)?;
                return Ok(WriterLock { path, _file: file });
            }
        }
        Err(Error::Busy { path: history.to_owned(), holder: String::new() })
    }

    /// Where the lock is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WriterLock {
    fn drop(&mut self) {
        // Left behind it does no harm: a lock is what counts, not a file.
        let _ = fs::remove_file(&self.path);
    }
}

fn beside(history: &Path) -> PathBuf {
    let mut name = history.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    history.with_file_name(name)
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(there)) => held.ino() == there.ino() && held.dev() == there.dev(),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.exists()
}
