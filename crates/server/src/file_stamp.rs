//! The state of a history's files on disk, to notice changes without opening them.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Two changes within this time may leave the same timestamp.
const TIMESTAMP_RESOLUTION: Duration = Duration::from_secs(1);

/// Identity, length and change time of the history's file, and of the write-ahead log that exists beside it while it is
/// written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileStamp([Option<FileState>; 2]);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// The inode's change time (ctime) since 1970, which a change of permissions updates too.
    changed: Duration,
}

// === impl FileStamp ===

impl FileStamp {
    pub(super) fn of(history: &Path) -> FileStamp {
        let mut log = history.as_os_str().to_owned();
        log.push("-wal");
        FileStamp([FileState::of(history), FileState::of(Path::new(&log))])
    }

    /// Bytes of the history's file and of its log: the most that a copy of the history can have.
    pub(super) fn bytes(&self) -> u64 {
        self.0.iter().flatten().map(|file| file.bytes).sum()
    }

    /// Whether the last change is long enough ago that another one would leave a different stamp.
    pub(super) fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.0.iter().flatten().all(|file| file.changed + TIMESTAMP_RESOLUTION < now)
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
