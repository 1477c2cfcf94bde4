//! Changes that are not packed yet: one row each, compressed with their stream's dictionary.

use std::collections::HashMap;
use std::path::Path;

use model::{ContentHash, Moment};
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::error::{Doing, Error, Result};
use crate::frame::{Code, OBJECT_BYTES, ObjectId, Pending, Row};

/// Rows are packed again soon: what counts is how fast they are written.
const LEVEL: i32 = 1;
/// With 16 KiB the films' rows take 5 to 10 % more than with 64 KiB, and a small history is not all dictionary.
const DICTIONARY_BYTES: usize = 16 << 10;
/// Below this zstd's trainer has too little to learn from.
const DICTIONARY_SAMPLES: usize = 64;
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
        stream: i64,
        row: &Row,
        text: &str,
    ) -> Result<()> {
        if !self.writing.contains_key(&stream) {
            let found = newest_dictionary(connection, stream).doing("read a dictionary of", path)?;
            let found = found.map(|(id, bytes)| (id, CDict::create(&bytes, LEVEL)));
            self.writing.insert(stream, found);
        }
        self.buffer.clear();
        self.buffer.reserve(zstd::zstd_safe::compress_bound(text.len()));
        let dictionary = self.writing[&stream].as_ref();
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
                    stream,
                    row.object.0,
                    row.at.nanos(),
                    row.seen.nanos(),
                    row.code.stored(),
                    ContentHash::of(text).0 as i64,
                    dictionary.map(|(id, _)| id),
                    row.length,
                    self.buffer,
                ])
            })
            .doing("write to", path)?;
        Ok(())
    }

    /// The next rows of a stream after `after`, until `pending` is full. Says how many bytes they took.
    pub(crate) fn read(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: i64,
        after: i64,
        pending: &mut Pending,
    ) -> Result<usize> {
        let doing = "read changes of";
        let mut statement = connection
            .prepare_cached(
                "SELECT seq, object, at, seen, what, hash, dictionary, length, bytes FROM change
                 WHERE stream = ?1 AND seq > ?2 ORDER BY seq",
            )
            .doing(doing, path)?;
        let mut rows = statement.query(params![stream, after]).doing(doing, path)?;
        let mut taken = 0;
        while !pending.is_full() {
            let Some(row) = rows.next().doing(doing, path)? else { break };
            let seq: i64 = row.get(0).doing(doing, path)?;
            let damaged =
                |what: &str| Error::Damaged { path: path.to_owned(), what: format!("change {seq} {what}") };
            let get = |index| row.get::<_, i64>(index).doing(doing, path);
            let code = Code::from_stored(get(4)?).ok_or_else(|| damaged("says no known word"))?;
            let (hash, length) = (get(5)?, get(7)?);
            let length = usize::try_from(length).ok().filter(|length| *length <= OBJECT_BYTES);
            let length = length.ok_or_else(|| damaged("claims an absurd size"))?;
            let dictionary: Option<i64> = row.get(6).doing(doing, path)?;
            if let Some(id) = dictionary {
                self.load(connection, path, id)?;
            }
            let bytes = row.get_ref(8).doing(doing, path)?.as_blob().map_err(|_| damaged("has no bytes"))?;
            taken += bytes.len();
            self.buffer.clear();
            self.buffer.reserve(length);
            match dictionary {
                Some(id) => {
                    self.decompress.decompress_using_ddict(&mut self.buffer, bytes, &self.reading[&id])
                }
                None => self.decompress.decompress(&mut self.buffer, bytes),
            }
            .map_err(|_| damaged("cannot be unpacked"))?;
            let text = std::str::from_utf8(&self.buffer).map_err(|_| damaged("is no text"))?;
            if ContentHash::of(text).0 as i64 != hash || text.len() != length {
                return Err(damaged("does not match its hash"));
            }
            let row = Row {
                seq,
                at: Moment::from_nanos(get(2)?),
                seen: Moment::from_nanos(get(3)?),
                object: ObjectId(get(1)?),
                code,
                hash: hash as u32,
                length: length as u32,
            };
            pending.push(row, text);
        }
        Ok(taken)
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

// === impl NewDictionary ===

impl NewDictionary {
    /// A dictionary learnt from these versions, if they are enough and the stream needs one: it has none, or its
    /// rows have come to take much more room than those it was made from.
    pub(crate) fn train(
        connection: &Connection,
        path: &Path,
        stream: i64,
        pending: &Pending,
        row_bytes: usize,
    ) -> Result<Option<NewDictionary>> {
        let old: Option<f64> = connection
            .prepare_cached("SELECT ratio FROM dictionary WHERE stream = ?1 ORDER BY id DESC LIMIT 1")
            .and_then(|mut select| select.query_row([stream], |row| row.get(0)).optional())
            .doing("read a dictionary of", path)?;
        let ratio = pending.text.len() as f64 / row_bytes.max(1) as f64;
        let needed = old.is_none_or(|old| ratio < old * TIRED);
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
