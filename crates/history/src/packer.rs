//! The thread behind the writer: it packs rows into blocks and makes keyframes, reading on a connection of its own
//! so that neither the writer nor any reader waits for it.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::Moment;
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::{Doing, Error, Result};
use crate::forget::{self, Cut, ForgetStep};
use crate::frame::{FRAME_BYTES, FRAME_VERSIONS, Pending};
use crate::intake::{Stream, streams};
use crate::pack::{Block, KeyframeClock, KeyframePart, insert_keyframe, keyframe, remove_block};
use crate::rows::NewDictionary;
use crate::schema;
use crate::state::Tools;
use crate::writer_command::Command;

/// After this time without a request there is nothing to do for a while.
const IDLE: Duration = Duration::from_secs(2);

/// What the writer asks for.
pub(crate) enum Request {
    /// A block of a stream that has rows enough for one.
    Pack(i64),
    /// A dictionary for a stream that has rows enough to learn from.
    Train(i64),
    /// What was before a moment is to be forgotten; the answer is awaited, if someone asked.
    Forget(Moment, Option<SyncSender<Result<Moment>>>),
}

/// Where the packer puts what it made. The writer looks here between two batches, so that nothing made waits behind
/// all the batches in the queue.
#[derive(Default)]
pub(crate) struct Tray {
    packed: Mutex<Option<Packed>>,
}

/// What the packer made, for the writer to put in the file.
pub(crate) struct Packed {
    stream: i64,
    /// Rows that are in a block now.
    rows: usize,
    what: Made,
    done: SyncSender<Result<()>>,
}

enum Made {
    Forget(ForgetStep),
    Block {
        block: Block,
        /// The small block at the end of the stream that this one contains and replaces.
        instead_of: Option<i64>,
        dictionary: Option<NewDictionary>,
    },
    Keyframe {
        seq: i64,
        at: i64,
        parts: Vec<KeyframePart>,
    },
    Dictionary(NewDictionary),
}

pub(crate) struct Packer {
    path: PathBuf,
    connection: Connection,
    streams: Vec<Stream>,
    tools: Tools,
    clock: KeyframeClock,
    outbox: Outbox,
    requests: Receiver<Request>,
    /// Requests that came while something was being forgotten.
    backlog: VecDeque<Request>,
}

/// The way to the writer.
struct Outbox {
    writer: SyncSender<Command>,
    tray: Arc<Tray>,
}

/// The last block of a stream.
struct LastBlock {
    first_seq: i64,
    last_seq: i64,
    frame: i64,
    is_small: bool,
}

// === impl Tray ===

impl Tray {
    pub(crate) fn take(&self) -> Option<Packed> {
        self.packed.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    pub(crate) fn put(&self, packed: Packed) {
        *self.packed.lock().unwrap_or_else(PoisonError::into_inner) = Some(packed);
    }
}

// === impl Packed ===

impl Packed {
    /// Puts it in the file, within a transaction. Says of which stream how many rows have left `change`, if any could.
    pub(crate) fn apply(
        &self,
        connection: &Connection,
        path: &Path,
        last_seq: i64,
    ) -> Result<Option<(i64, usize)>> {
        match &self.what {
            Made::Block { block, instead_of, dictionary } => {
                if let Some(first_seq) = instead_of {
                    remove_block(connection, self.stream, *first_seq).doing("pack", path)?;
                }
                block.insert(connection, path)?;
                block.remove_rows(connection, path)?;
                dictionary.as_ref().map_or(Ok(()), |dictionary| dictionary.insert(connection, path))?;
            }
            Made::Keyframe { seq, at, parts } => {
                insert_keyframe(connection, path, self.stream, *seq, *at, parts)?;
            }
            Made::Dictionary(dictionary) => dictionary.insert(connection, path)?,
            Made::Forget(step) => return step.apply(connection, path, last_seq),
        }
        Ok(Some((self.stream, self.rows)))
    }

    /// Whether it is a step of forgetting, which has a transaction of its own, so that nothing else fails with it.
    pub(crate) fn is_forgetting(&self) -> bool {
        matches!(self.what, Made::Forget(_))
    }

    /// A keyframe of nothing.
    #[cfg(test)]
    pub(crate) fn empty(done: SyncSender<Result<()>>) -> Packed {
        Packed { stream: 1, rows: 0, what: Made::Keyframe { seq: 0, at: 0, parts: Vec::new() }, done }
    }

    /// Where the packer waits to hear whether it is in the file.
    pub(crate) fn done(&self) -> SyncSender<Result<()>> {
        self.done.clone()
    }
}

// === impl Packer ===

impl Packer {
    pub(crate) fn open(
        path: &Path,
        writer: SyncSender<Command>,
        tray: Arc<Tray>,
        requests: Receiver<Request>,
    ) -> Result<Packer> {
        let connection = schema::open_readable(path)?;
        connection
            .execute_batch(&format!("PRAGMA cache_size = -{}", schema::PACKER_CACHE))
            .doing("open", path)?;
        Ok(Packer {
            path: path.to_owned(),
            connection,
            streams: Vec::new(),
            tools: Tools::new(),
            clock: KeyframeClock::default(),
            outbox: Outbox { writer, tray },
            requests,
            backlog: VecDeque::new(),
        })
    }

    /// Packs what is asked for; when no one can ask any more, packs the rest and ends.
    pub(crate) fn run(mut self) {
        let outcome = caught(|| self.serve());
        let writer = self.outbox.writer.clone();
        // The connection must be gone before the writer closes the file.
        drop(self);
        if let Err(error) = outcome {
            let _ = writer.send(Command::PackerFailed(error));
        }
        let _ = writer.send(Command::PackerDone);
    }

    fn serve(&mut self) -> Result<()> {
        while let Some(request) = self.next() {
            match request {
                Request::Pack(stream) => {
                    let stream = self.stream(stream)?;
                    while self.pack(&stream, false)? {}
                }
                Request::Train(stream) => {
                    let stream = self.stream(stream)?;
                    self.train(&stream)?;
                }
                Request::Forget(moment, answer) => {
                    let outcome = self.forget(moment);
                    // What could not be forgotten is no reason to pack no more.
                    answer.map(|answer| answer.send(outcome));
                }
            }
        }
        for stream in streams(&self.connection, &self.path)? {
            while self.pack(&stream, true)? {}
        }
        Ok(())
    }

    /// What is asked for next; `None` if no one can ask any more. Small clusters ask every few minutes, and a process
    /// may record many: in the meantime the memory is given back.
    fn next(&mut self) -> Option<Request> {
        if let Some(request) = self.backlog.pop_front() {
            return Some(request);
        }
        match self.requests.recv_timeout(IDLE) {
            Ok(request) => Some(request),
            Err(RecvTimeoutError::Timeout) => {
                self.tools = Tools::new();
                // What is not given back is no harm.
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
        self.streams.iter().find(|stream| stream.id == id).cloned().ok_or_else(|| Error::Damaged {
            path: self.path.clone(),
            what: format!("there is no stream {id}"),
        })
    }

    /// Learns a dictionary from the rows of a stream, so that those to come need not wait for its first block.
    fn train(&mut self, stream: &Stream) -> Result<()> {
        let mut pending = Pending::default();
        let taken = self.tools.rows.read(&self.connection, &self.path, stream, i64::MIN, &mut pending)?;
        match NewDictionary::train(&self.connection, &self.path, stream.id, &pending, &taken)? {
            Some(dictionary) => self.outbox.deliver(stream.id, 0, Made::Dictionary(dictionary)),
            None => Ok(()),
        }
    }

    /// Forgets what was before a moment, step by step: the writer does each one between two batches. Nothing is packed
    /// meanwhile, so that each step finds what the one before left.
    fn forget(&mut self, moment: Moment) -> Result<Moment> {
        // Rows are forgotten in one step, those of a stream: no more of them may wait than a block takes.
        for stream in streams(&self.connection, &self.path)? {
            while self.pack(&stream, false)? {}
        }
        let Packer { path, connection, tools, outbox, requests, backlog, .. } = self;
        let mut step = |step: ForgetStep| {
            loop {
                match requests.try_recv() {
                    Ok(request) => backlog.push_back(request),
                    Err(TryRecvError::Empty) => break,
                    // The writer is about to close. The next one goes on with it.
                    Err(TryRecvError::Disconnected) => return Err(Error::ended()),
                }
            }
            outbox.deliver(0, 0, Made::Forget(step))
        };
        forget::forget(connection, path, tools, moment, Cut::BehindWriter, &mut step)
    }

    /// Packs the oldest rows of a stream into one block. `rest` takes also too few. Says whether there were any.
    fn pack(&mut self, stream: &Stream, rest: bool) -> Result<bool> {
        self.connection.execute_batch("BEGIN").doing("read", &self.path)?;
        let made = self.make_block(stream, rest);
        self.connection.execute_batch("COMMIT").doing("read", &self.path)?;
        let Some((block, rows, instead_of, dictionary)) = made? else { return Ok(false) };
        let due = self.clock.tick(&self.connection, &self.path, &mut self.tools, stream, &block)?;
        let (seq, at) = block.end();
        self.outbox.deliver(stream.id, rows, Made::Block { block, instead_of, dictionary })?;
        if due {
            let parts = keyframe(&self.connection, &self.path, &mut self.tools, stream, seq)?;
            self.clock.reset(stream, &parts);
            self.outbox.deliver(stream.id, 0, Made::Keyframe { seq, at, parts })?;
        }
        Ok(true)
    }

    #[expect(clippy::type_complexity, reason = "one caller, which takes it apart at once")]
    fn make_block(
        &mut self,
        stream: &Stream,
        rest: bool,
    ) -> Result<Option<(Block, usize, Option<i64>, Option<NewDictionary>)>> {
        let last = last_block(&self.connection, stream.id).doing("read a block of", &self.path)?;
        let after = last.as_ref().map_or(i64::MIN, |last| last.last_seq);
        let mut pending = Pending::default();
        let small = last.filter(|last| last.is_small);
        if let Some(small) = &small {
            let frame = self.tools.frame(&self.connection, &self.path, small.frame)?;
            let all: Vec<u32> = (0..frame.rows.len() as u32).collect();
            self.tools.texts(&self.path, small.frame, &frame, &all, |row, text| pending.push(*row, text))?;
        }
        let old = pending.rows.len();
        let taken = self.tools.rows.read(&self.connection, &self.path, stream, after, &mut pending)?;
        let rows = pending.rows.len() - old;
        if rows == 0 || !(rest || pending.is_full()) {
            return Ok(None);
        }
        // What is at the end of a history will not be read as rows again: no need to learn from it.
        let dictionary = match small {
            None if !rest => NewDictionary::train(&self.connection, &self.path, stream.id, &pending, &taken)?,
            _ => None,
        };
        let block = Block::pack(&mut self.tools.codec, stream, &pending);
        Ok(Some((block, rows, small.map(|small| small.first_seq), dictionary)))
    }
}

// === impl Outbox ===

impl Outbox {
    /// Hands something to the writer and waits until it is in the file.
    fn deliver(&self, stream: i64, rows: usize, what: Made) -> Result<()> {
        let (done, wait) = sync_channel(1);
        self.tray.put(Packed { stream, rows, what, done });
        // Only a writer that has nothing to do must be told to look.
        match self.writer.try_send(Command::Look) {
            Ok(()) | Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => return Err(Error::ended()),
        }
        // What the writer could not put in the file would be packed again and again.
        match wait.recv() {
            Ok(outcome) => outcome,
            Err(_) => Err(Error::ended()),
        }
    }
}

/// A panic as an error: the writer waits until it has heard how the packer ended.
fn caught(work: impl FnOnce() -> Result<()>) -> Result<()> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let why = "the packer panicked".to_owned();
        Err(Error::Stopped { why, may_pass: false, is_damage: false })
    })
}

/// Small blocks are filled up rather than left behind, unless a keyframe leans on their end.
fn last_block(connection: &Connection, stream: i64) -> rusqlite::Result<Option<LastBlock>> {
    connection
        .prepare_cached(
            "SELECT first_seq, last_seq, frame, changes <= ?2 AND raw <= ?3
                 AND NOT EXISTS (SELECT 1 FROM keyframe WHERE stream = ?1 AND seq >= first_seq)
             FROM block WHERE stream = ?1 ORDER BY first_seq DESC LIMIT 1",
        )?
        .query_row(params![stream, FRAME_VERSIONS as i64 / 2, FRAME_BYTES as i64 / 2], |row| {
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
    fn a_panic_is_heard_of() {
        assert!(caught(|| Ok(())).is_ok());
        let error = caught(|| panic!("for a test")).unwrap_err();
        assert!(error.to_string().ends_with("the packer panicked"), "{error}");
    }
}
