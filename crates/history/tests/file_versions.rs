//! Files of earlier versions: they are read as they are, and migrated when they are opened for writing, with
//! concurrent readers, and after a kill at any time.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test stops where something is not as it should be, prints its seed, and starts a child process"
)]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use history::{Batch, BulkWriter, Error, History, Selection, Writer, doctor, salvage};
use model::{Change, IncomingChange, Key, Moment, Object, ObjectVersion, What, Window};
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;

/// A history of version 2; `testdata/README.md` says how it was made.
const VERSION_2: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/history/version_2.kine");
/// The path for the child process, passed in the environment because its arguments are the test runner's.
const CHILD: &str = "KINESCOPE_TEST_MIGRATE";

/// Number of changes in the fixture. The last few are rows, which are not packed yet.
const CHANGES: i64 = 1_600;

/// The changes of the fixture, one per second: forty pods with several incarnations, four nodes, and Events.
fn changes() -> Vec<IncomingChange> {
    let mut uids = [0; 40];
    let mut is_alive = [false; 40];
    let change = |n: i64| {
        let (kind, namespace, name, uid, is_new, is_deleted) = match n % 20 {
            7 => ("Node", "", format!("node-{}", n / 20 % 4), 0, n < 80, false),
            13 => ("Event", "shop", format!("event-{n}"), n, true, false),
            _ => {
                let pod = (n * 7 % 40) as usize;
                let is_new = !std::mem::replace(&mut is_alive[pod], true);
                uids[pod] += i64::from(is_new);
                let is_deleted = n % 11 == 0 && !is_new;
                is_alive[pod] = !is_deleted;
                ("Pod", "shop", format!("web-{pod}"), uids[pod], is_new, is_deleted)
            }
        };
        let text = format!(
            r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"{name}","namespace":"{namespace}","uid":"{kind}-{name}-{uid}","resourceVersion":"{n}"}},"status":{{"message":"{:x}"}}}}"#,
            n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64)
        );
        let object = Object::parse(&text).unwrap();
        let what = match (is_new, is_deleted) {
            (true, _) => What::Added(object),
            (_, true) => What::Deleted(object),
            _ => What::Modified(object),
        };
        IncomingChange::received(Moment::from_nanos(n * 1_000_000_000), &"east".into(), what)
    };
    (0..CHANGES).map(change).collect()
}

/// A temporary directory, in memory where available.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

/// A copy of the fixture.
fn version_2(folder: &Path) -> PathBuf {
    let path = folder.join("h.kine");
    let _ = std::fs::remove_file(&path);
    std::fs::copy(VERSION_2, &path).unwrap();
    path
}

fn file_version(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap()
}

/// The number of index segments, 0 for a file that has no index.
fn index_segments(path: &Path) -> i64 {
    let sql = "SELECT count(*) FROM (SELECT DISTINCT stream, seq FROM object_index)";
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap_or(0)
}

/// The changes as they must be read.
fn expected_changes() -> Vec<Change> {
    let change = |(seq, change): (i64, IncomingChange)| {
        let IncomingChange { seen, key, what, inferred } = change;
        Change { seq, at: seen, seen, key, what, inferred }
    };
    (1..).zip(changes()).map(change).collect()
}

/// Checks everything that can be read of the fixture's changes: all of them, those of one object, and the state.
#[track_caller]
fn check(history: &History) {
    let expected = expected_changes();
    let all: Vec<Change> =
        history.between(Window::ALL, &Selection::default()).unwrap().collect::<Result<_, _>>().unwrap();
    assert!(all == expected);
    let state = |moment: Moment, key: &Key| {
        let last = expected.iter().rfind(|change| change.at <= moment && change.key == *key)?;
        last.what.state().is_some().then(|| ObjectVersion {
            seq: last.seq,
            at: last.at,
            key: last.key.clone(),
            object: last.what.object().clone(),
        })
    };
    let mut keys: Vec<Key> = expected.iter().map(|change| change.key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys.iter().step_by(4) {
        let of: Vec<Change> = history.of(key).unwrap().collect::<Result<_, _>>().unwrap();
        assert!(of.iter().eq(expected.iter().filter(|change| change.key == *key)), "{key}");
        let selection = Selection {
            kinds: Some(vec![key.kind.clone()]),
            source: Some(key.source.clone()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
        };
        for number in (0..CHANGES + 20).step_by(113) {
            let moment = Moment::from_nanos(number * 1_000_000_000);
            let found = history.at(moment, &selection).unwrap();
            assert!(found.objects().iter().eq(&state(moment, key)), "{key} at {moment}");
        }
    }
    let end = Moment::from_nanos(CHANGES * 1_000_000_000);
    let at_end: Vec<ObjectVersion> = keys.iter().filter_map(|key| state(end, key)).collect();
    assert!(history.at(end, &Selection::default()).unwrap().objects() == at_end);
}

#[track_caller]
fn check_file(path: &Path) {
    let report = doctor(path).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    check(&History::open(path).unwrap());
}

#[test]
fn an_earlier_version_is_read_as_it_is() {
    let bytes = std::fs::read(VERSION_2).unwrap();
    let fixture = Path::new(VERSION_2);
    check_file(fixture);
    assert_eq!(file_version(fixture), 2);
    assert!(std::fs::read(VERSION_2).unwrap() == bytes, "reading changed the file");
    // Rows, keyframes, and enough blocks for the index.
    let connection = Connection::open(fixture).unwrap();
    let count = |sql: &str| -> i64 { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert!(count("SELECT count(*) FROM change") > 0);
    assert!(count("SELECT count(*) FROM keyframe") > 1);
    assert!(count("SELECT max(n) FROM (SELECT count(*) AS n FROM block GROUP BY stream)") > 130);
}

#[test]
fn every_way_of_writing_migrates() {
    let folder = folder();
    let path = version_2(folder.path());
    Writer::open(&path).unwrap().close().unwrap();
    assert_eq!(file_version(&path), 3);
    let segments = index_segments(&path);
    assert!(segments > 0, "{segments} segments");
    check_file(&path);
    // Nothing is left to do.
    let bytes = std::fs::read(&path).unwrap();
    Writer::open(&path).unwrap().close().unwrap();
    assert_eq!(index_segments(&path), segments);
    assert_eq!(std::fs::read(&path).unwrap().len(), bytes.len());

    let path = version_2(folder.path());
    let mut bulk = BulkWriter::open(&path).unwrap();
    let other = IncomingChange::received(Moment::MIN, &"west".into(), changes()[0].what.clone());
    bulk.push(&other).unwrap();
    bulk.finish().unwrap();
    assert_eq!((file_version(&path), index_segments(&path)), (3, segments));
    assert!(doctor(&path).unwrap().is_clean());

    let path = version_2(folder.path());
    let salvaged = folder.path().join("salvaged.kine");
    assert_eq!(salvage(&path, &salvaged).unwrap().changes, CHANGES as u64);
    assert_eq!((file_version(&path), file_version(&salvaged)), (2, 3));
    check_file(&salvaged);

    let path = version_2(folder.path());
    let moment = Moment::from_nanos(1_000_000_000_000);
    let state = |path: &Path| History::open(path).unwrap().at(moment, &Selection::default()).unwrap();
    let before = state(&path);
    history::prune(&path, moment).unwrap();
    assert_eq!(file_version(&path), 3);
    assert!(doctor(&path).unwrap().is_clean());
    assert!(state(&path).objects() == before.objects());
}

#[test]
fn a_later_version_is_refused() {
    let folder = folder();
    let path = version_2(folder.path());
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 4).unwrap();
    let expected = "has file version 4, supported are versions up to 3: use a newer kinescope";
    let check = |error: Error| {
        assert!(matches!(error, Error::TooNew { found: 4, known: 3, .. }), "{error:?}");
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    check(History::open(&path).err().unwrap());
    check(Writer::open(&path).err().unwrap());
    check(BulkWriter::open(&path).err().unwrap());
    assert_eq!(file_version(&path), 4);
}

#[test]
fn readers_that_were_open_before_the_migration_go_on() {
    let folder = folder();
    let path = version_2(folder.path());
    // Readers of a file that nobody writes delay the first writer; those of one in write-ahead logging mode do not.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("PRAGMA journal_mode = WAL").unwrap();
    let history = History::open(&path).unwrap();
    check(&history);
    let mut reading = history.between(Window::ALL, &Selection::default()).unwrap();
    let first = reading.next().unwrap().unwrap();

    let writer = Writer::open(&path).unwrap();
    assert_eq!(file_version(&path), 3);
    check(&history);
    let pod = changes().into_iter().rfind(|change| &*change.key.kind.kind == "Pod").unwrap();
    let late = IncomingChange { seen: Moment::from_nanos(CHANGES * 1_000_000_000), ..pod };
    writer.append(Batch { changes: vec![late.clone()], ..Batch::default() }).unwrap();
    writer.close().unwrap();
    assert!(index_segments(&path) > 0);
    assert_eq!(history.of(&late.key).unwrap().last().unwrap().unwrap().at, late.seen);

    // The reader that began before still sees the file as it was.
    let rest: Vec<Change> = reading.map(Result::unwrap).collect();
    assert!([first].iter().chain(&rest).eq(&expected_changes()));
    drop(other);
}

#[test]
fn a_killed_migration_leaves_a_readable_file() {
    if let Some(path) = std::env::var_os(CHILD) {
        println!("opening");
        Writer::open(Path::new(&path)).unwrap().close().unwrap();
        return;
    }
    let seed: u64 = std::env::var("KINESCOPE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("seed {seed}: set KINESCOPE_TEST_SEED to try another");
    let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
    let mut versions = Vec::new();
    for kill in 0..testobjects::case_count(20, 200) {
        let folder = folder();
        let path = version_2(folder.path());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_migration_leaves_a_readable_file", "--nocapture"])
            .env(CHILD, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        lines.find(|line| line.as_ref().is_ok_and(|line| line.ends_with("opening")));
        // Opening takes longer on some disks than others, so that the times cover several orders of magnitude.
        for step in 0..1_u64 << rng.random_range(14..28) {
            std::hint::black_box(step);
        }
        child.kill().unwrap();
        child.wait().unwrap();
        versions.push(file_version(&path));
        println!("kill {kill}: version {}, {} segments", versions[kill], index_segments(&path));
        check_file(&path);
        Writer::open(&path).unwrap().close().unwrap();
        assert_eq!(file_version(&path), 3);
        assert!(index_segments(&path) > 0);
        check_file(&path);
    }
    assert!(versions.contains(&2), "no migration was killed before its end");
}

/// The fixture has rows, which an import packs.
#[test]
fn an_import_that_is_not_finished_leaves_the_file_as_it_was() {
    let folder = folder();
    let path = version_2(folder.path());
    let mut bulk = BulkWriter::open(&path).unwrap();
    let mut later = changes().pop().unwrap();
    later.seen = Moment::from_nanos((CHANGES + 1) * 1_000_000_000);
    bulk.push(&later).unwrap();
    drop(bulk);
    assert_eq!(file_version(&path), 2);
    check(&History::open(&path).unwrap());
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["h.kine"]);
}
