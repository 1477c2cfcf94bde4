//! Scan of a damaged file's pages for history data, recognized by its structure and verified by its checksums.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use model::{Gap, Kind, Meta, Moment};
use rusqlite::types::Value;
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{DCtx, DDict};

use super::seq_set::SeqSet;
use crate::batch::WatchPosition;
use crate::frame::{Frame, FrameCodec, FrameRole, MAGIC, VersionRow};
use crate::gaps;
use crate::members;
use crate::pages::{self, Pages, RecordLocation};
use crate::rows;

const PRUNED_TO: &str = "pruned_to";
const LAST_SEQ: &str = "last_seq";
/// No history has more sources than this, but a file crafted to waste time might.
const MAX_SOURCES: usize = 4096;

/// Everything found in the pages. Changes are kept only as locations, so that memory follows the number of frames,
/// not of objects.
pub(super) struct PageScan<'a> {
    pages: &'a Pages,
    codec: FrameCodec,
    context: DCtx<'static>,
    buffer: Vec<u8>,
    /// Fragments that contain changes, ordered by first sequence number.
    pub(super) fragments: Vec<ChangeFragment>,
    /// The sequence numbers of all changes in fragments.
    seqs: SeqSet,
    /// The first and last sequence numbers of the block frames found.
    block_first_seqs: HashSet<i64>,
    block_last_seqs: HashSet<i64>,
    keyframes: Vec<RecordLocation>,
    rows: Vec<(i64, RecordLocation)>,
    /// By id and hash: an unused page may hold an older version.
    dictionaries: HashMap<i64, BTreeMap<i64, DDict<'static>>>,
    /// Names of sources that are covered by a checksum.
    pub(super) trusted_source_names: BTreeSet<Arc<str>>,
    pub(super) sources: Vec<SourceCopy>,
    gaps: Vec<gaps::StoredGap>,
    /// Each is stored twice, in the table and in its index: name and value.
    settings: Vec<(&'static str, i64)>,
    positions: BTreeMap<(i64, Kind), PositionCopies>,
    /// The first and last sequence number of each row of `block`.
    blocks: Vec<(i64, i64)>,
}

/// A frame or row that contains changes.
#[derive(Clone, Debug)]
pub(super) struct ChangeFragment {
    /// Its first sequence number.
    pub(super) first: i64,
    pub(super) kind: FragmentKind,
    location: RecordLocation,
    /// Only for keyframes: the versions that no block contains.
    wanted: Option<HashSet<i64>>,
}

/// The form in which a change is stored. If a change exists in several forms, the first is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FragmentKind {
    Block,
    Row,
    Keyframe,
}

/// An intact change.
pub(super) struct SalvagedChange {
    pub(super) row: VersionRow,
    pub(super) source: Arc<str>,
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// A source as stored in its row or in its index entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceCopy {
    id: i64,
    pub(super) name: Arc<str>,
    pub(super) first_at: Option<Moment>,
    pub(super) last_at: Option<Moment>,
    pub(super) inferred: bool,
}

/// The copies of a watch position that were found.
enum PositionCopies {
    Single(String, i64),
    /// All copies agree.
    Agreeing(String, i64),
    Conflicting,
}

/// A prune that was recorded in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PruneRecord {
    /// The beginning of the history since then.
    pub(super) begins: Moment,
    /// The last sequence number assigned before it, if known.
    pub(super) last_seq: Option<i64>,
}

// === impl PageScan ===

impl<'a> PageScan<'a> {
    /// Scans all pages.
    pub(super) fn scan(pages: &'a Pages) -> PageScan<'a> {
        let mut page_scan = PageScan {
            pages,
            codec: FrameCodec::new(),
            context: DCtx::create(),
            buffer: Vec::new(),
            fragments: Vec::new(),
            seqs: SeqSet::default(),
            block_first_seqs: HashSet::new(),
            block_last_seqs: HashSet::new(),
            keyframes: Vec::new(),
            rows: Vec::new(),
            dictionaries: HashMap::new(),
            trusted_source_names: BTreeSet::new(),
            sources: Vec::new(),
            gaps: Vec::new(),
            settings: Vec::new(),
            positions: BTreeMap::new(),
            blocks: Vec::new(),
        };
        for number in pages.numbers() {
            page_scan.scan_page(number);
        }
        page_scan.trust_sources();
        page_scan.check_rows();
        page_scan.check_keyframes();
        page_scan.fragments.sort_by_key(|piece| (piece.first, piece.kind));
        page_scan
    }

    /// The changes of a fragment, ordered by sequence number.
    pub(super) fn open(&mut self, piece: &ChangeFragment) -> Vec<SalvagedChange> {
        let opened = match piece.kind {
            FragmentKind::Row => self.row(piece.first, piece.location).map(|version| vec![version]),
            FragmentKind::Block | FragmentKind::Keyframe => self.versions(piece),
        };
        opened.unwrap_or_default()
    }

    /// Gaps that match their hash, of known sources.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        let names: BTreeSet<&Arc<str>> =
            self.trusted_source_names.iter().chain(self.sources.iter().map(|copy| &copy.name)).collect();
        let gap = |stored: &gaps::StoredGap| names.iter().find_map(|name| stored.gap(name));
        let mut gaps: Vec<Gap> = self.gaps.iter().filter_map(gap).collect();
        gaps.sort_by(|a, b| (a.from, a.to, &a.source).cmp(&(b.from, b.to, &b.source)));
        gaps.dedup();
        gaps
    }

    /// The recorded prune, if there was one.
    pub(super) fn pruning(&self) -> Option<PruneRecord> {
        let values = |setting: &'static str| {
            let values = self.settings.iter().filter(move |(name, _)| *name == setting);
            values.map(|(_, value)| *value)
        };
        // If the copies differ, the earlier beginning is used, which hides nothing.
        let begins = Moment::from_nanos(values(PRUNED_TO).min()?);
        // New sequence numbers continue from this one, so it is used only if all copies agree.
        let last_seq = values(LAST_SEQ).min().filter(|seq| values(LAST_SEQ).all(|other| other == *seq));
        Some(PruneRecord { begins, last_seq: last_seq.filter(|_| values(LAST_SEQ).count() > 1) })
    }

    /// Watch positions for which all copies agree.
    pub(super) fn positions(&self) -> Vec<WatchPosition> {
        let name = |id: i64| {
            let mut names = self.sources.iter().filter(|copy| copy.id == id).map(|copy| &copy.name);
            let name = names.next().filter(|name| self.trusted_source_names.contains(*name))?;
            names.all(|other| other == name).then(|| name.clone())
        };
        let position = |((source, kind), copies): (&(i64, Kind), &PositionCopies)| match copies {
            PositionCopies::Agreeing(version, at) => Some(WatchPosition {
                source: name(*source)?,
                kind: kind.clone(),
                resource_version: version.clone(),
                at: Moment::from_nanos(*at),
            }),
            PositionCopies::Single(..) | PositionCopies::Conflicting => None,
        };
        self.positions.iter().filter_map(position).collect()
    }

    /// First and last sequence numbers of the listed blocks whose frame is missing, by the first; overlapping ones
    /// are merged.
    pub(super) fn lost_blocks(&self) -> BTreeMap<i64, i64> {
        // If only one end is missing, the list may be wrong.
        let is_gone = |(first, last): &(i64, i64)| {
            !self.block_first_seqs.contains(first) && !self.block_last_seqs.contains(last)
        };
        let mut lost: Vec<(i64, i64)> = self.blocks.iter().copied().filter(is_gone).collect();
        lost.sort_unstable();
        let mut merged: BTreeMap<i64, i64> = BTreeMap::new();
        for (first, last) in lost {
            match merged.last_entry() {
                Some(mut before) if first <= *before.get() => {
                    let end = last.max(*before.get());
                    before.insert(end);
                }
                _ => {
                    merged.insert(first, last);
                }
            }
        }
        merged
    }

    fn scan_page(&mut self, number: u32) {
        let page = self.pages.page(number);
        let frames = pages::find_blobs(&page, number, MAGIC);
        for location in &frames {
            let opened = self.pages.record(&page, *location).and_then(|record| self.read_frame(&record));
            if let Some(frame) = opened {
                self.note_frame(*location, &frame);
            }
        }
        for cell in pages::cells(&page, number) {
            if !frames.contains(&cell.location)
                && let Some(values) =
                    self.pages.record(&page, cell.location).and_then(|record| pages::record_values(&record))
            {
                self.note_values(cell, values);
            }
        }
    }

    fn read_frame(&mut self, record: &[u8]) -> Option<Frame> {
        // The blob is the last value of its record.
        let header = usize::from(*record.first()?);
        let frame = self.codec.open(record.get(header..)?).ok()?;
        frame.rows.is_sorted_by(|a, b| a.seq < b.seq).then_some(frame)
    }

    fn note_frame(&mut self, location: RecordLocation, frame: &Frame) {
        let (Some(first), Some(last)) = (frame.rows.first(), frame.rows.last()) else { return };
        self.trusted_source_names.insert(frame.source.clone());
        match frame.role {
            FrameRole::Keyframe => self.keyframes.push(location),
            FrameRole::Changes => {
                self.block_first_seqs.insert(first.seq);
                self.block_last_seqs.insert(last.seq);
                let new = frame.rows.iter().filter(|row| self.seqs.insert(row.seq)).count();
                if new > 0 {
                    self.fragments.push(ChangeFragment {
                        first: first.seq,
                        kind: FragmentKind::Block,
                        location,
                        wanted: None,
                    });
                }
            }
        }
    }

    fn note_values(&mut self, cell: pages::Cell, values: Vec<Value>) {
        use Value::{Blob, Integer, Null, Real, Text};
        match (cell.rowid.as_ref(), values.as_slice()) {
            (Some(&seq), [Null, .., Integer(_), Blob(_)]) if values.len() == 10 => {
                self.rows.push((seq, cell.location));
            }
            (Some(&id), [Null, Integer(_), Integer(hash), Real(_) | Integer(_), Blob(bytes)])
                if xxh3_64(bytes) as i64 == *hash =>
            {
                let known = self.dictionaries.entry(id).or_default();
                known.entry(*hash).or_insert_with(|| DDict::create(bytes));
            }
            (
                Some(_),
                [Null, Integer(_), Text(kinds), Integer(from), Integer(to), Text(why), Integer(hash)],
            ) => {
                let (kinds, why) = (kinds.clone(), why.clone());
                self.gaps.push(gaps::StoredGap { kinds, from: *from, to: *to, why, hash: *hash });
            }
            (Some(id), [Null, Text(name), first, last, Integer(inferred)])
            | (None, [Text(name), first, last, Integer(inferred), Integer(id)])
                if self.sources.len() < MAX_SOURCES =>
            {
                self.sources.extend(SourceCopy::new(id, name, first, last, *inferred));
            }
            // The table has the name first, its index the value.
            (None, [Text(a), Text(b)]) => {
                for (name, value) in [(a, b), (b, a)] {
                    let name = [PRUNED_TO, LAST_SEQ].into_iter().find(|known| known == name);
                    self.settings.extend(name.zip(value.parse().ok()));
                }
            }
            (None, [Integer(source), Text(group), Text(kind), Text(version), Integer(at)])
            | (None, [Text(version), Integer(at), Integer(source), Text(group), Text(kind)]) => {
                let copies = self.positions.entry((*source, Kind::new(group, kind)));
                copies
                    .and_modify(|copies| copies.add_copy(version, *at))
                    .or_insert_with(|| PositionCopies::Single(version.clone(), *at));
            }
            (None, [Integer(_), Integer(first), Integer(last), .., Integer(_), Blob(list)])
                if values.len() == 10 && first <= last && members::decode(list).is_some() =>
            {
                self.blocks.push((*first, *last));
            }
            _ => {}
        }
    }

    /// Accepts a source name if no other copy contradicts it.
    fn trust_sources(&mut self) {
        let mut names: BTreeMap<i64, BTreeSet<&Arc<str>>> = BTreeMap::new();
        for copy in &self.sources {
            names.entry(copy.id).or_default().insert(&copy.name);
        }
        let alone = names.into_values().filter(|names| names.len() == 1).flatten();
        self.trusted_source_names.extend(alone.cloned());
    }

    /// Keeps the rows that can be read; their dictionaries and source names may be anywhere in the file.
    fn check_rows(&mut self) {
        for (seq, location) in std::mem::take(&mut self.rows) {
            if let Some(version) = self.row(seq, location) {
                self.trusted_source_names.insert(version.source);
                // A stale copy of a row adds nothing.
                if self.seqs.insert(seq) {
                    self.fragments.push(ChangeFragment {
                        first: seq,
                        kind: FragmentKind::Row,
                        location,
                        wanted: None,
                    });
                }
            }
        }
    }

    /// Keeps those versions of each keyframe that were found nowhere else.
    fn check_keyframes(&mut self) {
        for location in std::mem::take(&mut self.keyframes) {
            let Some(frame) = self.pages.record_at(location).and_then(|record| self.read_frame(&record))
            else {
                continue;
            };
            let new_seqs = frame.rows.iter().map(|row| row.seq).filter(|seq| self.seqs.insert(*seq));
            let new_seqs: HashSet<i64> = new_seqs.collect();
            if let Some(first) = new_seqs.iter().min() {
                self.fragments.push(ChangeFragment {
                    first: *first,
                    kind: FragmentKind::Keyframe,
                    location,
                    wanted: Some(new_seqs),
                });
            }
        }
    }

    fn versions(&mut self, piece: &ChangeFragment) -> Option<Vec<SalvagedChange>> {
        let record = self.pages.record_at(piece.location)?;
        let frame = self.read_frame(&record)?;
        let objects = self.codec.objects(&frame).ok()?;
        let is_wanted =
            |row: &VersionRow| piece.wanted.as_ref().is_none_or(|selected| selected.contains(&row.seq));
        let selected = frame.object_ranges().filter(|(row, _)| is_wanted(row));
        selected
            .map(|(row, range)| {
                let text = objects.get(range)?.to_owned();
                Some(SalvagedChange {
                    row: *row,
                    source: frame.source.clone(),
                    kind: frame.kind.clone(),
                    text,
                })
            })
            .collect()
    }

    fn row(&mut self, seq: i64, location: RecordLocation) -> Option<SalvagedChange> {
        let values = pages::record_values(&self.pages.record_at(location)?)?;
        let [_, _, object, at, seen, what, hash, dictionary, length, Value::Blob(bytes)] = values.as_slice()
        else {
            return None;
        };
        let integer = |value: &Value| if let Value::Integer(number) = value { Some(*number) } else { None };
        let stored = rows::StoredRow {
            seq,
            object: integer(object)?,
            at: integer(at)?,
            seen: integer(seen)?,
            what: integer(what)?,
            hash: integer(hash)?,
            length: integer(length)?,
            bytes,
        };
        let dictionaries: Vec<Option<&DDict<'static>>> = match dictionary {
            Value::Null => vec![None],
            other => self.dictionaries.get(&integer(other)?)?.values().map(Some).collect(),
        };
        // The row's stream may be lost: the object has its kind, and the hash determines the source.
        let names = || self.trusted_source_names.iter().chain(self.sources.iter().map(|copy| &copy.name));
        dictionaries.into_iter().find_map(|dictionary| {
            let text = stored.text(&mut self.context, dictionary, &mut self.buffer).ok()?;
            let meta = Meta::read(text).ok()?;
            let kind = Kind::of(&meta.api_version, &meta.kind);
            names().find_map(|name| {
                let row = stored.row(name, &kind, text).ok()?;
                Some(SalvagedChange { row, source: name.clone(), kind: kind.clone(), text: text.to_owned() })
            })
        })
    }
}

// === impl PositionCopies ===

impl PositionCopies {
    fn add_copy(&mut self, version: &str, at: i64) {
        *self = match self {
            PositionCopies::Single(old, old_at) | PositionCopies::Agreeing(old, old_at)
                if old == version && *old_at == at =>
            {
                PositionCopies::Agreeing(version.to_owned(), at)
            }
            _ => PositionCopies::Conflicting,
        };
    }
}

// === impl SourceCopy ===

impl SourceCopy {
    fn new(id: &i64, name: &str, first: &Value, last: &Value, inferred: i64) -> Option<SourceCopy> {
        let moment = |value: &Value| match value {
            Value::Null => Some(None),
            Value::Integer(nanos) => Some(Some(Moment::from_nanos(*nanos))),
            _ => None,
        };
        let (first_at, last_at) = (moment(first)?, moment(last)?);
        Some(SourceCopy { id: *id, name: name.into(), first_at, last_at, inferred: inferred != 0 })
    }
}
