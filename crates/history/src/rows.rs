//! Changes that are not packed yet: one row each, compressed with their stream's dictionary.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use model::{ContentHash, Kind, Moment};
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::error::{Doing, Error, Result};
use crate::frame::{Code, OBJECT_BYTES, ObjectId, Pending, Row};
use crate::intake::Stream;
use crate::varint;

/// Rows are packed again soon: what counts is how fast they are written.
const LEVEL: i32 = 1;
/// With 16 KiB the films' rows take 5 to 10 % more than with 64 KiB, and a small history is not all dictionary.
const DICTIONARY_BYTES: usize = 16 << 10;
/// Below this zstd's trainer has too little to learn from.
pub(crate) const DICTIONARY_SAMPLES: usize = 64;
/// A dictionary is made anew when it does worse than this share of what it did on the rows it was made from, which it
/// knows better than any that follow.
const TIRED: f64 = 0.33;

/// Writes and reads rows of `change`.
pub(crate) struct RowCodec {
    compress: CCtx<'static>,
    decompress: DCtx<'static>,
    /// The newest dictionary of each stream that has one.
    writing: HashMap<i64, Option<(i64, CDict<'static>)>>,
    reading: HashMap<i64, DDict<'static>>,
    buffer: Vec<u8>,
}

/// A row of `change` as it is stored.
pub(crate) struct Stored<'a> {
    pub(crate) seq: i64,
    pub(crate) object: i64,
    pub(crate) at: i64,
    pub(crate) seen: i64,
    pub(crate) what: i64,
    pub(crate) hash: i64,
    pub(crate) length: i64,
    pub(crate) bytes: &'a [u8],
}

/// What rows that were read took.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    rows: usize,
    bytes: usize,
    raw: usize,
    /// `None` if one of them was written without a dictionary.
    oldest_dictionary: Option<i64>,
}

/// A dictionary on its way into the file.
pub(crate) struct NewDictionary {
    stream: i64,
    ratio: f64,
    bytes: Vec<u8>,
}

// === impl RowCodec ===

impl RowCodec {
    pub(crate) fn new() -> RowCodec {
        RowCodec {
            compress: CCtx::create(),
            decompress: DCtx::create(),
            writing: HashMap::new(),
            reading: HashMap::new(),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn insert(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        row: &Row,
        text: &str,
    ) -> Result<()> {
        if let Entry::Vacant(entry) = self.writing.entry(stream.id) {
            let found = newest_dictionary(connection, stream.id).doing("read a dictionary of", path)?;
            let found = found.map(|(id, bytes)| (id, CDict::create(&bytes, LEVEL)));
            entry.insert(found);
        }
        self.buffer.clear();
        self.buffer.reserve(zstd::zstd_safe::compress_bound(text.len()));
        let dictionary = self.writing[&stream.id].as_ref();
        match dictionary {
            Some((_, dictionary)) => {
                self.compress.compress_using_cdict(&mut self.buffer, text.as_bytes(), dictionary)
            }
            None => self.compress.compress(&mut self.buffer, text.as_bytes(), LEVEL),
        }
        .expect("the output buffer is sized by zstd");
        connection
            .prepare_cached(
                "INSERT INTO change (seq, stream, object, at, seen, what, hash, dictionary, length, bytes)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )
            .and_then(|mut insert| {
                insert.execute(params![
                    row.seq,
                    stream.id,
                    row.object.0,
                    row.at.nanos(),
                    row.seen.nanos(),
                    row.code.stored(),
                    hash(&stream.source, &stream.kind, row, ContentHash::of(text)),
                    dictionary.map(|(id, _)| id),
                    row.length,
                    self.buffer,
                ])
            })
            .doing("write to", path)?;
        Ok(())
    }

    /// The next rows of a stream after `after`, until `pending` is full. Says what they took.
    pub(crate) fn read(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        after: i64,
        pending: &mut Pending,
    ) -> Result<Taken> {
        let doing = "read changes of";
        let mut statement = connection
            .prepare_cached(
                "SELECT seq, object, at, seen, what, hash, dictionary, length, bytes FROM change
                 WHERE stream = ?1 AND seq > ?2 ORDER BY seq",
            )
            .doing(doing, path)?;
        let mut rows = statement.query(params![stream.id, after]).doing(doing, path)?;
        let mut taken = Taken::default();
        while !pending.is_full() {
            let Some(row) = rows.next().doing(doing, path)? else { break };
            let seq: i64 = row.get(0).doing(doing, path)?;
            let damaged =
                |what: &str| Error::Damaged { path: path.to_owned(), what: format!("change {seq} {what}") };
            let get = |index| row.get::<_, i64>(index).doing(doing, path);
            let dictionary: Option<i64> = row.get(6).doing(doing, path)?;
            if let Some(id) = dictionary {
                self.load(connection, path, id)?;
            }
            let stored = Stored {
                seq,
                object: get(1)?,
                at: get(2)?,
                seen: get(3)?,
                what: get(4)?,
                hash: get(5)?,
                length: get(7)?,
                bytes: row.get_ref(8).doing(doing, path)?.as_blob().map_err(|_| damaged("has no bytes"))?,
            };
            taken.bytes += stored.bytes.len();
            taken.raw += usize::try_from(stored.length).unwrap_or(0);
            taken.oldest_dictionary = match taken.rows {
                0 => dictionary,
                _ => taken.oldest_dictionary.min(dictionary),
            };
            taken.rows += 1;
            let dictionary = dictionary.map(|id| &self.reading[&id]);
            let text = stored.text(&mut self.decompress, dictionary, &mut self.buffer).map_err(damaged)?;
            let row = stored.row(&stream.source, &stream.kind, text).map_err(damaged)?;
            pending.push(row, text);
        }
        Ok(taken)
    }

    /// Whether rows of the stream are written with a dictionary.
    pub(crate) fn has_dictionary(&self, stream: i64) -> bool {
        self.writing.get(&stream).is_some_and(Option::is_some)
    }

    /// Uses the stream's newest dictionary from here on.
    pub(crate) fn refresh(&mut self, stream: i64) {
        self.writing.remove(&stream);
    }

    fn load(&mut self, connection: &Connection, path: &Path, id: i64) -> Result<()> {
        if self.reading.contains_key(&id) {
            return Ok(());
        }
        let bytes = dictionary(connection, id).doing("read a dictionary of", path)?;
        let bytes = bytes.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("dictionary {id} is missing or does not match its hash"),
        })?;
        self.reading.insert(id, DDict::create(&bytes));
        Ok(())
    }
}

// === impl Stored ===

impl Stored<'_> {
    /// The object's text, unpacked into `out`. The error says what is wrong with the row.
    pub(crate) fn text<'o>(
        &self,
        context: &mut DCtx<'static>,
        dictionary: Option<&DDict<'static>>,
        out: &'o mut Vec<u8>,
    ) -> std::result::Result<&'o str, &'static str> {
        let length = usize::try_from(self.length).ok().filter(|length| *length <= OBJECT_BYTES);
        let length = length.ok_or("claims an absurd size")?;
        out.clear();
        out.reserve(length);
        match dictionary {
            Some(dictionary) => context.decompress_using_ddict(out, self.bytes, dictionary),
            None => context.decompress(out, self.bytes),
        }
        .map_err(|_| "cannot be unpacked")?;
        if out.len() != length {
            return Err("has another size than it claims");
        }
        std::str::from_utf8(out).map_err(|_| "is no text")
    }

    /// All but the text, if everything is what was written for this source and kind.
    pub(crate) fn row(
        &self,
        source: &str,
        kind: &Kind,
        text: &str,
    ) -> std::result::Result<Row, &'static str> {
        let content = ContentHash::of(text);
        let row = Row {
            seq: self.seq,
            at: Moment::from_nanos(self.at),
            seen: Moment::from_nanos(self.seen),
            object: ObjectId(self.object),
            code: Code::from_stored(self.what).ok_or("says no known word")?,
            hash: content.0 as u32,
            length: text.len() as u32,
        };
        match hash(source, kind, &row, content) == self.hash {
            true => Ok(row),
            false => Err("does not match its hash"),
        }
    }
}

// === impl NewDictionary ===

impl NewDictionary {
    /// A dictionary learnt from these versions, if they are enough and the stream needs one: it has none, or rows
    /// written with its newest have come to take much more room than those it was made from.
    pub(crate) fn train(
        connection: &Connection,
        path: &Path,
        stream: i64,
        pending: &Pending,
        taken: &Taken,
    ) -> Result<Option<NewDictionary>> {
        let newest: Option<(i64, f64)> = connection
            .prepare_cached("SELECT id, ratio FROM dictionary WHERE stream = ?1 ORDER BY id DESC LIMIT 1")
            .and_then(|mut select| {
                select.query_row([stream], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .doing("read a dictionary of", path)?;
        let ratio = taken.raw as f64 / taken.bytes.max(1) as f64;
        // Rows of the time before the newest dictionary say nothing about it.
        let needed = newest
            .is_none_or(|(id, achieved)| taken.oldest_dictionary == Some(id) && ratio < achieved * TIRED);
        if !needed || pending.rows.len() < DICTIONARY_SAMPLES {
            return Ok(None);
        }
        let samples: Vec<&str> = pending.iter().map(|(_, text)| text).collect();
        // Objects without anything in common teach nothing; rows then go without a dictionary.
        let Ok(bytes) = zstd::dict::from_samples(&samples, DICTIONARY_BYTES) else { return Ok(None) };
        let dictionary = CDict::create(&bytes, LEVEL);
        let (mut context, mut out) = (CCtx::create(), Vec::new());
        let mut packed = 0;
        for text in &samples {
            out.clear();
            out.reserve(zstd::zstd_safe::compress_bound(text.len()));
            packed += context
                .compress_using_cdict(&mut out, text.as_bytes(), &dictionary)
                .expect("the output buffer is sized by zstd");
        }
        Ok(Some(NewDictionary { stream, ratio: pending.text.len() as f64 / packed.max(1) as f64, bytes }))
    }

    pub(crate) fn insert(&self, connection: &Connection, path: &Path) -> Result<()> {
        connection
            .execute(
                "INSERT INTO dictionary (stream, hash, ratio, bytes) VALUES (?1, ?2, ?3, ?4)",
                params![self.stream, xxh3_64(&self.bytes) as i64, self.ratio, self.bytes],
            )
            .doing("write a dictionary to", path)?;
        connection
            .execute(
                "DELETE FROM dictionary WHERE stream = ?1 AND id <> ?2
                 AND id NOT IN (SELECT dictionary FROM change WHERE stream = ?1 AND dictionary IS NOT NULL)",
                params![self.stream, connection.last_insert_rowid()],
            )
            .doing("write a dictionary to", path)?;
        Ok(())
    }
}

/// What `change.hash` holds: nothing of a row can become something else unnoticed.
fn hash(source: &str, kind: &Kind, row: &Row, content: ContentHash) -> i64 {
    let mut all = Vec::with_capacity(128);
    for number in [row.seq, row.object.0, row.at.nanos(), row.seen.nanos(), content.0 as i64] {
        all.extend_from_slice(&number.to_le_bytes());
    }
    all.push(row.code.stored());
    for name in [source, &kind.group, &kind.kind] {
        varint::put_text(&mut all, name);
    }
    xxh3_64(&all) as i64
}

fn newest_dictionary(connection: &Connection, stream: i64) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    let id = connection.query_row("SELECT max(id) FROM dictionary WHERE stream = ?1", [stream], |row| {
        row.get::<_, Option<i64>>(0)
    })?;
    let Some(id) = id else { return Ok(None) };
    Ok(dictionary(connection, id)?.map(|bytes| (id, bytes)))
}

/// A dictionary that matches its hash.
fn dictionary(connection: &Connection, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let found: Option<(i64, Vec<u8>)> = connection
        .query_row("SELECT hash, bytes FROM dictionary WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(found.filter(|(hash, bytes)| xxh3_64(bytes) as i64 == *hash).map(|(_, bytes)| bytes))
}
