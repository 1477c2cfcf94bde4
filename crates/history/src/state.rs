//! The state of one stream at one point of its history: the keyframe before it and the changes since.

use std::collections::HashMap;
use std::path::Path;

use model::{ContentHash, Moment};
use rusqlite::{Connection, OptionalExtension, params};

use crate::error::{Doing, Error, Result};
use crate::frame::{Codec, Frame, ObjectId, Pending, Row};
use crate::intake::Stream;
use crate::members;
use crate::rows::RowCodec;

/// Up to where changes count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    /// All that took effect up to and at this moment.
    Moment(Moment),
    /// All up to and with this one.
    Seq(i64),
}

/// Where the versions that make up a state lie: frame by frame, each with the places wanted in it, both rising; then
/// the rows that are not packed, by their numbers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Places {
    pub(crate) frames: Vec<(i64, Vec<u32>)>,
    pub(crate) rows: Vec<i64>,
}

/// Reads frames and rows; keeps its working memory from call to call.
pub(crate) struct Tools {
    pub(crate) codec: Codec,
    pub(crate) rows: RowCodec,
}

#[derive(Clone, Copy)]
enum Place {
    Frame(i64, u32),
    Row(i64),
}

// === impl Tools ===

impl Tools {
    pub(crate) fn new() -> Tools {
        Tools { codec: Codec::new(), rows: RowCodec::new() }
    }

    /// A frame of the file, checked against its checksum.
    pub(crate) fn frame(&mut self, connection: &Connection, path: &Path, id: i64) -> Result<Frame> {
        let doing = "read a frame of";
        let damaged =
            |what: &str| Error::Damaged { path: path.to_owned(), what: format!("frame {id}: {what}") };
        let mut statement =
            connection.prepare_cached("SELECT bytes FROM frame WHERE id = ?1").doing(doing, path)?;
        let mut rows = statement.query([id]).doing(doing, path)?;
        let row = rows.next().doing(doing, path)?.ok_or_else(|| damaged("it is missing"))?;
        let bytes = row.get_ref(0).doing(doing, path)?.as_blob().map_err(|_| damaged("it is no blob"))?;
        self.codec.open(bytes).map_err(damaged)
    }

    /// The objects of a frame that were asked for, each checked against its hash.
    pub(crate) fn texts(
        &mut self,
        path: &Path,
        id: i64,
        frame: &Frame,
        wanted: &[u32],
        mut each: impl FnMut(&Row, &str),
    ) -> Result<()> {
        let damaged =
            |what: &str| Error::Damaged { path: path.to_owned(), what: format!("frame {id}: {what}") };
        let objects = self.codec.objects(frame).map_err(damaged)?;
        let mut wanted = wanted.iter().peekable();
        for (index, (row, place)) in (0u32..).zip(frame.places()) {
            if wanted.next_if_eq(&&index).is_none() {
                continue;
            }
            let text = objects.get(place).ok_or_else(|| damaged("an object is cut through a character"))?;
            if ContentHash::of(text).0 as u32 != row.hash {
                return Err(damaged(&format!("change {} does not match its hash", row.seq)));
            }
            each(row, text);
        }
        if wanted.next().is_some() {
            return Err(damaged("it has fewer versions than are listed"));
        }
        Ok(())
    }

    /// Every version that makes up a state, in no order that means anything.
    pub(crate) fn versions(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        places: &Places,
        mut each: impl FnMut(&Row, &str),
    ) -> Result<()> {
        for (id, wanted) in &places.frames {
            let frame = self.frame(connection, path, *id)?;
            self.texts(path, *id, &frame, wanted, &mut each)?;
        }
        // Rows are read in runs of a frame's length; the wanted ones among them are found by their numbers.
        let mut wanted = places.rows.iter().peekable();
        while let Some(&&first) = wanted.peek() {
            let mut pending = Pending::default();
            self.rows.read(connection, path, stream, first - 1, &mut pending)?;
            let last = pending.rows.last().map_or(first, |row| row.seq);
            for (row, text) in pending.iter() {
                if wanted.next_if_eq(&&row.seq).is_some() {
                    each(row, text);
                }
            }
            // One that is not there any more would be asked for forever.
            while wanted.next_if(|seq| **seq <= last).is_some() {}
        }
        Ok(())
    }
}

/// Where the versions lie that make up the state of `stream`; of one object only, if one is named.
pub(crate) fn fold(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    until: Until,
    only: Option<ObjectId>,
) -> Result<Places> {
    let keyframe = keyframe_before(connection, stream, until).doing("read a state of", path)?;
    let base = match keyframe {
        Some(seq) => base(connection, path, stream, seq, only)?,
        None => Base::default(),
    };
    fold_onto(connection, path, tools, stream, until, only, base)
}

/// The same from the first change on, without a keyframe: what is found lies where it arrived. This takes longer.
pub(crate) fn fold_changes(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    until: Until,
) -> Result<Places> {
    fold_onto(connection, path, tools, stream, until, None, Base::default())
}

/// A state that changes are folded onto.
struct Base {
    state: HashMap<ObjectId, Place>,
    /// The last change it includes.
    since: i64,
}

impl Default for Base {
    fn default() -> Base {
        Base { state: HashMap::new(), since: i64::MIN }
    }
}

/// The state of a keyframe.
fn base(
    connection: &Connection,
    path: &Path,
    stream: &Stream,
    seq: i64,
    only: Option<ObjectId>,
) -> Result<Base> {
    let doing = "read a state of";
    let mut state = HashMap::new();
    let mut statement = connection
        .prepare_cached("SELECT frame, members FROM keyframe WHERE stream = ?1 AND seq = ?2 ORDER BY part")
        .doing(doing, path)?;
    let mut rows = statement.query(params![stream.id, seq]).doing(doing, path)?;
    while let Some(row) = rows.next().doing(doing, path)? {
        let frame: i64 = row.get(0).doing(doing, path)?;
        let list = row.get_ref(1).doing(doing, path)?.as_blob().ok().and_then(members::decode);
        let list = list.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("the object list of keyframe {seq} of {}", stream.kind),
        })?;
        for member in list.into_iter().filter(|member| only.is_none_or(|only| only == member.object)) {
            state.insert(member.object, Place::Frame(frame, member.last));
        }
    }
    Ok(Base { state, since: seq })
}

fn fold_onto(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    until: Until,
    only: Option<ObjectId>,
    base: Base,
) -> Result<Places> {
    let Base { mut state, since } = base;
    let wanted = |object: ObjectId| only.is_none_or(|only| only == object);
    let doing = "read a state of";
    let damaged =
        |what: String| Error::Damaged { path: path.to_owned(), what: format!("{what} of {}", stream.kind) };

    let mut statement = connection
        .prepare_cached(
            "SELECT frame, members, last_seq, last_at FROM block
             WHERE stream = ?1 AND first_seq > ?2 AND first_seq <= ?3 ORDER BY first_seq",
        )
        .doing(doing, path)?;
    let last_block = last_block_before(connection, stream, until).doing(doing, path)?;
    let mut rows =
        statement.query(params![stream.id, since, last_block.unwrap_or(i64::MIN)]).doing(doing, path)?;
    while let Some(row) = rows.next().doing(doing, path)? {
        let frame: i64 = row.get(0).doing(doing, path)?;
        let (last_seq, last_at): (i64, i64) =
            (row.get(2).doing(doing, path)?, row.get(3).doing(doing, path)?);
        let whole = match until {
            Until::Moment(moment) => last_at <= moment.nanos(),
            Until::Seq(seq) => last_seq <= seq,
        };
        let list = row.get_ref(1).doing(doing, path)?.as_blob().ok().and_then(members::decode);
        let list =
            list.ok_or_else(|| damaged(format!("the object list of the block up to change {last_seq}")))?;
        if whole {
            for member in list.into_iter().filter(|member| wanted(member.object)) {
                if member.deleted {
                    state.remove(&member.object);
                } else {
                    state.insert(member.object, Place::Frame(frame, member.last));
                }
            }
        } else if list.iter().any(|member| wanted(member.object)) {
            let opened = tools.frame(connection, path, frame)?;
            for (index, row) in (0u32..).zip(&opened.rows) {
                if until.includes(row.seq, row.at) && wanted(row.object) {
                    if row.code.is_deleted() {
                        state.remove(&row.object);
                    } else {
                        state.insert(row.object, Place::Frame(frame, index));
                    }
                }
            }
        }
    }

    let mut statement = connection
        .prepare_cached(
            "SELECT seq, object, at, what FROM change WHERE stream = ?1 AND seq > ?2 ORDER BY seq",
        )
        .doing(doing, path)?;
    let mut rows = statement.query(params![stream.id, since]).doing(doing, path)?;
    while let Some(row) = rows.next().doing(doing, path)? {
        let get = |index| row.get::<_, i64>(index).doing(doing, path);
        let (seq, object, at) = (get(0)?, ObjectId(get(1)?), Moment::from_nanos(get(2)?));
        if !until.includes(seq, at) {
            break;
        }
        if wanted(object) {
            if get(3)? & 3 == 2 {
                state.remove(&object);
            } else {
                state.insert(object, Place::Row(seq));
            }
        }
    }
    Ok(gather(state))
}

// === impl Until ===

impl Until {
    fn includes(self, seq: i64, at: Moment) -> bool {
        match self {
            Until::Moment(moment) => at <= moment,
            Until::Seq(last) => seq <= last,
        }
    }
}

/// The newest keyframe that says nothing of later changes. `at` and `seq` rise together within a stream.
fn keyframe_before(connection: &Connection, stream: &Stream, until: Until) -> rusqlite::Result<Option<i64>> {
    let (sql, bound) = match until {
        Until::Moment(moment) => (
            "SELECT seq FROM keyframe WHERE stream = ?1 AND at <= ?2 ORDER BY at DESC, seq DESC LIMIT 1",
            moment.nanos(),
        ),
        Until::Seq(seq) => {
            ("SELECT seq FROM keyframe WHERE stream = ?1 AND seq <= ?2 ORDER BY seq DESC LIMIT 1", seq)
        }
    };
    connection.prepare_cached(sql)?.query_row(params![stream.id, bound], |row| row.get(0)).optional()
}

/// The first change of the last block that has anything to say.
fn last_block_before(
    connection: &Connection,
    stream: &Stream,
    until: Until,
) -> rusqlite::Result<Option<i64>> {
    let (sql, bound) = match until {
        Until::Moment(moment) => (
            "SELECT first_seq FROM block WHERE stream = ?1 AND first_at <= ?2 ORDER BY first_at DESC, first_seq DESC LIMIT 1",
            moment.nanos(),
        ),
        Until::Seq(seq) => (
            "SELECT first_seq FROM block WHERE stream = ?1 AND first_seq <= ?2 ORDER BY first_seq DESC LIMIT 1",
            seq,
        ),
    };
    connection.prepare_cached(sql)?.query_row(params![stream.id, bound], |row| row.get(0)).optional()
}

/// Sorted, so that each frame is read once and the order does not depend on hashes.
fn gather(state: HashMap<ObjectId, Place>) -> Places {
    let (mut in_frames, mut rows) = (Vec::new(), Vec::new());
    for place in state.into_values() {
        match place {
            Place::Frame(frame, index) => in_frames.push((frame, index)),
            Place::Row(seq) => rows.push(seq),
        }
    }
    in_frames.sort_unstable();
    rows.sort_unstable();
    let mut frames: Vec<(i64, Vec<u32>)> = Vec::new();
    for (frame, index) in in_frames {
        match frames.last_mut() {
            Some((last, wanted)) if *last == frame => wanted.push(index),
            _ => frames.push((frame, vec![index])),
        }
    }
    Places { frames, rows }
}
