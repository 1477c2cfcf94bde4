//! Recordings of replays as histories.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, SyncSender};
use std::thread::JoinHandle;

use history::{BulkWriter, Compression};
use model::{IncomingChange, Kind, Moment, Object, What};
use simulation::{Observer, PodDemand, SimulationEvent};

use crate::play::ReplayObserver;

/// Records a replay into a new history, which appears when it is complete.
///
/// Changes are compressed and written by a thread of their own, while the replay goes on.
pub struct ReplayRecording {
    source: Arc<str>,
    /// Recorded objects that are not copied: kind, namespace, name (all, if empty).
    skipped: Vec<(Kind, Arc<str>, Arc<str>)>,
    /// Changes that are not handed over yet.
    batch: Vec<(Moment, What)>,
    writer: Option<WriterThread>,
    error: Option<history::Error>,
}

/// The thread that writes. It ends with the first error, or when its sender is gone.
struct WriterThread {
    sender: SyncSender<Vec<(Moment, What)>>,
    thread: JoinHandle<Result<BulkWriter, history::Error>>,
}

/// How many changes are handed over at once, and how many such batches may wait.
const BATCH_LEN: usize = 256;
const BATCHES_AHEAD: usize = 8;

// === impl ReplayRecording ===

impl ReplayRecording {
    /// Creates a recording whose source has this name.
    pub fn create(path: &Path, source: Arc<str>) -> Result<ReplayRecording, history::Error> {
        let writer = Some(WriterThread::start(path, source.clone())?);
        Ok(ReplayRecording { source, skipped: Vec::new(), batch: Vec::new(), writer, error: None })
    }

    /// Writes an object of our own first. Recorded objects of its kind are skipped.
    pub fn push_first(&mut self, at: Moment, object: Object) {
        self.skip(object.key(&self.source).kind, "", "");
        self.push(at, What::Added(object));
    }

    /// Writes an object of our own last, so that the history reaches to this moment even if nothing happened.
    pub fn push_last(&mut self, at: Moment, object: Object) {
        self.push(at, What::Modified(object));
    }

    /// Skips a recorded object.
    pub fn skip(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.skipped.push((kind, namespace.into(), name.into()));
    }

    /// Completes the history, and returns the number of changes.
    pub fn finish(mut self) -> Result<u64, history::Error> {
        self.send_batch();
        match (self.error.take(), self.writer.take()) {
            (Some(error), _) => Err(error),
            (None, Some(writer)) => writer.join()?.finish(),
            (None, None) => unreachable!("the writer ends only with an error"),
        }
    }

    /// The error that ended it, if there is one. The history is not completed.
    pub fn into_error(mut self) -> Option<history::Error> {
        self.error.take().or_else(|| self.writer.take()?.join().err())
    }

    fn push(&mut self, at: Moment, what: What) {
        self.batch.push((at, what));
        if self.batch.len() >= BATCH_LEN {
            self.send_batch();
        }
    }

    /// Hands the batch over. If the writer has ended, its error is taken.
    fn send_batch(&mut self) {
        let batch = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH_LEN));
        let is_sent = self.writer.as_ref().is_some_and(|writer| writer.sender.send(batch).is_ok());
        if !is_sent && let Some(writer) = self.writer.take() {
            self.error = writer.join().err();
        }
    }

    fn is_skipped(&self, object: &Object) -> bool {
        let meta = object.meta();
        self.skipped.iter().any(|(kind, namespace, name)| {
            *kind.kind == *meta.kind
                && *kind == Kind::of(&meta.api_version, &meta.kind)
                && (name.is_empty() || (**namespace == *meta.namespace && **name == *meta.name))
        })
    }
}

impl Drop for ReplayRecording {
    /// A history that is not completed leaves no file behind, even if the process ends next.
    fn drop(&mut self) {
        drop(self.writer.take().map(WriterThread::join));
    }
}

impl Observer for ReplayRecording {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        if !self.is_skipped(what.object()) {
            self.push(at, what);
        }
    }

    fn on_event(&mut self, _: Moment, _: &SimulationEvent<'_>) {}
}

impl ReplayObserver for ReplayRecording {
    fn on_demand(&mut self, _: Moment, _: &PodDemand) {}

    fn should_continue(&self) -> bool {
        self.error.is_none()
    }
}

// === impl WriterThread ===

impl WriterThread {
    fn start(path: &Path, source: Arc<str>) -> Result<WriterThread, history::Error> {
        let mut bulk = BulkWriter::open_with(path, Compression::Fast)?;
        let (sender, batches) = mpsc::sync_channel::<Vec<(Moment, What)>>(BATCHES_AHEAD);
        let write = move || {
            for (at, what) in batches.into_iter().flatten() {
                bulk.push(&IncomingChange::received(at, &source, what))?;
            }
            Ok(bulk)
        };
        let thread = std::thread::Builder::new().name("replay-recording".to_owned()).spawn(write);
        let doing = "start the thread that writes";
        let thread = thread.map_err(|source| history::Error::Io { doing, path: path.to_owned(), source })?;
        Ok(WriterThread { sender, thread })
    }

    /// Waits until everything that was sent is written.
    fn join(self) -> Result<BulkWriter, history::Error> {
        drop(self.sender);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
