//! Iterator over the changes of a window: the streams of a history merged by time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use model::{Change, Key, Meta, Moment, Object, ObjectOutline, Window};
use rusqlite::{Connection, OptionalExtension, params};

use crate::change_indexer::{self, Stream};
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{ObjectId, PendingVersions, VersionRow};
use crate::object_blocks::BlockSearch;
use crate::schema;
use crate::selection::Selection;
use crate::stream_state::VersionReader;

/// The changes of a window, ordered by time, then by sequence number, as of the moment the iterator was opened.
///
/// It holds at most one unpacked frame per stream.
pub struct Changes {
    path: PathBuf,
    connection: Connection,
    reader: VersionReader,
    selection: Selection,
    window: Window,
    cursors: Vec<StreamCursor>,
    /// The next change of each cursor that has one left.
    next: BinaryHeap<Reverse<(Moment, i64, usize)>>,
    has_failed: bool,
}

/// The read position in one stream.
struct StreamCursor {
    stream: Stream,
    only: Option<ObjectId>,
    frames: VecDeque<i64>,
    /// Rows after this sequence number are still to be read; `None` when there are none.
    rows_after: Option<i64>,
    ready: VecDeque<Change>,
}

// === impl Changes ===

impl Changes {
    pub(crate) fn open(
        path: &Path,
        streams: &[Stream],
        window: Window,
        selection: &Selection,
    ) -> Result<Changes> {
        let connection = schema::open_readable(path)?;
        // The transaction ends with the connection; until then concurrent packing and pruning are invisible.
        connection.execute_batch("BEGIN").context("read", path)?;
        let mut changes = Changes {
            path: path.to_owned(),
            connection,
            reader: VersionReader::new(),
            selection: selection.clone(),
            window,
            cursors: Vec::new(),
            next: BinaryHeap::new(),
            has_failed: false,
        };
        for stream in streams {
            let mut from = window.from;
            let only = match (&selection.namespace, &selection.name) {
                (Some(namespace), Some(name)) => {
                    let found = change_indexer::find_object(&changes.connection, stream, namespace, name)
                        .context("read", path)?;
                    let Some(found) = found else { continue };
                    from = from.max(
                        change_indexer::first_incarnation_start(&changes.connection, &found)
                            .context("read", path)?,
                    );
                    Some(found.object)
                }
                _ => None,
            };
            let frames =
                frames_in_window(&changes.connection, path, stream, Window { from, to: window.to }, only)?;
            changes.cursors.push(StreamCursor {
                stream: stream.clone(),
                only,
                frames,
                rows_after: Some(i64::MIN),
                ready: VecDeque::new(),
            });
            changes.advance(changes.cursors.len() - 1)?;
        }
        Ok(changes)
    }

    /// Reads the next change of a cursor and adds it to the heap.
    fn advance(&mut self, index: usize) -> Result<()> {
        let cursor = &mut self.cursors[index];
        while cursor.ready.is_empty() {
            let is_selected = |row: &VersionRow| {
                self.window.contains(row.at) && cursor.only.is_none_or(|only| only == row.object)
            };
            let mut take = |row: &VersionRow, text: &str| -> Result<()> {
                let (key, object) = key_and_object(&self.path, &cursor.stream, row.seq, text)?;
                if self.selection.matches(&key) {
                    let (what, inferred) = (row.code.what(object), row.code.is_inferred());
                    let VersionRow { seq, at, seen, .. } = *row;
                    cursor.ready.push_back(Change { seq, at, seen, key, what, inferred });
                }
                Ok(())
            };
            if let Some(id) = cursor.frames.pop_front() {
                let frame = self.reader.read_frame(&self.connection, &self.path, id)?;
                let row_indexes: Vec<u32> = (0u32..)
                    .zip(&frame.rows)
                    .filter(|(_, row)| is_selected(row))
                    .map(|(row_index, _)| row_index)
                    .collect();
                let mut outcome = Ok(());
                self.reader.read_objects(&self.path, id, &frame, &row_indexes, |row, text| {
                    if outcome.is_ok() {
                        outcome = take(row, text);
                    }
                })?;
                outcome?;
            } else if let Some(after) = cursor.rows_after {
                let mut pending = PendingVersions::default();
                self.reader.rows.read(&self.connection, &self.path, &cursor.stream, after, &mut pending)?;
                cursor.rows_after = pending.rows.last().map(|row| row.seq);
                for (row, text) in pending.iter().filter(|(row, _)| is_selected(row)) {
                    take(row, text)?;
                }
            } else {
                return Ok(());
            }
        }
        let first = cursor.ready.front().expect("the loop leaves at least one ready change");
        self.next.push(Reverse((first.at, first.seq, index)));
        Ok(())
    }
}

impl Iterator for Changes {
    type Item = Result<Change>;

    fn next(&mut self) -> Option<Result<Change>> {
        if self.has_failed {
            return None;
        }
        let Reverse((_, _, index)) = self.next.pop()?;
        let change = self.cursors[index].ready.pop_front().expect("a cursor in the heap has a ready change");
        if let Err(error) = self.advance(index) {
            self.has_failed = true;
            return Some(Err(error));
        }
        Some(Ok(change))
    }
}

/// The key and the object of a stored text.
pub(crate) fn key_and_object(path: &Path, stream: &Stream, seq: i64, text: &str) -> Result<(Key, Object)> {
    let outline = ObjectOutline::of_prefix(text);
    let meta = match &outline {
        Some(outline) => Some(Meta::of_outline(outline, text)),
        None => Meta::read_prefix(text),
    };
    let meta = meta.ok_or_else(|| Error::Damaged {
        path: path.to_owned(),
        what: format!("change {seq} has no valid object"),
    })?;
    let key = Key {
        source: stream.source.clone(),
        kind: stream.kind.clone(),
        namespace: (*meta.namespace).into(),
        name: (*meta.name).into(),
    };
    Ok((key, Object::from_trusted_outline(text, outline)))
}

/// The frames with changes in a window, in order; if `only` is given, only those that contain that object.
fn frames_in_window(
    connection: &Connection,
    path: &Path,
    stream: &Stream,
    window: Window,
    only: Option<ObjectId>,
) -> Result<VecDeque<i64>> {
    let doing = "read the blocks of";
    // Times rise from block to block, so only the last block that begins before the window can reach into it.
    let last_before = |moment: Moment| -> Result<Option<i64>> {
        connection
            .prepare_cached(
                "SELECT first_seq FROM block WHERE stream = ?1 AND first_at < ?2 ORDER BY first_at DESC, first_seq DESC LIMIT 1",
            )
            .and_then(|mut select| {
                select.query_row([stream.id, moment.nanos()], |row| row.get(0)).optional()
            })
            .context(doing, path)
    };
    let first = last_before(window.from)?.unwrap_or(i64::MIN);
    let mut frames = VecDeque::new();
    if let Some(object) = only {
        let Some(last) = last_before(window.to)? else { return Ok(frames) };
        let search = BlockSearch { connection, path, stream, object };
        search.for_each_backwards(first.saturating_sub(1), last, |block| {
            if block.last_at >= window.from.nanos() {
                frames.push_front(block.frame);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        return Ok(frames);
    }
    let mut statement = connection
        .prepare_cached(
            "SELECT frame FROM block
             WHERE stream = ?1 AND first_seq >= ?2 AND first_at < ?3 AND last_at >= ?4 ORDER BY first_seq",
        )
        .context(doing, path)?;
    let bounds = params![stream.id, first, window.to.nanos(), window.from.nanos()];
    let mut rows = statement.query(bounds).context(doing, path)?;
    while let Some(row) = rows.next().context(doing, path)? {
        frames.push_back(row.get(0).context(doing, path)?);
    }
    Ok(frames)
}
