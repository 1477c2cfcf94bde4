//! File permissions of a history: readable by its owner only, unless they were changed.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use history::{Batch, BulkWriter, Writer, copy, prune, prune_incrementally, salvage};
use model::{IncomingChange, Moment};
use workload::churn::{ChurnOptions, churn};

fn changes() -> Vec<IncomingChange> {
    churn(ChurnOptions { live_objects: 50, changes: 1_000, ..ChurnOptions::default() }).collect()
}

/// The permissions of every file in a folder.
fn permissions(folder: &Path) -> BTreeMap<String, u32> {
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), mode(&entry.path()))).collect()
}

fn assert_owner_only(folder: &Path, names: &[&str]) {
    let expected: BTreeMap<String, u32> = names.iter().map(|name| ((*name).to_owned(), 0o600)).collect();
    assert_eq!(permissions(folder), expected);
}

#[test]
fn a_new_history_is_readable_by_its_owner_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let writer = Writer::open(&path("a.kine")).unwrap();
    writer.append(Batch { changes: changes(), ..Batch::default() }).unwrap();
    writer.flush().unwrap();
    assert_owner_only(folder.path(), &["a.kine", "a.kine-shm", "a.kine-wal", "a.kine.lock"]);
    writer.close().unwrap();

    let mut bulk = BulkWriter::open(&path("b.kine")).unwrap();
    changes().iter().for_each(|observed| bulk.push(observed).unwrap());
    let part = format!("b.kine.{}.part", std::process::id());
    assert_owner_only(folder.path(), &["a.kine", &part, "b.kine.lock"]);
    assert_eq!(bulk.temporary_files(), [path(&part), path("b.kine.lock")]);
    bulk.finish().unwrap();

    copy(&path("a.kine"), &path("c.kine"), || true).unwrap();
    salvage(&path("a.kine"), &path("d.kine")).unwrap();
    let all = ["a.kine", "b.kine", "c.kine", "d.kine"];
    assert_owner_only(folder.path(), &all);
    prune(&path("a.kine"), Moment::MAX).unwrap();
    prune_incrementally(&path("b.kine"), Moment::MAX).unwrap();
    assert_owner_only(folder.path(), &all);
}

#[test]
fn permissions_of_an_existing_file_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.kine");
    let writer = Writer::open(&path).unwrap();
    writer.append(Batch { changes: changes(), ..Batch::default() }).unwrap();
    writer.close().unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    prune(&path, Moment::from_nanos(1)).unwrap();
    prune_incrementally(&path, Moment::MAX).unwrap();
    drop(BulkWriter::open(&path).unwrap());
    assert_eq!(permissions(folder.path()), BTreeMap::from([("a.kine".to_owned(), 0o644)]));
}
