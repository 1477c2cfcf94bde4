//! Integrity check of a history: reads everything and compares it with checksums and redundant data.

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

    fn add_finding(&mut self, what: impl Into<String>) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(what.into());
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
                .add_finding("the log beside the file is damaged: what was committed after that is lost");
        }
    }

    /// Checks the schema and foreign keys.
    fn check_schema(&mut self) {
        let missing =
            schema::altered_schema_objects(self.connection).context("read the schema of", self.path);
        for name in self.report.ok_or_finding(missing).unwrap_or_default() {
            self.report.add_finding(format!("{name} is missing or not as it was made"));
        }
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA foreign_key_check")?.query_map([], |row| row.get(0))?.collect()
        };
        let strays = read().context("read", self.path);
        for table in self.report.ok_or_finding(strays).unwrap_or_default() {
            self.report.add_finding(format!("a row of {table} is of a source that is not there"));
        }
    }

    fn check_stream(&mut self, stream: &Stream) {
        let mut told = DerivedState::default();
        let blocks = self.blocks(stream).context("read the blocks of", self.path);
        let keyframes = self.keyframe_seqs(stream).context("read the keyframes of", self.path);
        let mut keyframes = self.report.ok_or_finding(keyframes).unwrap_or_default();
        keyframes.reverse();
        for block in self.report.ok_or_finding(blocks).unwrap_or_default() {
            self.check_block(stream, &block, &mut told);
            while let Some(seq) = keyframes.pop_if(|seq| *seq <= block.last.0) {
                self.check_keyframe(stream, seq, &told);
            }
        }
        for seq in keyframes {
            self.report.add_finding(format!("keyframe {seq} of {} is behind all blocks", stream.kind));
        }
        self.check_rows(stream, &mut told);
        self.check_directory(stream, &told);
        self.check_counts(stream);
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

    fn check_block(&mut self, stream: &Stream, block: &BlockRow, told: &mut DerivedState) {
        let place = format!("block {}–{} of {}", block.first.0, block.last.0, stream.kind);
        let Some((frame, objects)) = self.open(stream, block.frame, FrameRole::Changes, block.packed, &place)
        else {
            return;
        };
        let ends = |row: &VersionRow| (row.seq, row.at.nanos());
        let listed = (block.first, block.last, block.changes, block.raw);
        let (first, last) = (frame.rows.first().map(ends), frame.rows.last().map(ends));
        let counted = (frame.rows.len() as i64, objects.len() as i64);
        if (Some(listed.0), Some(listed.1), listed.2, listed.3) != (first, last, counted.0, counted.1) {
            self.report.add_finding(format!("{place} is listed with other numbers than its frame has"));
        }
        if block.members != members::encode(&members::member_list(&frame.rows)) {
            self.report.add_finding(format!("{place} is listed with other objects than its frame has"));
        }
        for (row, range) in frame.object_ranges() {
            let text = objects.get(range).unwrap_or_default();
            self.check_version(stream, row, text, told);
        }
    }

    fn check_keyframe(&mut self, stream: &Stream, seq: i64, told: &DerivedState) {
        let place = format!("keyframe {seq} of {}", stream.kind);
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
        let mut held = 0;
        for part in self.report.ok_or_finding(parts).unwrap_or_default() {
            let Some((frame, objects)) =
                self.open(stream, part.frame, FrameRole::Keyframe, part.packed, &place)
            else {
                return;
            };
            if told.last != Some((seq, Moment::from_nanos(part.at)))
                || part.objects != frame.rows.len() as i64
            {
                self.report.add_finding(format!("{place} is listed with other numbers than it has"));
            }
            if part.members != members::encode(&members::member_list(&frame.rows)) {
                self.report.add_finding(format!("{place} is listed with other objects than it has"));
            }
            for (row, range) in frame.object_ranges() {
                let text = objects.get(range).unwrap_or_default();
                let same = told
                    .live_objects
                    .get(&row.object)
                    .is_some_and(|is| is.seq == row.seq && is.hash == row.hash);
                if !same || ContentHash::of(text).0 as u32 != row.hash {
                    self.report.add_finding(format!("{place} holds change {} as no block does", row.seq));
                }
                held += 1;
            }
        }
        if held != told.live_objects.len() {
            self.report.add_finding(format!(
                "{place} holds {held} objects, the changes leave {}",
                told.live_objects.len()
            ));
        }
    }

    fn open(
        &mut self,
        stream: &Stream,
        id: i64,
        role: FrameRole,
        packed: i64,
        place: &str,
    ) -> Option<(Frame, String)> {
        if !self.frames.insert(id) {
            self.report.add_finding(format!("{place} shares frame {id}"));
        }
        let length =
            self.connection
                .query_row("SELECT length(bytes) FROM frame WHERE id = ?1", [id], |row| row.get(0));
        if length != Ok(packed) {
            self.report.add_finding(format!("{place} is listed with another size than its frame has"));
        }
        let frame = self.reader.read_frame(self.connection, self.path, id);
        let frame = self.report.ok_or_finding(frame)?;
        if frame.role != role || frame.source != stream.source || frame.kind != stream.kind {
            self.report.add_finding(format!("{place} names frame {id}, which is something else"));
            return None;
        }
        match self.reader.codec.objects(&frame) {
            Ok(objects) => {
                self.report.frames += 1;
                Some((frame, objects))
            }
            Err(why) => {
                self.report.add_finding(format!("{place}: {why}"));
                None
            }
        }
    }

    fn check_rows(&mut self, stream: &Stream, told: &mut DerivedState) {
        let mut after = i64::MIN;
        loop {
            let mut pending = PendingVersions::default();
            let read = self.reader.rows.read(self.connection, self.path, stream, after, &mut pending);
            let whole = self.report.ok_or_finding(read).is_some();
            for (row, text) in pending.iter() {
                self.check_version(stream, row, text, told);
                after = row.seq;
            }
            if !whole || pending.rows.is_empty() {
                return;
            }
        }
    }

    /// Checks that one version is in order, matches its hash and has the name its object id stands for.
    fn check_version(&mut self, stream: &Stream, row: &VersionRow, text: &str, told: &mut DerivedState) {
        let place = format!("change {} of {}", row.seq, stream.kind);
        if told.last.is_some_and(|(seq, at)| row.seq <= seq || row.at < at) {
            self.report.add_finding(format!("{place} is out of order"));
        }
        told.last = Some((row.seq, row.at));
        if ContentHash::of(text).0 as u32 != row.hash {
            self.report.add_finding(format!("{place} does not match its hash"));
            return;
        }
        let meta = match Meta::read(text) {
            Ok(meta) => meta,
            Err(error) => {
                return self.report.add_finding(format!("{place} holds no Kubernetes object: {error}"));
            }
        };
        if model::Kind::of(&meta.api_version, &meta.kind) != stream.kind {
            self.report.add_finding(format!("{place} is a {}", meta.kind));
        }
        let found = change_indexer::find_object(self.connection, stream, &meta.namespace, &meta.name)
            .context("read", self.path);
        let found = self.report.ok_or_finding(found).flatten();
        if found.is_none_or(|found| found.object != row.object) {
            self.report.add_finding(format!("{place} is not filed under its name {}", meta.name));
        }
        self.report.changes += 1;
        if change_indexer::has_directory(&stream.kind) {
            self.check_incarnation(&place, row, &meta, told);
        } else if row.code.is_deleted() {
            told.live_objects.remove(&row.object);
        } else {
            let alive = DerivedObject { seq: row.seq, hash: row.hash, uid: None, since: row.at };
            told.live_objects.insert(row.object, alive);
        }
    }

    /// Follows the incarnations of an object; each end must be in the directory.
    fn check_incarnation(&mut self, place: &str, row: &VersionRow, meta: &Meta<'_>, told: &mut DerivedState) {
        let uid = meta.uid.as_deref().map(|uid| xxh3_64(uid.as_bytes()));
        let before = told.live_objects.remove(&row.object);
        let replaced =
            before.as_ref().is_some_and(|old| uid.is_some() && old.uid.is_some() && old.uid != uid);
        let ended = |life: &Incarnation, how, at: Moment| {
            life.ended == Some(how) && life.ended_at.is_some_and(|end| end >= at)
        };
        if replaced || row.code.is_deleted() {
            let lives = change_indexer::incarnations(self.connection, row.object)
                .context("read the lives of", self.path);
            let Some(lives) = self.report.ok_or_finding(lives) else { return };
            if replaced && !lives.iter().any(|life| ended(life, change_indexer::ENDED_REPLACED, row.at)) {
                self.report.add_finding(format!("{place} begins another life, but the last one has no end"));
            }
            if row.code.is_deleted()
                && !lives
                    .iter()
                    .any(|life| ended(life, change_indexer::ENDED_DELETED, row.at) && life.first_at <= row.at)
            {
                self.report.add_finding(format!("{place} ends a life that the directory has otherwise"));
            }
        }
        if !row.code.is_deleted() {
            let kept = before.filter(|_| !replaced);
            // A newly known uid may belong to another incarnation, if the change that introduced it was pruned.
            let known = kept.as_ref().filter(|old| old.uid.is_some() || uid.is_none());
            let since = known.map_or(row.at, |old| old.since);
            let uid = uid.or(kept.and_then(|old| old.uid));
            told.live_objects.insert(row.object, DerivedObject { seq: row.seq, hash: row.hash, uid, since });
        }
    }

    /// Checks that the directory has the same live objects as the changes.
    fn check_directory(&mut self, stream: &Stream, told: &DerivedState) {
        if !change_indexer::has_directory(&stream.kind) {
            return;
        }
        let read = || -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare_cached("SELECT id FROM object WHERE stream = ?1 AND ended_at IS NULL ORDER BY id")?
                .query_map([stream.id], |row| row.get(0))?
                .collect()
        };
        let listed = read().context("read the directory of", self.path);
        let Some(listed) = self.report.ok_or_finding(listed) else { return };
        if listed.len() != told.live_objects.len() {
            let (listed, alive) = (listed.len(), told.live_objects.len());
            self.report.add_finding(format!(
                "{listed} objects of {} are listed alive, the changes leave {alive}",
                stream.kind
            ));
        }
        for id in listed {
            let object = ObjectId(id);
            let lives =
                change_indexer::incarnations(self.connection, object).context("read the lives of", self.path);
            let Some(lives) = self.report.ok_or_finding(lives) else { continue };
            let Some(alive) = told.live_objects.get(&object) else {
                self.report.add_finding(format!("object {id} of {} is listed alive and is not", stream.kind));
                continue;
            };
            let life = lives.iter().find(|life| life.ended_at.is_none());
            // Pruning keeps start time and uid, but maybe not the change that introduced them.
            let other =
                |life: &Incarnation| life.uid.is_some() && alive.uid.is_some() && life.uid != alive.uid;
            if life.is_none_or(|life| life.first_at > alive.since || other(life)) {
                self.report
                    .add_finding(format!("object {id} of {} is listed with another life", stream.kind));
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
        let same = read().context("count the changes of", self.path);
        if self.report.ok_or_finding(same) == Some(false) {
            self.report.add_finding(format!("{} is listed with other counts than it has", stream.kind));
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
                self.report.add_finding(format!("frame {id} belongs to nothing"));
            }
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
