//! The state of a history's files on disk, by which a change is noticed without opening them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Two changes that follow each other faster may leave the same times.
const CLOCK_STEP: Duration = Duration::from_secs(1);

/// Which file it was, how long, and when it changed: of the history, and of the log that lies beside it while it is
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp([Option<FileState>; 2]);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Since 1970. Of the inode, so that new permissions count as well.
    changed: Duration,
}

// === impl FileStamp ===

impl FileStamp {
    pub(super) fn of(history: &Path) -> FileStamp {
        let mut log = history.as_os_str().to_owned();
        log.push("-wal");
        FileStamp([FileState::of(history), FileState::of(Path::new(&log))])
    }

    /// Bytes of the history's file and of its log. A copy of the history is not longer.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().flatten().map(|file| file.bytes).sum()
    }

    /// Whether the last change is so long ago that another one would leave another stamp.
    pub(super) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.iter().flatten().all(|file| file.changed + CLOCK_STEP < now)
    }
}

// === impl FileState ===

impl FileState {
    fn of(path: &Path) -> Option<FileState> {
        let file = path.metadata().ok()?;
        let seconds = u64::try_from(file.ctime()).unwrap_or_default();
        let nanos = u32::try_from(file.ctime_nsec()).unwrap_or_default();
        Some(FileState {
            device: file.dev(),
            inode: file.ino(),
            bytes: file.len(),
            changed: Duration::new(seconds, nanos),
        })
    }
}
