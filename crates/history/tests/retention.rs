//! Retention: a history that is pruned regularly keeps its remaining contents unchanged.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

use std::path::Path;
use std::sync::Arc;

use history::{Batch, History, Retention, Selection, Writer, doctor, prune_incrementally};
use model::{IncomingChange, Moment};
use testobjects::resource;

const SECOND: i64 = 1_000_000_000;

/// Adds one change per second to a hundred pods, with text that compresses badly.
fn append_seconds(path: &Path, seconds: std::ops::Range<i64>) {
    let writer = Writer::open(path).unwrap();
    let source: Arc<str> = "east".into();
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    for second in seconds {
        let words: Vec<String> = (0..40)
            .map(|_| {
                noise =
                    noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(second.cast_unsigned() | 1);
                format!("{noise:x}")
            })
            .collect();
        let pod = resource("v1", "Pod", &format!("pod-{}", second % 100)).namespace("web");
        let pod = pod.set("words", words.concat());
        let what = if second < 100 { pod.added() } else { pod.modified() };
        let seen = Moment::from_nanos(second * SECOND);
        let changes = vec![IncomingChange::received(seen, &source, what)];
        writer.append(Batch { changes, ..Batch::default() }).unwrap();
    }
    writer.close().unwrap();
}

fn at(path: &Path, second: i64) -> Vec<model::ObjectVersion> {
    let history = History::open(path).unwrap();
    history.at(Moment::from_nanos(second * SECOND), &Selection::default()).unwrap().into_objects()
}

#[test]
fn older_changes_are_pruned_with_some_slack() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.kine");
    append_seconds(&path, 0..1_000);
    let retention = Retention { nanos: Some(500 * SECOND), bytes: None };
    let moment = |second: i64| {
        let now = Moment::from_nanos(second * SECOND);
        retention.cutoff_by_age(&History::open(&path).unwrap(), now).unwrap()
    };
    let cutoff = |second: i64| moment(second).map(|moment| moment.nanos() / SECOND);
    assert_eq!(cutoff(540), None);
    // Not all at once, whatever the clock says.
    assert_eq!(cutoff(1_000), Some(99));
    assert_eq!(cutoff(1_000_000_000), Some(99));
    let before = at(&path, 700);
    let pruned = prune_incrementally(&path, Moment::from_nanos(500 * SECOND)).unwrap();
    assert_eq!(pruned.changes, (1_000, 599));
    assert!(pruned.bytes.1 < pruned.bytes.0 * 3 / 4, "{:?}", pruned.bytes);
    assert_eq!(at(&path, 700), before);
    assert!(doctor(&path).unwrap().is_clean());
    assert_eq!(cutoff(1_000), None);
    assert_eq!(cutoff(1_060), Some(549));
    // A recorder that was silent for long keeps its last state, and is then left alone.
    let mut times = 0;
    while let Some(moment) = moment(100_000) {
        prune_incrementally(&path, moment).unwrap();
        times += 1;
    }
    assert!((10..30).contains(&times), "{times}");
    assert_eq!(cutoff(200_000), None);
    assert_eq!(at(&path, 999).len(), 100);
}

#[test]
fn a_file_is_kept_small() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.kine");
    let retention = Retention { nanos: None, bytes: Some(400_000) };
    let mut prunes = 0;
    for round in 0..10 {
        append_seconds(&path, round * 500..(round + 1) * 500);
        let last = at(&path, (round + 1) * 500);
        let cutoff = || {
            let history = History::open(&path).unwrap();
            let cutoff = retention.cutoff_by_size(&history).unwrap();
            assert_eq!(cutoff.is_some(), history.used_bytes().unwrap() > 400_000);
            cutoff.zip(history.span().unwrap())
        };
        while let Some((moment, (start, end))) = cutoff() {
            assert!(moment.nanos_since(start) <= end.nanos_since(start) / 10);
            prune_incrementally(&path, moment).unwrap();
            prunes += 1;
        }
        // Only the last versions of the hundred pods are kept.
        let used = History::open(&path).unwrap().used_bytes().unwrap();
        assert!(used <= 400_000, "{used}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), used);
        assert_eq!(at(&path, (round + 1) * 500), last);
    }
    assert!(prunes >= 3, "{prunes}");
    assert!(doctor(&path).unwrap().is_clean());
}
