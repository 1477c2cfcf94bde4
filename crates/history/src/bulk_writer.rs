//! Bulk writer for imports, which take effect as a whole or not at all.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Gap, IncomingChange, Moment};
use rusqlite::Connection;

use crate::batch::WatchPosition;
use crate::change_indexer::{ChangeIndexer, Stream, streams};
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{Compression, FrameCodec, PendingVersions, VersionRow};
use crate::gaps;
use crate::index_schedule::IndexSchedule;
use crate::lock::WriterLock;
use crate::pack::{Block, KeyframeSchedule, insert_keyframe, last_packed_seq, pack_keyframe};
use crate::prune_steps::record_pruning;
use crate::schema::{self, Durability};
use crate::stream_state::VersionReader;

/// An import in progress. If it is dropped before [`finish`](BulkWriter::finish), it leaves no trace.
///
/// A new history is written to a temporary file and renamed when it is complete; an import into an existing history
/// is a single transaction. Changes are written directly as blocks.
pub struct BulkWriter {
    path: PathBuf,
    /// The temporary file of a new history.
    temporary_file: Option<TemporaryFile>,
    connection: Option<Connection>,
    indexer: ChangeIndexer,
    pending: HashMap<i64, (Arc<Stream>, PendingVersions)>,
    /// The last moment of each source before the import.
    ends: HashMap<Arc<str>, Option<Moment>>,
    codec: FrameCodec,
    reader: VersionReader,
    keyframe_schedule: KeyframeSchedule,
    index_schedule: IndexSchedule,
    changes: u64,
    lock: WriterLock,
}

impl BulkWriter {
    /// Begins an import into `path`, which may be an existing history.
    pub fn open(path: &Path) -> Result<BulkWriter> {
        BulkWriter::open_with(path, Compression::default())
    }

    /// The same with another compression.
    pub fn open_with(path: &Path, compression: Compression) -> Result<BulkWriter> {
        let lock = WriterLock::take(path)?;
        let scratch = (!schema::exists(path)?).then(|| TemporaryFile::beside(path));
        let connection = match &scratch {
            None => schema::open_transaction(path, Durability::EveryCommit)?,
            Some(scratch) => schema::open_transaction(&scratch.path, Durability::OnlyWhenFinished)?,
        };
        let indexer = ChangeIndexer::open(&connection, path)?;
        let mut writer = BulkWriter {
            path: path.to_owned(),
            temporary_file: scratch,
            connection: Some(connection),
            indexer,
            pending: HashMap::new(),
            ends: HashMap::new(),
            codec: FrameCodec::with_compression(compression),
            reader: VersionReader::new(),
            keyframe_schedule: KeyframeSchedule::default(),
            index_schedule: IndexSchedule::default(),
            changes: 0,
            lock,
        };
        writer.pack_remaining_rows()?;
        Ok(writer)
    }

    /// Adds a change. In a source that existed before, it must be later than all existing changes.
    pub fn push(&mut self, observed: &IncomingChange) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        self.indexer.refuse_overlap(connection, &mut self.ends, &observed.key.source, observed.seen)?;
        let object = observed.what.object();
        let (stream, row) = self.indexer.index(connection, observed, object.content_hash())?;
        self.buffer_change(&stream, row, object.as_str())
    }

    /// Adds a change of another history with its sequence number and moment; both must rise.
    pub(crate) fn push_with_seq(&mut self, observed: &IncomingChange, seq: i64, at: Moment) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        let object = observed.what.object();
        let (stream, row) =
            self.indexer.index_with_seq(connection, observed, object.content_hash(), seq, at)?;
        self.buffer_change(&stream, row, object.as_str())
    }

    /// Adds a gap.
    pub fn push_gap(&mut self, gap: &Gap) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        let source = self.indexer.source_id(connection, &gap.source)?;
        gaps::insert(connection, &self.path, source, gap)
    }

    /// Marks the times of a source as derived rather than read from the input.
    pub fn mark_times_inferred(&mut self, source: &Arc<str>) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        let id = self.indexer.source_id(connection, source)?;
        connection
            .execute("UPDATE source SET inferred = 1 WHERE id = ?1", [id])
            .context("write to", &self.path)?;
        Ok(())
    }

    /// Adds a watch position.
    pub(crate) fn push_position(&mut self, position: &WatchPosition) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        let source = self.indexer.source_id(connection, &position.source)?;
        position.insert(connection, &self.path, source)
    }

    /// Marks the changes added so far as those of a pruned history.
    pub(crate) fn mark_pruned(&mut self, start: Moment, last_seq: i64) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        self.indexer.write_updates(connection)?;
        record_pruning(connection, start, last_seq).context("write to", &self.path)
    }

    /// Temporary files of this import. They have to be removed if the process is ended while it is in progress.
    pub fn temporary_files(&self) -> Vec<PathBuf> {
        let scratch = self.temporary_file.as_ref().map(|scratch| scratch.path.clone());
        scratch.into_iter().chain([self.lock.path().to_owned()]).collect()
    }

    /// Commits the import. Returns the number of changes added.
    pub fn finish(mut self) -> Result<u64> {
        let mut rest: Vec<(Arc<Stream>, PendingVersions)> =
            std::mem::take(&mut self.pending).into_values().collect();
        rest.sort_unstable_by_key(|(stream, _)| stream.id);
        for (stream, pending) in rest {
            if !pending.rows.is_empty() {
                self.close_block(&stream, &pending)?;
            }
        }
        let connection = self.connection.take().expect("the connection is open until finish");
        for stream in streams(&connection, &self.path)? {
            write_index(&connection, &self.path, &mut self.index_schedule, &stream)?;
        }
        self.indexer.write_updates(&connection)?;
        connection.execute_batch("COMMIT").context("commit to", &self.path)?;
        schema::close(connection, &self.path)?;
        if let Some(scratch) = self.temporary_file.take() {
            scratch.publish(&self.path)?;
        }
        Ok(self.changes)
    }

    /// Packs the rows that a killed writer left in an existing history: blocks of the import must not come before rows
    /// with earlier changes.
    fn pack_remaining_rows(&mut self) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        for stream in streams(connection, &self.path)? {
            loop {
                let connection = self.connection.as_ref().expect("the connection is open until finish");
                let after = last_packed_seq(connection, stream.id).context("read a block of", &self.path)?;
                let (after, mut pending) = (after.unwrap_or(i64::MIN), PendingVersions::default());
                self.reader.rows.read(connection, &self.path, &stream, after, &mut pending)?;
                if pending.rows.is_empty() {
                    break;
                }
                self.close_block(&stream, &pending)?;
            }
        }
        Ok(())
    }

    fn buffer_change(&mut self, stream: &Arc<Stream>, row: VersionRow, text: &str) -> Result<()> {
        let (_, pending) =
            self.pending.entry(stream.id).or_insert_with(|| (stream.clone(), PendingVersions::default()));
        pending.push(row, text);
        self.changes += 1;
        if pending.is_full() {
            let pending = std::mem::take(pending);
            self.close_block(stream, &pending)?;
        }
        Ok(())
    }

    fn close_block(&mut self, stream: &Stream, pending: &PendingVersions) -> Result<()> {
        let connection = self.connection.as_ref().expect("the connection is open until finish");
        let block = Block::pack(&mut self.codec, stream, pending);
        let due = self.keyframe_schedule.count_block(
            connection,
            &self.path,
            &mut self.reader,
            stream,
            block.size(),
            false,
        )?;
        block.insert(connection, &self.path)?;
        block.remove_rows(connection, &self.path)?;
        if due {
            let (seq, at) = block.end();
            let parts =
                pack_keyframe(connection, &self.path, &mut self.reader, &mut self.codec, stream, seq)?;
            insert_keyframe(connection, &self.path, stream.id, seq, at, &parts)?;
            self.keyframe_schedule.reset(stream, &parts);
        }
        self.index_schedule.count_block(stream);
        write_index(connection, &self.path, &mut self.index_schedule, stream)
    }
}

/// Writes all index segments of a stream that are due.
fn write_index(
    connection: &Connection,
    path: &Path,
    schedule: &mut IndexSchedule,
    stream: &Stream,
) -> Result<()> {
    while let Some(segment) = schedule.next_segment(connection, path, stream)? {
        segment.insert(connection).context("write the object index of", path)?;
    }
    Ok(())
}

impl Drop for BulkWriter {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // The history stays as it was, and needs no other file. This fails only if a reader uses the log; the last
        // connection to close then removes it.
        let _ = connection.execute_batch("ROLLBACK; PRAGMA journal_mode = DELETE;");
        // The temporary file may be removed only after the connection is closed.
        drop(connection);
    }
}

/// A temporary file, removed on drop unless it was published.
struct TemporaryFile {
    path: PathBuf,
}

// === impl TemporaryFile ===

impl TemporaryFile {
    /// A name beside `path` that no other process uses.
    fn beside(path: &Path) -> TemporaryFile {
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let path = path.with_file_name(name);
        // A killed import may have left a file under the same process id.
        let _ = std::fs::remove_file(&path);
        TemporaryFile { path }
    }

    /// Moves the finished file into place, durably, unless the path has been taken meanwhile.
    fn publish(self, path: &Path) -> Result<()> {
        let doing = "move the new history to";
        std::fs::File::open(&self.path).and_then(|file| file.sync_all()).context(doing, path)?;
        // A hard link fails where a rename would overwrite; dropping `self` removes the other name.
        match std::fs::hard_link(&self.path, path) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(Error::Exists(path.to_owned()));
            }
            // Not every file system supports hard links.
            Err(_) if !schema::exists(path)? => std::fs::rename(&self.path, path).context(doing, path)?,
            Err(_) => return Err(Error::Exists(path.to_owned())),
        }
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // Directories cannot be synced everywhere; where they can, the name becomes durable too.
        let _ = std::fs::File::open(folder).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
