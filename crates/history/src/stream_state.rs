//! The state of one stream at one point of its history: the keyframe before it plus the changes since.

use std::collections::HashMap;
use std::path::Path;

use model::{ContentHash, Moment};
use rusqlite::{Connection, OptionalExtension, params};

use crate::change_indexer::Stream;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{Frame, FrameCodec, ObjectId, PendingVersions, VersionRow};
use crate::members;
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
        let objects = self.codec.objects(frame).map_err(damaged)?;
        let mut indexes = indexes.iter().peekable();
        for (index, (row, range)) in (0u32..).zip(frame.object_ranges()) {
            if indexes.next_if_eq(&&index).is_none() {
                continue;
            }
            let text = objects
                .get(range)
                .ok_or_else(|| damaged("an object does not end at a character boundary"))?;
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
        while let Some(&&first) = wanted.peek() {
            let mut pending = PendingVersions::default();
            self.rows.read(connection, path, stream, first - 1, &mut pending)?;
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

/// Locates the versions that make up the state of `stream`; only those of one object, if one is given.
pub(crate) fn locate_state(
    connection: &Connection,
    path: &Path,
    reader: &mut VersionReader,
    stream: &Stream,
    until: ReadPoint,
    only: Option<ObjectId>,
) -> Result<VersionLocations> {
    let keyframe = keyframe_before(connection, stream, until).context("read a state of", path)?;
    let base = match keyframe {
        Some(seq) => read_keyframe_state(connection, path, stream, seq, only)?,
        None => BaseState::default(),
    };
    apply_changes(connection, path, reader, stream, until, only, base)
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
    apply_changes(connection, path, reader, stream, until, None, BaseState::default())
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
fn read_keyframe_state(
    connection: &Connection,
    path: &Path,
    stream: &Stream,
    seq: i64,
    only: Option<ObjectId>,
) -> Result<BaseState> {
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
        for member in list.into_iter().filter(|member| only.is_none_or(|only| only == member.object)) {
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
    only: Option<ObjectId>,
    base: BaseState,
) -> Result<VersionLocations> {
    let BaseState { mut state, since } = base;
    let is_selected = |object: ObjectId| only.is_none_or(|only| only == object);
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
            for member in list.into_iter().filter(|member| is_selected(member.object)) {
                if member.deleted {
                    state.remove(&member.object);
                } else {
                    state.insert(member.object, VersionLocation::Frame(frame, member.last));
                }
            }
        } else if list.iter().any(|member| is_selected(member.object)) {
            let opened = reader.read_frame(connection, path, frame)?;
            for (index, row) in (0u32..).zip(&opened.rows) {
                if until.includes(row.seq, row.at) && is_selected(row.object) {
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
        if is_selected(object) {
            if get(3)? & 3 == 2 {
                state.remove(&object);
            } else {
                state.insert(object, VersionLocation::Row(seq));
            }
        }
    }
    Ok(sorted_locations(state))
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
