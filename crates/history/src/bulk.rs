//! Many changes at once: an import, which is there as a whole or not at all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Gap, Moment, Observed};
use rusqlite::Connection;

use crate::batch::Position;
use crate::error::{Doing, Error, Result};
use crate::forget::note_pruned;
use crate::frame::{Codec, Pending, Row};
use crate::gaps;
use crate::intake::{Intake, Stream};
use crate::lock::WriterLock;
use crate::pack::{Block, KeyframeClock, insert_keyframe, keyframe};
use crate::schema::{self, Safety};
use crate::state::Tools;

/// An import under way. Dropped before [`finish`](Bulk::finish) it leaves no trace.
///
/// A new history is written beside its place and renamed when it is whole; into one that exists the import is a
/// single transaction. Changes go straight into blocks.
pub struct Bulk {
    path: PathBuf,
    /// Where a new history is written meanwhile.
    scratch: Option<Scratch>,
    connection: Option<Connection>,
    intake: Intake,
    pending: HashMap<i64, (Arc<Stream>, Pending)>,
    /// Where each source stood before.
    ends: HashMap<Arc<str>, Option<Moment>>,
    codec: Codec,
    tools: Tools,
    clock: KeyframeClock,
    changes: u64,
    lock: WriterLock,
}

impl Bulk {
    /// Begins an import into `path`, which may be a history already.
    pub fn into(path: &Path) -> Result<Bulk> {
        let lock = WriterLock::take(path)?;
        let scratch = (!schema::exists(path)?).then(|| Scratch::beside(path));
        let connection = match &scratch {
            None => schema::open_writable(path, Safety::Durable)?,
            Some(scratch) => schema::open_writable(&scratch.path, Safety::Scratch)?,
        };
        connection.execute_batch("BEGIN IMMEDIATE").doing("write to", path)?;
        let intake = Intake::open(&connection, path)?;
        Ok(Bulk {
            path: path.to_owned(),
            scratch,
            connection: Some(connection),
            intake,
            pending: HashMap::new(),
            ends: HashMap::new(),
            codec: Codec::new(),
            tools: Tools::new(),
            clock: KeyframeClock::default(),
            changes: 0,
            lock,
        })
    }

    /// Adds a change. Within a source that the history had already, it must be later than all that is there.
    pub fn push(&mut self, observed: &Observed) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        self.intake.refuse_overlap(connection, &mut self.ends, &observed.key.source, observed.seen)?;
        let (stream, row) = self.intake.place(connection, observed)?;
        self.gather(&stream, row, observed.what.object().as_str())
    }

    /// Adds a change of another history with the number and the moment it has there; both must rise.
    pub(crate) fn push_as(&mut self, observed: &Observed, seq: i64, at: Moment) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        let (stream, row) = self.intake.place_as(connection, observed, seq, at)?;
        self.gather(&stream, row, observed.what.object().as_str())
    }

    /// Adds a gap.
    pub fn push_gap(&mut self, gap: &Gap) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        let source = self.intake.source_id(connection, &gap.source)?;
        gaps::insert(connection, &self.path, source, gap)
    }

    /// Notes that the times of a source were not in the input but worked out.
    pub fn note_inferred_times(&mut self, source: &Arc<str>) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        let id = self.intake.source_id(connection, source)?;
        connection
            .execute("UPDATE source SET inferred = 1 WHERE id = ?1", [id])
            .doing("write to", &self.path)?;
        Ok(())
    }

    /// Adds where watching goes on.
    pub(crate) fn push_position(&mut self, position: &Position) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        let source = self.intake.source_id(connection, &position.source)?;
        position.insert(connection, &self.path, source)
    }

    /// Notes that what was pushed so far comes from a history that was pruned.
    pub(crate) fn note_pruned(&mut self, begins: Moment, last_seq: i64) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        self.intake.settle(connection)?;
        note_pruned(connection, begins, last_seq).doing("write to", &self.path)
    }

    /// Files that only this import uses. Whoever ends the process while it is under way removes them.
    pub fn own_files(&self) -> Vec<PathBuf> {
        let scratch = self.scratch.as_ref().map(|scratch| scratch.path.clone());
        scratch.into_iter().chain([self.lock.path().to_owned()]).collect()
    }

    /// Makes the import count. Says how many changes it brought.
    pub fn finish(mut self) -> Result<u64> {
        let mut rest: Vec<(Arc<Stream>, Pending)> = std::mem::take(&mut self.pending).into_values().collect();
        rest.sort_unstable_by_key(|(stream, _)| stream.id);
        for (stream, pending) in rest {
            if !pending.rows.is_empty() {
                self.close_block(&stream, &pending)?;
            }
        }
        let connection = self.connection.take().expect("open until finished");
        self.intake.settle(&connection)?;
        connection.execute_batch("COMMIT").doing("commit to", &self.path)?;
        schema::close(connection, &self.path)?;
        if let Some(scratch) = self.scratch.take() {
            scratch.publish(&self.path)?;
        }
        Ok(self.changes)
    }

    fn gather(&mut self, stream: &Arc<Stream>, row: Row, text: &str) -> Result<()> {
        let (_, pending) =
            self.pending.entry(stream.id).or_insert_with(|| (stream.clone(), Pending::default()));
        pending.push(row, text);
        self.changes += 1;
        if pending.is_full() {
            let pending = std::mem::take(pending);
            self.close_block(stream, &pending)?;
        }
        Ok(())
    }

    fn close_block(&mut self, stream: &Stream, pending: &Pending) -> Result<()> {
        let connection = self.connection.as_ref().expect("open until finished");
        let block = Block::pack(&mut self.codec, stream, pending);
        let due = self.clock.tick(connection, &self.path, &mut self.tools, stream, &block)?;
        block.insert(connection, &self.path)?;
        if due {
            let (seq, at) = block.end();
            let parts = keyframe(connection, &self.path, &mut self.tools, stream, seq)?;
            insert_keyframe(connection, &self.path, stream.id, seq, at, &parts)?;
            self.clock.reset(stream, &parts);
        }
        Ok(())
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        // Closing the connection rolls back; only then may the file it wrote to go.
        self.connection.take();
    }
}

/// A file that is not in its place yet. If it never gets there it goes.
struct Scratch {
    path: PathBuf,
}

// === impl Scratch ===

impl Scratch {
    /// A name beside `path` that no other process takes.
    fn beside(path: &Path) -> Scratch {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = path.with_file_name(name);
        // What a killed import left behind under this process number.
        let _ = std::fs::remove_file(&path);
        Scratch { path }
    }

    /// Puts the finished file in its place, durably, unless something has come to be there meanwhile.
    fn publish(self, path: &Path) -> Result<()> {
        let doing = "put in its place";
        std::fs::File::open(&self.path).and_then(|file| file.sync_all()).doing(doing, path)?;
        // A link is refused where a rename would replace; the other name goes with `self`.
        match std::fs::hard_link(&self.path, path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists(path.to_owned()));
            }
            // Not every file system has links.
            Err(_) if !schema::exists(path)? => std::fs::rename(&self.path, path).doing(doing, path)?,
            Err(_) => return Err(Error::Exists(path.to_owned())),
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Directories cannot be synchronised everywhere; where they can, the name is durable too.
        let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
