//! The packer thread: it packs rows into blocks, builds keyframes and the object index, reading on its own connection
//! so that neither the writer nor any reader waits for it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Moment;
use rusqlite::{Connection, OptionalExtension, params};

use crate::change_indexer::{Stream, streams};
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{FrameCodec, MAX_FRAME_BYTES, MAX_FRAME_VERSIONS, PendingVersions};
use crate::index_schedule::IndexSchedule;
use crate::index_segment::IndexSegment;
use crate::pack::{
    Block, KeyframePart, KeyframeSchedule, WrittenBlock, insert_keyframe, pack_keyframe, remove_block,
};
use crate::packer_queue::{PackerRequest, UnfinishedRequests};
use crate::prune_steps::{self, PruneBound, PruneStep};
use crate::rows::NewDictionary;
use crate::schema;
use crate::stream_state::VersionReader;
use crate::writer_command::WriterCommand;

/// After this time without a request the packer frees its memory.
const IDLE_TIMEOUT: Duration = Duration::from_secs(2);

/// Slot for one finished output of the packer. The writer checks it between two batches, so that the output does not
/// queue behind the batches.
#[derive(Default)]
pub(crate) struct PackedSlot {
    packed: Mutex<Option<PackedOutput>>,
}

/// An output of the packer, to be written by the writer thread.
pub(crate) struct PackedOutput {
    stream: i64,
    /// Number of rows that the output replaces.
    rows: usize,
    kind: PackedOutputKind,
    reply: SyncSender<Result<()>>,
}

enum PackedOutputKind {
    PruneStep(PruneStep),
    Block {
        block: Block,
        /// The small last block of the stream, which this one contains and replaces.
        replaces: Option<i64>,
        dictionary: Option<NewDictionary>,
    },
    Keyframe {
        seq: i64,
        at: i64,
        parts: Vec<KeyframePart>,
    },
    Dictionary(NewDictionary),
    IndexSegment(IndexSegment),
}

pub(crate) struct Packer {
    path: PathBuf,
    connection: Connection,
    streams: Vec<Stream>,
    reader: VersionReader,
    /// Its memory is reused: a block has megabytes of text.
    pending: PendingVersions,
    keyframe_schedule: KeyframeSchedule,
    index_schedule: IndexSchedule,
    outbox: Outbox,
    requests: Receiver<PackerRequest>,
    unfinished: Arc<UnfinishedRequests>,
    /// Requests received while a prune was running.
    backlog: VecDeque<PackerRequest>,
}

/// Sends outputs to the writer thread.
struct Outbox {
    writer: SyncSender<WriterCommand>,
    packed_slot: Arc<PackedSlot>,
}

/// The last block of a stream.
struct LastBlock {
    first_seq: i64,
    last_seq: i64,
    frame: i64,
    is_small: bool,
}

// === impl PackedSlot ===

impl PackedSlot {
    pub(crate) fn take(&self) -> Option<PackedOutput> {
        self.packed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, packed: PackedOutput) {
        *self.packed.lock().unwrap_or_else(PoisonError::into_inner) = Some(packed);
    }
}

// === impl PackedOutput ===

impl PackedOutput {
    /// Writes it to the file, within a transaction. Returns the stream and the number of rows deleted from `change`,
    /// if any could have been deleted.
    pub(crate) fn apply(
        &self,
        connection: &Connection,
        path: &Path,
        last_seq: i64,
    ) -> Result<Option<(i64, usize)>> {
        match &self.kind {
            PackedOutputKind::Block { block, replaces: instead_of, dictionary } => {
                if let Some(first_seq) = instead_of {
                    remove_block(connection, self.stream, *first_seq).context("pack", path)?;
                }
                block.insert(connection, path)?;
                block.remove_rows(connection, path)?;
                dictionary.as_ref().map_or(Ok(()), |dictionary| dictionary.insert(connection, path))?;
            }
            PackedOutputKind::Keyframe { seq, at, parts } => {
                insert_keyframe(connection, path, self.stream, *seq, *at, parts)?;
            }
            PackedOutputKind::Dictionary(dictionary) => dictionary.insert(connection, path)?,
            PackedOutputKind::IndexSegment(segment) => {
                segment.insert(connection).context("write the object index of", path)?;
                return Ok(None);
            }
            PackedOutputKind::PruneStep(step) => return step.apply(connection, path, last_seq),
        }
        Ok(Some((self.stream, self.rows)))
    }

    /// Whether it is a prune step, which runs in its own transaction so that nothing else fails with it.
    pub(crate) fn is_prune_step(&self) -> bool {
        matches!(self.kind, PackedOutputKind::PruneStep(_))
    }

    /// A keyframe without parts.
    #[cfg(test)]
    pub(crate) fn empty_keyframe(done: SyncSender<Result<()>>) -> PackedOutput {
        PackedOutput {
            stream: 1,
            rows: 0,
            kind: PackedOutputKind::Keyframe { seq: 0, at: 0, parts: Vec::new() },
            reply: done,
        }
    }

    /// The sender of the reply that the packer waits for.
    pub(crate) fn reply_sender(&self) -> SyncSender<Result<()>> {
        self.reply.clone()
    }
}

// === impl Packer ===

impl Packer {
    pub(crate) fn open(
        path: &Path,
        writer: SyncSender<WriterCommand>,
        packed_slot: Arc<PackedSlot>,
        requests: Receiver<PackerRequest>,
        unfinished: Arc<UnfinishedRequests>,
    ) -> Result<Packer> {
        let connection = schema::open_readable(path)?;
        connection
            .execute_batch(&format!("PRAGMA cache_size = -{}", schema::PACKER_CACHE))
            .context("open", path)?;
        Ok(Packer {
            path: path.to_owned(),
            connection,
            streams: Vec::new(),
            reader: VersionReader::new(),
            pending: PendingVersions::default(),
            keyframe_schedule: KeyframeSchedule::default(),
            index_schedule: IndexSchedule::default(),
            outbox: Outbox { writer, packed_slot },
            requests,
            unfinished,
            backlog: VecDeque::new(),
        })
    }

    /// Serves requests until the request channel is closed, then packs the remaining rows.
    pub(crate) fn run(mut self) {
        let outcome = catch_panic(|| self.serve_requests());
        let writer = self.outbox.writer.clone();
        // The connection must be closed before the writer closes the file.
        drop(self);
        if let Err(error) = outcome {
            let _ = writer.send(WriterCommand::PackerFailed(error));
        }
        let _ = writer.send(WriterCommand::PackerDone);
    }

    fn serve_requests(&mut self) -> Result<()> {
        while let Some(request) = self.next_request() {
            let scope = request.scope();
            match request {
                PackerRequest::Pack(stream) => {
                    let stream = self.stream(stream)?;
                    while self.pack_block(&stream, false)? {}
                }
                PackerRequest::Train(stream) => {
                    let stream = self.stream(stream)?;
                    self.train_dictionary(&stream)?;
                }
                PackerRequest::Count(block) => self.count_written(&block)?,
                PackerRequest::Prune(moment, reply) => {
                    let outcome = self.prune(moment);
                    // A failed prune does not stop packing.
                    reply.map(|reply| reply.send(outcome));
                }
            }
            self.unfinished.finish(scope);
        }
        for stream in streams(&self.connection, &self.path)? {
            while self.pack_block(&stream, true)? {}
            while self.write_index_segment(&stream)? {}
        }
        Ok(())
    }

    /// The next request; `None` when the channel is closed. Frees memory while idle: small clusters send a request
    /// every few minutes, and a process may record many clusters.
    fn next_request(&mut self) -> Option<PackerRequest> {
        if let Some(request) = self.backlog.pop_front() {
            return Some(request);
        }
        match self.requests.recv_timeout(IDLE_TIMEOUT) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => {
                self.reader = VersionReader::new();
                self.pending = PendingVersions::default();
                // Failing to free memory does no harm.
                let _ = self.connection.execute_batch("PRAGMA shrink_memory");
                self.requests.recv().ok()
            }
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn stream(&mut self, id: i64) -> Result<Stream> {
        if !self.streams.iter().any(|stream| stream.id == id) {
            self.streams = streams(&self.connection, &self.path)?;
        }
        self.streams
            .iter()
            .find(|stream| stream.id == id)
            .cloned()
            .ok_or_else(|| Error::Damaged { path: self.path.clone(), what: format!("stream {id} not found") })
    }

    /// Trains a dictionary on the rows of a stream, so that later rows need not wait for its first block.
    fn train_dictionary(&mut self, stream: &Stream) -> Result<()> {
        let mut pending = PendingVersions::default();
        let sizes = self.reader.rows.read(&self.connection, &self.path, stream, i64::MIN, &mut pending)?;
        match NewDictionary::train(&self.connection, &self.path, stream.id, &pending, &sizes)? {
            Some(dictionary) => self.outbox.deliver(stream.id, 0, PackedOutputKind::Dictionary(dictionary)),
            None => Ok(()),
        }
    }

    /// Prunes everything before a moment, step by step; the writer applies each step between two batches. Nothing is
    /// packed meanwhile, so that each step finds the file as the previous one left it.
    fn prune(&mut self, moment: Moment) -> Result<Moment> {
        // All prunable rows of a stream are deleted in one step, so no more than a block's worth may be unpacked.
        for stream in streams(&self.connection, &self.path)? {
            while self.pack_block(&stream, false)? {}
        }
        let Packer { path, connection, reader, outbox, requests, backlog, .. } = self;
        let mut step = |step: PruneStep| {
            loop {
                match requests.try_recv() {
                    Ok(request) => backlog.push_back(request),
                    Err(TryRecvError::Empty) => break,
                    // The writer is closing; the next writer resumes the prune.
                    Err(TryRecvError::Disconnected) => return Err(Error::writer_ended()),
                }
            }
            outbox.deliver(0, 0, PackedOutputKind::PruneStep(step))
        };
        let pruned =
            prune_steps::run_prune(connection, path, reader, moment, PruneBound::BehindWriter, &mut step);
        // A prune removes index segments, and if it fails, does not replace them.
        self.index_schedule = IndexSchedule::default();
        pruned
    }

    /// Packs the oldest rows of a stream into one block, with `rest` even if they do not fill it. Returns whether
    /// there were any.
    fn pack_block(&mut self, stream: &Stream, rest: bool) -> Result<bool> {
        self.connection.execute_batch("BEGIN").context("read", &self.path)?;
        let mut pending = std::mem::take(&mut self.pending);
        pending.rows.clear();
        pending.text.clear();
        let made = self.make_block(stream, &mut pending, rest);
        self.pending = pending;
        self.connection.execute_batch("COMMIT").context("read", &self.path)?;
        let Some((block, rows, instead_of, dictionary)) = made? else { return Ok(false) };
        let is_keyframe_due = self.keyframe_schedule.count_block(
            &self.connection,
            &self.path,
            &mut self.reader,
            stream,
            block.size(),
            false,
        )?;
        let end = block.end();
        self.outbox.deliver(
            stream.id,
            rows,
            PackedOutputKind::Block { block, replaces: instead_of, dictionary },
        )?;
        self.finish_block(stream, end, is_keyframe_due)?;
        Ok(true)
    }

    /// Counts a block that the writer has packed itself.
    fn count_written(&mut self, block: &WrittenBlock) -> Result<()> {
        let stream = self.stream(block.stream)?;
        let is_keyframe_due = self.keyframe_schedule.count_block(
            &self.connection,
            &self.path,
            &mut self.reader,
            &stream,
            block.size,
            true,
        )?;
        self.finish_block(&stream, block.end, is_keyframe_due)
    }

    /// Writes the keyframe and the index segment that are due after a block.
    fn finish_block(&mut self, stream: &Stream, (seq, at): (i64, i64), is_keyframe_due: bool) -> Result<()> {
        if is_keyframe_due {
            let codec = &mut FrameCodec::new();
            let parts = pack_keyframe(&self.connection, &self.path, &mut self.reader, codec, stream, seq)?;
            self.keyframe_schedule.reset(stream, &parts);
            self.outbox.deliver(stream.id, 0, PackedOutputKind::Keyframe { seq, at, parts })?;
        }
        self.index_schedule.count_block(stream);
        self.write_index_segment(stream)?;
        Ok(())
    }

    /// Writes the next index segment of a stream. Returns whether one was due.
    fn write_index_segment(&mut self, stream: &Stream) -> Result<bool> {
        match self.index_schedule.next_segment(&self.connection, &self.path, stream)? {
            Some(segment) => {
                self.outbox.deliver(stream.id, 0, PackedOutputKind::IndexSegment(segment)).map(|()| true)
            }
            None => Ok(false),
        }
    }

    #[expect(clippy::type_complexity, reason = "one caller, which takes it apart at once")]
    fn make_block(
        &mut self,
        stream: &Stream,
        pending: &mut PendingVersions,
        rest: bool,
    ) -> Result<Option<(Block, usize, Option<i64>, Option<NewDictionary>)>> {
        let last = last_block(&self.connection, stream.id).context("read a block of", &self.path)?;
        let after = last.as_ref().map_or(i64::MIN, |last| last.last_seq);
        let small = last.filter(|last| last.is_small);
        if let Some(small) = &small {
            let frame = self.reader.read_frame(&self.connection, &self.path, small.frame)?;
            let all: Vec<u32> = (0..frame.rows.len() as u32).collect();
            self.reader
                .read_objects(&self.path, small.frame, &frame, &all, |row, text| pending.push(*row, text))?;
        }
        let old = pending.rows.len();
        let sizes = self.reader.rows.read(&self.connection, &self.path, stream, after, pending)?;
        let rows = pending.rows.len() - old;
        if rows == 0 || !(rest || pending.is_full()) {
            return Ok(None);
        }
        // The rows at the end of a history are not followed by others: no need to train on them.
        let dictionary = match small {
            None if !rest => NewDictionary::train(&self.connection, &self.path, stream.id, pending, &sizes)?,
            _ => None,
        };
        let block = Block::pack(&mut self.reader.codec, stream, pending);
        Ok(Some((block, rows, small.map(|small| small.first_seq), dictionary)))
    }
}

// === impl Outbox ===

impl Outbox {
    /// Hands an output to the writer and waits until it is committed.
    fn deliver(&self, stream: i64, rows: usize, kind: PackedOutputKind) -> Result<()> {
        let (done, receiver) = sync_channel(1);
        self.packed_slot.put(PackedOutput { stream, rows, kind, reply: done });
        // The command is needed only to wake up an idle writer.
        match self.writer.try_send(WriterCommand::CheckPackedSlot) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => return Err(Error::writer_ended()),
        }
        // Without waiting, rows whose block failed to be written would be packed again and again.
        match receiver.recv() {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::writer_ended()),
        }
    }
}

/// Turns a panic into an error: the writer waits for the packer's end.
fn catch_panic(work: impl FnOnce() -> Result<()>) -> Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let why = "the packer panicked".to_owned();
        Err(Error::Stopped { why, is_transient: false, is_damage: false })
    })
}

/// The last block of a stream. A small one is filled up, unless a keyframe depends on its end.
fn last_block(connection: &Connection, stream: i64) -> rusqlite::Result<Option<LastBlock>> {
    connection
        .prepare_cached(
            "SELECT first_seq, last_seq, frame, changes <= ?2 AND raw <= ?3
                 AND NOT EXISTS (SELECT 1 FROM keyframe WHERE stream = ?1 AND seq >= first_seq)
             FROM block WHERE stream = ?1 ORDER BY first_seq DESC LIMIT 1",
        )?
        .query_row(params![stream, MAX_FRAME_VERSIONS as i64 / 2, MAX_FRAME_BYTES as i64 / 2], |row| {
            Ok(LastBlock {
                first_seq: row.get(0)?,
                last_seq: row.get(1)?,
                frame: row.get(2)?,
                is_small: row.get(3)?,
            })
        })
        .optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        assert!(catch_panic(|| Ok(())).is_ok());
        let error = catch_panic(|| panic!("for a test")).unwrap_err();
        assert!(error.to_string().ends_with("the packer panicked"), "{error}");
    }
}
