//! A history after its writer has closed it: a single, compact file that can be opened anywhere.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

use history::{Batch, History, Selection, Writer};
use model::Window;
use rusqlite::Connection;
use workload::churn::{ChurnOptions, churn};

#[test]
fn a_closed_file_is_alone_and_has_no_free_pages() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let writer = Writer::open(&path).unwrap();
    let changes: Vec<_> =
        churn(ChurnOptions { live_objects: 500, changes: 6_000, ..ChurnOptions::default() }).collect();
    for batch in changes.chunks(500) {
        writer.append(Batch { changes: batch.to_vec(), ..Batch::default() }).unwrap();
    }
    // A reader opened during writing keeps its snapshot.
    let history = History::open(&path).unwrap();
    assert_eq!(writer.flush().unwrap(), 6_000);
    let mut reading = history.between(Window::ALL, &Selection::default()).unwrap();
    assert_eq!(reading.next().unwrap().unwrap().key, changes[0].key);
    assert_eq!(reading.count(), 5_999);
    drop(history);
    writer.close().unwrap();

    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["h.kine"]);
    let sqlite = Connection::open(&path).unwrap();
    let pragma = |name: &str| -> i64 { sqlite.pragma_query_value(None, name, |row| row.get(0)).unwrap() };
    assert_eq!(pragma("freelist_count"), 0);
    assert_eq!(pragma("application_id"), 0x4b49_4e45);
    let count = |sql: &str| -> i64 { sqlite.query_row(sql, [], |row| row.get(0)).unwrap() };
    assert_eq!(count("SELECT sum(changes) FROM blocks"), 6_000);
    assert_eq!(count("SELECT count(*) FROM change"), 0);
    let alive: i64 = count("SELECT count(*) FROM objects WHERE kind = 'Pod'");
    let history = History::open(&path).unwrap();
    let (_, end) = history.span().unwrap().unwrap();
    let pods = Selection { kinds: Some(vec![model::Kind::new("", "Pod")]), ..Selection::default() };
    assert_eq!(history.at(end, &pods).unwrap().objects().len() as i64, alive);
    assert_eq!(count("SELECT count(DISTINCT length(uid)) FROM lives"), 1, "uids read as text of one length");
}
