//! Checking a history: that every byte which means something is what was written.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use model::{ContentHash, Meta, Moment};
use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_64;

use crate::counts::StreamCounts;
use crate::error::{Doing, Error, Result};
use crate::frame::{Frame, ObjectId, Pending, Role, Row};
use crate::gaps;
use crate::intake::{self, Life, Stream, streams};
use crate::members;
use crate::schema;
use crate::state::Tools;
use crate::wal;

/// A file that is this broken is not described further.
const MOST_FINDINGS: usize = 100;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, in words; at most a hundred things.
    pub findings: Vec<String>,
    /// Changes that were read and are whole.
    pub changes: u64,
    /// Frames that were read and are whole.
    pub frames: u64,
    /// Times in which something may have been missed. They are no fault of the file.
    pub gaps: usize,
}

// === impl Report ===

impl Report {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    fn find(&mut self, what: impl Into<String>) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(what.into());
        }
    }

    /// An error met on the way is a finding, and the way goes on.
    fn take<T>(&mut self, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(Error::Damaged { what, .. }) => {
                self.find(what);
                None
            }
            Err(error) => {
                let cause =
                    std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
                self.find(format!("{error}{cause}"));
                None
            }
        }
    }
}

/// Reads all of a history and compares everything that is told twice.
///
/// An error means that the file could not be looked at: it is missing, or not a history at all. Damage is a finding.
pub fn doctor(path: &Path) -> Result<Report> {
    let mut report = Report::default();
    let connection = match schema::open_readable(path) {
        Ok(connection) => connection,
        Err(Error::Damaged { what, .. }) => {
            report.find(what);
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    connection.execute_batch("BEGIN").doing("read", path)?;
    let mut check =
        Check { path, connection: &connection, tools: Tools::new(), report, frames: HashSet::new() };
    check.sqlite();
    check.log();
    check.schema();
    let found = streams(&connection, path);
    for stream in check.report.take(found).unwrap_or_default() {
        check.stream(&stream);
    }
    check.tables();
    Ok(check.report)
}

struct Check<'a> {
    path: &'a Path,
    connection: &'a Connection,
    tools: Tools,
    report: Report,
    /// Frames that something refers to.
    frames: HashSet<i64>,
}

/// What one stream has come to, told from its changes alone.
#[derive(Default)]
struct Told {
    last: Option<(i64, Moment)>,
    alive: HashMap<ObjectId, Alive>,
}

struct Alive {
    seq: i64,
    hash: u32,
    uid: Option<u64>,
    /// When its life began, as far as the changes know.
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

// === impl Check ===

impl Check<'_> {
    /// What SQLite itself can tell.
    fn sqlite(&mut self) {
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA integrity_check(20)")?.query_map([], |row| row.get(0))?.collect()
        };
        match read() {
            Ok(lines) if lines == ["ok"] => {}
            Ok(lines) => lines.into_iter().for_each(|line| self.report.find(format!("SQLite: {line}"))),
            Err(error) => self.report.find(format!("SQLite: {error}")),
        }
    }

    /// The log beside the file, of which SQLite takes what is before the first damage without a word.
    fn log(&mut self) {
        let size = self.connection.pragma_query_value(None, "page_size", |row| row.get(0));
        let page_bytes = size.map_or(schema::PAGE_BYTES, |size: u32| size as usize);
        // A page that is just being written looks damaged once, not three times.
        if (0..3).all(|_| wal::read(&wal::beside(self.path), page_bytes).is_damaged) {
            self.report.find("the log beside the file is damaged: what was committed after that is lost");
        }
    }

    /// That the tables are laid out as we would, and refer to what is there.
    fn schema(&mut self) {
        let missing = schema::altered(self.connection).doing("read the schema of", self.path);
        for name in self.report.take(missing).unwrap_or_default() {
            self.report.find(format!("{name} is missing or not as it was made"));
        }
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection.prepare("PRAGMA foreign_key_check")?.query_map([], |row| row.get(0))?.collect()
        };
        let strays = read().doing("read", self.path);
        for table in self.report.take(strays).unwrap_or_default() {
            self.report.find(format!("a row of {table} is of a source that is not there"));
        }
    }

    fn stream(&mut self, stream: &Stream) {
        let mut told = Told::default();
        let blocks = self.blocks(stream).doing("read the blocks of", self.path);
        let keyframes = self.keyframe_seqs(stream).doing("read the keyframes of", self.path);
        let mut keyframes = self.report.take(keyframes).unwrap_or_default();
        keyframes.reverse();
        for block in self.report.take(blocks).unwrap_or_default() {
            self.block(stream, &block, &mut told);
            while let Some(seq) = keyframes.pop_if(|seq| *seq <= block.last.0) {
                self.keyframe(stream, seq, &told);
            }
        }
        for seq in keyframes {
            self.report.find(format!("keyframe {seq} of {} is behind all blocks", stream.kind));
        }
        self.rows(stream, &mut told);
        self.directory(stream, &told);
        self.counts(stream);
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

    fn block(&mut self, stream: &Stream, block: &BlockRow, told: &mut Told) {
        let place = format!("block {}–{} of {}", block.first.0, block.last.0, stream.kind);
        let Some((frame, objects)) = self.open(stream, block.frame, Role::Changes, block.packed, &place)
        else {
            return;
        };
        let ends = |row: &Row| (row.seq, row.at.nanos());
        let listed = (block.first, block.last, block.changes, block.raw);
        let (first, last) = (frame.rows.first().map(ends), frame.rows.last().map(ends));
        let counted = (frame.rows.len() as i64, objects.len() as i64);
        if (Some(listed.0), Some(listed.1), listed.2, listed.3) != (first, last, counted.0, counted.1) {
            self.report.find(format!("{place} is listed with other numbers than its frame has"));
        }
        if block.members != members::encode(&members::members(&frame.rows)) {
            self.report.find(format!("{place} is listed with other objects than its frame has"));
        }
        for (row, range) in frame.places() {
            let text = objects.get(range).unwrap_or_default();
            self.version(stream, row, text, told);
        }
    }

    fn keyframe(&mut self, stream: &Stream, seq: i64, told: &Told) {
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
        let parts = read().doing("read a keyframe of", self.path);
        let mut held = 0;
        for part in self.report.take(parts).unwrap_or_default() {
            let Some((frame, objects)) = self.open(stream, part.frame, Role::Keyframe, part.packed, &place)
            else {
                return;
            };
            if told.last != Some((seq, Moment::from_nanos(part.at)))
                || part.objects != frame.rows.len() as i64
            {
                self.report.find(format!("{place} is listed with other numbers than it has"));
            }
            if part.members != members::encode(&members::members(&frame.rows)) {
                self.report.find(format!("{place} is listed with other objects than it has"));
            }
            for (row, range) in frame.places() {
                let text = objects.get(range).unwrap_or_default();
                let same =
                    told.alive.get(&row.object).is_some_and(|is| is.seq == row.seq && is.hash == row.hash);
                if !same || ContentHash::of(text).0 as u32 != row.hash {
                    self.report.find(format!("{place} holds change {} as no block does", row.seq));
                }
                held += 1;
            }
        }
        if held != told.alive.len() {
            self.report.find(format!("{place} holds {held} objects, the changes leave {}", told.alive.len()));
        }
    }

    fn open(
        &mut self,
        stream: &Stream,
        id: i64,
        role: Role,
        packed: i64,
        place: &str,
    ) -> Option<(Frame, String)> {
        if !self.frames.insert(id) {
            self.report.find(format!("{place} shares frame {id}"));
        }
        let length =
            self.connection
                .query_row("SELECT length(bytes) FROM frame WHERE id = ?1", [id], |row| row.get(0));
        if length != Ok(packed) {
            self.report.find(format!("{place} is listed with another size than its frame has"));
        }
        let frame = self.tools.frame(self.connection, self.path, id);
        let frame = self.report.take(frame)?;
        if frame.role != role || frame.source != stream.source || frame.kind != stream.kind {
            self.report.find(format!("{place} names frame {id}, which is something else"));
            return None;
        }
        match self.tools.codec.objects(&frame) {
            Ok(objects) => {
                self.report.frames += 1;
                Some((frame, objects))
            }
            Err(why) => {
                self.report.find(format!("{place}: {why}"));
                None
            }
        }
    }

    fn rows(&mut self, stream: &Stream, told: &mut Told) {
        let mut after = i64::MIN;
        loop {
            let mut pending = Pending::default();
            let read = self.tools.rows.read(self.connection, self.path, stream, after, &mut pending);
            let whole = self.report.take(read).is_some();
            for (row, text) in pending.iter() {
                self.version(stream, row, text, told);
                after = row.seq;
            }
            if !whole || pending.rows.is_empty() {
                return;
            }
        }
    }

    /// One version: that it is in order, is what its hash says, and is filed under its name.
    fn version(&mut self, stream: &Stream, row: &Row, text: &str, told: &mut Told) {
        let place = format!("change {} of {}", row.seq, stream.kind);
        if told.last.is_some_and(|(seq, at)| row.seq <= seq || row.at < at) {
            self.report.find(format!("{place} is out of order"));
        }
        told.last = Some((row.seq, row.at));
        if ContentHash::of(text).0 as u32 != row.hash {
            self.report.find(format!("{place} does not match its hash"));
            return;
        }
        let meta = match Meta::read(text) {
            Ok(meta) => meta,
            Err(error) => return self.report.find(format!("{place} holds no Kubernetes object: {error}")),
        };
        if model::Kind::of(&meta.api_version, &meta.kind) != stream.kind {
            self.report.find(format!("{place} is a {}", meta.kind));
        }
        let found = intake::find_object(self.connection, stream, &meta.namespace, &meta.name)
            .doing("read", self.path);
        let found = self.report.take(found).flatten();
        if found.is_none_or(|found| found.object != row.object) {
            self.report.find(format!("{place} is not filed under its name {}", meta.name));
        }
        self.report.changes += 1;
        if intake::has_directory(&stream.kind) {
            self.life(&place, row, &meta, told);
        } else if row.code.is_deleted() {
            told.alive.remove(&row.object);
        } else {
            let alive = Alive { seq: row.seq, hash: row.hash, uid: None, since: row.at };
            told.alive.insert(row.object, alive);
        }
    }

    /// Follows the lives of an object; each end must stand in the directory.
    fn life(&mut self, place: &str, row: &Row, meta: &Meta<'_>, told: &mut Told) {
        let uid = meta.uid.as_deref().map(|uid| xxh3_64(uid.as_bytes()));
        let before = told.alive.remove(&row.object);
        let replaced =
            before.as_ref().is_some_and(|old| uid.is_some() && old.uid.is_some() && old.uid != uid);
        let ended = |life: &Life, how, at: Moment| {
            life.ended == Some(how) && life.ended_at.is_some_and(|end| end >= at)
        };
        if replaced || row.code.is_deleted() {
            let lives = intake::lives(self.connection, row.object).doing("read the lives of", self.path);
            let Some(lives) = self.report.take(lives) else { return };
            if replaced && !lives.iter().any(|life| ended(life, intake::REPLACED, row.at)) {
                self.report.find(format!("{place} begins another life, but the last one has no end"));
            }
            if row.code.is_deleted()
                && !lives.iter().any(|life| ended(life, intake::DELETED, row.at) && life.first_at <= row.at)
            {
                self.report.find(format!("{place} ends a life that the directory has otherwise"));
            }
        }
        if !row.code.is_deleted() {
            let kept = before.filter(|_| !replaced);
            // A uid that was not known before may be that of another life, if the change that told it was pruned.
            let known = kept.as_ref().filter(|old| old.uid.is_some() || uid.is_none());
            let since = known.map_or(row.at, |old| old.since);
            let uid = uid.or(kept.and_then(|old| old.uid));
            told.alive.insert(row.object, Alive { seq: row.seq, hash: row.hash, uid, since });
        }
    }

    /// The directory at the end: just those alive that the changes leave alive.
    fn directory(&mut self, stream: &Stream, told: &Told) {
        if !intake::has_directory(&stream.kind) {
            return;
        }
        let read = || -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare_cached("SELECT id FROM object WHERE stream = ?1 AND ended_at IS NULL ORDER BY id")?
                .query_map([stream.id], |row| row.get(0))?
                .collect()
        };
        let listed = read().doing("read the directory of", self.path);
        let Some(listed) = self.report.take(listed) else { return };
        if listed.len() != told.alive.len() {
            let (listed, alive) = (listed.len(), told.alive.len());
            self.report.find(format!(
                "{listed} objects of {} are listed alive, the changes leave {alive}",
                stream.kind
            ));
        }
        for id in listed {
            let object = ObjectId(id);
            let lives = intake::lives(self.connection, object).doing("read the lives of", self.path);
            let Some(lives) = self.report.take(lives) else { continue };
            let Some(alive) = told.alive.get(&object) else {
                self.report.find(format!("object {id} of {} is listed alive and is not", stream.kind));
                continue;
            };
            let life = lives.iter().find(|life| life.ended_at.is_none());
            // Pruning leaves the time of birth and the uid, but maybe not the change that told them.
            let other = |life: &Life| life.uid.is_some() && alive.uid.is_some() && life.uid != alive.uid;
            if life.is_none_or(|life| life.first_at > alive.since || other(life)) {
                self.report.find(format!("object {id} of {} is listed with another life", stream.kind));
            }
        }
    }

    /// The counts that are kept of a stream. A file of the first version has none.
    fn counts(&mut self, stream: &Stream) {
        let read = || -> rusqlite::Result<bool> {
            Ok(!schema::keeps_counts(self.connection)?
                || StreamCounts::kept(self.connection, stream.id)?
                    == StreamCounts::counted(self.connection, stream.id)?)
        };
        let same = read().doing("count the changes of", self.path);
        if self.report.take(same) == Some(false) {
            self.report.find(format!("{} is listed with other counts than it has", stream.kind));
        }
    }

    /// What is not part of any stream.
    fn tables(&mut self) {
        let gaps = gaps::all(self.connection, self.path);
        self.report.gaps = self.report.take(gaps).map_or(0, |gaps| gaps.len());
        let read = || -> rusqlite::Result<Vec<i64>> {
            self.connection
                .prepare("SELECT id FROM frame ORDER BY id")?
                .query_map([], |row| row.get(0))?
                .collect()
        };
        let frames = read().doing("read the frames of", self.path);
        for id in self.report.take(frames).unwrap_or_default() {
            if !self.frames.contains(&id) {
                self.report.find(format!("frame {id} belongs to nothing"));
            }
        }
        let read = || -> rusqlite::Result<Vec<(i64, i64, Vec<u8>)>> {
            self.connection
                .prepare("SELECT id, hash, bytes FROM dictionary ORDER BY id")?
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
                .collect()
        };
        let dictionaries = read().doing("read the dictionaries of", self.path);
        for (id, hash, bytes) in self.report.take(dictionaries).unwrap_or_default() {
            if xxh3_64(&bytes) as i64 != hash {
                self.report.find(format!("dictionary {id} does not match its hash"));
            }
        }
    }
}
