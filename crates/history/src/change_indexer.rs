//! Assigns each incoming change its sequence number, effective moment, stream and object id.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{ContentHash, IncomingChange, Kind, Meta, Moment, What};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::counts::StreamCounts;
use crate::error::{Error, ErrorContext, Result};
use crate::frame::{ChangeCode, MAX_OBJECT_BYTES, ObjectId, VersionRow};

/// One kind of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) id: i64,
    pub(crate) source: Arc<str>,
    pub(crate) kind: Kind,
}

/// Assigns each change its sequence number, effective moment, stream and object id. Only live objects are cached, so
/// that memory follows the cluster; others are looked up in the file.
pub(crate) struct ChangeIndexer {
    path: PathBuf,
    next_seq: i64,
    sources: HashMap<Arc<str>, SourceState>,
    streams: HashMap<(i64, Kind), Arc<Stream>>,
    /// The stream of the last change: consecutive changes usually have the same one.
    last_stream: Option<Arc<Stream>>,
    namespaces: HashMap<Box<str>, i64>,
    live_objects: HashMap<NameHash, LiveObject>,
    /// What the changes since the last commit add to each stream's counts.
    counts: BTreeMap<i64, StreamCounts>,
}

struct SourceState {
    id: i64,
    /// The effective moment of the first change assigned here.
    first_at: Option<Moment>,
    last_at: Moment,
    changed: bool,
}

/// A 128-bit hash of stream, namespace and name: wide enough to rule out collisions.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct NameHash(u128);

struct LiveObject {
    object: ObjectId,
    uid: Option<u64>,
}

/// How an incarnation ended: values of `object.ended`.
pub(crate) const ENDED_DELETED: i64 = 1;
pub(crate) const ENDED_REPLACED: i64 = 2;

// === impl ChangeIndexer ===

impl ChangeIndexer {
    /// Continues where the file ends.
    pub(crate) fn open(connection: &Connection, path: &Path) -> Result<ChangeIndexer> {
        let doing = "read";
        // Pruning may have removed the last changes; the setting keeps their numbers, because sequence numbers are
        // never reused.
        let mut next_seq: i64 = connection
            .query_row(
                "SELECT 1 + max((SELECT coalesce(max(seq), 0) FROM change),
                                (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM setting WHERE name = 'last_seq'))",
                [],
                |row| row.get(0),
            )
            .context(doing, path)?;
        for stream in streams(connection, path)? {
            let last: Option<i64> = connection
                .query_row(
                    "SELECT last_seq FROM block WHERE stream = ?1 ORDER BY first_seq DESC LIMIT 1",
                    [stream.id],
                    |row| row.get(0),
                )
                .optional()
                .context(doing, path)?;
            next_seq = next_seq.max(last.unwrap_or(0) + 1);
        }
        Ok(ChangeIndexer {
            path: path.to_owned(),
            next_seq,
            sources: HashMap::new(),
            streams: HashMap::new(),
            last_stream: None,
            namespaces: HashMap::new(),
            live_objects: HashMap::new(),
            counts: BTreeMap::new(),
        })
    }

    /// Assigns the next sequence number to a change whose object has this hash.
    pub(crate) fn index(
        &mut self,
        connection: &Connection,
        observed: &IncomingChange,
        content: ContentHash,
    ) -> Result<(Arc<Stream>, VersionRow)> {
        let last_at = self.source(connection, &observed.key.source)?.last_at;
        self.index_with_seq(connection, observed, content, self.next_seq, last_at.max(observed.seen))
    }

    /// Indexes a change that already has its sequence number and moment; neither may be before those already in the
    /// file.
    pub(crate) fn index_with_seq(
        &mut self,
        connection: &Connection,
        observed: &IncomingChange,
        content: ContentHash,
        seq: i64,
        at: Moment,
    ) -> Result<(Arc<Stream>, VersionRow)> {
        let length = observed.what.object().as_str().len();
        if length > MAX_OBJECT_BYTES {
            return Err(Error::TooLarge {
                key: observed.key.clone(),
                seen: observed.seen,
                bytes: length,
                most: MAX_OBJECT_BYTES,
            });
        }
        let source = self.source(connection, &observed.key.source)?;
        let source_id = source.id;
        source.first_at.get_or_insert(at);
        (source.last_at, source.changed) = (at, true);
        let stream = self.stream(connection, source_id, &observed.key.source, &observed.key.kind)?;
        let name = NameHash::new(&stream, &observed.key.namespace, &observed.key.name);
        let object_id = if has_directory(&stream.kind) {
            self.resolve_object(connection, &stream, name, observed, at)
                .context("index an object in", &self.path)?
        } else {
            ObjectId(name.0 as i64)
        };
        let row = VersionRow {
            seq,
            at,
            seen: observed.seen,
            object: object_id,
            code: ChangeCode::new(&observed.what, observed.inferred),
            hash: content.0 as u32,
            length: length as u32,
        };
        self.next_seq = seq.saturating_add(1);
        Ok((stream, row))
    }

    /// The last sequence number assigned.
    pub(crate) fn last_seq(&self) -> i64 {
        self.next_seq - 1
    }

    /// The id of a source, which is inserted if it is new.
    pub(crate) fn source_id(&mut self, connection: &Connection, name: &Arc<str>) -> Result<i64> {
        Ok(self.source(connection, name)?.id)
    }

    /// Rejects a change within the time that a source already covered before this import; `end_by_source` caches where
    /// that time ended.
    pub(crate) fn refuse_overlap(
        &mut self,
        connection: &Connection,
        end_by_source: &mut HashMap<Arc<str>, Option<Moment>>,
        name: &Arc<str>,
        seen: Moment,
    ) -> Result<()> {
        let end = match end_by_source.get(name) {
            Some(end) => *end,
            None => {
                let last_at = self.source(connection, name)?.last_at;
                let end = (last_at > Moment::MIN).then_some(last_at);
                end_by_source.insert(name.clone(), end);
                end
            }
        };
        match end {
            Some(end) if seen <= end => Err(Error::Overlap { name: name.to_string(), end, found: seen }),
            _ => Ok(()),
        }
    }

    /// Counts a change that is stored as a row.
    pub(crate) fn count_row(&mut self, stream: &Stream, row: &VersionRow) {
        let counts = self.counts.entry(stream.id).or_default();
        counts.rows += 1;
        counts.row_raw += i64::from(row.length);
    }

    /// Writes the updated sources and counts; must be called before every commit.
    pub(crate) fn write_updates(&mut self, connection: &Connection) -> Result<()> {
        let mut changed: Vec<&mut SourceState> =
            self.sources.values_mut().filter(|source| source.changed).collect();
        changed.sort_unstable_by_key(|source| source.id);
        for source in changed {
            connection
                .prepare_cached(
                    "UPDATE source SET last_at = ?2, first_at = coalesce(first_at, ?3) WHERE id = ?1",
                )
                .and_then(|mut update| {
                    let first_at = source.first_at.map(Moment::nanos);
                    update.execute(params![source.id, source.last_at.nanos(), first_at])
                })
                .context("write to", &self.path)?;
            source.changed = false;
        }
        for (stream, counts) in std::mem::take(&mut self.counts) {
            counts.add_to(connection, stream).context("write to", &self.path)?;
        }
        Ok(())
    }

    fn source(&mut self, connection: &Connection, name: &Arc<str>) -> Result<&mut SourceState> {
        if !self.sources.contains_key(name) {
            let found = (|| {
                connection.execute("INSERT OR IGNORE INTO source (name) VALUES (?1)", [&**name])?;
                connection.query_row("SELECT id, last_at FROM source WHERE name = ?1", [&**name], |row| {
                    let last_at: Option<i64> = row.get(1)?;
                    let last_at = last_at.map_or(Moment::MIN, Moment::from_nanos);
                    Ok(SourceState { id: row.get(0)?, first_at: None, last_at, changed: false })
                })
            })()
            .context("index a source in", &self.path)?;
            self.sources.insert(name.clone(), found);
        }
        Ok(self.sources.get_mut(name).expect("the source was just inserted"))
    }

    fn stream(
        &mut self,
        connection: &Connection,
        source: i64,
        name: &Arc<str>,
        kind: &Kind,
    ) -> Result<Arc<Stream>> {
        if let Some(last) = &self.last_stream
            && (&last.source, &last.kind) == (name, kind)
        {
            return Ok(last.clone());
        }
        let stream = self.find_stream(connection, source, name, kind)?;
        self.last_stream = Some(stream.clone());
        Ok(stream)
    }

    fn find_stream(
        &mut self,
        connection: &Connection,
        source: i64,
        name: &Arc<str>,
        kind: &Kind,
    ) -> Result<Arc<Stream>> {
        // A lookup by tuple has to own its kind; cloning it costs two reference counts.
        let index = (source, kind.clone());
        if let Some(stream) = self.streams.get(&index) {
            return Ok(stream.clone());
        }
        let id = (|| {
            connection.execute(
                "INSERT OR IGNORE INTO stream (source, api_group, kind) VALUES (?1, ?2, ?3)",
                params![source, &*kind.group, &*kind.kind],
            )?;
            connection.query_row(
                "SELECT id FROM stream WHERE source = ?1 AND api_group = ?2 AND kind = ?3",
                params![source, &*kind.group, &*kind.kind],
                |row| row.get(0),
            )
        })()
        .context("index a kind in", &self.path)?;
        let stream = Arc::new(Stream { id, source: name.clone(), kind: kind.clone() });
        self.streams.insert(index, stream.clone());
        Ok(stream)
    }

    /// Finds or inserts the object in the directory, and starts and ends its incarnations.
    fn resolve_object(
        &mut self,
        connection: &Connection,
        stream: &Stream,
        name: NameHash,
        observed: &IncomingChange,
        at: Moment,
    ) -> rusqlite::Result<ObjectId> {
        let meta = observed.what.object().meta();
        let uid = meta.uid.as_deref().map(|uid| xxh3_64(uid.as_bytes()));
        let deleted = matches!(observed.what, What::Deleted(_));
        let existing = match self.live_objects.get(&name) {
            Some(alive) => Some((alive.object, alive.uid, true)),
            None => find_entry(connection, stream, name, &observed.key.namespace, &observed.key.name)?
                .map(|found| (found.object, found.uid, found.ended_at.is_none())),
        };
        let was_alive = existing.is_some_and(|(_, _, is_alive)| is_alive);
        let counts = self.counts.entry(stream.id).or_default();
        counts.objects += i64::from(existing.is_none());
        counts.alive += i64::from(!deleted) - i64::from(was_alive);
        // Stubs and manifests have no uid: they refer to the current incarnation.
        let is_same_uid = |old: Option<u64>| old.is_none() || uid.is_none() || old == uid;
        let object = match existing {
            None => self.insert_object(connection, stream, name, observed, &meta, at)?,
            Some((object, old, is_alive)) if is_same_uid(old) && (is_alive || deleted) => {
                if old.is_none() && uid.is_some() {
                    connection
                        .prepare_cached("UPDATE object SET uid = ?2 WHERE id = ?1")?
                        .execute(params![object.0, stored_uid(meta.uid.as_deref())])?;
                }
                object
            }
            Some((object, _, is_alive)) => {
                start_new_incarnation(connection, object, is_alive, &meta, at)?;
                object
            }
        };
        if deleted {
            connection
                .prepare_cached("UPDATE object SET ended_at = ?2, ended = ?3 WHERE id = ?1")?
                .execute(params![object.0, at.nanos(), ENDED_DELETED])?;
            self.live_objects.remove(&name);
        } else {
            // A version without a uid does not clear the known one.
            let uid = uid.or(existing.filter(|(_, _, is_alive)| *is_alive).and_then(|(_, old, _)| old));
            self.live_objects.insert(name, LiveObject { object, uid });
        }
        Ok(object)
    }

    fn insert_object(
        &mut self,
        connection: &Connection,
        stream: &Stream,
        name: NameHash,
        observed: &IncomingChange,
        meta: &Meta<'_>,
        at: Moment,
    ) -> rusqlite::Result<ObjectId> {
        let namespace = self.namespace(connection, &observed.key.namespace)?;
        connection
            .prepare_cached(
                "INSERT INTO object (stream, namespace, name, hash, uid, first_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            )?
            .execute(params![
                stream.id,
                namespace,
                &*observed.key.name,
                name.index_value(),
                stored_uid(meta.uid.as_deref()),
                at.nanos()
            ])?;
        Ok(ObjectId(connection.last_insert_rowid()))
    }

    fn namespace(&mut self, connection: &Connection, name: &str) -> rusqlite::Result<i64> {
        if let Some(id) = self.namespaces.get(name) {
            return Ok(*id);
        }
        connection.execute("INSERT OR IGNORE INTO namespace (name) VALUES (?1)", [name])?;
        let id =
            connection.query_row("SELECT id FROM namespace WHERE name = ?1", [name], |row| row.get(0))?;
        self.namespaces.insert(name.into(), id);
        Ok(id)
    }
}

// === impl NameHash ===

impl NameHash {
    fn new(stream: &Stream, namespace: &str, name: &str) -> NameHash {
        let mut text = Vec::with_capacity(namespace.len() + name.len() + 9);
        text.extend_from_slice(&stream.id.to_le_bytes());
        text.extend_from_slice(namespace.as_bytes());
        text.push(0);
        text.extend_from_slice(name.as_bytes());
        NameHash(xxh3_128(&text))
    }

    /// The part of the hash that is stored and indexed.
    fn index_value(self) -> i64 {
        i64::from(self.0 as u32)
    }
}

/// An object's row in the directory.
pub(crate) struct DirectoryEntry {
    pub(crate) object: ObjectId,
    pub(crate) first_at: Moment,
    pub(crate) ended_at: Option<Moment>,
    uid: Option<u64>,
}

/// The object of that name in a stream.
pub(crate) fn find_object(
    connection: &Connection,
    stream: &Stream,
    namespace: &str,
    name: &str,
) -> rusqlite::Result<Option<DirectoryEntry>> {
    let id = NameHash::new(stream, namespace, name);
    if !has_directory(&stream.kind) {
        let object = ObjectId(id.0 as i64);
        return Ok(Some(DirectoryEntry { object, first_at: Moment::MIN, ended_at: None, uid: None }));
    }
    find_entry(connection, stream, id, namespace, name)
}

/// Whether the objects of this kind have rows in `object`. Events do not: most are a single change, and a row for
/// each would take more space than the change itself.
pub(crate) fn has_directory(kind: &Kind) -> bool {
    !(&*kind.kind == "Event" && matches!(&*kind.group, "" | "events.k8s.io"))
}

/// All streams of the file, ordered by id.
pub(crate) fn streams(connection: &Connection, path: &Path) -> Result<Vec<Stream>> {
    let read = || -> rusqlite::Result<Vec<Stream>> {
        let mut sources: HashMap<i64, Arc<str>> = HashMap::new();
        connection
            .prepare_cached(
                "SELECT stream.id, source.id, source.name, api_group, kind
                 FROM stream JOIN source ON source.id = stream.source ORDER BY stream.id",
            )?
            .query_map([], |row| {
                let name: String = row.get(2)?;
                let source = sources.entry(row.get(1)?).or_insert_with(|| name.into()).clone();
                let (group, kind): (String, String) = (row.get(3)?, row.get(4)?);
                Ok(Stream { id: row.get(0)?, source, kind: Kind::new(&group, &kind) })
            })?
            .collect()
    };
    read().context("read the kinds of", path)
}

fn find_entry(
    connection: &Connection,
    stream: &Stream,
    id: NameHash,
    namespace: &str,
    name: &str,
) -> rusqlite::Result<Option<DirectoryEntry>> {
    connection
        .prepare_cached(
            "SELECT object.id, uid, first_at, ended_at FROM object JOIN namespace ON namespace.id = object.namespace
             WHERE hash = ?1 AND stream = ?2 AND object.name = ?3 AND namespace.name = ?4",
        )?
        .query_row(params![id.index_value(), stream.id, name, namespace], |row| {
            let ended_at: Option<i64> = row.get(3)?;
            Ok(DirectoryEntry {
                object: ObjectId(row.get(0)?),
                uid: uid_hash(row.get(1)?),
                first_at: Moment::from_nanos(row.get(2)?),
                ended_at: ended_at.map(Moment::from_nanos),
            })
        })
        .optional()
}

/// Moves the incarnation in the directory row to `former_life` and starts a new one.
fn start_new_incarnation(
    connection: &Connection,
    object: ObjectId,
    was_alive: bool,
    meta: &Meta<'_>,
    at: Moment,
) -> rusqlite::Result<()> {
    if was_alive {
        connection
            .prepare_cached("UPDATE object SET ended_at = ?2, ended = ?3 WHERE id = ?1")?
            .execute(params![object.0, at.nanos(), ENDED_REPLACED])?;
    }
    connection
        .prepare_cached(
            "INSERT INTO former_life (object, uid, first_at, ended_at, ended)
             SELECT id, uid, first_at, ended_at, ended FROM object WHERE id = ?1",
        )?
        .execute([object.0])?;
    connection
        .prepare_cached(
            "UPDATE object SET uid = ?2, first_at = ?3, ended_at = NULL, ended = NULL WHERE id = ?1",
        )?
        .execute(params![object.0, stored_uid(meta.uid.as_deref()), at.nanos()])?;
    Ok(())
}

/// Sixteen bytes for a UUID in canonical form, else the text.
fn stored_uid(uid: Option<&str>) -> Value {
    let Some(uid) = uid else { return Value::Null };
    let digits: String = uid.chars().filter(|c| *c != '-').collect();
    match u128::from_str_radix(&digits, 16) {
        Ok(number) if digits.len() == 32 && uid_text(&number.to_be_bytes()) == uid => {
            Value::Blob(number.to_be_bytes().to_vec())
        }
        _ => Value::Text(uid.to_owned()),
    }
}

/// The canonical form of a UUID.
fn uid_text(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    let hex: String = digits.filter_map(|digit| char::from_digit(digit.into(), 16)).collect();
    match hex.len() {
        32 => [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"),
        _ => hex,
    }
}

/// The start of the first incarnation of an object's name.
pub(crate) fn first_incarnation_start(
    connection: &Connection,
    found: &DirectoryEntry,
) -> rusqlite::Result<Moment> {
    let former: Option<i64> = connection
        .prepare_cached("SELECT min(first_at) FROM former_life WHERE object = ?1")?
        .query_row([found.object.0], |row| row.get(0))?;
    Ok(former.map_or(found.first_at, |former| found.first_at.min(Moment::from_nanos(former))))
}

/// One incarnation of an object, as stored in the directory.
pub(crate) struct Incarnation {
    /// A hash of the uid.
    pub(crate) uid: Option<u64>,
    pub(crate) first_at: Moment,
    pub(crate) ended_at: Option<Moment>,
    pub(crate) ended: Option<i64>,
}

/// All incarnations of an object.
pub(crate) fn incarnations(connection: &Connection, object: ObjectId) -> rusqlite::Result<Vec<Incarnation>> {
    connection
        .prepare_cached(
            "SELECT uid, first_at, ended_at, ended FROM object WHERE id = ?1
             UNION ALL SELECT uid, first_at, ended_at, ended FROM former_life WHERE object = ?1",
        )?
        .query_map([object.0], |row| {
            let ended_at: Option<i64> = row.get(2)?;
            Ok(Incarnation {
                uid: uid_hash(row.get(0)?),
                first_at: Moment::from_nanos(row.get(1)?),
                ended_at: ended_at.map(Moment::from_nanos),
                ended: row.get(3)?,
            })
        })?
        .collect()
}

fn uid_hash(stored: Value) -> Option<u64> {
    match stored {
        Value::Blob(bytes) => Some(xxh3_64(uid_text(&bytes).as_bytes())),
        Value::Text(text) => Some(xxh3_64(text.as_bytes())),
        _ => None,
    }
}
