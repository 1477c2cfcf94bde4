//! Copies of a history: complete, self-contained, and aborted when no longer wanted.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::path::Path;

use history::{Batch, Error, History, Selection, Writer, copy, doctor};
use model::{Change, IncomingChange, Window};
use workload::churn::{ChurnOptions, churn};

fn generated_changes() -> Vec<IncomingChange> {
    churn(ChurnOptions { live_objects: 500, changes: 6_000, ..ChurnOptions::default() }).collect()
}

fn changes(path: &Path) -> Vec<Change> {
    let history = History::open(path).unwrap();
    history.between(Window::ALL, &Selection::default()).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_copy_holds_what_was_durable_and_can_be_written_on() {
    let folder = tempfile::tempdir().unwrap();
    let (path, to) = (folder.path().join("h.kine"), folder.path().join("copy.kine"));
    let writer = Writer::open(&path).unwrap();
    let generated = generated_changes();
    writer.append(Batch { changes: generated[..4_000].to_vec(), ..Batch::default() }).unwrap();
    writer.flush().unwrap();
    let before = changes(&path);
    copy(&path, &to, || true).unwrap();
    writer.append(Batch { changes: generated[4_000..].to_vec(), ..Batch::default() }).unwrap();
    writer.close().unwrap();

    assert_eq!(changes(&to), before);
    assert_eq!(before.len(), 4_000);
    let report = doctor(&to).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(!folder.path().join("copy.kine-wal").exists());
    let writer = Writer::open(&to).unwrap();
    writer.append(Batch { changes: generated[4_000..].to_vec(), ..Batch::default() }).unwrap();
    writer.close().unwrap();
    assert_eq!(changes(&to), changes(&path));
}

#[test]
fn a_copy_can_be_aborted_and_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let (path, to) = (folder.path().join("h.kine"), folder.path().join("copy.kine"));
    let writer = Writer::open(&path).unwrap();
    // Many times the data between two calls of `go_on`.
    for batch in generated_changes().chunks(500) {
        writer.append(Batch { changes: batch.to_vec(), ..Batch::default() }).unwrap();
    }
    writer.flush().unwrap();
    let error = copy(&path, &to, || false).unwrap_err();
    assert!(matches!(error, Error::Sqlite { doing: "copy", .. }), "{error}");
    std::fs::write(&to, "mine").unwrap();
    assert!(matches!(copy(&path, &to, || true).unwrap_err(), Error::Exists(path) if path == to));
    assert!(matches!(copy(&to, &path, || true).unwrap_err(), Error::Exists(_)));
    let nowhere = folder.path().join("nowhere.kine");
    assert!(matches!(copy(&nowhere, &to.with_extension("new"), || true).unwrap_err(), Error::Missing(_)));
}
