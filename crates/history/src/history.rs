//! Reading a history: states, changes, gaps and summaries.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Cluster, Gap, Key, Kind, Moment, ObjectVersion, Window, is_audit_source};
use rusqlite::{Connection, OptionalExtension, params};

use crate::batch::WatchPosition;
use crate::change_indexer::{self, Stream};
use crate::changes::{Changes, key_and_object};
use crate::counts::StreamCounts;
use crate::error::{Error, ErrorContext, Result};
use crate::gaps;
use crate::schema;
use crate::selection::Selection;
use crate::stream_state::{ReadPoint, VersionReader, locate_object, locate_state};

/// A history opened for reading. Any number of readers may be open, in any process, while it is written.
pub struct History {
    path: PathBuf,
    connection: Connection,
    reader: RefCell<VersionReader>,
}

/// Contents and sizes of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Bytes of the file and its write-ahead log.
    pub file_bytes: u64,
    /// The moment before which everything was pruned.
    pub pruned_to: Option<Moment>,
    /// One entry per source.
    pub sources: Vec<SourceSummary>,
    /// Bytes of all objects, uncompressed.
    pub raw_bytes: u64,
    /// Bytes of the frames of blocks.
    pub block_bytes: u64,
    /// Bytes of the frames of keyframes.
    pub keyframe_bytes: u64,
    /// Changes stored as rows, not packed yet.
    pub rows: u64,
}

/// Contents of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSummary {
    /// The source's name.
    pub name: Arc<str>,
    /// The first and the last moment; `None` if it has no changes.
    pub span: Option<(Moment, Moment)>,
    /// Whether its times were derived rather than recorded.
    pub times_inferred: bool,
    /// One entry per kind.
    pub kinds: Vec<KindSummary>,
}

/// Contents of one kind of one source.
#[derive(Clone, Debug, PartialEq)]
pub struct KindSummary {
    /// The kind.
    pub kind: Kind,
    /// Number of changes.
    pub changes: u64,
    /// Number of object names, and how many of them are alive at the end; `None` for Events, which are not counted.
    pub objects: Option<(u64, u64)>,
    /// Bytes of its objects, uncompressed, without those not packed yet.
    pub raw_bytes: u64,
    /// Bytes of its blocks' frames.
    pub packed_bytes: u64,
}

// === impl History ===

impl History {
    /// Opens the history at `path`.
    pub fn open(path: &Path) -> Result<History> {
        let connection = schema::open_readable(path)?;
        Ok(History { path: path.to_owned(), connection, reader: RefCell::new(VersionReader::new()) })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The first and the last moment of its [`sources`](History::sources); `None` if it is empty.
    pub fn span(&self) -> Result<Option<(Moment, Moment)>> {
        let mut span: Option<(Moment, Moment)> = None;
        for source in self.sources()? {
            if let Some((first, last)) = self.span_of(&source)? {
                let (start, end) = span.unwrap_or((first, last));
                span = Some((start.min(first), end.max(last)));
            }
        }
        Ok(span)
    }

    /// The last moment of one source; `None` if the source does not exist or has no changes.
    pub fn end_of(&self, source: &str) -> Result<Option<Moment>> {
        let end: Option<Option<i64>> = self
            .connection
            .query_row("SELECT last_at FROM source WHERE name = ?1", [source], |row| row.get(0))
            .optional()
            .context("read the span of", &self.path)?;
        Ok(end.flatten().map(Moment::from_nanos))
    }

    /// The first and the last moment of one source; `None` if the source does not exist or has no changes.
    pub fn span_of(&self, source: &str) -> Result<Option<(Moment, Moment)>> {
        let read = "SELECT first_at, last_at FROM source WHERE name = ?1";
        let span: Option<(Option<i64>, Option<i64>)> = self
            .connection
            .query_row(read, [source], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()
            .context("read the span of", &self.path)?;
        let span = span.and_then(|(first, last)| first.zip(last));
        Ok(span.map(|(first, last)| (Moment::from_nanos(first), Moment::from_nanos(last))))
    }

    /// The state of the cluster at a moment: all changes up to and including `moment` applied.
    pub fn at(&self, moment: Moment, selection: &Selection) -> Result<Cluster> {
        let mut objects = Vec::new();
        self.for_each_at(moment, selection, |version| objects.push(version))?;
        Ok(Cluster::new(moment, objects))
    }

    /// Calls `each` with every object of [`at`](History::at), in no particular order, without holding all of them in
    /// memory.
    pub fn for_each_at(
        &self,
        moment: Moment,
        selection: &Selection,
        mut each: impl FnMut(ObjectVersion),
    ) -> Result<()> {
        if let Some(begins) = self.pruned_to()?
            && moment < begins
        {
            return Err(Error::BeforeStart { asked: moment, begins });
        }
        let snapshot = self.connection.unchecked_transaction().context("read", &self.path)?;
        let reader = &mut *self.reader.borrow_mut();
        for stream in self.streams(selection)? {
            let until = ReadPoint::Moment(moment);
            let locations = match (&selection.namespace, &selection.name) {
                (Some(namespace), Some(name)) => {
                    let found = change_indexer::find_object(&snapshot, &stream, namespace, name)
                        .context("read", &self.path)?;
                    let Some(found) = found else { continue };
                    locate_object(&snapshot, &self.path, reader, &stream, until, found.object)?
                }
                _ => locate_state(&snapshot, &self.path, reader, &stream, until)?,
            };
            let mut outcome = Ok(());
            reader.read_versions(
                &snapshot,
                &self.path,
                &stream,
                &locations,
                |row, text| match key_and_object(&self.path, &stream, row.seq, text) {
                    Ok((key, object)) => {
                        if selection.matches(&key) {
                            each(ObjectVersion { seq: row.seq, at: row.at, key, object });
                        }
                    }
                    Err(error) => outcome = Err(error),
                },
            )?;
            outcome?;
        }
        Ok(())
    }

    /// For each object, when its incarnation current at `moment` was first seen. Objects deleted before `moment` are
    /// included; Events are not.
    pub fn first_seen_times(&self, moment: Moment, selection: &Selection) -> Result<HashMap<Key, Moment>> {
        let doing = "read the lifetimes of";
        let mut found: HashMap<Key, Moment> = HashMap::new();
        for stream in self.streams(selection)? {
            let sql = "SELECT namespace.name, object.name, object.first_at, former_life.first_at FROM object
                       JOIN namespace ON namespace.id = object.namespace
                       LEFT JOIN former_life ON former_life.object = object.id WHERE object.stream = ?1";
            let mut statement = self.connection.prepare_cached(sql).context(doing, &self.path)?;
            let mut rows = statement.query([stream.id]).context(doing, &self.path)?;
            while let Some(row) = rows.next().context(doing, &self.path)? {
                let read = || -> rusqlite::Result<(String, String, i64, Option<i64>)> {
                    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
                };
                let (namespace, name, last, former) = read().context(doing, &self.path)?;
                let key = Key {
                    source: stream.source.clone(),
                    kind: stream.kind.clone(),
                    namespace: namespace.into(),
                    name: name.into(),
                };
                let first_times = [Some(last), former].into_iter().flatten().map(Moment::from_nanos);
                let Some(first) = first_times.filter(|first| *first <= moment).max() else { continue };
                if selection.matches(&key) {
                    let latest = found.entry(key).or_insert(first);
                    *latest = first.max(*latest);
                }
            }
        }
        Ok(found)
    }

    /// The changes of a window, ordered by time, then by sequence number.
    pub fn between(&self, window: Window, selection: &Selection) -> Result<Changes> {
        Changes::open(&self.path, &self.streams(selection)?, window, selection)
    }

    /// All changes of one object, through all of its incarnations.
    pub fn of(&self, key: &Key) -> Result<Changes> {
        let selection = Selection {
            kinds: Some(vec![key.kind.clone()]),
            source: Some(key.source.clone()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
        };
        self.between(Window::ALL, &selection)
    }

    /// Bytes of the file's pages that are in use.
    pub fn used_bytes(&self) -> Result<u64> {
        let pages = |name: &str| self.connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
        let used = || -> rusqlite::Result<i64> {
            Ok((pages("page_count")? - pages("freelist_count")?) * pages("page_size")?)
        };
        used().map(i64::cast_unsigned).context("read the size of", &self.path)
    }

    /// The moment at which the oldest `bytes` packed bytes after `begins` end; if there are fewer, the end of the
    /// last.
    pub(crate) fn end_of_oldest_bytes(&self, bytes: u64, start: Moment) -> Result<Option<Moment>> {
        let doing = "read the sizes of";
        let sql = "SELECT last_at, packed + length(members) FROM block WHERE last_at > ?1
                   UNION ALL SELECT at, packed + length(members) FROM keyframe WHERE at > ?1 ORDER BY 1";
        let mut statement = self.connection.prepare_cached(sql).context(doing, &self.path)?;
        let mut parts = statement.query([start.nanos()]).context(doing, &self.path)?;
        let (mut sum, mut last) = (0, None);
        while let Some(part) = parts.next().context(doing, &self.path)? {
            let end: i64 = part.get(0).context(doing, &self.path)?;
            let packed: i64 = part.get(1).context(doing, &self.path)?;
            sum += packed.cast_unsigned();
            last = Some(Moment::from_nanos(end));
            if sum >= bytes {
                break;
            }
        }
        Ok(last)
    }

    /// All gaps, ordered by beginning.
    pub fn gaps(&self) -> Result<Vec<Gap>> {
        gaps::read_gaps(&self.connection, &self.path)
    }

    /// The number of gaps, without reading them.
    pub fn gap_count(&self) -> Result<u64> {
        self.connection
            .query_row("SELECT count(*) FROM gap", [], |row| row.get::<_, i64>(0))
            .map(i64::cast_unsigned)
            .context("count the gaps of", &self.path)
    }

    /// The watch positions to resume from.
    pub fn positions(&self) -> Result<Vec<WatchPosition>> {
        let read = || -> rusqlite::Result<Vec<WatchPosition>> {
            self.connection
                .prepare(
                    "SELECT source.name, api_group, kind, resource_version, at
                     FROM position JOIN source ON source.id = position.source ORDER BY 1, 2, 3",
                )?
                .query_map([], |row| {
                    let (source, group, kind): (String, String, String) =
                        (row.get(0)?, row.get(1)?, row.get(2)?);
                    Ok(WatchPosition {
                        source: source.into(),
                        kind: Kind::new(&group, &kind),
                        resource_version: row.get(3)?,
                        at: Moment::from_nanos(row.get(4)?),
                    })
                })?
                .collect()
        };
        read().context("read the positions of", &self.path)
    }

    /// All kinds, sorted, without duplicates.
    pub fn kinds(&self) -> Result<Vec<Kind>> {
        let mut kinds: Vec<Kind> = change_indexer::streams(&self.connection, &self.path)?
            .into_iter()
            .map(|stream| stream.kind)
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        Ok(kinds)
    }

    /// The names of the recorded sources, sorted. Audit logs belong to a recorded source; they are listed only if
    /// there are no others.
    pub fn sources(&self) -> Result<Vec<Arc<str>>> {
        let mut sources = self.all_sources()?;
        if sources.iter().any(|source| !is_audit_source(source)) {
            sources.retain(|source| !is_audit_source(source));
        }
        Ok(sources)
    }

    /// The names of all sources including audit logs, sorted.
    pub fn all_sources(&self) -> Result<Vec<Arc<str>>> {
        let read = || -> rusqlite::Result<Vec<Arc<str>>> {
            self.connection
                .prepare("SELECT name FROM source ORDER BY name")?
                .query_map([], |row| row.get::<_, String>(0).map(Arc::from))?
                .collect()
        };
        read().context("read the sources of", &self.path)
    }

    /// Namespaces and names of objects whose name begins with `prefix`, for completion: at most `limit`, sorted.
    /// Events are not included.
    pub fn names_with_prefix(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        prefix: &str,
        limit: usize,
    ) -> Result<Vec<(String, String)>> {
        let read = || -> rusqlite::Result<Vec<(String, String)>> {
            self.connection
                .prepare(
                    "SELECT DISTINCT namespace.name, object.name FROM object
                     JOIN stream ON stream.id = object.stream JOIN namespace ON namespace.id = object.namespace
                     WHERE api_group = ?1 AND kind = ?2 AND (?3 IS NULL OR namespace.name = ?3)
                       AND substr(object.name, 1, length(?4)) = ?4
                     ORDER BY 2, 1 LIMIT ?5",
                )?
                .query_map(params![&*kind.group, &*kind.kind, namespace, prefix, limit as i64], |row| {
                    Ok((row.get(0)?, row.get(1)?))
                })?
                .collect()
        };
        read().context("read the names of", &self.path)
    }

    /// All namespaces, sorted.
    pub fn namespaces(&self) -> Result<Vec<String>> {
        let read = || -> rusqlite::Result<Vec<String>> {
            self.connection
                .prepare("SELECT name FROM namespace WHERE name <> '' ORDER BY name")?
                .query_map([], |row| row.get(0))?
                .collect()
        };
        read().context("read the namespaces of", &self.path)
    }

    /// Bytes of the file and its write-ahead log.
    pub fn file_bytes(&self) -> u64 {
        let sidecar_bytes = |suffix: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(suffix);
            std::fs::metadata(name).map_or(0, |file| file.len())
        };
        sidecar_bytes("") + sidecar_bytes("-wal")
    }

    /// Contents and sizes, from the stored counts.
    pub fn summary(&self) -> Result<Summary> {
        let snapshot = self.connection.unchecked_transaction().context("read", &self.path)?;
        let mut all = StreamCounts::default();
        let mut sources: Vec<SourceSummary> = Vec::new();
        for stream in change_indexer::streams(&snapshot, &self.path)? {
            if sources.iter().all(|source| source.name != stream.source) {
                sources.push(source_summary(&snapshot, &stream.source).context("count", &self.path)?);
            }
            let counts = StreamCounts::of(&snapshot, stream.id).context("count", &self.path)?;
            all.raw += counts.raw;
            all.row_raw += counts.row_raw;
            all.packed += counts.packed;
            all.keyframe_packed += counts.keyframe_packed;
            all.rows += counts.rows;
            let source = sources
                .iter_mut()
                .find(|source| source.name == stream.source)
                .expect("the source was added above");
            source.kinds.push(KindSummary::new(stream.kind, &counts));
        }
        for source in &mut sources {
            source.kinds.sort_unstable_by(|a, b| b.changes.cmp(&a.changes).then_with(|| a.kind.cmp(&b.kind)));
        }
        Ok(Summary {
            file_bytes: self.file_bytes(),
            pruned_to: self.pruned_to()?,
            sources,
            raw_bytes: (all.raw + all.row_raw).cast_unsigned(),
            block_bytes: all.packed.cast_unsigned(),
            keyframe_bytes: all.keyframe_packed.cast_unsigned(),
            rows: all.rows.cast_unsigned(),
        })
    }

    fn streams(&self, selection: &Selection) -> Result<Vec<Stream>> {
        let mut streams = change_indexer::streams(&self.connection, &self.path)?;
        streams.retain(|stream| {
            selection.kinds.as_ref().is_none_or(|kinds| kinds.contains(&stream.kind))
                && selection.source.as_ref().is_none_or(|source| *source == stream.source)
        });
        Ok(streams)
    }

    pub(crate) fn pruned_to(&self) -> Result<Option<Moment>> {
        let text: Option<String> = self
            .connection
            .prepare_cached("SELECT value FROM setting WHERE name = 'pruned_to'")
            .and_then(|mut select| select.query_row([], |row| row.get(0)).optional())
            .context("read", &self.path)?;
        let number = text.map(|text| text.parse().map(Moment::from_nanos)).transpose();
        number.map_err(|_| Error::Damaged {
            path: self.path.clone(),
            what: "the setting pruned_to is not a number".to_owned(),
        })
    }
}

// === impl Selection ===

impl Selection {
    /// Whether an object of that key is selected.
    pub fn matches(&self, key: &Key) -> bool {
        self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&key.kind))
            && self.source.as_ref().is_none_or(|source| *source == key.source)
            && self.namespace.as_ref().is_none_or(|namespace| **namespace == *key.namespace)
            && self.name.as_ref().is_none_or(|name| **name == *key.name)
    }
}

// === impl KindSummary ===

impl KindSummary {
    fn new(kind: Kind, counts: &StreamCounts) -> KindSummary {
        let objects = (counts.objects.cast_unsigned(), counts.alive.cast_unsigned());
        KindSummary {
            changes: (counts.changes + counts.rows).cast_unsigned(),
            objects: change_indexer::has_directory(&kind).then_some(objects),
            raw_bytes: counts.raw.cast_unsigned(),
            packed_bytes: counts.packed.cast_unsigned(),
            kind,
        }
    }
}

fn source_summary(connection: &Connection, name: &Arc<str>) -> rusqlite::Result<SourceSummary> {
    connection.query_row("SELECT first_at, last_at, inferred FROM source WHERE name = ?1", [&**name], |row| {
        let (first, last): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(SourceSummary {
            name: name.clone(),
            span: first.zip(last).map(|(first, last)| (Moment::from_nanos(first), Moment::from_nanos(last))),
            times_inferred: row.get(2)?,
            kinds: Vec::new(),
        })
    })
}
