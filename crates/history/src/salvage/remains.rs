//! What the pages of a damaged history still hold, told apart by its shape and believed by its checksum.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use model::{Gap, Kind, Meta, Moment};
use rusqlite::types::Value;
use xxhash_rust::xxh3::xxh3_64;
use zstd::zstd_safe::{DCtx, DDict};

use super::numbers::Numbers;
use crate::batch::Position;
use crate::frame::{Codec, Frame, MAGIC, Role, Row};
use crate::gaps;
use crate::members;
use crate::pages::{self, Pages, Place};
use crate::rows;

const PRUNED_TO: &str = "pruned_to";
const LAST_SEQ: &str = "last_seq";
/// More rows of sources than this no history has, but a file made to waste time might.
const MOST_SOURCES: usize = 4096;

/// What was found, and where: of changes only their places, so that memory follows the frames and not the objects.
pub(super) struct Remains<'a> {
    pages: &'a Pages,
    codec: Codec,
    context: DCtx<'static>,
    buffer: Vec<u8>,
    /// Where changes lie, by the number of the first.
    pub(super) pieces: Vec<Piece>,
    /// The numbers of all changes in pieces.
    numbers: Numbers,
    /// The first and last numbers of the frames that are blocks.
    firsts: HashSet<i64>,
    lasts: HashSet<i64>,
    keyframes: Vec<Place>,
    rows: Vec<(i64, Place)>,
    /// By their ids and their hashes: a page no longer in use may have an older one.
    dictionaries: HashMap<i64, BTreeMap<i64, DDict<'static>>>,
    /// The names of sources that checksums vouch for.
    pub(super) named: BTreeSet<Arc<str>>,
    pub(super) sources: Vec<SourceCopy>,
    gaps: Vec<gaps::Stored>,
    /// Each told twice: a name and its number.
    settings: Vec<(&'static str, i64)>,
    positions: BTreeMap<(i64, Kind), Told>,
    /// The first and the last number of each block that is listed.
    blocks: Vec<(i64, i64)>,
}

/// Something that holds changes and can be opened.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// The first of its numbers.
    pub(super) first: i64,
    pub(super) form: Form,
    place: Place,
    /// Of a keyframe only those that no block has any more.
    wanted: Option<HashSet<i64>>,
}

/// How a change is kept. If one is there in several forms the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Form {
    Block,
    Row,
    Keyframe,
}

/// A change that is whole.
pub(super) struct Version {
    pub(super) row: Row,
    pub(super) source: Arc<str>,
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// A source as its row tells it, or as the index beside does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SourceCopy {
    id: i64,
    pub(super) name: Arc<str>,
    pub(super) first_at: Option<Moment>,
    pub(super) last_at: Option<Moment>,
    pub(super) inferred: bool,
}

/// What the copies of a position tell.
enum Told {
    Once(String, i64),
    /// The same every time.
    Alike(String, i64),
    Contradiction,
}

/// What was forgotten on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pruning {
    /// Where the history begins since.
    pub(super) begins: Moment,
    /// The last number that was given out before, if that can be told.
    pub(super) last_seq: Option<i64>,
}

// === impl Remains ===

impl<'a> Remains<'a> {
    /// Goes through all pages.
    pub(super) fn find(pages: &'a Pages) -> Remains<'a> {
        let mut remains = Remains {
            pages,
            codec: Codec::new(),
            context: DCtx::create(),
            buffer: Vec::new(),
            pieces: Vec::new(),
            numbers: Numbers::default(),
            firsts: HashSet::new(),
            lasts: HashSet::new(),
            keyframes: Vec::new(),
            rows: Vec::new(),
            dictionaries: HashMap::new(),
            named: BTreeSet::new(),
            sources: Vec::new(),
            gaps: Vec::new(),
            settings: Vec::new(),
            positions: BTreeMap::new(),
            blocks: Vec::new(),
        };
        for number in pages.numbers() {
            remains.page(number);
        }
        remains.trust_sources();
        remains.check_rows();
        remains.check_keyframes();
        remains.pieces.sort_by_key(|piece| (piece.first, piece.form));
        remains
    }

    /// The changes of a piece, in order of their numbers.
    pub(super) fn open(&mut self, piece: &Piece) -> Vec<Version> {
        let opened = match piece.form {
            Form::Row => self.row(piece.first, piece.place).map(|version| vec![version]),
            Form::Block | Form::Keyframe => self.versions(piece),
        };
        opened.unwrap_or_default()
    }

    /// Gaps that are what was written, of sources that are known.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        let names: BTreeSet<&Arc<str>> =
            self.named.iter().chain(self.sources.iter().map(|copy| &copy.name)).collect();
        let gap = |stored: &gaps::Stored| names.iter().find_map(|name| stored.gap(name));
        let mut gaps: Vec<Gap> = self.gaps.iter().filter_map(gap).collect();
        gaps.sort_by(|a, b| (a.from, a.to, &a.source).cmp(&(b.from, b.to, &b.source)));
        gaps.dedup();
        gaps
    }

    /// Whether and how the history was pruned.
    pub(super) fn pruning(&self) -> Option<Pruning> {
        let told = |wanted: &'static str| {
            let told = self.settings.iter().filter(move |(name, _)| *name == wanted);
            told.map(|(_, value)| *value)
        };
        // If one copy is wrong, the earlier beginning hides nothing.
        let begins = Moment::from_nanos(told(PRUNED_TO).min()?);
        // All numbers to come follow this one: it counts only if every copy has it.
        let last_seq = told(LAST_SEQ).min().filter(|seq| told(LAST_SEQ).all(|other| other == *seq));
        Some(Pruning { begins, last_seq: last_seq.filter(|_| told(LAST_SEQ).count() > 1) })
    }

    /// Positions of which every copy tells the same.
    pub(super) fn positions(&self) -> Vec<Position> {
        let name = |id: i64| {
            let mut names = self.sources.iter().filter(|copy| copy.id == id).map(|copy| &copy.name);
            let name = names.next().filter(|name| self.named.contains(*name))?;
            names.all(|other| other == name).then(|| name.clone())
        };
        let position = |((source, kind), told): (&(i64, Kind), &Told)| match told {
            Told::Alike(version, at) => Some(Position {
                source: name(*source)?,
                kind: kind.clone(),
                resource_version: version.clone(),
                at: Moment::from_nanos(*at),
            }),
            Told::Once(..) | Told::Contradiction => None,
        };
        self.positions.iter().filter_map(position).collect()
    }

    /// The first and last numbers of blocks that are listed but gone, by the first; overlapping ones as one.
    pub(super) fn lost_blocks(&self) -> BTreeMap<i64, i64> {
        // One end alone that no frame has may be a wrong number of the list.
        let is_gone = |(first, last): &(i64, i64)| !self.firsts.contains(first) && !self.lasts.contains(last);
        let mut gone: Vec<(i64, i64)> = self.blocks.iter().copied().filter(is_gone).collect();
        gone.sort_unstable();
        let mut merged: BTreeMap<i64, i64> = BTreeMap::new();
        for (first, last) in gone {
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

    fn page(&mut self, number: u32) {
        let page = self.pages.page(number);
        let frames = pages::blobs(&page, number, MAGIC);
        for place in &frames {
            let opened = self.pages.record(&page, *place).and_then(|record| self.frame(&record));
            if let Some(frame) = opened {
                self.note_frame(*place, &frame);
            }
        }
        for cell in pages::cells(&page, number) {
            if !frames.contains(&cell.place)
                && let Some(values) =
                    self.pages.record(&page, cell.place).and_then(|record| pages::values(&record))
            {
                self.note_values(cell, values);
            }
        }
    }

    fn frame(&mut self, record: &[u8]) -> Option<Frame> {
        // The blob is the last value of its record.
        let header = usize::from(*record.first()?);
        let frame = self.codec.open(record.get(header..)?).ok()?;
        frame.rows.is_sorted_by(|a, b| a.seq < b.seq).then_some(frame)
    }

    fn note_frame(&mut self, place: Place, frame: &Frame) {
        let (Some(first), Some(last)) = (frame.rows.first(), frame.rows.last()) else { return };
        self.named.insert(frame.source.clone());
        match frame.role {
            Role::Keyframe => self.keyframes.push(place),
            Role::Changes => {
                self.firsts.insert(first.seq);
                self.lasts.insert(last.seq);
                let new = frame.rows.iter().filter(|row| self.numbers.insert(row.seq)).count();
                if new > 0 {
                    self.pieces.push(Piece { first: first.seq, form: Form::Block, place, wanted: None });
                }
            }
        }
    }

    fn note_values(&mut self, cell: pages::Cell, values: Vec<Value>) {
        use Value::{Blob, Integer, Null, Real, Text};
        match (cell.rowid.as_ref(), values.as_slice()) {
            (Some(&seq), [Null, .., Integer(_), Blob(_)]) if values.len() == 10 => {
                self.rows.push((seq, cell.place));
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
                self.gaps.push(gaps::Stored { kinds, from: *from, to: *to, why, hash: *hash });
            }
            (Some(id), [Null, Text(name), first, last, Integer(inferred)])
            | (None, [Text(name), first, last, Integer(inferred), Integer(id)])
                if self.sources.len() < MOST_SOURCES =>
            {
                self.sources.extend(SourceCopy::new(id, name, first, last, *inferred));
            }
            // The table has the name first, the index beside it the value.
            (None, [Text(a), Text(b)]) => {
                for (name, value) in [(a, b), (b, a)] {
                    let name = [PRUNED_TO, LAST_SEQ].into_iter().find(|known| known == name);
                    self.settings.extend(name.zip(value.parse().ok()));
                }
            }
            (None, [Integer(source), Text(group), Text(kind), Text(version), Integer(at)])
            | (None, [Text(version), Integer(at), Integer(source), Text(group), Text(kind)]) => {
                let told = self.positions.entry((*source, Kind::new(group, kind)));
                told.and_modify(|told| told.again(version, *at))
                    .or_insert_with(|| Told::Once(version.clone(), *at));
            }
            (None, [Integer(_), Integer(first), Integer(last), .., Integer(_), Blob(list)])
                if values.len() == 10 && first <= last && members::decode(list).is_some() =>
            {
                self.blocks.push((*first, *last));
            }
            _ => {}
        }
    }

    /// A name that no other copy contradicts is a name.
    fn trust_sources(&mut self) {
        let mut names: BTreeMap<i64, BTreeSet<&Arc<str>>> = BTreeMap::new();
        for copy in &self.sources {
            names.entry(copy.id).or_default().insert(&copy.name);
        }
        let alone = names.into_values().filter(|names| names.len() == 1).flatten();
        self.named.extend(alone.cloned());
    }

    /// Keeps the rows that can be read, which takes dictionaries and names from anywhere in the file.
    fn check_rows(&mut self) {
        for (seq, place) in std::mem::take(&mut self.rows) {
            if let Some(version) = self.row(seq, place) {
                self.named.insert(version.source);
                // A stale copy of a row adds nothing.
                if self.numbers.insert(seq) {
                    self.pieces.push(Piece { first: seq, form: Form::Row, place, wanted: None });
                }
            }
        }
    }

    /// Keeps of each keyframe what is nowhere else.
    fn check_keyframes(&mut self) {
        for place in std::mem::take(&mut self.keyframes) {
            let Some(frame) = self.pages.record_at(place).and_then(|record| self.frame(&record)) else {
                continue;
            };
            let wanted = frame.rows.iter().map(|row| row.seq).filter(|seq| self.numbers.insert(*seq));
            let wanted: HashSet<i64> = wanted.collect();
            if let Some(first) = wanted.iter().min() {
                self.pieces.push(Piece { first: *first, form: Form::Keyframe, place, wanted: Some(wanted) });
            }
        }
    }

    fn versions(&mut self, piece: &Piece) -> Option<Vec<Version>> {
        let record = self.pages.record_at(piece.place)?;
        let frame = self.frame(&record)?;
        let objects = self.codec.objects(&frame).ok()?;
        let is_wanted = |row: &Row| piece.wanted.as_ref().is_none_or(|wanted| wanted.contains(&row.seq));
        let wanted = frame.places().filter(|(row, _)| is_wanted(row));
        wanted
            .map(|(row, range)| {
                let text = objects.get(range)?.to_owned();
                Some(Version { row: *row, source: frame.source.clone(), kind: frame.kind.clone(), text })
            })
            .collect()
    }

    fn row(&mut self, seq: i64, place: Place) -> Option<Version> {
        let values = pages::values(&self.pages.record_at(place)?)?;
        let [_, _, object, at, seen, what, hash, dictionary, length, Value::Blob(bytes)] = values.as_slice()
        else {
            return None;
        };
        let integer = |value: &Value| if let Value::Integer(number) = value { Some(*number) } else { None };
        let stored = rows::Stored {
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
        // The row's stream may be lost: the object tells its kind, and the hash tells whose it is.
        let names = || self.named.iter().chain(self.sources.iter().map(|copy| &copy.name));
        dictionaries.into_iter().find_map(|dictionary| {
            let text = stored.text(&mut self.context, dictionary, &mut self.buffer).ok()?;
            let meta = Meta::read(text).ok()?;
            let kind = Kind::of(&meta.api_version, &meta.kind);
            names().find_map(|name| {
                let row = stored.row(name, &kind, text).ok()?;
                Some(Version { row, source: name.clone(), kind: kind.clone(), text: text.to_owned() })
            })
        })
    }
}

// === impl Told ===

impl Told {
    fn again(&mut self, version: &str, at: i64) {
        *self = match self {
            Told::Once(old, old_at) | Told::Alike(old, old_at) if old == version && *old_at == at => {
                Told::Alike(version.to_owned(), at)
            }
            _ => Told::Contradiction,
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
