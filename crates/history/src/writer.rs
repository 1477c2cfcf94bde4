//! The writer used for recording: one thread writes, fed by a bounded queue; a second thread packs rows into blocks.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::{ContentHash, Moment};
use rusqlite::Connection;

use crate::batch::Batch;
use crate::batch_packer::{BatchPacker, LargeKinds, UnpackedStream};
use crate::change_indexer::{ChangeIndexer, Stream};
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{MAX_FRAME_VERSIONS, VersionRow};
use crate::gaps;
use crate::lock::WriterLock;
use crate::packer::{PackedOutput, PackedSlot, Packer};
use crate::packer_queue::{PackerQueue, PackerRequest};
use crate::prune_steps::{self, PruneHandle};
use crate::rows::{DICTIONARY_SAMPLES, RowCodec};
use crate::schema::{self, Durability};
use crate::writer_command::WriterCommand;

/// Maximum number of queued batches. When the queue is full, [`Writer::append`] blocks, which slows down its caller.
const BATCH_QUEUE: usize = 16;
/// A transaction is committed after this many changes even if more are queued.
const TRANSACTION_CHANGES: usize = 2048;

/// Pruning stops if the write-ahead log has more pages than this after a checkpoint, because a reader still needs
/// them.
const MAX_WAL_PAGES: i64 = if cfg!(test) { 16 } else { 4096 };

/// Writes to a history, creating it if it does not exist. There can be only one per file.
///
/// Dropping it closes the history properly; [`close`](Writer::close) also reports errors.
pub struct Writer {
    commands: SyncSender<WriterCommand>,
    thread: Option<JoinHandle<()>>,
}

// === impl Writer ===

impl Writer {
    /// Opens or creates the history at `path`.
    pub fn open(path: &Path) -> Result<Writer> {
        let lock = WriterLock::take(path)?;
        let connection = schema::open_writable(path, Durability::EveryCommit)?;
        let indexer = ChangeIndexer::open(&connection, path)?;
        let last_seq = indexer.last_seq();
        let waiting = count_rows(&connection).context("read", path)?;
        let (commands, inbox) = sync_channel(BATCH_QUEUE);
        let (requests, packer_inbox) = PackerQueue::new();
        let packed_slot = Arc::new(PackedSlot::default());
        let unfinished = requests.unfinished().clone();
        let packer = Packer::open(path, commands.clone(), packed_slot.clone(), packer_inbox, unfinished)?;
        let packer = spawn("packer", path, move || packer.run())?;
        if let Some(pruned_to) = prune_steps::unfinished_prune(&connection).context("read", path)? {
            // The queue is empty, so this cannot fail.
            let _ = requests.try_send(PackerRequest::Prune(pruned_to, None));
        }
        let writer_thread = WriterThread {
            path: path.to_owned(),
            connection,
            indexer,
            rows: RowCodec::new(),
            batch_packer: None,
            unpacked_rows: waiting,
            packing_requested: HashSet::new(),
            training_requested: HashSet::new(),
            requests: Some(requests),
            packed_slot,
            packer: Some(packer),
            last_seq,
            failure: None,
            _lock: lock,
        };
        let thread = spawn("writer", path, move || writer_thread.run(&inbox))?;
        Ok(Writer { commands, thread: Some(thread) })
    }

    /// Queues a batch, blocking while the queue is full. It is durable after the next [`flush`](Writer::flush). A
    /// caller that may have to write the batch again can share it.
    pub fn append(&self, batch: impl Into<Arc<Batch>>) -> Result<()> {
        self.commands.send(WriterCommand::Append(batch.into())).map_err(|_| Error::writer_ended())
    }

    /// Waits until everything queued so far survives the death of this process. Returns the sequence number of the
    /// last change in the history, 0 if there is none.
    pub fn flush(&self) -> Result<i64> {
        let (reply, receiver) = sync_channel(1);
        self.commands.send(WriterCommand::Flush(reply)).map_err(|_| Error::writer_ended())?;
        receiver.recv().map_err(|_| Error::writer_ended())?
    }

    /// Prunes the history before `moment`, or before its end if that is earlier. Every later moment shows the same
    /// state as before, and each object alive at the new beginning keeps its last version as it was recorded.
    ///
    /// Pruning runs in small steps between the appended batches, so that it needs little space and delays no batch
    /// for long. Pruned data is overwritten with zeros, and the file shrinks. If a step fails, no data is lost and
    /// writing continues; the result has the error and whether it is transient. A prune that was interrupted by
    /// closing or killing the writer is resumed by the next writer.
    pub fn prune(&self, moment: Moment) -> Result<PruneHandle> {
        let (reply, receiver) = sync_channel(1);
        self.commands.send(WriterCommand::Prune(moment, reply)).map_err(|_| Error::writer_ended())?;
        Ok(PruneHandle::new(receiver))
    }

    /// Packs the remaining rows and closes the file, so that it can be read without its write-ahead log.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    /// Stops without writing to the file again, because it is damaged: the file and its write-ahead log stay as they
    /// are.
    pub fn abandon(self) {
        // Dropping the sender ends the thread.
        let _ = self.commands.send(WriterCommand::Abandon);
    }

    fn finish(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let (reply, receiver) = sync_channel(1);
        let result = match self.commands.send(WriterCommand::Close(reply)) {
            Ok(()) => receiver.recv().unwrap_or_else(|_| Err(Error::writer_ended())),
            Err(_) => Err(Error::writer_ended()),
        };
        thread.join().map_err(|_| Error::writer_ended())?;
        result
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Errors are reported only by `close`.
        let _ = self.finish();
    }
}

/// State of the thread that writes.
struct WriterThread {
    path: PathBuf,
    connection: Connection,
    indexer: ChangeIndexer,
    rows: RowCodec,
    /// `None` unless the last transaction had a large batch: it takes megabytes.
    batch_packer: Option<BatchPacker>,
    /// Number of rows per stream that are not packed yet.
    unpacked_rows: HashMap<i64, usize>,
    /// Streams whose packing was requested and is not finished.
    packing_requested: HashSet<i64>,
    /// Streams for which a dictionary was requested; once is enough.
    training_requested: HashSet<i64>,
    requests: Option<PackerQueue>,
    packed_slot: Arc<PackedSlot>,
    packer: Option<JoinHandle<()>>,
    last_seq: i64,
    failure: Option<WriterFailure>,
    _lock: WriterLock,
}

/// The error that stopped the writer.
struct WriterFailure {
    why: String,
    is_transient: bool,
    is_damage: bool,
}

/// Replies and work to do after the commit.
#[derive(Default)]
struct PendingReplies {
    flushed: Vec<SyncSender<Result<i64>>>,
    packed: Vec<SyncSender<Result<()>>>,
    prune: Vec<(Moment, SyncSender<Result<Moment>>)>,
    /// A prune step to run in its own transaction after the commit.
    prune_step: Option<PackedOutput>,
    close: Option<SyncSender<Result<()>>>,
    packer_done: bool,
}

// === impl PendingReplies ===

impl PendingReplies {
    /// Registers the reply a command waits for. Returns the batch to write, if any.
    fn register(&mut self, command: WriterCommand) -> Result<Option<Arc<Batch>>> {
        match command {
            WriterCommand::Append(batch) => return Ok(Some(batch)),
            WriterCommand::Flush(reply) => self.flushed.push(reply),
            WriterCommand::Prune(moment, reply) => self.prune.push((moment, reply)),
            // The slot is checked with every command.
            WriterCommand::CheckPackedSlot => {}
            WriterCommand::PackerFailed(error) => return Err(error),
            WriterCommand::Abandon => return Err(Error::writer_abandoned()),
            WriterCommand::PackerDone => self.packer_done = true,
            WriterCommand::Close(reply) => self.close = Some(reply),
        }
        Ok(None)
    }

    /// Registers the reply that the packer waits for. Returns the output to write in this transaction, if any.
    fn register_packed(&mut self, packed: Option<PackedOutput>) -> Option<PackedOutput> {
        let packed = packed?;
        if packed.is_prune_step() {
            self.prune_step = Some(packed);
            return None;
        }
        self.packed.push(packed.reply_sender());
        Some(packed)
    }

    fn must_commit(&self) -> bool {
        self.prune_step.is_some() || !self.prune.is_empty() || self.close.is_some() || self.packer_done
    }
}

// === impl WriterThread ===

impl WriterThread {
    fn run(mut self, inbox: &Receiver<WriterCommand>) {
        let (mut closing, mut packer_done) = (None, false);
        // Runs until the owner has requested the close and the packer has ended.
        while !(packer_done && closing.is_some()) {
            let Ok(first) = inbox.recv() else { break };
            let mut replies = PendingReplies::default();
            let outcome = self.transaction(first, inbox, &mut replies);
            if let Err(error) = outcome {
                // The owner gets the error from its next call; what was committed stays.
                let _ = self.connection.execute_batch("ROLLBACK");
                // The file was opened as a history, so if it is not one any more it is damaged.
                let is_damage = error.is_damage() || matches!(error, Error::NotAHistory { .. });
                let (why, is_transient) = (describe(&error), error.is_transient());
                self.failure.get_or_insert(WriterFailure { why, is_transient, is_damage });
            }
            for reply in replies.flushed {
                let _ = reply.send(self.result().map(|()| self.last_seq));
            }
            for reply in replies.packed {
                let _ = reply.send(self.result());
            }
            for (moment, reply) in replies.prune {
                self.request_prune(moment, reply);
            }
            if let Some(step) = replies.prune_step {
                let _ = step.reply_sender().send(self.apply_prune_step(&step));
            }
            if let Some(reply) = replies.close {
                closing = Some(reply);
                // The packer ends when its request channel is closed.
                self.requests = None;
            }
            packer_done |= replies.packer_done;
        }
        if let Some(packer) = self.packer.take() {
            let _ = packer.join();
        }
        let result = self.result();
        let closed = match self.failure {
            Some(WriterFailure { is_damage: true, .. }) => schema::abandon(self.connection, &self.path),
            _ => schema::close(self.connection, &self.path),
        };
        if let Some(reply) = closing {
            let _ = reply.send(result.and(closed));
        }
    }

    fn result(&self) -> Result<()> {
        self.failure.as_ref().map_or(Ok(()), |failed| {
            let WriterFailure { why, is_transient, is_damage } = failed;
            Err(Error::Stopped { why: why.clone(), is_transient: *is_transient, is_damage: *is_damage })
        })
    }

    /// Writes `first` and the other queued commands in one transaction.
    fn transaction(
        &mut self,
        first: WriterCommand,
        inbox: &Receiver<WriterCommand>,
        replies: &mut PendingReplies,
    ) -> Result<()> {
        let doing = "write to";
        let mut remaining = TRANSACTION_CHANGES;
        let mut next = Some(first);
        let mut is_open = false;
        while let Some(command) = next {
            // Replies are registered first, so that each is answered even if a later step fails.
            let batch = replies.register(command)?;
            let packed = replies.register_packed(self.packed_slot.take());
            let writes = batch.is_some() || packed.is_some();
            if self.failure.is_none() && !is_open && writes {
                self.connection.execute_batch("BEGIN IMMEDIATE").context(doing, &self.path)?;
                is_open = true;
            }
            // After a failure nothing more is written: a hole in the middle would be worse than an early end.
            if self.failure.is_none() {
                if let Some(packed) = &packed {
                    self.apply_packed(packed)?;
                }
                if let Some(batch) = &batch {
                    remaining = remaining.saturating_sub(batch.changes.len().max(1));
                    self.append(batch)?;
                }
            }
            // The packer blocks until the commit, so commit soon.
            let stop = packed.is_some() || remaining == 0 || replies.must_commit();
            next = if stop { None } else { inbox.try_recv().ok() };
        }
        if is_open {
            self.indexer.write_updates(&self.connection)?;
            self.connection.execute_batch("COMMIT").context(doing, &self.path)?;
        }
        self.request_packing();
        Ok(())
    }

    /// Writes the packer's output to the file.
    fn apply_packed(&mut self, packed: &PackedOutput) -> Result<()> {
        if let Some((stream, rows)) = packed.apply(&self.connection, &self.path, self.last_seq)? {
            self.rows.refresh_dictionary(stream);
            let waiting = self.unpacked_rows.entry(stream).or_default();
            *waiting = waiting.saturating_sub(rows);
            self.packing_requested.remove(&stream);
        }
        Ok(())
    }

    fn request_prune(&self, moment: Moment, reply: SyncSender<Result<Moment>>) {
        let request = PackerRequest::Prune(moment, Some(reply));
        let rejected = match (&self.requests, self.result()) {
            (Some(requests), Ok(())) => requests.try_send(request).err().map(|error| {
                let (TrySendError::Full(request) | TrySendError::Disconnected(request)) = error;
                let why = "the packer is overloaded".to_owned();
                (request, Error::Stopped { why, is_transient: true, is_damage: false })
            }),
            (None, Ok(())) => Some((request, Error::writer_ended())),
            (_, Err(error)) => Some((request, error)),
        };
        if let Some((PackerRequest::Prune(_, Some(reply)), error)) = rejected {
            let _ = reply.send(Err(error));
        }
    }

    /// Runs one prune step. If it fails, the file is unchanged and writing continues.
    fn apply_prune_step(&mut self, step: &PackedOutput) -> Result<()> {
        self.result()?;
        let doing = "prune";
        // Does not wait for other connections, because queued batches would wait too. Deleted content is overwritten
        // with zeros only here: packed rows still exist in their block, so they need no overwriting.
        self.connection.busy_timeout(Duration::ZERO).context(doing, &self.path)?;
        self.connection.execute_batch("PRAGMA secure_delete = ON").context(doing, &self.path)?;
        let done = self.apply_prune_step_in_transaction(step);
        if done.is_err() {
            // Some errors end the transaction by themselves.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.connection.execute_batch("PRAGMA secure_delete = OFF").context(doing, &self.path)?;
        self.connection.busy_timeout(schema::BUSY_TIMEOUT).context(doing, &self.path)?;
        done
    }

    fn apply_prune_step_in_transaction(&mut self, step: &PackedOutput) -> Result<()> {
        let doing = "prune";
        schema::checkpoint(&self.connection, MAX_WAL_PAGES).context(doing, &self.path)?;
        self.connection.execute_batch("BEGIN IMMEDIATE").context(doing, &self.path)?;
        let free = schema::free_pages(&self.connection).context(doing, &self.path)?;
        self.apply_packed(step)?;
        let freed = schema::free_pages(&self.connection).context(doing, &self.path)? - free;
        schema::vacuum_pages(&self.connection, freed).context(doing, &self.path)?;
        self.connection.execute_batch("COMMIT").context(doing, &self.path)
    }

    fn append(&mut self, batch: &Batch) -> Result<()> {
        let large_kinds = LargeKinds::of(&batch.changes);
        for observed in &batch.changes {
            let object = observed.what.object();
            let content = object.content_hash();
            let (stream, row) = self.indexer.index(&self.connection, observed, content)?;
            self.last_seq = row.seq;
            if !self.pack_with_batch(&large_kinds, &stream, row, object.as_str())? {
                self.insert_row(&stream, &row, object.as_str(), content)?;
            }
        }
        if let Some(packer) = &mut self.batch_packer {
            for UnpackedStream { stream, pending, .. } in packer.finish(&self.connection, &self.path)? {
                self.unpacked_rows.remove(&stream.id);
                for (row, text) in pending.iter() {
                    self.insert_row(&stream, row, text, ContentHash::of(text))?;
                }
            }
        }
        for gap in &batch.closed_gaps {
            let source = self.indexer.source_id(&self.connection, &gap.source)?;
            gaps::close(&self.connection, &self.path, source, gap)?;
        }
        for gap in &batch.gaps {
            let source = self.indexer.source_id(&self.connection, &gap.source)?;
            gaps::insert(&self.connection, &self.path, source, gap)?;
        }
        for position in &batch.positions {
            let source = self.indexer.source_id(&self.connection, &position.source)?;
            position.insert(&self.connection, &self.path, source)?;
        }
        Ok(())
    }

    fn insert_row(
        &mut self,
        stream: &Stream,
        row: &VersionRow,
        text: &str,
        content: ContentHash,
    ) -> Result<()> {
        self.rows.insert(&self.connection, &self.path, stream, row, text, content)?;
        self.indexer.count_row(stream, row);
        *self.unpacked_rows.entry(stream.id).or_default() += 1;
        Ok(())
    }

    /// Packs a change with its batch, without a row of its own. Returns whether the changes of this stream in this
    /// batch are packed.
    fn pack_with_batch(
        &mut self,
        large_kinds: &LargeKinds<'_>,
        stream: &Arc<Stream>,
        row: VersionRow,
        text: &str,
    ) -> Result<bool> {
        if !large_kinds.contains(stream) {
            return Ok(false);
        }
        let WriterThread { connection, path, .. } = self;
        let packer = self.batch_packer.get_or_insert_with(BatchPacker::new);
        let is_packed = match packer.is_packed(stream.id) {
            Some(is_packed) => is_packed,
            None => {
                let rows = self.unpacked_rows.get(&stream.id).copied().unwrap_or(0);
                // With that many rows the packer has work to do, requested or not.
                let is_packed = rows < MAX_FRAME_VERSIONS
                    && self.requests.as_ref().is_some_and(|requests| !requests.is_packing(stream.id));
                match is_packed {
                    true => packer.begin(connection, path, stream, rows > 0)?,
                    false => packer.skip(stream.id),
                }
                is_packed
            }
        };
        if is_packed {
            packer.push(connection, path, stream, row, text)?;
        }
        Ok(is_packed)
    }

    fn request_packing(&mut self) {
        let Some(requests) = &self.requests else { return };
        let written = self.batch_packer.as_mut().map(BatchPacker::take_written).unwrap_or_default();
        if written.is_empty() {
            self.batch_packer = None;
        }
        for block in written {
            // If the queue is full, the block is not counted, and the next keyframe comes later.
            let _ = requests.try_send(PackerRequest::Count(block));
        }
        let mut waiting: Vec<(i64, usize)> =
            self.unpacked_rows.iter().map(|(stream, rows)| (*stream, *rows)).collect();
        waiting.sort_unstable();
        for (stream, rows) in waiting {
            // If the queue is full, the stream is requested again after the next commit.
            if rows >= MAX_FRAME_VERSIONS && !self.packing_requested.contains(&stream) {
                if requests.try_send(PackerRequest::Pack(stream)).is_ok() {
                    self.packing_requested.insert(stream);
                }
            } else if rows >= DICTIONARY_SAMPLES
                && !self.training_requested.contains(&stream)
                && !self.rows.has_dictionary(stream)
                && requests.try_send(PackerRequest::Train(stream)).is_ok()
            {
                self.training_requested.insert(stream);
            }
        }
    }
}

fn count_rows(connection: &Connection) -> rusqlite::Result<HashMap<i64, usize>> {
    connection
        .prepare("SELECT stream, count(*) FROM change GROUP BY stream")?
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)? as usize)))?
        .collect()
}

fn spawn(name: &str, path: &Path, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(run).context("start a thread for", path)
}

/// An error with its causes as text, because it is reported on another thread, possibly more than once.
fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        // SQLite's error code repeats SQLite's message.
        if error.is::<rusqlite::ffi::Error>() {
            break;
        }
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a writer thread with output in the packed slot and these commands queued, while another connection has
    /// locked the file.
    fn run_on_locked_file(path: &Path, commands: Vec<WriterCommand>) {
        let connection = schema::open_writable(path, Durability::EveryCommit).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        let packed_slot = Arc::new(PackedSlot::default());
        let (done, packed) = sync_channel(1);
        packed_slot.put(PackedOutput::empty_keyframe(done));
        let (sender, inbox) = sync_channel(BATCH_QUEUE);
        commands.into_iter().for_each(|command| sender.send(command).unwrap());
        let (requests, _packer_inbox) = PackerQueue::new();
        let writer_thread = WriterThread {
            indexer: ChangeIndexer::open(&connection, path).unwrap(),
            connection,
            rows: RowCodec::new(),
            batch_packer: None,
            unpacked_rows: HashMap::new(),
            packing_requested: HashSet::new(),
            training_requested: HashSet::new(),
            requests: Some(requests),
            packed_slot,
            packer: None,
            last_seq: 0,
            failure: None,
            _lock: WriterLock::take(path).unwrap(),
            path: path.to_owned(),
        };
        let other = Connection::open(path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // Without a sender the thread ends by itself if it would wait for further commands.
        drop(sender);
        writer_thread.run(&inbox);
        assert!(packed.recv().unwrap().unwrap_err().is_transient());
    }

    #[test]
    fn waiting_callers_get_a_reply_if_the_transaction_cannot_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.kine");
        let (flushed, flush) = sync_channel(1);
        let (closed, close) = sync_channel(1);
        run_on_locked_file(
            &path,
            vec![WriterCommand::Flush(flushed), WriterCommand::Close(closed), WriterCommand::PackerDone],
        );
        assert!(flush.recv().unwrap().unwrap_err().is_transient());
        assert!(close.recv().unwrap().unwrap_err().is_transient());

        let (closed, close) = sync_channel(1);
        run_on_locked_file(&path, vec![WriterCommand::Close(closed), WriterCommand::PackerDone]);
        assert!(close.recv().unwrap().unwrap_err().is_transient());
    }
}
