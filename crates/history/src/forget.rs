//! Forgetting in bounded steps, each a transaction of its own, between which a history goes on being written.
//!
//! The first step writes down the new beginning, before which nothing is shown from then on. All that follows takes out
//! what no later moment needs, in an order in which the file is a correct history after every step: keyframes before
//! the changes that they were made from, changes before the names that they are filed under. What was interrupted is
//! begun again with the first step.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError};

use model::Moment;
use rusqlite::{Connection, OptionalExtension, params};

use crate::counts::StreamCounts;
use crate::error::{Doing, Error, Result};
use crate::frame::{Codec, FRAME_BYTES, FRAME_VERSIONS, Pending, Row};
use crate::intake::{Stream, streams};
use crate::pack::{Block, remove_block, remove_keyframe, remove_rows};
use crate::state::{Places, Tools, Until, fold_changes};

/// Blocks that one step takes out at most.
const STEP_BLOCKS: usize = if cfg!(test) { 3 } else { 32 };
/// A step ends when the frames it takes out have so many bytes: the log beside the file has to hold them.
const STEP_BYTES: i64 = 1 << 20;
/// Names that one step looks at.
const STEP_NAMES: usize = if cfg!(test) { 3 } else { 4096 };

const PRUNED_TO: &str = "pruned_to";
const LAST_SEQ: &str = "last_seq";
/// The beginning that is being made; it goes with the last step.
const FORGETTING: &str = "forgetting";

/// Forgetting that was asked for.
pub struct Forgetting {
    answer: Receiver<Result<Moment>>,
}

/// What is done in one transaction.
pub(crate) enum ForgetStep {
    /// Nothing before this moment is shown any more.
    Begin(Moment),
    Keyframe {
        stream: i64,
        seq: i64,
    },
    Blocks {
        stream: i64,
        /// The first numbers of blocks that go.
        old: Vec<i64>,
        /// What stays of them.
        new: Vec<Block>,
        /// Rows up to and at this moment go as well.
        rows_until: Option<Moment>,
    },
    /// Lives before the last one under a name, by their row numbers.
    FormerLives(Vec<i64>),
    /// Names that are not alive.
    Names(Vec<Name>),
    /// All is forgotten.
    End(Moment),
}

/// A name that is not used any more.
pub(crate) struct Name {
    object: i64,
    stream: i64,
    ended_at: i64,
}

/// Up to and at which moment each stream is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Up to the beginning: nobody writes meanwhile.
    AtBeginning,
    /// Before the last moment of its source, if that is earlier than the beginning: whatever arrives meanwhile is later.
    BehindWriter,
}

// === impl Forgetting ===

impl Forgetting {
    pub(crate) fn new(answer: Receiver<Result<Moment>>) -> Forgetting {
        Forgetting { answer }
    }

    /// Waits until all is forgotten. Says where the history begins now.
    pub fn wait(self) -> Result<Moment> {
        self.answer.recv().unwrap_or_else(|_| Err(Error::ended()))
    }

    /// What came of it; `None` while it goes on.
    pub fn outcome(&self) -> Option<Result<Moment>> {
        match self.answer.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Err(Error::ended())),
        }
    }
}

// === impl ForgetStep ===

impl ForgetStep {
    /// Does it, within a transaction. `last_seq` is the last number that was given out. Says how many rows of `change`
    /// it took out, and of which stream.
    pub(crate) fn apply(
        &self,
        connection: &Connection,
        path: &Path,
        last_seq: i64,
    ) -> Result<Option<(i64, usize)>> {
        let doing = "prune";
        match self {
            ForgetStep::Begin(begins) => {
                note_pruned(connection, *begins, last_seq)
                    .and_then(|()| put_setting(connection, FORGETTING, begins.nanos()))
                    .doing(doing, path)?;
            }
            ForgetStep::Keyframe { stream, seq } => {
                remove_keyframe(connection, *stream, *seq).doing(doing, path)?;
            }
            ForgetStep::Blocks { stream, old, new, rows_until } => {
                // Before the new ones come, which may begin where they began.
                for first_seq in old {
                    remove_block(connection, *stream, *first_seq).doing(doing, path)?;
                }
                new.iter().try_for_each(|block| block.insert(connection, path))?;
                if let Some(until) = rows_until {
                    let bounds = params![stream, until.nanos()];
                    let rows = remove_rows(connection, *stream, "at <= ?2", bounds).doing(doing, path)?;
                    return Ok(Some((*stream, rows)));
                }
            }
            ForgetStep::FormerLives(ids) => {
                let remove = || -> rusqlite::Result<()> {
                    let mut delete = connection.prepare_cached("DELETE FROM former_life WHERE rowid = ?1")?;
                    ids.iter().try_for_each(|id| delete.execute([id]).map(|_| ()))
                };
                remove().doing(doing, path)?;
            }
            ForgetStep::Names(names) => {
                names.iter().try_for_each(|name| name.remove(connection)).doing(doing, path)?;
            }
            ForgetStep::End(begins) => {
                let end = || -> rusqlite::Result<()> {
                    connection.execute("DELETE FROM gap WHERE to_at <= ?1", [begins.nanos()])?;
                    connection.execute("DELETE FROM setting WHERE name = ?1", [FORGETTING])?;
                    Ok(())
                };
                end().doing(doing, path)?;
            }
        }
        Ok(None)
    }
}

// === impl Name ===

impl Name {
    /// Takes it out, unless it has come to life again since it was found.
    fn remove(&self, connection: &Connection) -> rusqlite::Result<()> {
        let removed = connection
            .prepare_cached(
                "DELETE FROM object WHERE id = ?1 AND ended_at = ?2
                 AND NOT EXISTS (SELECT 1 FROM former_life WHERE object = ?1)",
            )?
            .execute([self.object, self.ended_at])?;
        StreamCounts { objects: -(removed as i64), ..StreamCounts::default() }.add_to(connection, self.stream)
    }
}

/// Forgets what was before `moment`, step by step: each is handed to `step`, which has to have done it when it returns.
/// Says where the history begins then: at the moment, at its end if that is earlier, never earlier than before.
pub(crate) fn forget(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    moment: Moment,
    cut: Cut,
    step: &mut dyn FnMut(ForgetStep) -> Result<()>,
) -> Result<Moment> {
    let doing = "prune";
    let read = || -> rusqlite::Result<_> {
        let end: Option<i64> =
            connection.query_row("SELECT max(last_at) FROM source", [], |row| row.get(0))?;
        Ok((end, setting(connection, PRUNED_TO)?, setting(connection, FORGETTING)?))
    };
    let (end, begun, unfinished) = read().doing(doing, path)?;
    let Some(end) = end else { return Ok(moment) };
    let wanted = moment.nanos().min(end);
    if unfinished.is_none() && begun.is_some_and(|begun| begun >= wanted) {
        return Ok(Moment::from_nanos(begun.unwrap_or(wanted)));
    }
    let begins = Moment::from_nanos(begun.map_or(wanted, |begun| begun.max(wanted)));
    step(ForgetStep::Begin(begins))?;
    let cuts = cuts(connection, path, begins, cut)?;
    for (stream, until) in &cuts {
        forget_stream(connection, path, tools, stream, *until, step)?;
    }
    let untils: HashMap<i64, i64> = cuts.iter().map(|(stream, until)| (stream.id, until.nanos())).collect();
    forget_former_lives(connection, path, &untils, step)?;
    forget_names(connection, path, &untils, step)?;
    step(ForgetStep::End(begins))?;
    Ok(begins)
}

/// The beginning that was being made when the file was left.
pub(crate) fn unfinished(connection: &Connection) -> rusqlite::Result<Option<Moment>> {
    Ok(setting(connection, FORGETTING)?.map(Moment::from_nanos))
}

/// Writes down where the history begins, and which numbers were given out.
pub(crate) fn note_pruned(connection: &Connection, begins: Moment, last_seq: i64) -> rusqlite::Result<()> {
    let nanos = begins.nanos();
    connection.execute("UPDATE source SET first_at = min(max(first_at, ?1), last_at)", [nanos])?;
    put_setting(connection, PRUNED_TO, nanos)?;
    put_setting(connection, LAST_SEQ, last_seq)
}

fn put_setting(connection: &Connection, name: &str, value: i64) -> rusqlite::Result<()> {
    connection.execute(
        "INSERT OR REPLACE INTO setting (name, value) VALUES (?1, ?2)",
        params![name, value.to_string()],
    )?;
    Ok(())
}

fn setting(connection: &Connection, name: &str) -> rusqlite::Result<Option<i64>> {
    connection
        .query_row("SELECT CAST(value AS INTEGER) FROM setting WHERE name = ?1", [name], |row| row.get(0))
        .optional()
}

/// Every stream, with the moment up to and at which it is forgotten.
fn cuts(connection: &Connection, path: &Path, begins: Moment, cut: Cut) -> Result<Vec<(Stream, Moment)>> {
    // Before the ends of their sources, so that each source is there.
    let streams = streams(connection, path)?;
    let read = || -> rusqlite::Result<HashMap<String, i64>> {
        connection
            .prepare("SELECT name, last_at FROM source WHERE last_at IS NOT NULL")?
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect()
    };
    let ends = read().doing("prune", path)?;
    let until = |stream: &Stream| match cut {
        Cut::AtBeginning => Some(begins),
        Cut::BehindWriter => {
            ends.get(&*stream.source).map(|end| begins.min(Moment::from_nanos(*end).plus_nanos(-1)))
        }
    };
    Ok(streams.into_iter().filter_map(|stream| until(&stream).map(|until| (stream, until))).collect())
}

/// Takes out what of a stream was up to and at `until`, but for the last version of each object alive then.
///
/// Block by block, in order of arrival: each is read, and what stays of it goes into a new one. So no more than two
/// blocks are unpacked in memory, however large the cluster is.
fn forget_stream(
    connection: &Connection,
    path: &Path,
    tools: &mut Tools,
    stream: &Stream,
    until: Moment,
    step: &mut dyn FnMut(ForgetStep) -> Result<()>,
) -> Result<()> {
    let doing = "prune";
    for seq in old_keyframes(connection, stream.id, until).doing(doing, path)? {
        step(ForgetStep::Keyframe { stream: stream.id, seq })?;
    }
    let places = fold_changes(connection, path, tools, stream, Until::Moment(until))?;
    let rows = Places { frames: Vec::new(), rows: places.rows };
    let mut alive: HashMap<i64, Vec<u32>> = places.frames.into_iter().collect();
    let mut remains = Remains::new(stream);
    for old in old_blocks(connection, stream.id, until).doing(doing, path)? {
        let mut stays = alive.remove(&old.frame).unwrap_or_default();
        if !stays.is_empty() || old.is_across {
            let frame = tools.frame(connection, path, old.frame)?;
            let later = (0u32..).zip(&frame.rows).filter(|(_, row)| row.at > until);
            stays.extend(later.map(|(place, _)| place));
            if stays.len() == frame.rows.len() && !old.is_small {
                // All of it stays where it is.
                remains.close();
                continue;
            }
            tools.texts(path, old.frame, &frame, &stays, |row, text| remains.push(row, text))?;
        }
        remains.take_out(&old);
        if remains.is_a_step() {
            remains.step(None).map_or(Ok(()), &mut *step)?;
        }
    }
    let has_rows = has_old_rows(connection, stream.id, until).doing(doing, path)?;
    tools.versions(connection, path, stream, &rows, |row, text| remains.push(row, text))?;
    remains.step(has_rows.then_some(until)).map_or(Ok(()), step)
}

/// A block that begins before the history will.
struct OldBlock {
    first_seq: i64,
    frame: i64,
    packed: i64,
    /// Whether it ends later.
    is_across: bool,
    /// Whether it is worth to be filled up.
    is_small: bool,
}

/// The old blocks of a stream, in order of arrival.
fn old_blocks(connection: &Connection, stream: i64, until: Moment) -> rusqlite::Result<Vec<OldBlock>> {
    connection
        .prepare_cached(
            "SELECT first_seq, frame, packed, last_at > ?2, changes <= ?3 AND raw <= ?4
             FROM block WHERE stream = ?1 AND first_at <= ?2 ORDER BY first_seq",
        )?
        .query_map(
            params![stream, until.nanos(), FRAME_VERSIONS as i64 / 2, FRAME_BYTES as i64 / 2],
            |row| {
                Ok(OldBlock {
                    first_seq: row.get(0)?,
                    frame: row.get(1)?,
                    packed: row.get(2)?,
                    is_across: row.get(3)?,
                    is_small: row.get(4)?,
                })
            },
        )?
        .collect()
}

fn old_keyframes(connection: &Connection, stream: i64, until: Moment) -> rusqlite::Result<Vec<i64>> {
    connection
        .prepare_cached("SELECT DISTINCT seq FROM keyframe WHERE stream = ?1 AND at <= ?2 ORDER BY seq")?
        .query_map(params![stream, until.nanos()], |row| row.get(0))?
        .collect()
}

fn has_old_rows(connection: &Connection, stream: i64, until: Moment) -> rusqlite::Result<bool> {
    connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM change WHERE stream = ?1 AND at <= ?2)")?
        .query_row(params![stream, until.nanos()], |row| row.get(0))
}

fn forget_former_lives(
    connection: &Connection,
    path: &Path,
    untils: &HashMap<i64, i64>,
    step: &mut dyn FnMut(ForgetStep) -> Result<()>,
) -> Result<()> {
    let sql = "SELECT former_life.rowid, object.stream, former_life.ended_at
               FROM former_life JOIN object ON object.id = former_life.object
               WHERE former_life.rowid > ?1 ORDER BY former_life.rowid LIMIT ?2";
    each_old(connection, path, sql, untils, |old| {
        step(ForgetStep::FormerLives(old.into_iter().map(|name| name.object).collect()))
    })
}

fn forget_names(
    connection: &Connection,
    path: &Path,
    untils: &HashMap<i64, i64>,
    step: &mut dyn FnMut(ForgetStep) -> Result<()>,
) -> Result<()> {
    let sql = "SELECT id, stream, ended_at FROM object WHERE id > ?1 ORDER BY id LIMIT ?2";
    each_old(connection, path, sql, untils, |old| step(ForgetStep::Names(old)))
}

/// Goes through a table of lives in order of row numbers; gives those that ended before their stream is cut.
fn each_old(
    connection: &Connection,
    path: &Path,
    sql: &str,
    untils: &HashMap<i64, i64>,
    mut each: impl FnMut(Vec<Name>) -> Result<()>,
) -> Result<()> {
    let mut after = i64::MIN;
    loop {
        let read = || -> rusqlite::Result<Vec<(i64, i64, Option<i64>)>> {
            connection
                .prepare_cached(sql)?
                .query_map(params![after, STEP_NAMES as i64], |row| {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?))
                })?
                .collect()
        };
        let found = read().doing("prune", path)?;
        let Some((last, ..)) = found.last() else { return Ok(()) };
        after = *last;
        let old = found.into_iter().filter_map(|(object, stream, ended_at)| {
            let until = untils.get(&stream)?;
            Some(Name { object, stream, ended_at: ended_at.filter(|end| end <= until)? })
        });
        let old: Vec<Name> = old.collect();
        if !old.is_empty() {
            each(old)?;
        }
    }
}

/// What stays of a stream, on its way into new blocks.
struct Remains<'a> {
    stream: &'a Stream,
    codec: Codec,
    pending: Pending,
    /// The block in which the last step left what is pending, and how many changes that was.
    written: Option<(i64, usize)>,
    /// Of the next step.
    old: Vec<i64>,
    new: Vec<Block>,
    bytes: i64,
}

// === impl Remains ===

impl<'a> Remains<'a> {
    fn new(stream: &'a Stream) -> Remains<'a> {
        Remains {
            stream,
            codec: Codec::new(),
            pending: Pending::default(),
            written: None,
            old: Vec::new(),
            new: Vec::new(),
            bytes: 0,
        }
    }

    fn push(&mut self, row: &Row, text: &str) {
        self.pending.push(*row, text);
        if self.pending.is_full() {
            self.close();
        }
    }

    /// Notes a block of which all that stays was pushed.
    fn take_out(&mut self, old: &OldBlock) {
        self.old.push(old.first_seq);
        self.bytes += old.packed;
    }

    fn is_a_step(&self) -> bool {
        self.old.len() >= STEP_BLOCKS || self.bytes >= STEP_BYTES
    }

    /// Ends the block that is being filled.
    fn close(&mut self) {
        self.write();
        self.pending = Pending::default();
        self.written = None;
    }

    /// Puts what is pending in a new block, in place of the one that holds a part of it already.
    fn write(&mut self) {
        let rows = self.pending.rows.len();
        if rows == 0 || self.written.is_some_and(|(_, written)| written == rows) {
            return;
        }
        self.old.extend(self.written.map(|(first_seq, _)| first_seq));
        let block = Block::pack(&mut self.codec, self.stream, &self.pending);
        self.written = Some((block.first_seq(), rows));
        self.new.push(block);
    }

    /// The next step, if there is anything to do. All that was pushed is in the file after it; what fills no block yet
    /// is kept, to be written again with what follows.
    fn step(&mut self, rows_until: Option<Moment>) -> Option<ForgetStep> {
        self.write();
        if self.old.is_empty() && self.new.is_empty() && rows_until.is_none() {
            return None;
        }
        self.bytes = 0;
        Some(ForgetStep::Blocks {
            stream: self.stream.id,
            old: std::mem::take(&mut self.old),
            new: std::mem::take(&mut self.new),
            rows_until,
        })
    }
}
