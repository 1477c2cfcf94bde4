//! Where a change finds its place: its number, its effective moment, its stream and its object.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Kind, Meta, Moment, Observed, What};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use crate::counts::StreamCounts;
use crate::error::{Doing, Error, Result};
use crate::frame::{Code, OBJECT_BYTES, ObjectId, Row};

/// One kind of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stream {
    pub(crate) id: i64,
    pub(crate) source: Arc<str>,
    pub(crate) kind: Kind,
}

/// Gives each change its place. It remembers the objects that are alive and nothing else, so that its memory follows
/// the cluster; what it does not remember it looks up.
pub(crate) struct Intake {
    path: PathBuf,
    next_seq: i64,
    sources: HashMap<Arc<str>, Source>,
    streams: HashMap<(i64, Kind), Arc<Stream>>,
    namespaces: HashMap<Box<str>, i64>,
    alive: HashMap<Name, Alive>,
    /// What the changes since the last commit add to each stream.
    counts: BTreeMap<i64, StreamCounts>,
}

struct Source {
    id: i64,
    /// Of the first change that was placed here.
    first_at: Option<Moment>,
    last_at: Moment,
    changed: bool,
}

/// 128 bits of stream, namespace and name: wide enough that no two will ever meet.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Name(u128);

struct Alive {
    object: ObjectId,
    uid: Option<u64>,
}

/// How a life ended, as `object.ended` has it.
pub(crate) const DELETED: i64 = 1;
pub(crate) const REPLACED: i64 = 2;

// === impl Intake ===

impl Intake {
    /// Goes on where the file ends.
    pub(crate) fn open(connection: &Connection, path: &Path) -> Result<Intake> {
        let doing = "read";
        // The setting is what was reached before pruning took the last changes away: numbers are given out once.
        let mut next_seq: i64 = connection
            .query_row(
                "SELECT 1 + max((SELECT coalesce(max(seq), 0) FROM change),
                                (SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM setting WHERE name = 'last_seq'))",
                [],
                |row| row.get(0),
            )
            .doing(doing, path)?;
        for stream in streams(connection, path)? {
            let last: Option<i64> = connection
                .query_row(
                    "SELECT last_seq FROM block WHERE stream = ?1 ORDER BY first_seq DESC LIMIT 1",
                    [stream.id],
                    |row| row.get(0),
                )
                .optional()
                .doing(doing, path)?;
            next_seq = next_seq.max(last.unwrap_or(0) + 1);
        }
        Ok(Intake {
            path: path.to_owned(),
            next_seq,
            sources: HashMap::new(),
            streams: HashMap::new(),
            namespaces: HashMap::new(),
            alive: HashMap::new(),
            counts: BTreeMap::new(),
        })
    }

    /// The place of a change, which is the next one.
    pub(crate) fn place(
        &mut self,
        connection: &Connection,
        observed: &Observed,
    ) -> Result<(Arc<Stream>, Row)> {
        let last_at = self.source(connection, &observed.key.source)?.last_at;
        self.place_as(connection, observed, self.next_seq, last_at.max(observed.seen))
    }

    /// The place of a change that has its number and its moment already; neither may be before those that are here.
    pub(crate) fn place_as(
        &mut self,
        connection: &Connection,
        observed: &Observed,
        seq: i64,
        at: Moment,
    ) -> Result<(Arc<Stream>, Row)> {
        let object = observed.what.object();
        let length = object.as_str().len();
        if length > OBJECT_BYTES {
            return Err(Error::TooLarge {
                key: observed.key.clone(),
                seen: observed.seen,
                bytes: length,
                most: OBJECT_BYTES,
            });
        }
        let source = self.source(connection, &observed.key.source)?;
        let source_id = source.id;
        source.first_at.get_or_insert(at);
        (source.last_at, source.changed) = (at, true);
        let stream = self.stream(connection, source_id, &observed.key.source, &observed.key.kind)?;
        let name = Name::new(&stream, &observed.key.namespace, &observed.key.name);
        let object_id = if has_directory(&stream.kind) {
            self.object(connection, &stream, name, observed, at).doing("file an object in", &self.path)?
        } else {
            ObjectId(name.0 as i64)
        };
        let row = Row {
            seq,
            at,
            seen: observed.seen,
            object: object_id,
            code: Code::new(&observed.what, observed.inferred),
            hash: object.content_hash().0 as u32,
            length: length as u32,
        };
        self.next_seq = seq.saturating_add(1);
        Ok((stream, row))
    }

    /// The number of the last change there was.
    pub(crate) fn last_seq(&self) -> i64 {
        self.next_seq - 1
    }

    /// The number of a source, which is made if it is new.
    pub(crate) fn source_id(&mut self, connection: &Connection, name: &Arc<str>) -> Result<i64> {
        Ok(self.source(connection, name)?.id)
    }

    /// Refuses what would fall into the part of a source that was there before this began; `ends` remembers where
    /// that part ended.
    pub(crate) fn refuse_overlap(
        &mut self,
        connection: &Connection,
        ends: &mut HashMap<Arc<str>, Option<Moment>>,
        name: &Arc<str>,
        seen: Moment,
    ) -> Result<()> {
        let end = match ends.get(name) {
            Some(end) => *end,
            None => {
                let last_at = self.source(connection, name)?.last_at;
                let end = (last_at > Moment::MIN).then_some(last_at);
                ends.insert(name.clone(), end);
                end
            }
        };
        match end {
            Some(end) if seen <= end => Err(Error::Overlap { name: name.to_string(), end, found: seen }),
            _ => Ok(()),
        }
    }

    /// Counts a change that becomes a row.
    pub(crate) fn count_row(&mut self, stream: &Stream, row: &Row) {
        let counts = self.counts.entry(stream.id).or_default();
        counts.rows += 1;
        counts.row_raw += i64::from(row.length);
    }

    /// Writes what the sources and the counts have come to; belongs before every commit.
    pub(crate) fn settle(&mut self, connection: &Connection) -> Result<()> {
        let mut changed: Vec<&mut Source> =
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
                .doing("write to", &self.path)?;
            source.changed = false;
        }
        for (stream, counts) in std::mem::take(&mut self.counts) {
            counts.add_to(connection, stream).doing("write to", &self.path)?;
        }
        Ok(())
    }

    fn source(&mut self, connection: &Connection, name: &Arc<str>) -> Result<&mut Source> {
        if !self.sources.contains_key(name) {
            let found = (|| {
                connection.execute("INSERT OR IGNORE INTO source (name) VALUES (?1)", [&**name])?;
                connection.query_row("SELECT id, last_at FROM source WHERE name = ?1", [&**name], |row| {
                    let last_at: Option<i64> = row.get(1)?;
                    let last_at = last_at.map_or(Moment::MIN, Moment::from_nanos);
                    Ok(Source { id: row.get(0)?, first_at: None, last_at, changed: false })
                })
            })()
            .doing("file a source in", &self.path)?;
            self.sources.insert(name.clone(), found);
        }
        Ok(self.sources.get_mut(name).expect("it was put there"))
    }

    fn stream(
        &mut self,
        connection: &Connection,
        source: i64,
        name: &Arc<str>,
        kind: &Kind,
    ) -> Result<Arc<Stream>> {
        // The tuple of a lookup would have to own its kind; two words to clone are cheaper than that looks.
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
        .doing("file a kind in", &self.path)?;
        let stream = Arc::new(Stream { id, source: name.clone(), kind: kind.clone() });
        self.streams.insert(index, stream.clone());
        Ok(stream)
    }

    /// Finds or files the object, and begins and ends its lives.
    fn object(
        &mut self,
        connection: &Connection,
        stream: &Stream,
        name: Name,
        observed: &Observed,
        at: Moment,
    ) -> rusqlite::Result<ObjectId> {
        let meta = observed.what.object().meta();
        let uid = meta.uid.as_deref().map(|uid| xxh3_64(uid.as_bytes()));
        let deleted = matches!(observed.what, What::Deleted(_));
        let known = match self.alive.get(&name) {
            Some(alive) => Some((alive.object, alive.uid, true)),
            None => find(connection, stream, name, &observed.key.namespace, &observed.key.name)?
                .map(|found| (found.object, found.uid, found.ended_at.is_none())),
        };
        let was_alive = known.is_some_and(|(_, _, is_alive)| is_alive);
        let counts = self.counts.entry(stream.id).or_default();
        counts.objects += i64::from(known.is_none());
        counts.alive += i64::from(!deleted) - i64::from(was_alive);
        // Stubs and manifests have no uid: they speak of whatever life there is.
        let same = |old: Option<u64>| old.is_none() || uid.is_none() || old == uid;
        let object = match known {
            None => self.begin(connection, stream, name, observed, &meta, at)?,
            Some((object, old, is_alive)) if same(old) && (is_alive || deleted) => {
                if old.is_none() && uid.is_some() {
                    connection
                        .prepare_cached("UPDATE object SET uid = ?2 WHERE id = ?1")?
                        .execute(params![object.0, stored_uid(meta.uid.as_deref())])?;
                }
                object
            }
            Some((object, _, is_alive)) => {
                begin_again(connection, object, is_alive, &meta, at)?;
                object
            }
        };
        if deleted {
            connection
                .prepare_cached("UPDATE object SET ended_at = ?2, ended = ?3 WHERE id = ?1")?
                .execute(params![object.0, at.nanos(), DELETED])?;
            self.alive.remove(&name);
        } else {
            // A version without a uid does not take away the one that is known.
            let uid = uid.or(known.filter(|(_, _, is_alive)| *is_alive).and_then(|(_, old, _)| old));
            self.alive.insert(name, Alive { object, uid });
        }
        Ok(object)
    }

    fn begin(
        &mut self,
        connection: &Connection,
        stream: &Stream,
        name: Name,
        observed: &Observed,
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
                name.short(),
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

// === impl Name ===

impl Name {
    fn new(stream: &Stream, namespace: &str, name: &str) -> Name {
        let mut text = Vec::with_capacity(namespace.len() + name.len() + 9);
        text.extend_from_slice(&stream.id.to_le_bytes());
        text.extend_from_slice(namespace.as_bytes());
        text.push(0);
        text.extend_from_slice(name.as_bytes());
        Name(xxh3_128(&text))
    }

    /// What the index is over.
    fn short(self) -> i64 {
        i64::from(self.0 as u32)
    }
}

/// An object as the directory has it.
pub(crate) struct Found {
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
) -> rusqlite::Result<Option<Found>> {
    let id = Name::new(stream, namespace, name);
    if !has_directory(&stream.kind) {
        let object = ObjectId(id.0 as i64);
        return Ok(Some(Found { object, first_at: Moment::MIN, ended_at: None, uid: None }));
    }
    find(connection, stream, id, namespace, name)
}

/// Whether the objects of this kind have rows in `object`. Events do not: most are a single change, and a row for
/// each would cost more than the change itself.
pub(crate) fn has_directory(kind: &Kind) -> bool {
    !(&*kind.kind == "Event" && matches!(&*kind.group, "" | "events.k8s.io"))
}

/// All streams of the file, in order of their numbers.
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
    read().doing("read the kinds of", path)
}

fn find(
    connection: &Connection,
    stream: &Stream,
    id: Name,
    namespace: &str,
    name: &str,
) -> rusqlite::Result<Option<Found>> {
    connection
        .prepare_cached(
            "SELECT object.id, uid, first_at, ended_at FROM object JOIN namespace ON namespace.id = object.namespace
             WHERE hash = ?1 AND stream = ?2 AND object.name = ?3 AND namespace.name = ?4",
        )?
        .query_row(params![id.short(), stream.id, name, namespace], |row| {
            let ended_at: Option<i64> = row.get(3)?;
            Ok(Found {
                object: ObjectId(row.get(0)?),
                uid: uid_hash(row.get(1)?),
                first_at: Moment::from_nanos(row.get(2)?),
                ended_at: ended_at.map(Moment::from_nanos),
            })
        })
        .optional()
}

/// Puts the life of the directory's row among the former ones and begins another.
fn begin_again(
    connection: &Connection,
    object: ObjectId,
    was_alive: bool,
    meta: &Meta<'_>,
    at: Moment,
) -> rusqlite::Result<()> {
    if was_alive {
        connection
            .prepare_cached("UPDATE object SET ended_at = ?2, ended = ?3 WHERE id = ?1")?
            .execute(params![object.0, at.nanos(), REPLACED])?;
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

/// Sixteen bytes if it is a UUID in the usual form, else the text.
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

/// The usual form of a UUID.
fn uid_text(bytes: &[u8]) -> String {
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    match hex.len() {
        32 => [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-"),
        _ => hex,
    }
}

/// When the first life under an object's name began.
pub(crate) fn first_life(connection: &Connection, found: &Found) -> rusqlite::Result<Moment> {
    let former: Option<i64> = connection
        .prepare_cached("SELECT min(first_at) FROM former_life WHERE object = ?1")?
        .query_row([found.object.0], |row| row.get(0))?;
    Ok(former.map_or(found.first_at, |former| found.first_at.min(Moment::from_nanos(former))))
}

/// One life of an object, as the directory has it.
pub(crate) struct Life {
    /// A hash of the uid.
    pub(crate) uid: Option<u64>,
    pub(crate) first_at: Moment,
    pub(crate) ended_at: Option<Moment>,
    pub(crate) ended: Option<i64>,
}

/// The lives of an object.
pub(crate) fn lives(connection: &Connection, object: ObjectId) -> rusqlite::Result<Vec<Life>> {
    connection
        .prepare_cached(
            "SELECT uid, first_at, ended_at, ended FROM object WHERE id = ?1
             UNION ALL SELECT uid, first_at, ended_at, ended FROM former_life WHERE object = ?1",
        )?
        .query_map([object.0], |row| {
            let ended_at: Option<i64> = row.get(2)?;
            Ok(Life {
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
