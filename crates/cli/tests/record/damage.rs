//! Tests of damaged histories: they are set aside unchanged, and recording continues in a new history that says so.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use history::{Batch, History, Writer};
use model::IncomingChange;

use crate::common::run;
use crate::recorded_history::{RecordedHistory, has, has_listed};
use crate::recorder::Recorder;
use crate::server::{TestKind, client, now, shared};

/// Overwrites a part of a file.
fn damage(path: &Path, from: u64, bytes: u64) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.seek(SeekFrom::Start(from)).unwrap();
    file.write_all(&vec![0xa5; bytes as usize]).unwrap();
}

/// The damaged histories in a folder, without their WAL and lock files.
fn set_aside(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("h.kine.damaged-2") && name.ends_with('Z')
    };
    paths.filter(is_one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_was_damaged_is_set_aside() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let test_kind = TestKind::PriorityClasses;
    test_kind.create(&client, "damaged-object").await;
    let arguments = ["--into", "h.kine", "--source", "s", "--kinds", test_kind.kubectl_name()];
    // The first page, which identifies the file, and all other pages.
    for (from, bytes) in [(0, 4096), (4096, u64::MAX)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("h.kine");
        // Enough changes for the file to be recognized without its first page.
        let writer = Writer::open(&path).unwrap();
        let changes = (0..100)
            .map(|number| {
                let map = testobjects::resource("v1", "ConfigMap", &format!("c-{number}")).namespace("d");
                IncomingChange::received(now(), &"s".into(), map.added())
            })
            .collect();
        writer.append(Batch { changes, ..Batch::default() }).unwrap();
        writer.close().unwrap();
        let end = History::open(&path).unwrap().span().unwrap().unwrap().1;
        let length = path.metadata().unwrap().len();
        damage(&path, from, bytes.min(length - from));
        let damaged = std::fs::read(&path).unwrap();

        let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
        recorder.wait("the object is recorded", || has(&path, &test_kind.kind(), "damaged-object")).await;
        let output = recorder.stop().await;
        assert!(output.err.contains("; renamed to "), "{}", output.err);
        output.success();
        let aside = set_aside(folder.path());
        assert_eq!(aside.len(), 1, "{aside:?}");
        // Opening the file changes its first page.
        let (kept, from) = (std::fs::read(&aside[0]).unwrap(), from as usize);
        assert!(
            kept.len() == damaged.len() && kept[from..] == damaged[from..],
            "the damaged file was changed"
        );
        let recording = RecordedHistory::read(&path);
        let name = aside[0].file_name().unwrap().to_string_lossy();
        let why = format!("the history was damaged and renamed to {name}");
        assert_eq!(recording.gaps.iter().map(|gap| &gap.why).collect::<Vec<_>>(), [&why]);
        assert!(
            recording.gaps[0].from >= end && recording.gaps[0].to <= recording.changes[0].at,
            "{:?}",
            recording.gaps
        );
        assert!(run(folder.path(), &["info", "h.kine"]).success().contains(&why));
        run(folder.path(), &["doctor", "h.kine"]).success();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_damaged_while_it_is_written_is_set_aside() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let test_kind = TestKind::PriorityClasses;
    test_kind.create(&client, "damaged-before").await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let arguments = ["--into", "h.kine", "--kinds", test_kind.kubectl_name()];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    recorder.wait("everything is listed", || has_listed(&path, &[test_kind.kind()])).await;
    for file in ["h.kine", "h.kine-wal"] {
        let file = folder.path().join(file);
        damage(&file, 0, file.metadata().unwrap().len());
    }
    recorder.wait("the history is set aside", || !set_aside(folder.path()).is_empty()).await;
    test_kind.create(&client, "damaged-after").await;
    recorder.wait("recording continues", || has(&path, &test_kind.kind(), "damaged-after")).await;
    let output = recorder.stop().await;
    assert_eq!(output.err.matches("; renamed to ").count(), 1, "{}", output.err);
    assert_eq!(output.err.matches("warning: recording again\n").count(), 1, "{}", output.err);
    output.success();
    assert!(has(&path, &test_kind.kind(), "damaged-before"));
    let mut log = set_aside(folder.path())[0].clone().into_os_string();
    log.push("-wal");
    assert!(Path::new(&log).exists());
    let gaps = RecordedHistory::read(&path).gaps;
    assert!(matches!(&gaps[..], [gap] if gap.why.starts_with("the history was damaged")), "{gaps:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_is_removed_while_it_is_written_is_followed_by_another() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let test_kind = TestKind::PriorityClasses;
    let arguments = ["--into", "h.kine", "--kinds", test_kind.kubectl_name()];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    recorder.wait("everything is listed", || has_listed(&path, &[test_kind.kind()])).await;
    let begun = History::open(&path).unwrap().span().unwrap().unwrap().0;
    // The WAL remains: SQLite must not apply it to the next history.
    std::fs::remove_file(&path).unwrap();
    recorder.wait("a new history is started", || has_listed(&path, &[test_kind.kind()])).await;
    test_kind.create(&client, "removed-after").await;
    recorder.wait("recording continues", || has(&path, &test_kind.kind(), "removed-after")).await;
    let output = recorder.stop().await;
    assert!(output.err.contains("history h.kine not found; a new history is started"), "{}", output.err);
    output.success();
    let recording = RecordedHistory::read(&path);
    assert!(
        matches!(&recording.gaps[..], [gap] if gap.why == "the history was removed while it was recorded"
            && gap.from <= begun && gap.to <= recording.changes[0].at),
        "{:?}",
        recording.gaps
    );
    run(folder.path(), &["doctor", "h.kine"]).success();
}
