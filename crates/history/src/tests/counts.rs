//! Tests of the stored stream counts.

use std::path::Path;

use model::{IncomingChange, Moment};
use rusqlite::Connection;
use testobjects::pod;

use crate::{Batch, BulkWriter, History, Selection, Summary, Writer, doctor};

/// Writes pods that are created, changed and deleted: more than fill a block, and some that stay unpacked.
fn written(path: &Path) -> Writer {
    let writer = Writer::open(path).unwrap();
    for n in 0..100 {
        let pod = pod(&format!("pod-{}", n % 7)).namespace("web");
        let what = if n % 5 == 0 { pod.deleted() } else { pod.modified() };
        let changes = vec![IncomingChange::received(Moment::from_nanos(n), &"east".into(), what)];
        writer.append(Batch { changes, ..Batch::default() }).unwrap();
    }
    writer.flush().unwrap();
    writer
}

/// The summary without the file size.
fn summary(path: &Path) -> Summary {
    Summary { file_bytes: 0, ..History::open(path).unwrap().summary().unwrap() }
}

#[test]
fn a_wrong_count_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    written(&path).close().unwrap();
    assert!(doctor(&path).unwrap().is_clean());
    let connection = Connection::open(&path).unwrap();
    let columns: Vec<String> = connection
        .prepare("SELECT name FROM pragma_table_info('stream_count') WHERE pk = 0")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(columns.len(), 8);
    for column in columns {
        connection.execute_batch(&format!("UPDATE stream_count SET {column} = {column} + 1")).unwrap();
        assert_eq!(
            doctor(&path).unwrap().findings,
            ["Pod: the stored counts do not match the changes"],
            "{column}"
        );
        connection.execute_batch(&format!("UPDATE stream_count SET {column} = {column} - 1")).unwrap();
    }
    connection.execute_batch("DELETE FROM stream_count").unwrap();
    assert!(!doctor(&path).unwrap().is_clean());
}

/// A file of schema version 1 is a current one without the counts and the object index.
#[test]
fn a_file_without_counts_is_readable_and_gets_them_when_it_is_opened_for_writing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let writer = written(&path);
    let rows = summary(&path).rows;
    assert!(rows > 0, "all changes are packed");
    writer.close().unwrap();
    let today = summary(&path);
    let [pods] = &today.sources[0].kinds[..] else { panic!("{today:?}") };
    assert_eq!((pods.changes, pods.objects), (100, Some((7, 6))));
    let version = |version: &str| {
        let connection = Connection::open(&path).unwrap();
        let found: String = connection
            .query_row("SELECT user_version FROM pragma_user_version", [], |row| {
                row.get::<_, i64>(0).map(|found| found.to_string())
            })
            .unwrap();
        assert_eq!(found, version);
        connection
    };
    version("3")
        .execute_batch("DROP TABLE stream_count; DROP TABLE object_index; PRAGMA user_version = 1")
        .unwrap();
    assert_eq!(summary(&path), today);
    let report = doctor(&path).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
    drop(version("1"));

    Writer::open(&path).unwrap().close().unwrap();
    drop(version("3"));
    assert_eq!(summary(&path), today);
    assert!(doctor(&path).unwrap().is_clean());
}

/// A killed writer leaves rows. They precede the blocks of the import.
#[test]
fn an_import_follows_the_changes_that_a_killed_writer_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    written(&path).abandon();
    assert!(History::open(&path).unwrap().summary().unwrap().rows > 0);
    let mut bulk = BulkWriter::open(&path).unwrap();
    let imported = pod("pod-3").namespace("web").set("spec.nodeName", "imported").modified();
    bulk.push(&IncomingChange::received(Moment::from_nanos(100), &"east".into(), imported.clone())).unwrap();
    bulk.finish().unwrap();
    let history = History::open(&path).unwrap();
    let state = history.at(Moment::from_nanos(100), &Selection::default()).unwrap();
    let of_pod = state.objects().iter().find(|version| *version.key.name == *"pod-3");
    assert_eq!(of_pod.map(|version| &version.object), Some(imported.object()));
    assert_eq!(history.summary().unwrap().rows, 0);
    assert!(doctor(&path).unwrap().is_clean());
}
