//! Pruning through an open writer: with little extra space, while changes are appended.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::path::Path;

use history::{Batch, BulkWriter, History, Selection, Writer, doctor};
use model::{IncomingChange, Moment, Window};
use testobjects::resource;

/// Changes to a hundred pods, with text that compresses badly.
fn changes() -> Vec<IncomingChange> {
    let mut noise = 1_u64;
    let mut random_text = || -> String {
        let hex_number = |_| {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            format!("{noise:x}")
        };
        (0..40).map(hex_number).collect()
    };
    let change = |number: i64| {
        let pod = resource("v1", "Pod", &format!("pod-{}", number % 100)).namespace("web");
        let what = pod.set("words", random_text()).modified();
        IncomingChange::received(Moment::from_nanos(number), &"east".into(), what)
    };
    (0..48_000).map(change).collect()
}

fn bytes(path: &Path, suffix: &str) -> u64 {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    std::fs::metadata(name).map_or(0, |file| file.len())
}

#[test]
fn pruning_takes_little_space_and_appends_continue() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let changes = changes();
    let (old, new) = changes.split_at(40_000);
    let mut bulk = BulkWriter::open(&path).unwrap();
    old.iter().for_each(|observed| bulk.push(observed).unwrap());
    bulk.finish().unwrap();
    let start = old[36_000].seen;
    let before = bytes(&path, "");
    let expected = History::open(&path).unwrap().at(start, &Selection::default()).unwrap();

    let writer = Writer::open(&path).unwrap();
    let pruning = writer.prune(start).unwrap();
    let mut batches = new.chunks(100);
    let (mut log, mut during) = (0, 0);
    let outcome = loop {
        if let Some(batch) = batches.next() {
            writer.append(Batch { changes: batch.to_vec(), ..Batch::default() }).unwrap();
            writer.flush().unwrap();
        }
        log = log.max(bytes(&path, "-wal"));
        match pruning.outcome() {
            Some(outcome) => break outcome,
            None => during += 1,
        }
    };
    assert_eq!(outcome.unwrap(), start);
    assert!(during > 1, "nothing was appended during the prune");
    for batch in batches {
        writer.append(Batch { changes: batch.to_vec(), ..Batch::default() }).unwrap();
    }
    writer.close().unwrap();
    let freed = before - bytes(&path, "");
    assert!(freed > before / 2, "{freed} of {before} bytes");
    assert!(log < freed * 3 / 4, "a log of {log} bytes to free {freed}");

    let history = History::open(&path).unwrap();
    assert_eq!(history.at(start, &Selection::default()).unwrap().objects(), expected.objects());
    let window = Window { from: start.plus_nanos(1), to: Moment::MAX };
    let remaining_times =
        history.between(window, &Selection::default()).unwrap().map(|change| change.unwrap().seen);
    let expected_times = changes.iter().map(|observed| observed.seen).filter(|seen| *seen > start);
    assert!(remaining_times.eq(expected_times));
    let report = doctor(&path).unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}
