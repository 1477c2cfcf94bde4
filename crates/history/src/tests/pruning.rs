//! Pruning while a history is written: it delays no writer, and no obstacle stops it for good.

use std::path::Path;

use model::{IncomingChange, Moment, Window};
use rusqlite::Connection;
use testobjects::resource;

use crate::{Batch, Error, History, Selection, Writer, doctor, wal};

/// One change per moment to ten pods, with text that compresses badly.
fn batch(moment: i64) -> Batch {
    let mut noise = moment.cast_unsigned() + 1;
    let words: Vec<String> = (0..40)
        .map(|_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{noise:x}")
        })
        .collect();
    let pod = resource("v1", "Pod", &format!("pod-{}", moment % 10)).namespace("web");
    let what = pod.set("words", words.concat()).modified();
    let observed = IncomingChange::received(Moment::from_nanos(moment), &"east".into(), what);
    Batch { changes: vec![observed], ..Batch::default() }
}

fn written(path: &Path, moments: i64) -> Writer {
    let writer = Writer::open(path).unwrap();
    for moment in 0..moments {
        writer.append(batch(moment)).unwrap();
    }
    writer.flush().unwrap();
    // There is nothing before this moment: the prune completes when the packer is idle.
    writer.prune(Moment::from_nanos(-1)).unwrap().wait().unwrap();
    writer
}

/// The moments of the changes since one.
fn moments(path: &Path, since: i64) -> Vec<i64> {
    let window = Window { from: Moment::from_nanos(since), to: Moment::MAX };
    let changes = History::open(path).unwrap().between(window, &Selection::default()).unwrap();
    changes.map(|change| change.unwrap().at.nanos()).collect()
}

fn check(path: &Path, start: i64, end: i64) {
    assert_eq!(moments(path, start + 1), (start + 1..end).collect::<Vec<_>>());
    let at = History::open(path).unwrap().at(Moment::from_nanos(start), &Selection::default()).unwrap();
    assert_eq!(at.objects().len(), 10);
    let report = doctor(path).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn a_reader_that_needs_the_log_delays_only_pruning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let writer = written(&path, 1_000);
    let mut reading = History::open(&path).unwrap().between(Window::ALL, &Selection::default()).unwrap();
    let first = reading.next().unwrap().unwrap();
    assert_eq!(first.at.nanos(), 0);

    let bytes = |path: &Path| std::fs::metadata(path).unwrap().len();
    let log = bytes(&wal::wal_path(&path));
    let error = writer.prune(Moment::from_nanos(900)).unwrap().wait().unwrap_err();
    assert!(error.is_transient() && error.is_busy(), "{error:?}");
    // The data that the reader needs is still there, and the log has not grown with the data to be pruned.
    let grown = bytes(&wal::wal_path(&path)) - log;
    let used = History::open(&path).unwrap().used_bytes().unwrap();
    assert!(grown < used / 4, "{grown} of {used}");
    for moment in 1_000..1_100 {
        writer.append(batch(moment)).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(reading.count(), 999);
    check(&path, 900, 1_100);

    writer.prune(Moment::from_nanos(900)).unwrap().wait().unwrap();
    check(&path, 900, 1_100);
    writer.close().unwrap();
    assert_eq!(moments(&path, 0).len(), 10 + 199);
    assert!(bytes(&path) < used / 2);
}

#[test]
fn a_locked_file_delays_pruning_and_the_batch_waits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let writer = written(&path, 200);
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = writer.prune(Moment::from_nanos(100)).unwrap().wait().unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    writer.append(batch(200)).unwrap();
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(writer.flush().unwrap(), 201);
    writer.prune(Moment::from_nanos(100)).unwrap().wait().unwrap();
    writer.close().unwrap();
    check(&path, 100, 201);
}

#[test]
fn the_next_writer_resumes_the_prune_of_a_killed_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    written(&path, 300).close().unwrap();
    super::random_histories::prune_until_killed(&path, Moment::from_nanos(200), 3);
    check(&path, 200, 300);
    assert!(moments(&path, 0).len() > 150);
    let writer = Writer::open(&path).unwrap();
    // Queued behind the prune that is resumed automatically.
    assert_eq!(writer.prune(Moment::from_nanos(150)).unwrap().wait().unwrap().nanos(), 200);
    assert_eq!(moments(&path, 0).len(), 10 + 99);
    writer.close().unwrap();
    check(&path, 200, 300);
}

#[test]
fn closing_a_writer_does_not_wait_for_the_prune() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let writer = written(&path, 500);
    let pruning = writer.prune(Moment::from_nanos(400)).unwrap();
    writer.close().unwrap();
    match pruning.wait() {
        Ok(start) => assert_eq!(start.nanos(), 400),
        Err(error) => assert!(matches!(error, Error::Stopped { .. }), "{error:?}"),
    }
    let start = History::open(&path).unwrap().pruned_to().unwrap().map_or(0, Moment::nanos);
    check(&path, start.max(9), 500);
}

#[test]
fn after_every_prune_step_the_history_is_correct() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    written(&path, 600).close().unwrap();
    let connection = Connection::open(&path).unwrap();
    let keyframes: i64 =
        connection.query_row("SELECT count(*) FROM keyframe WHERE at <= 500", [], |row| row.get(0)).unwrap();
    assert!(keyframes > 1, "{keyframes} keyframes to prune");
    drop(connection);
    let killed = folder.path().join("killed.kine");
    let mut left = moments(&path, 0).len();
    for steps in 0.. {
        std::fs::copy(&path, &killed).unwrap();
        super::random_histories::prune_until_killed(&killed, Moment::from_nanos(500), steps);
        check(&killed, 500, 600);
        let unfinished = crate::prune_steps::unfinished_prune(&Connection::open(&killed).unwrap()).unwrap();
        left = left.min(moments(&killed, 0).len());
        if steps > 0 && unfinished.is_none() {
            assert!(steps > 10, "{steps} steps");
            break;
        }
    }
    assert_eq!(left, 10 + 99);
}
