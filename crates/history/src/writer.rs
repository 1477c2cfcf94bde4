//! The recorder's way in: one thread writes, a bounded queue feeds it, another thread packs behind it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use model::Moment;
use rusqlite::Connection;

use crate::batch::Batch;
use crate::error::{Doing, Error, Result};
use crate::forget::{self, Forgetting};
use crate::frame::FRAME_VERSIONS;
use crate::gaps;
use crate::intake::Intake;
use crate::lock::WriterLock;
use crate::packer::{Packed, Packer, Request, Tray};
use crate::rows::{DICTIONARY_SAMPLES, RowCodec};
use crate::schema::{self, Safety};
use crate::writer_command::Command;

/// Batches that may wait. A full queue makes [`Writer::append`] wait, and through it whoever sends.
const QUEUE: usize = 16;
/// A transaction is closed after so many changes even if more are waiting.
const TRANSACTION_CHANGES: usize = 2048;
/// Streams that may wait for the packer; the others are asked for again with their next change.
const PACK_QUEUE: usize = 1024;

/// Pages of the log beside the file with which nothing more is forgotten, because a reader holds on to all of them.
const LOG_PAGES: i64 = if cfg!(test) { 16 } else { 4096 };

/// Writes to a history, making it if there is none. Only one may exist for a file.
///
/// Dropping it closes the history in order; [`close`](Writer::close) also tells of errors.
pub struct Writer {
    commands: SyncSender<Command>,
    thread: Option<JoinHandle<()>>,
}

// === impl Writer ===

impl Writer {
    /// Opens or makes the history at `path`.
    pub fn open(path: &Path) -> Result<Writer> {
        let lock = WriterLock::take(path)?;
        let connection = schema::open_writable(path, Safety::Durable)?;
        let intake = Intake::open(&connection, path)?;
        let last_seq = intake.last_seq();
        let waiting = count_rows(&connection).doing("read", path)?;
        let (commands, inbox) = sync_channel(QUEUE);
        let (requests, packer_inbox) = sync_channel(PACK_QUEUE);
        let tray = Arc::new(Tray::default());
        let packer = Packer::open(path, commands.clone(), tray.clone(), packer_inbox)?;
        let packer = spawn("packer", path, move || packer.run())?;
        if let Some(begins) = forget::unfinished(&connection).doing("read", path)? {
            // The queue is empty: there is room.
            let _ = requests.try_send(Request::Forget(begins, None));
        }
        let scribe = Scribe {
            path: path.to_owned(),
            connection,
            intake,
            rows: RowCodec::new(),
            waiting,
            requested: HashSet::new(),
            trained: HashSet::new(),
            requests: Some(requests),
            tray,
            packer: Some(packer),
            last_seq,
            failed: None,
            _lock: lock,
        };
        let thread = spawn("writer", path, move || scribe.run(&inbox))?;
        Ok(Writer { commands, thread: Some(thread) })
    }

    /// Hands over a batch, waiting while the queue is full. It is durable after the next [`flush`](Writer::flush).
    pub fn append(&self, batch: Batch) -> Result<()> {
        self.commands.send(Command::Append(batch)).map_err(|_| Error::ended())
    }

    /// Waits until everything handed over so far survives the death of this process.
    /// Says the number of the last change in the history, 0 if there is none.
    pub fn flush(&self) -> Result<i64> {
        let (answer, wait) = sync_channel(1);
        self.commands.send(Command::Flush(answer)).map_err(|_| Error::ended())?;
        wait.recv().map_err(|_| Error::ended())?
    }

    /// Forgets what was before `moment`, or before the end of the history if that is earlier. Every later moment shows
    /// what it did, and each object that was alive keeps its last version as it was recorded.
    ///
    /// This happens in small steps between the batches that are appended, so that it needs little room and nobody
    /// waits for it. What was forgotten is overwritten with zeros, and the file shrinks. If a step fails nothing is
    /// lost and writing goes on: the answer tells why, and whether it may go well later. What a closed or killed writer
    /// left half forgotten the next one goes on with.
    pub fn forget(&self, moment: Moment) -> Result<Forgetting> {
        let (answer, wait) = sync_channel(1);
        self.commands.send(Command::Forget(moment, answer)).map_err(|_| Error::ended())?;
        Ok(Forgetting::new(wait))
    }

    /// Packs what is left and closes the file so that it stands alone.
    pub fn close(mut self) -> Result<()> {
        self.finish()
    }

    /// Ends without another word to the file, which is damaged: what it and its log hold stays as it is.
    pub fn abandon(self) {
        // Dropping it ends the thread.
        let _ = self.commands.send(Command::Abandon);
    }

    fn finish(&mut self) -> Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        let (answer, wait) = sync_channel(1);
        let result = match self.commands.send(Command::Close(answer)) {
            Ok(()) => wait.recv().unwrap_or_else(|_| Err(Error::ended())),
            Err(_) => Err(Error::ended()),
        };
        thread.join().map_err(|_| Error::ended())?;
        result
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know calls `close`.
        let _ = self.finish();
    }
}

/// The thread that writes.
struct Scribe {
    path: PathBuf,
    connection: Connection,
    intake: Intake,
    rows: RowCodec,
    /// Rows of each stream that wait to be packed.
    waiting: HashMap<i64, usize>,
    /// Streams the packer was asked for and has not delivered.
    requested: HashSet<i64>,
    /// Streams for which a dictionary was asked for; once is enough.
    trained: HashSet<i64>,
    requests: Option<SyncSender<Request>>,
    tray: Arc<Tray>,
    packer: Option<JoinHandle<()>>,
    last_seq: i64,
    failed: Option<Failed>,
    _lock: WriterLock,
}

/// Why nothing is written any more.
struct Failed {
    why: String,
    may_pass: bool,
    is_damage: bool,
}

/// What waits for the commit.
#[derive(Default)]
struct Answers {
    flushed: Vec<SyncSender<Result<i64>>>,
    packed: Vec<SyncSender<Result<()>>>,
    forget: Vec<(Moment, SyncSender<Result<Moment>>)>,
    /// What is to be done when the commit is done.
    step: Option<Packed>,
    close: Option<SyncSender<Result<()>>>,
    packer_done: bool,
}

// === impl Answers ===

impl Answers {
    /// Notes who waits for what. Gives back what is to be written.
    fn note(&mut self, command: Command) -> Result<Option<Batch>> {
        match command {
            Command::Append(batch) => return Ok(Some(batch)),
            Command::Flush(answer) => self.flushed.push(answer),
            Command::Forget(moment, answer) => self.forget.push((moment, answer)),
            // The tray is looked at with every command.
            Command::Look => {}
            Command::PackerFailed(error) => return Err(error),
            Command::Abandon => return Err(Error::abandoned()),
            Command::PackerDone => self.packer_done = true,
            Command::Close(answer) => self.close = Some(answer),
        }
        Ok(None)
    }

    /// The same for what the packer made.
    fn note_packed(&mut self, packed: Option<Packed>) -> Option<Packed> {
        let packed = packed?;
        if packed.is_forgetting() {
            self.step = Some(packed);
            return None;
        }
        self.packed.push(packed.done());
        Some(packed)
    }

    fn end_the_transaction(&self) -> bool {
        self.step.is_some() || !self.forget.is_empty() || self.close.is_some() || self.packer_done
    }
}

// === impl Scribe ===

impl Scribe {
    fn run(mut self, inbox: &Receiver<Command>) {
        let (mut closing, mut packer_done) = (None, false);
        // Ends when the writer's owner has asked for it and the packer has ended.
        while !(packer_done && closing.is_some()) {
            let Ok(first) = inbox.recv() else { break };
            let mut answers = Answers::default();
            let outcome = self.transaction(first, inbox, &mut answers);
            if let Err(error) = outcome {
                // The owner hears of it at the next call; what was committed stays.
                let _ = self.connection.execute_batch("ROLLBACK");
                // What was opened as a history is damaged if it is none any more.
                let is_damage = error.is_damage() || matches!(error, Error::NotOurs { .. });
                let (why, may_pass) = (describe(&error), error.may_pass());
                self.failed.get_or_insert(Failed { why, may_pass, is_damage });
            }
            for answer in answers.flushed {
                let _ = answer.send(self.result().map(|()| self.last_seq));
            }
            for answer in answers.packed {
                let _ = answer.send(self.result());
            }
            for (moment, answer) in answers.forget {
                self.request_forgetting(moment, answer);
            }
            if let Some(step) = answers.step {
                let _ = step.done().send(self.forget_step(&step));
            }
            if let Some(answer) = answers.close {
                closing = Some(answer);
                // The packer ends when its requests do.
                self.requests = None;
            }
            packer_done |= answers.packer_done;
        }
        if let Some(packer) = self.packer.take() {
            let _ = packer.join();
        }
        let result = self.result();
        let closed = match self.failed {
            Some(Failed { is_damage: true, .. }) => schema::abandon(self.connection, &self.path),
            _ => schema::close(self.connection, &self.path),
        };
        if let Some(answer) = closing {
            let _ = answer.send(result.and(closed));
        }
    }

    fn result(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |failed| {
            let Failed { why, may_pass, is_damage } = failed;
            Err(Error::Stopped { why: why.clone(), may_pass: *may_pass, is_damage: *is_damage })
        })
    }

    /// Takes `first` and what else is waiting, and commits it as one.
    fn transaction(
        &mut self,
        first: Command,
        inbox: &Receiver<Command>,
        answers: &mut Answers,
    ) -> Result<()> {
        let doing = "write to";
        let mut room = TRANSACTION_CHANGES;
        let mut next = Some(first);
        let mut begun = false;
        while let Some(command) = next {
            // Whatever fails below, nobody who waits for an answer is forgotten.
            let batch = answers.note(command)?;
            let packed = answers.note_packed(self.tray.take());
            let writes = batch.is_some() || packed.is_some();
            if self.failed.is_none() && !begun && writes {
                self.connection.execute_batch("BEGIN IMMEDIATE").doing(doing, &self.path)?;
                begun = true;
            }
            // After a failure nothing more is written: a hole in the middle would be worse than an early end.
            if self.failed.is_none() {
                if let Some(packed) = &packed {
                    self.file(packed)?;
                }
                if let Some(batch) = &batch {
                    room = room.saturating_sub(batch.changes.len().max(1));
                    self.append(batch)?;
                }
            }
            // The packer waits for the commit: it is not to wait for long.
            let stop = packed.is_some() || room == 0 || answers.end_the_transaction();
            next = if stop { None } else { inbox.try_recv().ok() };
        }
        if begun {
            self.intake.settle(&self.connection)?;
            self.connection.execute_batch("COMMIT").doing(doing, &self.path)?;
        }
        self.request_packing();
        Ok(())
    }

    /// Puts in the file what the packer made.
    fn file(&mut self, packed: &Packed) -> Result<()> {
        if let Some((stream, rows)) = packed.apply(&self.connection, &self.path, self.last_seq)? {
            self.rows.refresh(stream);
            let waiting = self.waiting.entry(stream).or_default();
            *waiting = waiting.saturating_sub(rows);
            self.requested.remove(&stream);
        }
        Ok(())
    }

    fn request_forgetting(&self, moment: Moment, answer: SyncSender<Result<Moment>>) {
        let request = Request::Forget(moment, Some(answer));
        let refused = match (&self.requests, self.result()) {
            (Some(requests), Ok(())) => requests.try_send(request).err().map(|error| {
                let (TrySendError::Full(request) | TrySendError::Disconnected(request)) = error;
                let why = "the packer has too much to do".to_owned();
                (request, Error::Stopped { why, may_pass: true, is_damage: false })
            }),
            (None, Ok(())) => Some((request, Error::ended())),
            (_, Err(error)) => Some((request, error)),
        };
        if let Some((Request::Forget(_, Some(answer)), error)) = refused {
            let _ = answer.send(Err(error));
        }
    }

    /// Does a step of forgetting. If it fails the file is as before, and writing goes on.
    fn forget_step(&mut self, step: &Packed) -> Result<()> {
        self.result()?;
        let doing = "prune";
        // Who is in the way is not waited for: batches would wait too. What goes is overwritten with zeros only here:
        // rows that are packed are not forgotten.
        self.connection.busy_timeout(Duration::ZERO).doing(doing, &self.path)?;
        self.connection.execute_batch("PRAGMA secure_delete = ON").doing(doing, &self.path)?;
        let done = self.forget_step_at_once(step);
        if done.is_err() {
            // Some errors end the transaction by themselves.
            let _ = self.connection.execute_batch("ROLLBACK");
        }
        self.connection.execute_batch("PRAGMA secure_delete = OFF").doing(doing, &self.path)?;
        self.connection.busy_timeout(schema::PATIENCE).doing(doing, &self.path)?;
        done
    }

    fn forget_step_at_once(&mut self, step: &Packed) -> Result<()> {
        let doing = "prune";
        schema::empty_log(&self.connection, LOG_PAGES).doing(doing, &self.path)?;
        self.connection.execute_batch("BEGIN IMMEDIATE").doing(doing, &self.path)?;
        let free = schema::free_pages(&self.connection).doing(doing, &self.path)?;
        self.file(step)?;
        let freed = schema::free_pages(&self.connection).doing(doing, &self.path)? - free;
        schema::give_back(&self.connection, freed).doing(doing, &self.path)?;
        self.connection.execute_batch("COMMIT").doing(doing, &self.path)
    }

    fn append(&mut self, batch: &Batch) -> Result<()> {
        for observed in &batch.changes {
            let (stream, row) = self.intake.place(&self.connection, observed)?;
            let text = observed.what.object().as_str();
            self.rows.insert(&self.connection, &self.path, &stream, &row, text)?;
            self.intake.count_row(&stream, &row);
            *self.waiting.entry(stream.id).or_default() += 1;
            self.last_seq = row.seq;
        }
        for gap in &batch.closed_gaps {
            let source = self.intake.source_id(&self.connection, &gap.source)?;
            gaps::close(&self.connection, &self.path, source, gap)?;
        }
        for gap in &batch.gaps {
            let source = self.intake.source_id(&self.connection, &gap.source)?;
            gaps::insert(&self.connection, &self.path, source, gap)?;
        }
        for position in &batch.positions {
            let source = self.intake.source_id(&self.connection, &position.source)?;
            position.insert(&self.connection, &self.path, source)?;
        }
        Ok(())
    }

    fn request_packing(&mut self) {
        let Some(requests) = &self.requests else { return };
        let mut waiting: Vec<(i64, usize)> =
            self.waiting.iter().map(|(stream, rows)| (*stream, *rows)).collect();
        waiting.sort_unstable();
        for (stream, rows) in waiting {
            // A full queue is no loss: the stream is asked for again after the next commit.
            if rows >= FRAME_VERSIONS && !self.requested.contains(&stream) {
                if requests.try_send(Request::Pack(stream)).is_ok() {
                    self.requested.insert(stream);
                }
            } else if rows >= DICTIONARY_SAMPLES
                && !self.trained.contains(&stream)
                && !self.rows.has_dictionary(stream)
                && requests.try_send(Request::Train(stream)).is_ok()
            {
                self.trained.insert(stream);
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
    std::thread::Builder::new().name(name.to_owned()).spawn(run).doing("start a thread for", path)
}

/// An error with its causes: it is told in another thread, maybe more than once.
fn describe(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // SQLite's number stands behind SQLite's words.
        if error.is::<rusqlite::ffi::Error>() {
            break;
        }
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer's thread that finds something in the tray, while another has locked the file, when it takes the first of
    /// these commands.
    fn run_locked(path: &Path, commands: Vec<Command>) {
        let connection = schema::open_writable(path, Safety::Durable).unwrap();
        connection.busy_timeout(Duration::ZERO).unwrap();
        let tray = Arc::new(Tray::default());
        let (done, packed) = sync_channel(1);
        tray.put(Packed::empty(done));
        let (sender, inbox) = sync_channel(QUEUE);
        commands.into_iter().for_each(|command| sender.send(command).unwrap());
        let (requests, _packer_inbox) = sync_channel(PACK_QUEUE);
        let scribe = Scribe {
            intake: Intake::open(&connection, path).unwrap(),
            connection,
            rows: RowCodec::new(),
            waiting: HashMap::new(),
            requested: HashSet::new(),
            trained: HashSet::new(),
            requests: Some(requests),
            tray,
            packer: None,
            last_seq: 0,
            failed: None,
            _lock: WriterLock::take(path).unwrap(),
            path: path.to_owned(),
        };
        let other = Connection::open(path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        // Without its sender it ends by itself if it waits for what nobody will say.
        drop(sender);
        scribe.run(&inbox);
        assert!(packed.recv().unwrap().unwrap_err().may_pass());
    }

    #[test]
    fn who_waits_is_answered_if_the_transaction_cannot_begin() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.kine");
        let (flushed, flush) = sync_channel(1);
        let (closed, close) = sync_channel(1);
        run_locked(&path, vec![Command::Flush(flushed), Command::Close(closed), Command::PackerDone]);
        assert!(flush.recv().unwrap().unwrap_err().may_pass());
        assert!(close.recv().unwrap().unwrap_err().may_pass());

        let (closed, close) = sync_channel(1);
        run_locked(&path, vec![Command::Close(closed), Command::PackerDone]);
        assert!(close.recv().unwrap().unwrap_err().may_pass());
    }
}
