//! The scratch folder of downloads: copies that concurrent downloads share, within a common budget of bytes.

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
use super::api_error::{ApiError, Result};
use super::file_stamp::FileStamp;
use super::worker_pool::ClientHandle;

/// How old a copy of a history that has changed since may be to serve a new download.
const MAX_COPY_AGE: Duration = Duration::from_secs(5);
/// How often a download that waits for a copy checks that its client is still connected.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// The temporary files of downloads and exports.
pub struct ScratchSpace {
    budget: Arc<Budget>,
    /// Created with the first file.
    folder: Mutex<Option<ScratchFolder>>,
    /// The copies that are being made or read.
    copies: Mutex<HashMap<CopyKey, Weak<SharedCopy>>>,
}

/// Identifies a copy: downloads with the same key may share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct CopyKey {
    pub(super) history: PathBuf,
    pub(super) content: CopyContent,
}

/// The content of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum CopyContent {
    /// The history's file.
    History,
    /// One source of the history, as a database of Gardener's scaling history.
    ScalingHistory { source: Option<String> },
}

/// A copy to be made.
pub(super) struct NewCopy {
    copy: Arc<SharedCopy>,
    path: PathBuf,
    reservation: Reservation,
}

/// Reads a copy from its beginning. The copy is removed when its last reader is dropped.
pub(super) struct CopyReader {
    file: Arc<CopyFile>,
    offset: u64,
    /// Keeps the copy available to other downloads.
    _copy: Arc<SharedCopy>,
}

/// The reservation of an unlinked temporary file, which grows with the file.
pub(super) struct SpoolReservation {
    file: File,
    reservation: Reservation,
}

/// A copy shared by all downloads that requested it.
struct SharedCopy {
    /// The stamp of the history before the copy was started.
    stamp: FileStamp,
    started: Instant,
    /// Clients and progress are under one lock, so that a download cannot join a copy that is just being abandoned.
    state: Mutex<CopyState>,
    /// Notified when the progress changes.
    changed: Condvar,
}

struct CopyState {
    /// When all of them have disconnected the copy is abandoned.
    clients: Vec<ClientHandle>,
    progress: CopyProgress,
}

enum CopyProgress {
    Making,
    /// The readers own the file; it is freed with the last of them.
    Made(Weak<CopyFile>),
    Failed(ApiError),
    /// All clients have disconnected, or making it panicked.
    Abandoned,
}

/// An unlinked file and its reservation, released in this order.
struct CopyFile {
    file: File,
    _reservation: Reservation,
}

/// Marks the copy as abandoned when dropped, so that others stop waiting for it if making it panics.
struct MakingGuard(Arc<SharedCopy>);

// === impl ScratchSpace ===

impl ScratchSpace {
    /// A scratch folder of at most `size` bytes. Removes what killed servers have left behind.
    pub fn new(size: u64) -> ScratchSpace {
        folder::remove_leftovers();
        ScratchSpace {
            budget: Arc::new(Budget::new(size)),
            folder: Mutex::default(),
            copies: Mutex::default(),
        }
    }

    /// Returns a reader of an existing copy with this key, if that is recent enough, or of a new one made by `make`.
    pub(super) fn get_or_make(
        &self,
        key: CopyKey,
        client: &ClientHandle,
        make: impl FnOnce(&mut NewCopy) -> Result<()>,
    ) -> Result<CopyReader> {
        let copy = loop {
            match self.find_or_start(&key, client) {
                Err(begun) => break begun,
                Ok(found) => {
                    if let Some(file) = found.wait(client)? {
                        return Ok(CopyReader { file, offset: 0, _copy: found });
                    }
                }
            }
        };
        let making = MakingGuard(copy.clone());
        let made = self.make(&copy, make);
        copy.finish(match &made {
            Ok(file) => CopyProgress::Made(Arc::downgrade(file)),
            Err(problem) => CopyProgress::Failed(problem.clone()),
        });
        drop(making);
        Ok(CopyReader { file: made?, offset: 0, _copy: copy })
    }

    /// An unlinked temporary file, for data that an export must spool.
    pub(super) fn spool(&self) -> Result<(File, SpoolReservation)> {
        let file = tempfile::tempfile_in(self.folder()?)?;
        let spooled =
            SpoolReservation { file: file.try_clone()?, reservation: Reservation::new(self.budget.clone()) };
        Ok((file, spooled))
    }

    /// Removes the folder. Copies in progress fail.
    pub(super) fn remove(&self) {
        lock(&self.folder).take();
    }

    /// `Ok`: an existing copy to share. `Err`: a new one, which the caller has to make.
    fn find_or_start(
        &self,
        key: &CopyKey,
        client: &ClientHandle,
    ) -> std::result::Result<Arc<SharedCopy>, Arc<SharedCopy>> {
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
            started: Instant::now(),
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
        reservation.set_final(bytes);
        // The open file stays readable, and an unlinked file needs no cleanup after a kill.
        drop(folder);
        Ok(Arc::new(CopyFile { file, _reservation: reservation }))
    }

    fn folder(&self) -> Result<PathBuf> {
        let mut folder = lock(&self.folder);
        if folder.is_none() {
            let parent_folder = std::env::temp_dir();
            let made = ScratchFolder::create(&parent_folder);
            *folder = Some(made.with_context(|| {
                format!(
                    "cannot create a folder for downloads in {}: set TMPDIR to another folder",
                    parent_folder.display()
                )
            })?);
        }
        Ok(folder.as_ref().map(|folder| folder.path().to_owned()).unwrap_or_default())
    }
}

// === impl NewCopy ===

impl NewCopy {
    /// The path to write the copy to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Reserves the most that a copy of the whole history can need.
    pub(super) fn reserve_history(&mut self) -> Result<()> {
        self.reservation.grow_to(self.copy.stamp.bytes())
    }

    /// Reserves what has been written so far; fails if all clients have disconnected. To be called after each change.
    pub(super) fn update_reservation(&mut self) -> anyhow::Result<()> {
        anyhow::ensure!(self.copy.has_clients(), "all clients disconnected");
        Ok(self.reservation.track(|| Ok(self.path.metadata()?.len()))?)
    }

    /// A function that returns whether a client still waits for the copy.
    pub(super) fn client_check(&self) -> impl Fn() -> bool + Send + 'static {
        let copy = self.copy.clone();
        move || copy.has_clients()
    }
}

// === impl SpoolReservation ===

impl SpoolReservation {
    /// Reserves what has been written so far. To be called after each change.
    pub(super) fn update_reservation(&mut self) -> anyhow::Result<()> {
        Ok(self.reservation.track(|| Ok(self.file.metadata()?.len()))?)
    }
}

// === impl SharedCopy ===

impl SharedCopy {
    /// Adds a client that sees the history with this stamp, if the copy is recent enough for it.
    fn join(&self, stamp: &FileStamp, client: &ClientHandle) -> bool {
        let mut state = lock(&self.state);
        let is_recent = self.started.elapsed() < MAX_COPY_AGE || self.stamp == *stamp;
        let is_there = match &state.progress {
            CopyProgress::Making => true,
            CopyProgress::Made(file) => file.strong_count() > 0,
            CopyProgress::Failed(_) | CopyProgress::Abandoned => false,
        };
        if is_recent && is_there {
            state.clients.push(client.clone());
        }
        is_recent && is_there
    }

    /// Whether a client is still connected. If none is, the copy is abandoned: no other can join it, and making it
    /// stops.
    fn has_clients(&self) -> bool {
        let mut state = lock(&self.state);
        let is_wanted = state.clients.iter().any(ClientHandle::is_connected);
        if !is_wanted && matches!(state.progress, CopyProgress::Making) {
            state.progress = CopyProgress::Abandoned;
        }
        is_wanted
    }

    /// Waits until the copy is made; `None` if it was abandoned, or removed meanwhile.
    fn wait(&self, client: &ClientHandle) -> Result<Option<Arc<CopyFile>>> {
        let mut state = lock(&self.state);
        loop {
            match &state.progress {
                CopyProgress::Made(file) => return Ok(file.upgrade()),
                CopyProgress::Failed(problem) => return Err(problem.clone()),
                CopyProgress::Abandoned => return Ok(None),
                CopyProgress::Making => client.check()?,
            }
            let waited = self.changed.wait_timeout(state, CLIENT_CHECK_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Records how making the copy ended, unless that is recorded already.
    fn finish(&self, progress: CopyProgress) {
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
        // At an offset of its own, because several readers share the file.
        let length = self.file.file.read_at(bytes, self.offset)?;
        self.offset += length as u64;
        Ok(length)
    }
}

// === impl MakingGuard ===

impl Drop for MakingGuard {
    fn drop(&mut self) {
        self.0.finish(CopyProgress::Abandoned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_abandoned_copy_is_not_joined() {
        let folder = tempfile::tempdir().unwrap();
        let key = CopyKey { history: folder.path().join("a.kine"), content: CopyContent::History };
        let scratch = ScratchSpace::new(1 << 20);
        let ((first, first_connection), (second, _second_connection)) =
            (ClientHandle::new(), ClientHandle::new());
        let interrupted = scratch.get_or_make(key.clone(), &first, |new| {
            let is_wanted = new.client_check();
            assert!(is_wanted());
            drop(first_connection);
            assert!(!is_wanted());
            // Another client requests the same copy before the first attempt has returned: it must not share that one's
            // failure.
            assert!(scratch.find_or_start(&key, &second).is_err(), "the second makes a copy of its own");
            Err(ApiError::unavailable("interrupted"))
        });
        assert!(interrupted.is_err());
    }
}
