//! Who may read a history: its owner, unless someone has said otherwise.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use history::{Batch, Bulk, Writer, copy, forget, prune, salvage};
use model::{Moment, Observed};
use workload::churn::{Churn, churn};

fn changes() -> Vec<Observed> {
    churn(Churn { alive: 50, changes: 1_000, ..Churn::default() }).collect()
}

/// The rights of every file there is.
fn rights(folder: &Path) -> BTreeMap<String, u32> {
    let rights = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    let entries = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
    entries.map(|entry| (entry.file_name().to_string_lossy().into_owned(), rights(&entry.path()))).collect()
}

fn are_the_owners(folder: &Path, names: &[&str]) {
    let expected: BTreeMap<String, u32> = names.iter().map(|name| ((*name).to_owned(), 0o600)).collect();
    assert_eq!(rights(folder), expected);
}

#[test]
fn a_new_history_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let writer = Writer::open(&path("a.kine")).unwrap();
    writer.append(Batch { changes: changes(), ..Batch::default() }).unwrap();
    writer.flush().unwrap();
    are_the_owners(folder.path(), &["a.kine", "a.kine-shm", "a.kine-wal", "a.kine.lock"]);
    writer.close().unwrap();

    let mut bulk = Bulk::into(&path("b.kine")).unwrap();
    changes().iter().for_each(|observed| bulk.push(observed).unwrap());
    let part = format!("b.kine.{}.part", std::process::id());
    are_the_owners(folder.path(), &["a.kine", &part, "b.kine.lock"]);
    assert_eq!(bulk.own_files(), [path(&part), path("b.kine.lock")]);
    bulk.finish().unwrap();

    copy(&path("a.kine"), &path("c.kine"), || true).unwrap();
    salvage(&path("a.kine"), &path("d.kine")).unwrap();
    let all = ["a.kine", "b.kine", "c.kine", "d.kine"];
    are_the_owners(folder.path(), &all);
    prune(&path("a.kine"), Moment::MAX).unwrap();
    forget(&path("b.kine"), Moment::MAX).unwrap();
    are_the_owners(folder.path(), &all);
}

#[test]
fn what_was_opened_to_others_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.kine");
    let writer = Writer::open(&path).unwrap();
    writer.append(Batch { changes: changes(), ..Batch::default() }).unwrap();
    writer.close().unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    prune(&path, Moment::from_nanos(1)).unwrap();
    forget(&path, Moment::MAX).unwrap();
    drop(Bulk::into(&path).unwrap());
    assert_eq!(rights(folder.path()), BTreeMap::from([("a.kine".to_owned(), 0o644)]));
}
