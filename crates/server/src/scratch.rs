//! The scratch folder of downloads: copies that several of them share, and the budget that all files in it keep to.

mod budget;
mod folder;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use anyhow::Context;
use recorder::lock;

use self::budget::{Budget, Reservation};
use self::folder::ScratchFolder;
use super::file_stamp::FileStamp;
use super::problem::{Problem, Result};
use super::work::Client;

/// A copy of a history that has changed meanwhile is given to new downloads until it is this old.
const FRESH: Duration = Duration::from_secs(5);
/// How often a download that waits for a copy looks whether its client is still there.
const LOOK: Duration = Duration::from_millis(200);

/// Where downloads put together what they send.
pub struct Scratch {
    budget: Arc<Budget>,
    /// Made with the first copy.
    folder: Mutex<Option<ScratchFolder>>,
    /// Those that are being made or read.
    copies: Mutex<HashMap<CopyKey, Weak<SharedCopy>>>,
}

/// What a copy is of: downloads of the same may share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CopyKey {
    pub(super) history: PathBuf,
    pub(super) content: CopyContent,
}

/// What a copy holds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CopyContent {
    /// The history as it is.
    History,
    /// One source of it, as a database of Gardener's scaling history.
    ScalingHistory { source: Option<String> },
}

/// A copy that is to be made.
pub(super) struct NewCopy {
    copy: Arc<SharedCopy>,
    path: PathBuf,
    reservation: Reservation,
}

/// A copy, read from its beginning. It is removed when nobody reads it any more.
pub(super) struct CopyReader {
    file: Arc<CopyFile>,
    offset: u64,
    /// Found by other downloads as long as this is held.
    _copy: Arc<SharedCopy>,
}

/// The room that a file without a name takes.
pub(super) struct Spooled {
    file: File,
    reservation: Reservation,
}

/// A copy for all who asked for it.
struct SharedCopy {
    /// The history before the copy was begun.
    stamp: FileStamp,
    begun: Instant,
    /// Both under one lock: a download joins a copy that is being made, or the copy has been given up before.
    state: Mutex<CopyState>,
    /// That the progress is another.
    changed: Condvar,
}

struct CopyState {
    /// When all of them have gone, making it is given up.
    clients: Vec<Client>,
    progress: CopyProgress,
}

enum CopyProgress {
    Making,
    /// Readers have it as well; it goes with the last of them.
    Made(Weak<CopyFile>),
    Failed(Problem),
    /// Its clients have gone, or it broke.
    GivenUp,
}

/// A file that has no name any more, and the room it takes, given back in this order.
struct CopyFile {
    file: File,
    _reservation: Reservation,
}

/// Ends the waiting for a copy whose making broke off.
struct Making(Arc<SharedCopy>);

// === impl Scratch ===

impl Scratch {
    /// A scratch folder that takes `size` bytes at most. Removes what servers that were killed have left behind.
    pub fn new(size: u64) -> Scratch {
        folder::remove_leftovers();
        Scratch { budget: Arc::new(Budget::new(size)), folder: Mutex::default(), copies: Mutex::default() }
    }

    /// A copy that is being made or read, if it is of the same and recent enough, or a new one by `make`.
    pub(super) fn share(
        &self,
        key: CopyKey,
        client: &Client,
        make: impl FnOnce(&mut NewCopy) -> Result<()>,
    ) -> Result<CopyReader> {
        let copy = loop {
            match self.find(&key, client) {
                Err(begun) => break begun,
                Ok(found) => {
                    if let Some(file) = found.wait(client)? {
                        return Ok(CopyReader { file, offset: 0, _copy: found });
                    }
                }
            }
        };
        let making = Making(copy.clone());
        let made = self.make(&copy, make);
        copy.end(match &made {
            Ok(file) => CopyProgress::Made(Arc::downgrade(file)),
            Err(problem) => CopyProgress::Failed(problem.clone()),
        });
        drop(making);
        Ok(CopyReader { file: made?, offset: 0, _copy: copy })
    }

    /// A file without a name, for what an answer must put aside.
    pub(super) fn spool(&self) -> Result<(File, Spooled)> {
        let file = tempfile::tempfile_in(self.folder()?)?;
        let spooled = Spooled { file: file.try_clone()?, reservation: Reservation::new(self.budget.clone()) };
        Ok((file, spooled))
    }

    /// Removes the folder. Whatever is still being made there fails.
    pub(super) fn remove(&self) {
        lock(&self.folder).take();
    }

    /// The copy to be shared, or one that the caller has to make.
    fn find(&self, key: &CopyKey, client: &Client) -> std::result::Result<Arc<SharedCopy>, Arc<SharedCopy>> {
        let stamp = FileStamp::of(&key.history);
        let mut copies = lock(&self.copies);
        copies.retain(|_, copy| copy.strong_count() > 0);
        if let Some(copy) = copies.get(key).and_then(Weak::upgrade)
            && copy.join(&stamp, client)
        {
            return Ok(copy);
        }
        let copy = Arc::new(SharedCopy {
            stamp,
            begun: Instant::now(),
            state: Mutex::new(CopyState { clients: vec![client.clone()], progress: CopyProgress::Making }),
            changed: Condvar::new(),
        });
        copies.insert(key.clone(), Arc::downgrade(&copy));
        Err(copy)
    }

    fn make(
        &self,
        copy: &Arc<SharedCopy>,
        make: impl FnOnce(&mut NewCopy) -> Result<()>,
    ) -> Result<Arc<CopyFile>> {
        let folder = tempfile::tempdir_in(self.folder()?)?;
        let path = folder.path().join("copy");
        let reservation = Reservation::new(self.budget.clone());
        let mut new = NewCopy { copy: copy.clone(), path, reservation };
        make(&mut new)?;
        let file = File::open(&new.path)?;
        let mut reservation = new.reservation;
        let bytes = file.metadata()?.len();
        reservation.grow_to(bytes)?;
        reservation.set(bytes);
        // What is open can be read on; what has no name any more needs no cleaning up after a kill.
        drop(folder);
        Ok(Arc::new(CopyFile { file, _reservation: reservation }))
    }

    fn folder(&self) -> Result<PathBuf> {
        let mut folder = lock(&self.folder);
        if folder.is_none() {
            let place = std::env::temp_dir();
            let made = ScratchFolder::create(&place);
            *folder = Some(made.with_context(|| {
                format!("cannot make a folder for downloads in {}: set TMPDIR to another", place.display())
            })?);
        }
        Ok(folder.as_ref().map(|folder| folder.path().to_owned()).unwrap_or_default())
    }
}

// === impl NewCopy ===

impl NewCopy {
    /// Where it is to be written.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes the room that a copy of the whole history needs at most.
    pub(super) fn reserve_history(&mut self) -> Result<()> {
        self.reservation.grow_to(self.copy.stamp.bytes())
    }

    /// Takes room for what was written, or says that nobody waits for it any more. To be called after each change.
    pub(super) fn step(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(self.copy.is_wanted(), "the clients have gone");
        Ok(self.reservation.follow(|| Ok(self.path.metadata()?.len()))?)
    }

    /// Whether a client that asked for it is still there.
    pub(super) fn is_wanted(&self) -> impl Fn() -> bool + Send + 'static {
        let copy = self.copy.clone();
        move || copy.is_wanted()
    }
}

// === impl Spooled ===

impl Spooled {
    /// Takes room for what was written. To be called after each change.
    pub(super) fn step(&mut self) -> anyhow::Result<()> {
        Ok(self.reservation.follow(|| Ok(self.file.metadata()?.len()))?)
    }
}

// === impl SharedCopy ===

impl SharedCopy {
    /// Adds a client who finds the history in the state of this stamp, if the copy is good for them.
    fn join(&self, stamp: &FileStamp, client: &Client) -> bool {
        let mut state = lock(&self.state);
        let is_recent = self.begun.elapsed() < FRESH || self.stamp == *stamp;
        let is_there = match &state.progress {
            CopyProgress::Making => true,
            CopyProgress::Made(file) => file.strong_count() > 0,
            CopyProgress::Failed(_) | CopyProgress::GivenUp => false,
        };
        if is_recent && is_there {
            state.clients.push(client.clone());
        }
        is_recent && is_there
    }

    /// Whether a client is still there. If none is, nobody can join any more: whoever makes the copy stops.
    fn is_wanted(&self) -> bool {
        let mut state = lock(&self.state);
        let is_wanted = state.clients.iter().any(Client::is_there);
        if !is_wanted && matches!(state.progress, CopyProgress::Making) {
            state.progress = CopyProgress::GivenUp;
        }
        is_wanted
    }

    /// Waits until it is made; `None` if it never is, or was removed meanwhile.
    fn wait(&self, client: &Client) -> Result<Option<Arc<CopyFile>>> {
        let mut state = lock(&self.state);
        loop {
            match &state.progress {
                CopyProgress::Made(file) => return Ok(file.upgrade()),
                CopyProgress::Failed(problem) => return Err(problem.clone()),
                CopyProgress::GivenUp => return Ok(None),
                CopyProgress::Making => client.check()?,
            }
            let waited = self.changed.wait_timeout(state, LOOK);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Says how the making ended, unless it had ended before.
    fn end(&self, progress: CopyProgress) {
        let mut state = lock(&self.state);
        if matches!(state.progress, CopyProgress::Making) {
            state.progress = progress;
            self.changed.notify_all();
        }
    }
}

// === impl CopyReader ===

impl Read for CopyReader {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        // At a place of its own: others read the same file.
        let length = self.file.file.read_at(bytes, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

// === impl Making ===

impl Drop for Making {
    fn drop(&mut self) {
        self.0.end(CopyProgress::GivenUp);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_was_given_up_is_not_joined() {
        let folder = tempfile::tempdir().unwrap();
        let key = CopyKey { history: folder.path().join("a.kine"), content: CopyContent::History };
        let scratch = Scratch::new(1 << 20);
        let ((first, first_connection), (second, _second_connection)) = (Client::new(), Client::new());
        let interrupted = scratch.share(key.clone(), &first, |new| {
            let is_wanted = new.is_wanted();
            assert!(is_wanted());
            drop(first_connection);
            assert!(!is_wanted());
            // Another asks for the same before the making has ended: it must not fail with the first.
            assert!(scratch.find(&key, &second).is_err(), "the second makes a copy of its own");
            Err(Problem::busy("interrupted"))
        });
        assert!(interrupted.is_err());
    }
}
