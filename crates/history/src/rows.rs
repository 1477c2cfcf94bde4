//! Rows of `change`: changes that are not packed yet, compressed with their stream's dictionary.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;

use model::{ContentHash, Kind, Moment};
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{CCtx, CDict, DCtx, DDict};

use crate::change_indexer::Stream;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{ChangeCode, MAX_OBJECT_BYTES, ObjectId, PendingVersions, VersionRow};
use crate::varint;

/// Rows are packed soon, so write speed matters more than size.
const ROW_LEVEL: i32 = 1;
/// With 16 KiB the rows of the recorded test clusters take 5 to 10 % more than with 64 KiB, and a small history does
/// not consist mostly of dictionaries.
const DICTIONARY_BYTES: usize = 16 << 10;
/// Minimum number of samples that zstd's trainer needs.
pub(crate) const DICTIONARY_SAMPLES: usize = 64;
/// A dictionary is retrained when its compression ratio falls below this share of the ratio on the rows it was
/// trained on, which it always fits better than later ones.
const RETRAIN_BELOW: f64 = 0.33;

/// Reads and writes rows of `change`.
pub(crate) struct RowCodec {
    compress: CCtx<'static>,
    decompress: DCtx<'static>,
    /// The newest dictionary of each stream that has one.
    write_dictionaries: HashMap<i64, Option<(i64, CDict<'static>)>>,
    read_dictionaries: HashMap<i64, DDict<'static>>,
    buffer: Vec<u8>,
}

/// A row of `change` as stored.
pub(crate) struct StoredRow<'a> {
    pub(crate) seq: i64,
    pub(crate) object: i64,
    pub(crate) at: i64,
    pub(crate) seen: i64,
    pub(crate) what: i64,
    pub(crate) hash: i64,
    pub(crate) length: i64,
    pub(crate) bytes: &'a [u8],
}

/// Sizes of the rows that were read.
#[derive(Debug, Default)]
pub(crate) struct RowSizes {
    rows: usize,
    bytes: usize,
    raw: usize,
    /// `None` if one of them was written without a dictionary.
    oldest_dictionary: Option<i64>,
}

/// A trained dictionary that is not written yet.
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
            write_dictionaries: HashMap::new(),
            read_dictionaries: HashMap::new(),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn insert(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        row: &VersionRow,
        text: &str,
        content: ContentHash,
    ) -> Result<()> {
        if let Entry::Vacant(entry) = self.write_dictionaries.entry(stream.id) {
            let found = newest_dictionary(connection, stream.id).context("read a dictionary of", path)?;
            let found = found.map(|(id, bytes)| (id, CDict::create(&bytes, ROW_LEVEL)));
            entry.insert(found);
        }
        self.buffer.clear();
        self.buffer.reserve(zstd::zstd_safe::compress_bound(text.len()));
        let dictionary = self.write_dictionaries[&stream.id].as_ref();
        match dictionary {
            Some((_, dictionary)) => {
                self.compress.compress_using_cdict(&mut self.buffer, text.as_bytes(), dictionary)
            }
            None => self.compress.compress(&mut self.buffer, text.as_bytes(), ROW_LEVEL),
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
                    row_hash(&stream.source, &stream.kind, row, content),
                    dictionary.map(|(id, _)| id),
                    row.length,
                    self.buffer,
                ])
            })
            .context("write to", path)?;
        Ok(())
    }

    /// Reads rows of a stream after `after`, until `pending` is full. Returns their sizes.
    pub(crate) fn read(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        after: i64,
        pending: &mut PendingVersions,
    ) -> Result<RowSizes> {
        self.read_between(connection, path, stream, after, i64::MAX, pending)
    }

    /// The same for rows up to and including `until`.
    pub(crate) fn read_between(
        &mut self,
        connection: &Connection,
        path: &Path,
        stream: &Stream,
        after: i64,
        until: i64,
        pending: &mut PendingVersions,
    ) -> Result<RowSizes> {
        let doing = "read changes of";
        let mut statement = connection
            .prepare_cached(
                "SELECT seq, object, at, seen, what, hash, dictionary, length, bytes FROM change
                 WHERE stream = ?1 AND seq > ?2 AND seq <= ?3 ORDER BY seq",
            )
            .context(doing, path)?;
        let mut rows = statement.query([stream.id, after, until]).context(doing, path)?;
        let mut sizes = RowSizes::default();
        while !pending.is_full() {
            let Some(row) = rows.next().context(doing, path)? else { break };
            let seq: i64 = row.get(0).context(doing, path)?;
            let damaged =
                |what: &str| Error::Damaged { path: path.to_owned(), what: format!("change {seq} {what}") };
            let get = |index| row.get::<_, i64>(index).context(doing, path);
            let dictionary: Option<i64> = row.get(6).context(doing, path)?;
            if let Some(id) = dictionary {
                self.load_dictionary(connection, path, id)?;
            }
            let stored = StoredRow {
                seq,
                object: get(1)?,
                at: get(2)?,
                seen: get(3)?,
                what: get(4)?,
                hash: get(5)?,
                length: get(7)?,
                bytes: row.get_ref(8).context(doing, path)?.as_blob().map_err(|_| damaged("has no bytes"))?,
            };
            sizes.bytes += stored.bytes.len();
            sizes.raw += usize::try_from(stored.length).unwrap_or(0);
            sizes.oldest_dictionary = match sizes.rows {
                0 => dictionary,
                _ => sizes.oldest_dictionary.min(dictionary),
            };
            sizes.rows += 1;
            let dictionary = dictionary.map(|id| &self.read_dictionaries[&id]);
            let text = stored.text(&mut self.decompress, dictionary, &mut self.buffer).map_err(damaged)?;
            let row = stored.row(&stream.source, &stream.kind, text).map_err(damaged)?;
            pending.push(row, text);
        }
        Ok(sizes)
    }

    /// Whether rows of the stream are written with a dictionary.
    pub(crate) fn has_dictionary(&self, stream: i64) -> bool {
        self.write_dictionaries.get(&stream).is_some_and(Option::is_some)
    }

    /// Makes later rows of the stream use its newest dictionary.
    pub(crate) fn refresh_dictionary(&mut self, stream: i64) {
        self.write_dictionaries.remove(&stream);
    }

    fn load_dictionary(&mut self, connection: &Connection, path: &Path, id: i64) -> Result<()> {
        if self.read_dictionaries.contains_key(&id) {
            return Ok(());
        }
        let bytes = read_dictionary(connection, id).context("read a dictionary of", path)?;
        let bytes = bytes.ok_or_else(|| Error::Damaged {
            path: path.to_owned(),
            what: format!("dictionary {id} is missing or does not match its hash"),
        })?;
        self.read_dictionaries.insert(id, DDict::create(&bytes));
        Ok(())
    }
}

// === impl StoredRow ===

impl StoredRow<'_> {
    /// Decompresses the object's text into `out`. The error describes the damage.
    pub(crate) fn text<'o>(
        &self,
        context: &mut DCtx<'static>,
        dictionary: Option<&DDict<'static>>,
        out: &'o mut Vec<u8>,
    ) -> std::result::Result<&'o str, &'static str> {
        let length = usize::try_from(self.length).ok().filter(|length| *length <= MAX_OBJECT_BYTES);
        let length = length.ok_or("has an invalid size")?;
        out.clear();
        out.reserve(length);
        match dictionary {
            Some(dictionary) => context.decompress_using_ddict(out, self.bytes, dictionary),
            None => context.decompress(out, self.bytes),
        }
        .map_err(|_| "cannot be decompressed")?;
        if out.len() != length {
            return Err("does not match its size");
        }
        std::str::from_utf8(out).map_err(|_| "is not UTF-8")
    }

    /// Everything except the text, if the row matches its hash for this source and kind.
    pub(crate) fn row(
        &self,
        source: &str,
        kind: &Kind,
        text: &str,
    ) -> std::result::Result<VersionRow, &'static str> {
        let content = ContentHash::of(text);
        let row = VersionRow {
            seq: self.seq,
            at: Moment::from_nanos(self.at),
            seen: Moment::from_nanos(self.seen),
            object: ObjectId(self.object),
            code: ChangeCode::from_stored(self.what).ok_or("has an unknown change type")?,
            hash: content.0 as u32,
            length: text.len() as u32,
        };
        match row_hash(source, kind, &row, content) == self.hash {
            true => Ok(row),
            false => Err("does not match its hash"),
        }
    }
}

// === impl NewDictionary ===

impl NewDictionary {
    /// Trains a dictionary on these versions, if there are enough and the stream needs one: it has none, or rows
    /// written with its newest have become much larger than those it was trained on.
    pub(crate) fn train(
        connection: &Connection,
        path: &Path,
        stream: i64,
        pending: &PendingVersions,
        sizes: &RowSizes,
    ) -> Result<Option<NewDictionary>> {
        let newest: Option<(i64, f64)> = connection
            .prepare_cached("SELECT id, ratio FROM dictionary WHERE stream = ?1 ORDER BY id DESC LIMIT 1")
            .and_then(|mut select| {
                select.query_row([stream], |row| Ok((row.get(0)?, row.get(1)?))).optional()
            })
            .context("read a dictionary of", path)?;
        let ratio = sizes.raw as f64 / sizes.bytes.max(1) as f64;
        // Rows written before the newest dictionary say nothing about it.
        let needed = newest.is_none_or(|(id, achieved)| {
            sizes.oldest_dictionary == Some(id) && ratio < achieved * RETRAIN_BELOW
        });
        if !needed || pending.rows.len() < DICTIONARY_SAMPLES {
            return Ok(None);
        }
        let samples: Vec<&str> = pending.iter().map(|(_, text)| text).collect();
        // Training fails on objects with nothing in common; rows are then written without a dictionary.
        let Ok(bytes) = zstd::dict::from_samples(&samples, DICTIONARY_BYTES) else { return Ok(None) };
        let dictionary = CDict::create(&bytes, ROW_LEVEL);
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
            .context("write a dictionary to", path)?;
        connection
            .execute(
                "DELETE FROM dictionary WHERE stream = ?1 AND id <> ?2
                 AND id NOT IN (SELECT dictionary FROM change WHERE stream = ?1 AND dictionary IS NOT NULL)",
                params![self.stream, connection.last_insert_rowid()],
            )
            .context("write a dictionary to", path)?;
        Ok(())
    }
}

/// The value of `change.hash`, which covers every field of the row.
fn row_hash(source: &str, kind: &Kind, row: &VersionRow, content: ContentHash) -> i64 {
    let mut all = Vec::with_capacity(128);
    for number in [row.seq, row.object.0, row.at.nanos(), row.seen.nanos(), content.0 as i64] {
        all.extend_from_slice(&number.to_le_bytes());
    }
    all.push(row.code.stored());
    for name in [source, &kind.group, &kind.kind] {
        varint::write_text(&mut all, name);
    }
    xxh3_64(&all) as i64
}

fn newest_dictionary(connection: &Connection, stream: i64) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
    let id = connection.query_row("SELECT max(id) FROM dictionary WHERE stream = ?1", [stream], |row| {
        row.get::<_, Option<i64>>(0)
    })?;
    let Some(id) = id else { return Ok(None) };
    Ok(read_dictionary(connection, id)?.map(|bytes| (id, bytes)))
}

/// Reads a dictionary and verifies its hash.
fn read_dictionary(connection: &Connection, id: i64) -> rusqlite::Result<Option<Vec<u8>>> {
    let found: Option<(i64, Vec<u8>)> = connection
        .query_row("SELECT hash, bytes FROM dictionary WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .optional()?;
    Ok(found.filter(|(hash, bytes)| xxh3_64(bytes) as i64 == *hash).map(|(_, bytes)| bytes))
}
