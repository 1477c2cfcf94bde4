//! Tests of a recorder that is killed repeatedly: after restarts its history is as complete as without kills.

use std::time::{Duration, Instant};

use history::{History, Selection};
use model::{Change, Kind, Moment, Window};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use testcluster::{ClusterOptions, FaultKind, FaultPlan, PlannedFault, Proxy, RequestKind};

use crate::recorded_history::{ComparisonCounts, RecordedHistory, has, has_listed};
use crate::recorder::Recorder;
use crate::server::{Churn, TestKind, client, seed, shared, start, watch};

const TEST_KINDS: [TestKind; 2] = [TestKind::Pods, TestKind::Nodes];

#[tokio::test(flavor = "multi_thread")]
async fn repeated_kills_lose_no_events() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let (seed, begun) = (seed(), Instant::now());
    let mut rng = Pcg64::seed_from_u64(seed);
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let kinds = TEST_KINDS.map(TestKind::kind);
    let record = || {
        let arguments = ["--into", "h.kine", "--kinds", "pods,nodes", "--everything", "--no-redact"];
        Recorder::start(folder.path(), cluster.kubeconfig(), &arguments)
    };
    let mut watches = Vec::new();
    for test_kind in TEST_KINDS {
        watches.push((test_kind, watch(&client, test_kind.path(), "the-end").await));
    }
    let mut recorder = record();
    recorder.wait("everything is listed", || has_listed(&path, &kinds)).await;
    recorder.kill();

    let churn = Churn::start(&cluster, seed, &TEST_KINDS, 3, Duration::from_millis(25)).await;
    // The changes found durable so far, and the number of kills after which there were new ones.
    let mut durable: Vec<Change> = Vec::new();
    let kills = testobjects::case_count(50, 300);
    let mut recording_kills = 0;
    for _ in 0..kills {
        let mut recorder = record();
        // Half of them are killed before they record anything, the others while recording.
        if rng.random_range(0..2) == 0 {
            let before = durable.len();
            recorder.wait("something is recorded", || changes(&path).len() > before).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.random_range(0..250))).await;
        recorder.kill();
        let now = changes(&path);
        assert!(now.starts_with(&durable), "a durable change is missing after the kill");
        recording_kills += usize::from(now.len() > durable.len());
        durable = now;
    }
    let made = churn.stop().await;
    for test_kind in TEST_KINDS {
        test_kind.create(&client, "the-end").await;
    }
    let mut recorder = record();
    recorder
        .wait("the end marker is recorded", || kinds.iter().all(|kind| has(&path, kind, "the-end")))
        .await;
    recorder.stop().await.success();

    let recording = RecordedHistory::read(&path);
    assert!(recording.changes.starts_with(&durable));
    // The server keeps more than a minute of events, so that a restart within that misses nothing.
    assert_eq!(recording.gaps, []);
    let mut all = ComparisonCounts::default();
    for (test_kind, watch) in watches {
        let counts = recording.compare(&test_kind.kind(), &watch.await.unwrap(), None);
        assert_eq!((counts.missing.len(), counts.inferred), (0, 0), "{counts}");
        recording.check_state(&client, &test_kind.kind(), test_kind.path(), None).await;
        all += counts;
    }
    // An unchanged server version is not recorded again.
    let versions = recording.of(&Kind::new("kinescope.io", "ServerVersion")).count();
    assert_eq!(versions, 1);
    assert!(
        recording_kills > kills / 3,
        "only {recording_kills} of {kills} recorders recorded anything before the kill"
    );
    eprintln!(
        "seed {seed}: {kills} kills, {recording_kills} after something was recorded; {made} writes; {all}; in {:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_list_is_a_gap() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let test_kind = TestKind::Deployments;
    // More than one page of a list; of the others some are on the first page and some are not.
    for number in 0..510 {
        test_kind.create(&client, &format!("many-{number}")).await;
    }
    let others = ["a-changes", "a-goes", "z-changes", "z-goes"];
    for name in others {
        test_kind.create(&client, name).await;
    }
    let watch = watch(&client, test_kind.path(), "the-end").await;
    let fault = FaultKind::Delay(Duration::from_secs(60));
    let planned_fault =
        PlannedFault { path: test_kind.path().to_owned(), request_kind: RequestKind::List, nth: 2, fault };
    let proxy = Proxy::start(&cluster, FaultPlan { seed: None, faults: vec![planned_fault] }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let arguments = ["--into", "h.kine", "--kinds", "deploy", "--everything", "--no-redact"];
    let mut recorder = Recorder::start(folder.path(), proxy.kubeconfig(), &arguments);
    recorder.wait("the first page is recorded", || has(&path, &test_kind.kind(), "a-goes")).await;
    recorder.kill();
    assert!(!has_listed(&path, &[test_kind.kind()]) && !has(&path, &test_kind.kind(), "z-goes"));

    for name in others {
        match name.ends_with("goes") {
            true => test_kind.delete(&client, name).await,
            false => test_kind.label(&client, name, "1").await,
        }
    }
    let mut recorder = Recorder::start(folder.path(), proxy.kubeconfig(), &arguments);
    recorder.wait("everything is listed", || has_listed(&path, &[test_kind.kind()])).await;
    test_kind.create(&client, "the-end").await;
    recorder.wait("the end marker is recorded", || has(&path, &test_kind.kind(), "the-end")).await;
    recorder.stop().await.success();
    let recording = RecordedHistory::read(&path);
    let whys: Vec<&str> = recording.gaps.iter().map(|gap| &*gap.why).collect();
    assert!(
        !whys.is_empty() && whys.iter().all(|why| *why == "the position to resume from was unknown"),
        "{whys:?}"
    );
    let counts = recording.compare(&test_kind.kind(), &watch.await.unwrap(), None);
    recording.check_state(&client, &test_kind.kind(), test_kind.path(), None).await;
    // Both deletions, and the earlier versions of z-changes and z-goes.
    assert_eq!((counts.missing.len(), counts.inferred), (4, 1), "{counts}");
}

/// All changes, even of a history whose writer was killed.
fn changes(path: &std::path::Path) -> Vec<Change> {
    let history = History::open(path).unwrap();
    let all = history.between(Window { from: Moment::MIN, to: Moment::MAX }, &Selection::default()).unwrap();
    all.collect::<Result<_, _>>().unwrap()
}
