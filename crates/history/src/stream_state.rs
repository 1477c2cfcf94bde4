//! The state of one stream at one point of its history: the keyframe before it plus the changes since.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use model::{ContentHash, Moment};
use rusqlite::{Connection, OptionalExtension, params};

use crate::change_indexer::Stream;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{ChangeCode, Frame, FrameCodec, ObjectId, PendingVersions, VersionRow};
use crate::members;
use crate::object_blocks::BlockSearch;
use crate::rows::RowCodec;

/// The point up to which changes are applied.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadPoint {
    /// All changes effective up to and including this moment.
    Moment(Moment),
    /// All changes up to and including this sequence number.
    Seq(i64),
}

/// Locations of the versions that make up a state: per frame the indexes of the versions, both ascending; then the
/// sequence numbers of rows that are not packed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionLocations {
    pub(crate) frames: Vec<(i64, Vec<u32>)>,
    pub(crate) rows: Vec<i64>,
}

/// Reads frames and rows; reuses its buffers between calls.
pub(crate) struct VersionReader {
    pub(crate) codec: FrameCodec,
    pub(crate) rows: RowCodec,
}

#[derive(Clone, Copy)]
enum VersionLocation {
    Frame(i64, u32),
    Row(i64),
}

/// The last version of an object.
#[derive(Clone, Copy)]
enum LastVersion {
    At(VersionLocation),
    Deleted,
}

// === impl VersionReader ===

impl VersionReader {
    pub(crate) fn new() -> VersionReader {
        VersionReader { codec: FrameCodec::new(), rows: RowCodec::new() }
    }

    /// Reads a frame and verifies its checksum.
    pub(crate) fn read_frame(&mut self, connection: &Connection, path: &Path, id: i64) -> Result<Frame> {
        let doing = "read a frame of";
        let damaged =
            |what: &str| Error::Damaged { path: path.to_owned(), what: format!("frame {id}: {what}") };
        let mut statement =
            connection.prepare_cached("SELECT bytes FROM frame WHERE id = ?1").context(doing, path)?;
        let mut rows = statement.query([id]).context(doing, path)?;
        let row = rows.next().context(doing, path)?.ok_or_else(|| damaged("missing"))?;
        let bytes = row.get_ref(0).context(doing, path)?.as_blob().map_err(|_| damaged("not a blob"))?;
        self.codec.open(bytes).map_err(damaged)
    }

    /// Calls `each` with the wanted objects of a frame, each verified against its hash.
    pub(crate) fn read_objects(
        &mut self,
        path: &Path,
        id: i64,
        frame: &Frame,
        indexes: &[u32],
        mut each: impl FnMut(&VersionRow, &str),
    ) -> Result<()> {
        let damaged =
            |what: &str| Error::Damaged { path: path.to_owned(), what: format!("frame {id}: {what}") };
        let objects = self.codec.object_bytes(frame).map_err(damaged)?;
        let mut indexes = indexes.iter().peekable();
        for (index, (row, range)) in (0u32..).zip(frame.object_ranges()) {
            if indexes.next_if_eq(&&index).is_none() {
                continue;
            }
            let text = objects.get(range).and_then(|bytes| std::str::from_utf8(bytes).ok());
            let text = text.ok_or_else(|| damaged("an object is not UTF-8"))?;
            if ContentHash::of(text).0 as u32 != row.hash {
                return Err(damaged(&format!("change {} does not match its hash", row.seq)));
            }
            each(row, text);
        }
        if indexes.next().is_some() {
            return Err(damaged("fewer versions than listed"));
        }
        Ok(())
    }

    /// Calls `each` with every version of a state, in no particular order.
    pub(crate) fn read_versions(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        locations: &VersionLocations,
        mut each: impl FnMut(&VersionRow, &str),
    ) -> Result<()> {
        for (id, wanted) in &locations.frames {
            let frame = self.read_frame(connection, path, *id)?;
            self.read_objects(path, *id, &frame, wanted, &mut each)?;
        }
        // Rows are read in chunks of a frame's length; the wanted ones among them are found by sequence number.
        let mut wanted = locations.rows.iter().peekable();
        let end = locations.rows.last().copied().unwrap_or_default();
        while let Some(&&first) = wanted.peek() {
            let mut pending = PendingVersions::default();
            self.rows.read_between(connection, path, stream, first - 1, end, &mut pending)?;
            let last = pending.rows.last().map_or(first, |row| row.seq);
            for (row, text) in pending.iter() {
                if wanted.next_if_eq(&&row.seq).is_some() {
                    each(row, text);
                }
            }
            // Skips rows that no longer exist, which would otherwise be requested forever.
            while wanted.next_if(|seq| **seq <= last).is_some() {}
        }
        Ok(())
    }
}

/// Locates the versions that make up the state of `stream`.
pub(crate) fn locate_state(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    stream: &Stream,
    until: ReadPoint,
) -> Result<VersionLocations> {
    let keyframe = keyframe_before(connection, stream, until).context("read a state of", path)?;
    let base = match keyframe {
        Some(seq) => read_keyframe_state(connection, path, stream, seq)?,
        None => BaseState::default(),
    };
    apply_changes(connection, path, reader, stream, until, base)
}

/// Locates the version of one object in the state of `stream`. Searches backwards: rows, blocks, then the keyframe.
pub(crate) fn locate_object(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    stream: &Stream,
    until: ReadPoint,
    object: ObjectId,
) -> Result<VersionLocations> {
    let doing = "read a state of";
    let keyframe = keyframe_before(connection, stream, until).context(doing, path)?;
    let since = keyframe.unwrap_or(i64::MIN);
    let mut found = last_row_of(connection, stream, since, until, object).context(doing, path)?;
    let search = BlockSearch { connection, path, stream, object };
    let last_block = last_block_before(connection, stream, until).context(doing, path)?;
    if let (None, Some(last_block)) = (found, last_block) {
        search.for_each_backwards(since, last_block, |block| {
            found = if until.includes(block.last_seq, Moment::from_nanos(block.last_at)) {
                Some(LastVersion::in_frame(block.frame, block.member.last, block.member.deleted))
            } else {
                // Only part of the block is included.
                let frame = reader.read_frame(connection, path, block.frame)?;
                let is_found = |row: &VersionRow| row.object == object && until.includes(row.seq, row.at);
                frame.rows.iter().rposition(is_found).map(|index| {
                    LastVersion::in_frame(block.frame, index as u32, frame.rows[index].code.is_deleted())
                })
            };
            Ok(if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    if let (None, Some(seq)) = (found, keyframe) {
        let part = search.keyframe_part(seq)?;
        found = part.map(|(frame, member)| LastVersion::in_frame(frame, member.last, member.deleted));
    }
    let mut locations = VersionLocations::default();
    match found {
        None | Some(LastVersion::Deleted) => {}
        Some(LastVersion::At(VersionLocation::Frame(frame, index))) => {
            locations.frames.push((frame, vec![index]));
        }
        Some(LastVersion::At(VersionLocation::Row(seq))) => locations.rows.push(seq),
    }
    Ok(locations)
}

/// The same without a keyframe, from the first change on, so that each version is located where it was first stored.
/// This takes longer.
pub(crate) fn locate_state_from_changes(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    stream: &Stream,
    until: ReadPoint,
) -> Result<VersionLocations> {
    apply_changes(connection, path, reader, stream, until, BaseState::default())
}

/// A state to which changes are applied.
struct BaseState {
    state: HashMap<ObjectId, VersionLocation>,
    /// The sequence number of the last change it includes.
    since: i64,
}

impl Default for BaseState {
    fn default() -> BaseState {
        BaseState { state: HashMap::new(), since: i64::MIN }
    }
}

/// Reads the state of a keyframe.
fn read_keyframe_state(connection: &Connection, path: &Path, stream: &Stream, seq: i64) -> Result<BaseState> {
    let doing = "read a state of";
    let mut state = HashMap::new();
    let mut statement = connection
        .prepare_cached("SELECT frame, members FROM keyframe WHERE stream = ?1 AND seq = ?2 ORDER BY part")
        .context(doing, path)?;
    let mut rows = statement.query(params![stream.id, seq]).context(doing, path)?;
    while let Some(row) = rows.next().context(doing, path)? {
        let frame: i64 = row.get(0).context(doing, path)?;
        let list = row.get_ref(1).context(doing, path)?.as_blob().ok().and_then(members::decode);
        let list = list.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("the object list of keyframe {seq} of {}", stream.kind),
        })?;
        for member in list {
            state.insert(member.object, VersionLocation::Frame(frame, member.last));
        }
    }
    Ok(BaseState { state, since: seq })
}

fn apply_changes(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    stream: &Stream,
    until: ReadPoint,
    base: BaseState,
) -> Result<VersionLocations> {
    let BaseState { mut state, since } = base;
    let doing = "read a state of";
    let damaged =
        |what: String| Error::Damaged { path: path.to_owned(), what: format!("{what} of {}", stream.kind) };

    let mut statement = connection
        .prepare_cached(
            "SELECT frame, members, last_seq, last_at FROM block
             WHERE stream = ?1 AND first_seq > ?2 AND first_seq <= ?3 ORDER BY first_seq",
        )
        .context(doing, path)?;
    let last_block = last_block_before(connection, stream, until).context(doing, path)?;
    let mut rows =
        statement.query(params![stream.id, since, last_block.unwrap_or(i64::MIN)]).context(doing, path)?;
    while let Some(row) = rows.next().context(doing, path)? {
        let frame: i64 = row.get(0).context(doing, path)?;
        let (last_seq, last_at): (i64, i64) =
            (row.get(2).context(doing, path)?, row.get(3).context(doing, path)?);
        let whole = match until {
            ReadPoint::Moment(moment) => last_at <= moment.nanos(),
            ReadPoint::Seq(seq) => last_seq <= seq,
        };
        let list = row.get_ref(1).context(doing, path)?.as_blob().ok().and_then(members::decode);
        let list =
            list.ok_or_else(|| damaged(format!("the object list of the block up to change {last_seq}")))?;
        if whole {
            for member in list {
                if member.deleted {
                    state.remove(&member.object);
                } else {
                    state.insert(member.object, VersionLocation::Frame(frame, member.last));
                }
            }
        } else {
            let opened = reader.read_frame(connection, path, frame)?;
            for (index, row) in (0u32..).zip(&opened.rows) {
                if until.includes(row.seq, row.at) {
                    if row.code.is_deleted() {
                        state.remove(&row.object);
                    } else {
                        state.insert(row.object, VersionLocation::Frame(frame, index));
                    }
                }
            }
        }
    }

    let mut statement = connection
        .prepare_cached(
            "SELECT seq, object, at, what FROM change WHERE stream = ?1 AND seq > ?2 ORDER BY seq",
        )
        .context(doing, path)?;
    let mut rows = statement.query(params![stream.id, since]).context(doing, path)?;
    while let Some(row) = rows.next().context(doing, path)? {
        let get = |index| row.get::<_, i64>(index).context(doing, path);
        let (seq, object, at) = (get(0)?, ObjectId(get(1)?), Moment::from_nanos(get(2)?));
        if !until.includes(seq, at) {
            break;
        }
        if get(3)? & 3 == 2 {
            state.remove(&object);
        } else {
            state.insert(object, VersionLocation::Row(seq));
        }
    }
    Ok(sorted_locations(state))
}

// === impl LastVersion ===

impl LastVersion {
    fn in_frame(frame: i64, index: u32, is_deleted: bool) -> LastVersion {
        if is_deleted { LastVersion::Deleted } else { LastVersion::At(VersionLocation::Frame(frame, index)) }
    }
}

// === impl ReadPoint ===

impl ReadPoint {
    fn includes(self, seq: i64, at: Moment) -> bool {
        match self {
            ReadPoint::Moment(moment) => at <= moment,
            ReadPoint::Seq(last) => seq <= last,
        }
    }
}

/// The last version of an object among the rows that are not packed.
fn last_row_of(
    connection: &Connection,
    stream: &Stream,
    since: i64,
    until: ReadPoint,
    object: ObjectId,
) -> rusqlite::Result<Option<LastVersion>> {
    let mut statement = connection.prepare_cached(
        "SELECT seq, at, what FROM change WHERE stream = ?1 AND object = ?2 AND seq > ?3 ORDER BY seq DESC",
    )?;
    let mut rows = statement.query([stream.id, object.0, since])?;
    while let Some(row) = rows.next()? {
        let seq = row.get(0)?;
        if until.includes(seq, Moment::from_nanos(row.get(1)?)) {
            let is_deleted = row.get::<_, i64>(2)? & 3 == i64::from(ChangeCode::DELETED);
            let version = LastVersion::At(VersionLocation::Row(seq));
            return Ok(Some(if is_deleted { LastVersion::Deleted } else { version }));
        }
    }
    Ok(None)
}

/// The newest keyframe that includes no later changes. `at` and `seq` rise together within a stream.
fn keyframe_before(
    connection: &Connection,
    stream: &Stream,
    until: ReadPoint,
) -> rusqlite::Result<Option<i64>> {
    let (sql, bound) = match until {
        ReadPoint::Moment(moment) => (
            "SELECT seq FROM keyframe WHERE stream = ?1 AND at <= ?2 ORDER BY at DESC, seq DESC LIMIT 1",
            moment.nanos(),
        ),
        ReadPoint::Seq(seq) => {
            ("SELECT seq FROM keyframe WHERE stream = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1", seq)
        }
    };
    connection.prepare_cached(sql)?.query_row(params![stream.id, bound], |row| row.get(0)).optional()
}

/// The first sequence number of the last block that has changes within the bound.
fn last_block_before(
    connection: &Connection,
    stream: &Stream,
    until: ReadPoint,
) -> rusqlite::Result<Option<i64>> {
    let (sql, bound) = match until {
        ReadPoint::Moment(moment) => (
            "SELECT first_seq FROM block WHERE stream = ?1 AND first_at <= ?2 ORDER BY first_at DESC, first_seq DESC LIMIT 1",
            moment.nanos(),
        ),
        ReadPoint::Seq(seq) => (
            "SELECT first_seq FROM block WHERE stream = ?1 AND first_seq <= ?2 ORDER BY first_seq DESC LIMIT 1",
            seq,
        ),
    };
    connection.prepare_cached(sql)?.query_row(params![stream.id, bound], |row| row.get(0)).optional()
}

/// Sorted, so that each frame is read once and the order does not depend on hashing.
fn sorted_locations(state: HashMap<ObjectId, VersionLocation>) -> VersionLocations {
    let (mut in_frames, mut rows) = (Vec::new(), Vec::new());
    for location in state.into_values() {
        match location {
            VersionLocation::Frame(frame, index) => in_frames.push((frame, index)),
            VersionLocation::Row(seq) => rows.push(seq),
        }
    }
    in_frames.sort_unstable();
    rows.sort_unstable();
    let mut frames: Vec<(i64, Vec<u32>)> = Vec::new();
    for (frame, index) in in_frames {
        match frames.last_mut() {
            Some((last, indexes)) if *last == frame => indexes.push(index),
            _ => frames.push((frame, vec![index])),
        }
    }
    VersionLocations { frames, rows }
}
