//! Histories with flipped, cut and zeroed bytes: the doctor finds all visible damage, and salvage recovers exactly
//! what was not damaged.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use model::{Change, Gap, IncomingChange, Kind, Moment, Object, What, Window};
use rusqlite::{Connection, params};
use testobjects::resource;
use xxhash_rust::xxh3::xxh3_64;

use crate::schema::PAGE_BYTES;
use crate::wal;
use crate::{Batch, BulkWriter, Error, History, Selection, WatchPosition, Writer, doctor, prune, salvage};

/// Number of histories of each kind that are damaged.
const SEEDS: u64 = 70;
/// Number of tables and indexes, each of which has its root page at the beginning of the file.
const TABLES: usize = 32;

/// xorshift: the same on every machine, so that a seed reproduces a case.
struct XorShift(u64);

impl XorShift {
    fn new(seed: u64) -> XorShift {
        XorShift(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Everything a reader can see of a history.
#[derive(Clone, Debug, PartialEq)]
struct VisibleHistory {
    changes: Vec<Change>,
    gaps: Vec<Gap>,
    positions: Vec<WatchPosition>,
    span: Option<(Moment, Moment)>,
    pruned_to: Option<Moment>,
    inferred: Vec<(String, bool)>,
    middle: Vec<(i64, String)>,
}

/// A history file and its write-ahead log, as bytes.
struct HistoryImage {
    file: Vec<u8>,
    log: Vec<u8>,
    visible: VisibleHistory,
}

/// The damage done to a history image, and the pages it affects.
struct Damage {
    pages: BTreeSet<usize>,
    /// Whether the last transaction of the log is affected, which may then look unfinished.
    end_is_hit: bool,
    /// Whether the file was cut so short that the root pages are incomplete.
    tables_are_cut: bool,
}

#[test]
fn all_damage_is_found_and_the_rest_is_salvaged() {
    let images = [closed(), pruned(), left_open()];
    for image in &images {
        let pages_by_change = image.pages_by_change();
        for seed in 0..SEEDS {
            let outcome = std::panic::catch_unwind(|| image.check(seed, &pages_by_change));
            outcome.unwrap_or_else(|_| panic!("seed {seed}, history of {} bytes", image.file.len()));
        }
    }
}

#[test]
fn an_intact_history_is_salvaged_completely() {
    for image in [closed(), pruned(), left_open()] {
        let folder = folder();
        let path = image.write_to(folder.path());
        let into = folder.path().join("new.kine");
        let salvaged = salvage(&path, &into).unwrap();
        assert_eq!(salvaged.changes, image.visible.changes.len() as u64);
        let ats = || image.visible.changes.iter().map(|change| change.at);
        assert_eq!(image.visible.span, ats().min().zip(ats().max()));
        assert_eq!((salvaged.lost, salvaged.gaps, salvaged.notes), (vec![], 0, vec![]));
        VisibleHistory::read(&into).unwrap().assert_equals(&image.visible);
        assert!(doctor(&into).unwrap().is_clean());
        // Writing continues where it stopped.
        let end = image.visible.changes.iter().map(|change| change.seq).max().unwrap();
        let writer = Writer::open(&into).unwrap();
        writer.append(Batch { changes: vec![seen(9_999, "east", 0, 0, 0)], ..Batch::default() }).unwrap();
        assert!(writer.flush().unwrap() > end);
    }
}

#[test]
fn changes_of_a_lost_block_are_salvaged_from_a_keyframe_where_possible() {
    let image = closed();
    let folder = folder();
    let path = image.write_to(folder.path());
    let connection = Connection::open(&path).unwrap();
    let (first, last): (i64, i64) = connection
        .query_row(
            "SELECT block.first_seq, block.last_seq FROM block JOIN keyframe USING (stream)
             WHERE keyframe.seq = block.last_seq AND keyframe.objects > 2 LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    connection
        .execute_batch(&format!(
            "UPDATE frame SET bytes = zeroblob(length(bytes)) WHERE id = (SELECT frame FROM block WHERE first_seq = {first})"
        ))
        .unwrap();
    drop(connection);
    let into = folder.path().join("new.kine");
    let salvaged = salvage(&path, &into).unwrap();
    let lost: i64 = salvaged.lost.iter().map(|(first, last)| last - first + 1).sum();
    assert!((1..8).contains(&lost), "{lost} lost");
    assert!(salvaged.gaps > 0);
    let salvaged_history = VisibleHistory::read(&into).unwrap();
    assert!(
        salvaged_history.changes.iter().any(|change| change.seq == last),
        "the keyframe has the last change"
    );
}

#[test]
fn an_existing_target_and_a_file_that_is_no_history_are_rejected() {
    let folder = folder();
    let path = closed().write_to(folder.path());
    assert!(matches!(salvage(&path, &path), Err(Error::Exists(_))));
    let (other, into) = (folder.path().join("other"), folder.path().join("new.kine"));
    assert!(matches!(salvage(&other, &into), Err(Error::Missing(_))));
    std::fs::write(&other, "no history at all").unwrap();
    assert!(matches!(salvage(&other, &into), Err(Error::NotAHistory { .. })));
    assert!(!into.exists());
    let writer = Writer::open(&path).unwrap();
    assert!(matches!(salvage(&path, &into), Err(Error::Busy { .. })));
    drop(writer);
}

// === impl HistoryImage ===

impl HistoryImage {
    fn of(path: &Path) -> HistoryImage {
        let log = std::fs::read(wal::wal_path(path)).unwrap_or_default();
        HistoryImage { file: std::fs::read(path).unwrap(), log, visible: VisibleHistory::read(path).unwrap() }
    }

    fn write_to(&self, folder: &Path) -> PathBuf {
        let path = folder.join("h.kine");
        std::fs::write(&path, &self.file).unwrap();
        if !self.log.is_empty() {
            std::fs::write(wal::wal_path(&path), &self.log).unwrap();
        }
        path
    }

    fn check(&self, seed: u64, pages_by_change: &BTreeMap<i64, BTreeSet<usize>>) {
        let folder = folder();
        let path = self.write_to(folder.path());
        let damage = self.damage(seed, &path);

        // The doctor must not change anything, so that salvage sees the same file.
        let report = doctor(&path);
        if report.is_ok_and(|report| report.is_clean()) {
            let visible = VisibleHistory::read(&path).unwrap();
            if damage.end_is_hit {
                // A log that ends early is what a killed writer leaves: a history that ends early.
                assert!(visible.changes.iter().all(|change| self.visible.changes.contains(change)));
            } else {
                visible.assert_equals(&self.visible);
            }
        }

        let into = folder.path().join("new.kine");
        let salvaged = match salvage(&path, &into) {
            Ok(salvaged) => salvaged,
            Err(Error::NotAHistory { .. }) => {
                let hit = |pages: &BTreeSet<usize>| !pages.is_disjoint(&damage.pages);
                assert!(pages_by_change.values().all(hit), "undamaged changes were not salvaged");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let report = doctor(&into).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        let salvaged_history = VisibleHistory::read(&into).unwrap();
        assert_eq!(salvaged.changes, salvaged_history.changes.len() as u64);
        let salvaged_seqs: BTreeSet<i64> = salvaged_history.changes.iter().map(|change| change.seq).collect();
        for change in &salvaged_history.changes {
            assert!(self.visible.changes.contains(change), "{change:?} was not in the history");
        }
        for gap in &salvaged_history.gaps {
            assert!(
                self.visible.gaps.contains(gap) || gap.why == "lost because the file was damaged",
                "{gap:?} was not in the history"
            );
        }
        for change in &self.visible.changes {
            if salvaged_seqs.contains(&change.seq) {
                continue;
            }
            assert!(
                pages_by_change.get(&change.seq).is_none_or(|pages| !pages.is_disjoint(&damage.pages)),
                "change {} was not damaged and is lost",
                change.seq
            );
            // Changes before the beginning of a pruned history show at its beginning.
            let at = self.visible.pruned_to.map_or(change.at, |start| start.max(change.at));
            let covers_change = |gap: &Gap| gap.source == change.key.source && gap.from <= at && at <= gap.to;
            // If nothing is left that has the end of a source, its end is unknown.
            assert!(
                damage.end_is_hit || damage.tables_are_cut || salvaged_history.gaps.iter().any(covers_change),
                "change {} at {} is lost without a gap: {salvaged:?}",
                change.seq,
                change.at.nanos()
            );
        }
    }

    fn damage(&self, seed: u64, path: &Path) -> Damage {
        let mut rng = XorShift::new(seed);
        let log_is_hit = !self.log.is_empty() && rng.below(2) == 0;
        let mut bytes = if log_is_hit { self.log.clone() } else { self.file.clone() };
        let whole = bytes.len();
        let end = self.last_transaction(path);
        let mut hit = BTreeSet::new();
        let mut is_cut = false;
        match rng.below(4) {
            0 => {
                bytes.truncate(rng.below(whole));
                hit.extend(bytes.len() / PAGE_BYTES..whole.div_ceil(PAGE_BYTES));
                is_cut = true;
            }
            1 => {
                let page = rng.below(whole / PAGE_BYTES);
                bytes[page * PAGE_BYTES..(page + 1) * PAGE_BYTES].fill(0);
                hit.insert(page);
            }
            _ => {
                for _ in 0..=rng.below(20) {
                    let at = rng.below(whole);
                    bytes[at] ^= 1 << rng.below(8);
                    hit.insert(at / PAGE_BYTES);
                }
            }
        }
        std::fs::write(if log_is_hit { wal::wal_path(path) } else { path.to_owned() }, &bytes).unwrap();
        match log_is_hit {
            // The pages in the log are not tracked here: any page may be affected.
            true => Damage {
                pages: (0..=self.file.len() / PAGE_BYTES).collect(),
                end_is_hit: is_cut || bytes[end..] != self.log[end..],
                tables_are_cut: false,
            },
            false => Damage {
                tables_are_cut: is_cut && hit.first() < Some(&TABLES),
                pages: hit,
                end_is_hit: false,
            },
        }
    }

    /// The offset in the log of the commit frame before the last transaction, whose checksum that one continues.
    fn last_transaction(&self, path: &Path) -> usize {
        let size = 24 + PAGE_BYTES;
        let pages = wal::read(&wal::wal_path(path), PAGE_BYTES).pages.len();
        let ends = |page: &usize| self.log[32 + page * size + 4..][..4] != [0; 4];
        // The last transaction follows the last but one commit frame.
        (0..pages).filter(ends).rev().nth(1).map_or(0, |page| 32 + page * size)
    }

    /// The pages that hold each change's frame, from SQLite's `dbstat`. Pages count from 0 here. Rows and pages that
    /// are only in the log are excluded.
    fn pages_by_change(&self) -> BTreeMap<i64, BTreeSet<usize>> {
        let folder = folder();
        let path = self.write_to(folder.path());
        let mut pages_by_change = BTreeMap::new();
        if !self.log.is_empty() {
            return pages_by_change;
        }
        let connection = Connection::open(&path).unwrap();
        let pages: Vec<(String, i64, i64)> = connection
            .prepare("SELECT path, pageno, ncell FROM dbstat WHERE name = 'frame' AND pagetype <> 'internal' ORDER BY path")
            .unwrap()
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let mut ids: Vec<i64> = numbers(&connection, "SELECT id FROM frame ORDER BY id DESC");
        let mut frames: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
        for (leaf, page, cells) in pages.iter().filter(|(path, ..)| !path.contains('+')) {
            for cell in 0..*cells {
                let id = ids.pop().unwrap();
                let frame_pages = frames.entry(id).or_default();
                frame_pages.insert(*page as usize - 1);
                let chain = format!("{leaf}{cell:03x}+");
                let on = pages.iter().filter(|(path, ..)| path.starts_with(&chain));
                frame_pages.extend(on.map(|(_, page, _)| *page as usize - 1));
            }
        }
        for change in &self.visible.changes {
            let sql = format!(
                "SELECT frame FROM block JOIN stream ON stream.id = stream JOIN source ON source.id = source
                 WHERE kind = '{}' AND name = '{}' AND {} BETWEEN first_seq AND last_seq",
                change.key.kind.kind, change.key.source, change.seq
            );
            if let [frame] = numbers(&connection, &sql)[..] {
                pages_by_change.insert(change.seq, frames[&frame].clone());
            }
        }
        assert!(ids.is_empty() && !pages_by_change.is_empty());
        pages_by_change
    }
}

// === impl VisibleHistory ===

impl VisibleHistory {
    /// Compares with the original, part by part for readable failures.
    #[track_caller]
    fn assert_equals(&self, original: &VisibleHistory) {
        let missing = original.changes.iter().find(|change| !self.changes.contains(change));
        let additional = self.changes.iter().find(|change| !original.changes.contains(change));
        assert_eq!((missing, additional), (None, None));
        assert_eq!(self.changes.len(), original.changes.len());
        let rest = |visible: &VisibleHistory| VisibleHistory { changes: Vec::new(), ..visible.clone() };
        assert_eq!(rest(self), rest(original));
    }

    fn read(path: &Path) -> Result<VisibleHistory, Error> {
        let history = History::open(path)?;
        let changes = history.between(Window::ALL, &Selection::default())?.collect::<Result<_, _>>()?;
        let summary = history.summary()?;
        let span = history.span()?;
        let middle = match span {
            Some((from, to)) => {
                let moment = Moment::from_nanos(from.nanos() / 2 + to.nanos() / 2);
                let cluster = history.at(moment, &Selection::default())?;
                cluster.objects().iter().map(|version| (version.seq, version.key.to_string())).collect()
            }
            None => Vec::new(),
        };
        let mut inferred: Vec<(String, bool)> =
            summary.sources.iter().map(|source| (source.name.to_string(), source.times_inferred)).collect();
        inferred.sort();
        Ok(VisibleHistory {
            changes,
            gaps: history.gaps()?,
            positions: history.positions()?,
            span,
            pruned_to: summary.pruned_to,
            inferred,
            middle,
        })
    }
}

/// Written by a recorder and an import, then closed.
fn closed() -> HistoryImage {
    let folder = folder();
    let path = folder.path().join("h.kine");
    record(&path, 0..400);
    import(&path);
    HistoryImage::of(&path)
}

fn pruned() -> HistoryImage {
    let folder = folder();
    let path = folder.path().join("h.kine");
    record(&path, 0..300);
    prune(&path, Moment::from_nanos(1_500)).unwrap();
    record(&path, 300..400);
    import(&path);
    HistoryImage::of(&path)
}

/// As a killed recorder leaves it: unpacked rows, and a log that is not checkpointed.
fn left_open() -> HistoryImage {
    let folder = folder();
    let path = folder.path().join("h.kine");
    record(&path, 0..200);
    let connection = Connection::open(&path).unwrap();
    let samples: Vec<String> = (0..100).map(|n| object(n, 0, n).as_str().to_owned()).collect();
    let bytes = zstd::dict::from_samples(&samples, 4096).unwrap();
    connection
        .execute(
            "INSERT INTO dictionary (stream, hash, ratio, bytes) SELECT id, ?1, 3.0, ?2 FROM stream WHERE kind = 'Pod'",
            params![xxh3_64(&bytes) as i64, bytes],
        )
        .unwrap();
    drop(connection);
    let writer = Writer::open(&path).unwrap();
    let copy = folder.path().join("copy.kine");
    append(&writer, 200..300);
    // Waits until the packer is idle and does not touch the file while it is copied.
    loop {
        std::fs::copy(&path, &copy).unwrap();
        std::fs::copy(wal::wal_path(&path), wal::wal_path(&copy)).unwrap();
        let still = || {
            let same = |a: &Path, b: &Path| std::fs::read(a).unwrap() == std::fs::read(b).unwrap();
            same(&path, &copy) && same(&wal::wal_path(&path), &wal::wal_path(&copy))
        };
        if still() && doctor(&copy).is_ok_and(|report| report.is_clean()) && still() {
            break;
        }
    }
    let image = HistoryImage::of(&copy);
    let connection = Connection::open(&copy).unwrap();
    let rows = numbers(&connection, "SELECT count(*) FROM change WHERE dictionary IS NOT NULL");
    assert!(rows[0] > 2 && image.log.len() > PAGE_BYTES && image.file.len() > PAGE_BYTES, "{rows:?}");
    image
}

fn record(path: &Path, numbers: std::ops::Range<usize>) {
    let writer = Writer::open(path).unwrap();
    append(&writer, numbers);
    writer.close().unwrap();
}

fn append(writer: &Writer, numbers: std::ops::Range<usize>) {
    let all: Vec<usize> = numbers.collect();
    for batch in all.chunks(7) {
        let changes: Vec<IncomingChange> = batch
            .iter()
            .map(|&n| {
                let source = if n.is_multiple_of(5) { "west" } else { "east" };
                let mut rng = XorShift::new(n as u64);
                seen(n as i64 * 10, source, rng.below(4), rng.below(9), n)
            })
            .collect();
        let end = changes.last().map_or(Moment::MIN, |change| change.seen);
        let kind = Kind::new("", "Pod");
        let resource_version = format!("{}", end.nanos());
        let mut batch = Batch { changes, ..Batch::default() };
        batch.positions.push(WatchPosition {
            source: "east".into(),
            kind: kind.clone(),
            resource_version,
            at: end,
        });
        if end.nanos() % 3 == 0 {
            let (from, to) = (end.plus_nanos(-5), end);
            batch.gaps.push(Gap {
                source: "east".into(),
                kinds: vec![kind],
                from,
                to,
                why: "cut off".to_owned(),
            });
        }
        writer.append(batch).unwrap();
    }
    writer.flush().unwrap();
}

fn import(path: &Path) {
    let mut bulk = BulkWriter::open(path).unwrap();
    bulk.mark_times_inferred(&"old".into()).unwrap();
    for n in 0..60 {
        bulk.push(&seen(n as i64 * 7, "old", n % 2, n % 5, n)).unwrap();
    }
    bulk.finish().unwrap();
}

fn seen(moment: i64, source: &str, kind: usize, name: usize, n: usize) -> IncomingChange {
    let object = object(n, kind, name);
    let what = match n % 6 {
        0 => What::Added(object),
        5 => What::Deleted(object),
        _ => What::Modified(object),
    };
    IncomingChange {
        inferred: n.is_multiple_of(17),
        ..IncomingChange::received(Moment::from_nanos(moment), &source.into(), what)
    }
}

/// Some objects are small, some fill more than a page.
fn object(n: usize, kind: usize, name: usize) -> Object {
    let kind = ["Pod", "Node", "Event", "Service"][kind];
    let mut rng = XorShift::new(n as u64 + 1000);
    let length = if n.is_multiple_of(13) { 3000 } else { 60 };
    let filler: String = (0..length).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
    resource("v1", kind, &format!("n{name}"))
        .namespace("shop")
        .uid(&format!("u{}", n / 100))
        .set("f", filler)
        .object()
}

fn numbers(connection: &Connection, sql: &str) -> Vec<i64> {
    connection.prepare(sql).unwrap().query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// A temporary directory, in memory where available.
pub(super) fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}
