//! Tests of the object index: complete or not, damaged or not, one object is read as without it.

use std::fs;
use std::path::Path;

use model::{Change, IncomingChange, Key, Moment, ObjectVersion};
use rusqlite::{Connection, params};
use testobjects::resource;

use super::damage::folder;
use crate::change_indexer::streams;
use crate::index_schedule::IndexSchedule;
use crate::schema::{self, Durability, PAGE_BYTES};
use crate::{Batch, BulkWriter, History, Selection, Writer, doctor, prune, prune_incrementally};

const MOMENTS: i64 = 700;

/// One change per moment: pods that are deleted now and then, nodes that rarely change, and Events.
fn changes() -> Vec<IncomingChange> {
    let change = |moment: i64| {
        let (kind, name) = match moment % 10 {
            3 => ("Node", moment / 100),
            6 => ("Event", moment),
            _ => ("Pod", moment * 7 % 23),
        };
        let object = resource("v1", kind, &format!("n{name}")).namespace("shop").set("n", moment);
        let what = if moment % 31 == 0 { object.deleted() } else { object.modified() };
        IncomingChange::received(Moment::from_nanos(moment), &"east".into(), what)
    };
    (0..MOMENTS).map(change).collect()
}

fn import(path: &Path) {
    let mut bulk = BulkWriter::open(path).unwrap();
    changes().iter().for_each(|change| bulk.push(change).unwrap());
    bulk.finish().unwrap();
}

/// All changes of some objects, and their versions at some moments after `start`.
fn single_objects(path: &Path, start: i64) -> Vec<(Key, Vec<Change>, Vec<ObjectVersion>)> {
    let history = History::open(path).unwrap();
    let mut keys: Vec<Key> = changes().into_iter().map(|change| change.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let read = |key: Key| {
        let of: Vec<Change> = history.of(&key).unwrap().collect::<Result<_, _>>().unwrap();
        let selection = Selection {
            kinds: Some(vec![key.kind.clone()]),
            source: Some(key.source.clone()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
        };
        let at = |moment| history.at(Moment::from_nanos(moment), &selection).unwrap().objects().to_vec();
        (key, of, (start..MOMENTS).step_by(97).flat_map(at).collect())
    };
    keys.into_iter().step_by(3).map(read).collect()
}

fn index_rows(connection: &Connection) -> i64 {
    connection.query_row("SELECT count(*) FROM object_index", [], |row| row.get(0)).unwrap()
}

/// Stream, sequence number, object and entries of a leaf.
type LeafRow = (i64, i64, i64, Vec<u8>);

/// The whole index, to be compared.
fn index(path: &Path) -> Vec<LeafRow> {
    Connection::open(path)
        .unwrap()
        .prepare("SELECT stream, seq, object, entries FROM object_index ORDER BY 1, 2, 3")
        .unwrap()
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap()
}

#[track_caller]
fn assert_clean(path: &Path) {
    let report = doctor(path).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

/// The number of blocks of Pods that no segment covers.
fn uncovered_blocks(path: &Path) -> i64 {
    let sql = "SELECT count(*) FROM block JOIN stream ON stream.id = stream WHERE kind = 'Pod' AND NOT EXISTS
                   (SELECT 1 FROM object_index WHERE stream = block.stream
                    AND block.first_seq BETWEEN seq AND object_index.last_seq)";
    Connection::open(path).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
}

#[test]
fn every_writer_indexes_all_but_the_last_blocks() {
    let folder = folder();
    let (imported, recorded) = (folder.path().join("imported.kine"), folder.path().join("recorded.kine"));
    import(&imported);
    let writer = Writer::open(&recorded).unwrap();
    for batch in changes().chunks(17) {
        writer.append(Batch { changes: batch.to_vec(), ..Batch::default() }).unwrap();
    }
    writer.close().unwrap();
    assert_eq!(single_objects(&imported, 0), single_objects(&recorded, 0));
    for path in [imported, recorded] {
        assert!((1..=3).contains(&uncovered_blocks(&path)), "{} blocks", uncovered_blocks(&path));
        let rows = index(&path);
        let segments = rows.iter().filter(|row| row.2 == i64::MIN).count();
        assert!(segments > 3 && rows.len() > 2 * segments, "{segments} segments, {} leaves", rows.len());
        assert_clean(&path);
    }
}

/// Damages each row of the index in several ways.
#[test]
fn a_damaged_or_missing_leaf_is_found_and_reads_stay_right() {
    let folder = folder();
    let path = folder.path().join("h.kine");
    import(&path);
    let expected = single_objects(&path, 0);
    let connection = Connection::open(&path).unwrap();
    let damages = [
        "DELETE FROM object_index WHERE %",
        "UPDATE object_index SET entries = CAST(substr(entries, 1, 2) || x'7f' || substr(entries, 4) AS BLOB) WHERE %",
        "UPDATE object_index SET entries = x'' WHERE %",
        "UPDATE OR REPLACE object_index SET object = object + 1 WHERE %",
        "UPDATE object_index SET last_seq = last_seq + 40 WHERE %",
        "UPDATE object_index SET last_seq = 0 WHERE %",
        "UPDATE object_index SET seq = seq + 1 WHERE %",
        "UPDATE object_index SET stream = stream + 1000 WHERE %",
    ];
    let rows = index(&path);
    for (number, (stream, seq, object, _)) in rows.iter().enumerate().step_by(7) {
        let damage = damages[number / 7 % damages.len()];
        let row = format!("stream = {stream} AND seq = {seq} AND object = {object}");
        // A segment of which nothing is left is not damage.
        let leaves = rows.iter().filter(|other| (other.0, other.1) == (*stream, *seq));
        let is_whole = leaves.count() == 1;
        assert_eq!(connection.execute(&damage.replace('%', &row), []).unwrap(), 1, "{damage}");
        let report = doctor(&path).unwrap();
        let names_index = report.findings.iter().any(|finding| finding.contains("object index"));
        assert!(names_index || (is_whole && damage.starts_with("DELETE")), "{damage}: {:?}", report.findings);
        assert!(single_objects(&path, 0) == expected, "{damage}");
        restore(&connection, &path, &rows);
    }
    assert_clean(&path);
}

#[test]
fn one_object_is_read_although_a_page_of_the_index_is_damaged() {
    let folder = folder();
    let path = folder.path().join("h.kine");
    import(&path);
    let expected = single_objects(&path, 0);
    let root_page: u32 = Connection::open(&path)
        .unwrap()
        .query_row("SELECT rootpage FROM sqlite_master WHERE name = 'object_index'", [], |row| row.get(0))
        .unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let page_start = (root_page as usize - 1) * PAGE_BYTES;
    bytes[page_start..page_start + PAGE_BYTES].fill(0);
    fs::write(&path, bytes).unwrap();
    assert!(single_objects(&path, 0) == expected);
    assert!(!doctor(&path).unwrap().is_clean());
}

fn restore(connection: &Connection, path: &Path, rows: &[LeafRow]) {
    connection.execute_batch("DELETE FROM object_index").unwrap();
    let stored = open_and_index(path, usize::MAX);
    assert!(stored > 0);
    assert!(index(path) == rows);
}

/// Opens a file for writing and writes at most so many segments, as a writer does that is then killed. Returns how
/// many were due.
fn open_and_index(path: &Path, most: usize) -> usize {
    let connection = schema::open_writable(path, Durability::EveryCommit).unwrap();
    let (mut schedule, mut written) = (IndexSchedule::default(), 0);
    for stream in streams(&connection, path).unwrap() {
        while written < most
            && let Some(segment) = schedule.next_segment(&connection, path, &stream).unwrap()
        {
            segment.insert(&connection).unwrap();
            written += 1;
        }
    }
    written
}

#[test]
fn an_entry_that_was_left_out_is_found() {
    let folder = folder();
    let path = folder.path().join("h.kine");
    import(&path);
    let connection = Connection::open(&path).unwrap();
    // The members of one block lose their first object; its list matches its checksum, but not its frame.
    let (stream, first_seq, list): (i64, i64, Vec<u8>) = connection
        .query_row(
            "SELECT stream, first_seq, members FROM block JOIN stream ON stream.id = stream WHERE kind = 'Pod' LIMIT 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    let shorter = crate::members::encode(&crate::members::decode(&list).unwrap()[1..]);
    let set = |list: &[u8]| {
        let sql = "UPDATE block SET members = ?3 WHERE stream = ?1 AND first_seq = ?2";
        connection.execute(sql, params![stream, first_seq, list]).unwrap();
    };
    set(&shorter);
    connection.execute_batch("DELETE FROM object_index").unwrap();
    open_and_index(&path, usize::MAX);
    set(&list);
    let findings = doctor(&path).unwrap().findings;
    assert_eq!(
        findings,
        [format!(
            "the object index of the blocks of Pod from change {first_seq} does not match their object lists"
        )]
    );
}

/// A writer of a file of version 2 may be killed after any number of segments.
#[test]
fn an_unfinished_migration_is_right_at_every_step_and_is_continued() {
    let folder = folder();
    let (path, killed) = (folder.path().join("h.kine"), folder.path().join("killed.kine"));
    import(&path);
    let (expected, complete) = (single_objects(&path, 0), index(&path));
    Connection::open(&path)
        .unwrap()
        .execute_batch("DROP TABLE object_index; PRAGMA user_version = 2")
        .unwrap();
    assert!(single_objects(&path, 0) == expected);
    assert_clean(&path);
    for steps in (0..).step_by(5) {
        std::fs::copy(&path, &killed).unwrap();
        let written = open_and_index(&killed, steps);
        assert!(single_objects(&killed, 0) == expected, "{steps} steps");
        assert_clean(&killed);
        Writer::open(&killed).unwrap().close().unwrap();
        assert!(index(&killed) == complete, "{steps} steps");
        if written < steps {
            assert!(steps > 20, "{steps} steps");
            break;
        }
    }
}

#[test]
fn pruning_removes_the_entries_of_what_it_removes() {
    type Prune = fn(&Path, Moment) -> crate::Result<crate::PruneReport>;
    for prune in [prune as Prune, prune_incrementally] {
        let folder = folder();
        let path = folder.path().join("h.kine");
        import(&path);
        let before = index_rows(&Connection::open(&path).unwrap());
        let expected = single_objects(&path, 500);
        prune(&path, Moment::from_nanos(500)).unwrap();
        let after = index_rows(&Connection::open(&path).unwrap());
        assert!(0 < after && after < before / 2, "{after} of {before} rows");
        assert!((1..=3).contains(&uncovered_blocks(&path)), "{} blocks", uncovered_blocks(&path));
        assert_clean(&path);
        for ((_, _, now), (key, _, then)) in single_objects(&path, 500).iter().zip(&expected) {
            assert!(now == then, "{key}");
        }
        let dangling: i64 = Connection::open(&path)
            .unwrap()
            .query_row(
                "SELECT count(*) FROM object_index WHERE NOT EXISTS
                     (SELECT 1 FROM block WHERE stream = object_index.stream AND first_seq = seq)",
                [],
                |row| row.get(0),
            )
            .unwrap();
        assert_eq!(dangling, 0);
    }
}

/// Rows with a wrong sequence number lie between a segment and the blocks that it covers.
#[test]
fn damaged_rows_do_not_protect_segments_from_pruning() {
    let folder = folder();
    let path = folder.path().join("h.kine");
    import(&path);
    let expected = single_objects(&path, 500);
    let copied = Connection::open(&path)
        .unwrap()
        .execute("INSERT INTO object_index SELECT stream, seq + 1, object, 0, entries FROM object_index", [])
        .unwrap();
    assert!(copied > 3);
    prune(&path, Moment::from_nanos(500)).unwrap();
    for ((_, _, now), (key, _, then)) in single_objects(&path, 500).iter().zip(&expected) {
        assert!(now == then, "{key}");
    }
}

/// A damaged list of an old block is for the doctor: writing goes on.
#[test]
fn a_damaged_object_list_stops_indexing_but_not_the_writer() {
    let folder = folder();
    let path = folder.path().join("h.kine");
    import(&path);
    Connection::open(&path)
        .unwrap()
        .execute_batch(
            "DELETE FROM object_index;
             UPDATE block SET members = zeroblob(20) WHERE first_seq = (SELECT min(first_seq) FROM block)",
        )
        .unwrap();
    let writer = Writer::open(&path).unwrap();
    let pod = resource("v1", "Pod", "late").namespace("shop").modified();
    let late = IncomingChange::received(Moment::from_nanos(MOMENTS), &"east".into(), pod);
    writer.append(Batch { changes: vec![late], ..Batch::default() }).unwrap();
    writer.close().unwrap();
    let findings = doctor(&path).unwrap().findings;
    assert!(findings.iter().any(|finding| finding.contains("the object list")), "{findings:?}");
    let history = History::open(&path).unwrap();
    assert_eq!(history.end_of("east").unwrap(), Some(Moment::from_nanos(MOMENTS)));
}
