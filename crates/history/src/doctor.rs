//! Integrity check of a history: reads everything and compares it with checksums and redundant data.

mod index_check;

use std::collections::{HashMap, HashSet};
use std::path::Path;

use model::{ContentHash, Meta, Moment};
use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use crate::change_indexer::{self, Incarnation, Stream, streams};
use crate::counts::StreamCounts;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{Frame, FrameRole, ObjectId, PendingVersions, VersionRow};
use crate::gaps;
use crate::members;
use crate::schema;
use crate::stream_state::VersionReader;
use crate::wal;

/// No further findings are collected for a file this badly damaged.
const MAX_FINDINGS: usize = 100;

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DoctorReport {
    /// What is wrong, as text; at most a hundred findings.
    pub findings: Vec<String>,
    /// Number of intact changes.
    pub changes: u64,
    /// Number of intact frames.
    pub frames: u64,
    /// Number of recorded gaps, which are not damage.
    pub gaps: usize,
}

// === impl DoctorReport ===

impl DoctorReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn add_finding(&mut self, finding: impl Into<String>) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding.into());
        }
    }

    /// Turns an error into a finding, so that the check continues.
    fn ok_or_finding<T>(&mut self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(Error::Damaged { what, .. }) => {
                self.add_finding(what);
                None
            }
            Err(error) => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                self.add_finding(format!("{error}{cause}"));
                None
            }
        }
    }
}

/// Reads all of a history and compares everything that is stored redundantly.
///
/// An error means that the file could not be examined: it is missing, or not a history. Damage is a finding.
pub fn doctor(path: &Path) -> Result<DoctorReport> {
    let mut report = DoctorReport::default();
    let connection = match schema::open_readable(path) {
        Ok(connection) => connection,
        Err(Error::Damaged { what, .. }) => {
            report.add_finding(what);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    connection.execute_batch("BEGIN").context("read", path)?;
    let mut check = Checker {
        path,
        connection: &connection,
        reader: VersionReader::new(),
        report,
        frames: HashSet::new(),
    };
    check.check_sqlite();
    check.check_wal();
    check.check_schema();
    let found = streams(&connection, path);
    for stream in check.report.ok_or_finding(found).unwrap_or_default() {
        check.check_stream(&stream);
    }
    check.check_tables();
    Ok(check.report)
}

struct Checker<'a> {
    path: &'a Path,
    connection: &'a Connection,
    reader: VersionReader,
    report: DoctorReport,
    /// Frames that are referenced.
    frames: HashSet<i64>,
}

/// The state of one stream, derived from its changes alone.
#[derive(Default)]
struct DerivedState {
    last: Option<(i64, Moment)>,
    live_objects: HashMap<ObjectId, DerivedObject>,
}

struct DerivedObject {
    seq: i64,
    hash: u32,
    uid: Option<u64>,
    /// The start of its incarnation, as far as the changes show.
    since: Moment,
}

struct BlockRow {
    first: (i64, i64),
    last: (i64, i64),
    changes: i64,
    raw: i64,
    packed: i64,
    frame: i64,
    members: Vec<u8>,
}

struct KeyframeRow {
    at: i64,
    objects: i64,
    packed: i64,
    frame: i64,
    members: Vec<u8>,
}

// === impl Checker ===

impl Checker<'_> {
    /// SQLite's own integrity check.
    fn check_sqlite(&mut self) {
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA integrity_check(20)")?.query_map([], |row| row.get(0))?.collect()
        };
        match read() {
            Ok(lines) if lines == ["ok"] => {}
            Ok(lines) => {
                lines.into_iter().for_each(|line| self.report.add_finding(format!("SQLite: {line}")))
            }
            Err(error) => self.report.add_finding(format!("SQLite: {error}")),
        }
    }

    /// Checks the write-ahead log, of which SQLite silently ignores everything after the first damage.
    fn check_wal(&mut self) {
        let size = self.connection.pragma_query_value(None, "page_size", |row| row.get(0));
        let page_bytes = size.map_or(schema::PAGE_BYTES, |size: u32| size as usize);
        // A page that is being written looks damaged once, but not three times.
        if (0..3).all(|_| wal::read(&wal::wal_path(self.path), page_bytes).is_damaged) {
            self.report
                .add_finding("the write-ahead log is damaged: changes committed after the damage are lost");
        }
    }

    /// Checks the schema and foreign keys.
    fn check_schema(&mut self) {
        let missing =
            schema::altered_schema_objects(self.connection).context("read the schema of", self.path);
        for name in self.report.ok_or_finding(missing).unwrap_or_default() {
            self.report.add_finding(format!("{name} is missing or altered"));
        }
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA foreign_key_check")?.query_map([], |row| row.get(0))?.collect()
        };
        let unexpected = read().context("read", self.path);
        for table in self.report.ok_or_finding(unexpected).unwrap_or_default() {
            self.report.add_finding(format!("a row of {table} refers to a missing row"));
        }
    }

    fn check_stream(&mut self, stream: &Stream) {
        let mut derived = DerivedState::default();
        let blocks = self.blocks(stream).context("read the blocks of", self.path);
        let keyframes = self.keyframe_seqs(stream).context("read the keyframes of", self.path);
        let mut keyframes = self.report.ok_or_finding(keyframes).unwrap_or_default();
        keyframes.reverse();
        for block in self.report.ok_or_finding(blocks).unwrap_or_default() {
            self.check_block(stream, &block, &mut derived);
            while let Some(seq) = keyframes.pop_if(|seq| *seq <= block.last.0) {
                self.check_keyframe(stream, seq, &derived);
            }
        }
        for seq in keyframes {
            self.report.add_finding(format!("keyframe {seq} of {} is after the last block", stream.kind));
        }
        self.check_rows(stream, &mut derived);
        self.check_directory(stream, &derived);
        self.check_counts(stream);
        let findings = index_check::check_index(self.connection, self.path, stream);
        let findings = self.report.ok_or_finding(findings).unwrap_or_default();
        findings.into_iter().for_each(|finding| self.report.add_finding(finding));
    }

    fn blocks(&self, stream: &Stream) -> rusqlite::Result<Vec<BlockRow>> {
        self.connection
            .prepare_cached(
                "SELECT first_seq, first_at, last_seq, last_at, changes, raw, packed, frame, members
                 FROM block WHERE stream = ?1 ORDER BY first_seq",
            )?
            .query_map([stream.id], |row| {
                Ok(BlockRow {
                    first: (row.get(0)?, row.get(1)?),
                    last: (row.get(2)?, row.get(3)?),
                    changes: row.get(4)?,
                    raw: row.get(5)?,
                    packed: row.get(6)?,
                    frame: row.get(7)?,
                    members: row.get(8)?,
                })
            })?
            .collect()
    }

    fn keyframe_seqs(&self, stream: &Stream) -> rusqlite::Result<Vec<i64>> {
        self.connection
            .prepare_cached("SELECT DISTINCT seq FROM keyframe WHERE stream = ?1 ORDER BY seq")?
            .query_map([stream.id], |row| row.get(0))?
            .collect()
    }

    fn check_block(&mut self, stream: &Stream, block: &BlockRow, derived: &mut DerivedState) {
        let location = format!("block {}–{} of {}", block.first.0, block.last.0, stream.kind);
        let Some((frame, objects)) =
            self.open(stream, block.frame, FrameRole::Changes, block.packed, &location)
        else {
            return;
        };
        let seq_and_time = |row: &VersionRow| (row.seq, row.at.nanos());
        let indexed = (block.first, block.last, block.changes, block.raw);
        let (first, last) = (frame.rows.first().map(seq_and_time), frame.rows.last().map(seq_and_time));
        let counted = (frame.rows.len() as i64, objects.len() as i64);
        if (Some(indexed.0), Some(indexed.1), indexed.2, indexed.3) != (first, last, counted.0, counted.1) {
            self.report
                .add_finding(format!("{location}: sequence numbers, times or counts do not match its frame"));
        }
        if block.members != members::encode(&members::member_list(&frame.rows)) {
            self.report.add_finding(format!("{location}: the object list does not match its frame"));
        }
        for (row, range) in frame.object_ranges() {
            let text = objects.get(range).unwrap_or_default();
            self.check_version(stream, row, text, derived);
        }
    }

    fn check_keyframe(&mut self, stream: &Stream, seq: i64, derived: &DerivedState) {
        let location = format!("keyframe {seq} of {}", stream.kind);
        let read = || -> rusqlite::Result<Vec<KeyframeRow>> {
            self.connection
                .prepare_cached(
                    "SELECT at, objects, packed, frame, members FROM keyframe WHERE stream = ?1 AND seq = ?2 ORDER BY part",
                )?
                .query_map([stream.id, seq], |row| {
                    Ok(KeyframeRow {
                        at: row.get(0)?,
                        objects: row.get(1)?,
                        packed: row.get(2)?,
                        frame: row.get(3)?,
                        members: row.get(4)?,
                    })
                })?
                .collect()
        };
        let parts = read().context("read a keyframe of", self.path);
        let mut object_count = 0;
        for part in self.report.ok_or_finding(parts).unwrap_or_default() {
            let Some((frame, objects)) =
                self.open(stream, part.frame, FrameRole::Keyframe, part.packed, &location)
            else {
                return;
            };
            if derived.last != Some((seq, Moment::from_nanos(part.at)))
                || part.objects != frame.rows.len() as i64
            {
                self.report.add_finding(format!(
                    "{location}: sequence number, time or count does not match its frame"
                ));
            }
            if part.members != members::encode(&members::member_list(&frame.rows)) {
                self.report.add_finding(format!("{location}: the object list does not match its frame"));
            }
            for (row, range) in frame.object_ranges() {
                let text = objects.get(range).unwrap_or_default();
                let is_same = derived
                    .live_objects
                    .get(&row.object)
                    .is_some_and(|version| version.seq == row.seq && version.hash == row.hash);
                if !is_same || ContentHash::of(text).0 as u32 != row.hash {
                    self.report
                        .add_finding(format!("{location}: change {} does not match any block", row.seq));
                }
                object_count += 1;
            }
        }
        if object_count != derived.live_objects.len() {
            self.report.add_finding(format!(
                "{location} has {object_count} objects, expected {} from the changes",
                derived.live_objects.len()
            ));
        }
    }

    fn open(
        &mut self,
        stream: &Stream,
        id: i64,
        role: FrameRole,
        packed: i64,
        location: &str,
    ) -> Option<(Frame, String)> {
        if !self.frames.insert(id) {
            self.report.add_finding(format!("{location}: frame {id} is used twice"));
        }
        let length =
            self.connection
                .query_row("SELECT length(bytes) FROM frame WHERE id = ?1", [id], |row| row.get(0));
        if length != Ok(packed) {
            self.report.add_finding(format!("{location}: the size does not match its frame"));
        }
        let frame = self.reader.read_frame(self.connection, self.path, id);
        let frame = self.report.ok_or_finding(frame)?;
        if frame.role != role || frame.source != stream.source || frame.kind != stream.kind {
            self.report.add_finding(format!("{location}: frame {id} is of another type, source or kind"));
            return None;
        }
        match self.reader.codec.objects(&frame) {
            Ok(objects) => {
                self.report.frames += 1;
                Some((frame, objects))
            }
            Err(why) => {
                self.report.add_finding(format!("{location}: {why}"));
                None
            }
        }
    }

    fn check_rows(&mut self, stream: &Stream, derived: &mut DerivedState) {
        let mut after = i64::MIN;
        loop {
            let mut pending = PendingVersions::default();
            let read = self.reader.rows.read(self.connection, self.path, stream, after, &mut pending);
            let is_complete = self.report.ok_or_finding(read).is_some();
            for (row, text) in pending.iter() {
                self.check_version(stream, row, text, derived);
                after = row.seq;
            }
            if !is_complete || pending.rows.is_empty() {
                return;
            }
        }
    }

    /// Checks that one version is in order, matches its hash and has the name its object id stands for.
    fn check_version(&mut self, stream: &Stream, row: &VersionRow, text: &str, derived: &mut DerivedState) {
        let location = format!("change {} of {}", row.seq, stream.kind);
        if derived.last.is_some_and(|(seq, at)| row.seq <= seq || row.at < at) {
            self.report.add_finding(format!("{location} is out of order"));
        }
        derived.last = Some((row.seq, row.at));
        if ContentHash::of(text).0 as u32 != row.hash {
            self.report.add_finding(format!("{location} does not match its hash"));
            return;
        }
        let meta = match Meta::read(text) {
            Ok(meta) => meta,
            Err(error) => {
                return self.report.add_finding(format!("{location} has no valid object: {error}"));
            }
        };
        if model::Kind::of(&meta.api_version, &meta.kind) != stream.kind {
            self.report.add_finding(format!("{location} is of another kind: {}", meta.kind));
        }
        let found = change_indexer::find_object(self.connection, stream, &meta.namespace, &meta.name)
            .context("read", self.path);
        let found = self.report.ok_or_finding(found).flatten();
        if found.is_none_or(|found| found.object != row.object) {
            self.report.add_finding(format!("{location} is not indexed under its name {}", meta.name));
        }
        self.report.changes += 1;
        if change_indexer::has_directory(&stream.kind) {
            self.check_incarnation(&location, row, &meta, derived);
        } else if row.code.is_deleted() {
            derived.live_objects.remove(&row.object);
        } else {
            let alive = DerivedObject { seq: row.seq, hash: row.hash, uid: None, since: row.at };
            derived.live_objects.insert(row.object, alive);
        }
    }

    /// Follows the incarnations of an object; each end must be in the directory.
    fn check_incarnation(
        &mut self,
        location: &str,
        row: &VersionRow,
        meta: &Meta<'_>,
        derived: &mut DerivedState,
    ) {
        let uid = meta.uid.as_deref().map(|uid| xxh3_64(uid.as_bytes()));
        let before = derived.live_objects.remove(&row.object);
        let replaced =
            before.as_ref().is_some_and(|old| uid.is_some() && old.uid.is_some() && old.uid != uid);
        let ended = |incarnation: &Incarnation, how, at: Moment| {
            incarnation.ended == Some(how) && incarnation.ended_at.is_some_and(|end| end >= at)
        };
        if replaced || row.code.is_deleted() {
            let incarnations = change_indexer::incarnations(self.connection, row.object)
                .context("read the lifetimes of", self.path);
            let Some(incarnations) = self.report.ok_or_finding(incarnations) else { return };
            if replaced
                && !incarnations
                    .iter()
                    .any(|incarnation| ended(incarnation, change_indexer::ENDED_REPLACED, row.at))
            {
                self.report.add_finding(format!(
                    "{location} has a new uid, but the end of the previous object is not indexed"
                ));
            }
            if row.code.is_deleted()
                && !incarnations.iter().any(|incarnation| {
                    ended(incarnation, change_indexer::ENDED_DELETED, row.at)
                        && incarnation.first_at <= row.at
                })
            {
                self.report
                    .add_finding(format!("{location} is a deletion, but the index has no such deletion"));
            }
        }
        if !row.code.is_deleted() {
            let continued = before.filter(|_| !replaced);
            // A newly known uid may belong to another incarnation, if the change that introduced it was pruned.
            let known = continued.as_ref().filter(|old| old.uid.is_some() || uid.is_none());
            let since = known.map_or(row.at, |old| old.since);
            let uid = uid.or(continued.and_then(|old| old.uid));
            derived
                .live_objects
                .insert(row.object, DerivedObject { seq: row.seq, hash: row.hash, uid, since });
        }
    }

    /// Checks that the directory has the same live objects as the changes.
    fn check_directory(&mut self, stream: &Stream, derived: &DerivedState) {
        if !change_indexer::has_directory(&stream.kind) {
            return;
        }
        let read = || -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare_cached("SELECT id FROM object WHERE stream = ?1 AND ended_at IS NULL ORDER BY id")?
                .query_map([stream.id], |row| row.get(0))?
                .collect()
        };
        let indexed = read().context("read the index of", self.path);
        let Some(indexed) = self.report.ok_or_finding(indexed) else { return };
        if indexed.len() != derived.live_objects.len() {
            let (indexed, alive) = (indexed.len(), derived.live_objects.len());
            self.report.add_finding(format!(
                "{indexed} objects of {} are indexed as existing, expected {alive} from the changes",
                stream.kind
            ));
        }
        for id in indexed {
            let object = ObjectId(id);
            let incarnations = change_indexer::incarnations(self.connection, object)
                .context("read the lifetimes of", self.path);
            let Some(incarnations) = self.report.ok_or_finding(incarnations) else { continue };
            let Some(alive) = derived.live_objects.get(&object) else {
                self.report.add_finding(format!(
                    "object {id} of {} is indexed as existing, but was deleted",
                    stream.kind
                ));
                continue;
            };
            let incarnation = incarnations.iter().find(|incarnation| incarnation.ended_at.is_none());
            // Pruning keeps start time and uid, but maybe not the change that introduced them.
            let other = |incarnation: &Incarnation| {
                incarnation.uid.is_some() && alive.uid.is_some() && incarnation.uid != alive.uid
            };
            if incarnation.is_none_or(|incarnation| incarnation.first_at > alive.since || other(incarnation))
            {
                self.report.add_finding(format!(
                    "object {id} of {} is indexed with another uid or creation time",
                    stream.kind
                ));
            }
        }
    }

    /// Checks the stored counts of a stream. A file of schema version 1 has none.
    fn check_counts(&mut self, stream: &Stream) {
        let read = || -> rusqlite::Result<bool> {
            Ok(!schema::has_stream_counts(self.connection)?
                || StreamCounts::stored(self.connection, stream.id)?
                    == StreamCounts::recount(self.connection, stream.id)?)
        };
        let is_same = read().context("count the changes of", self.path);
        if self.report.ok_or_finding(is_same) == Some(false) {
            self.report.add_finding(format!("{}: the stored counts do not match the changes", stream.kind));
        }
    }

    /// Checks the tables that do not belong to a stream.
    fn check_tables(&mut self) {
        let gaps = gaps::read_gaps(self.connection, self.path);
        self.report.gaps = self.report.ok_or_finding(gaps).map_or(0, |gaps| gaps.len());
        let read = || -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare("SELECT id FROM frame ORDER BY id")?
                .query_map([], |row| row.get(0))?
                .collect()
        };
        let frames = read().context("read the frames of", self.path);
        for id in self.report.ok_or_finding(frames).unwrap_or_default() {
            if !self.frames.contains(&id) {
                self.report.add_finding(format!("frame {id} is not used"));
            }
        }
        let unknown = index_check::unknown_streams(self.connection, self.path);
        for stream in self.report.ok_or_finding(unknown).unwrap_or_default() {
            self.report
                .add_finding(format!("the object index has entries of stream {stream}, which is missing"));
        }
        let read = || -> rusqlite::Result<Vec<(i64, i64, Vec<u8>)>> {
            self.connection
                .prepare("SELECT id, hash, bytes FROM dictionary ORDER BY id")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        };
        let dictionaries = read().context("read the dictionaries of", self.path);
        for (id, hash, bytes) in self.report.ok_or_finding(dictionaries).unwrap_or_default() {
            if xxh3_64(&bytes) as i64 != hash {
                self.report.add_finding(format!("dictionary {id} does not match its hash"));
            }
        }
    }
}
