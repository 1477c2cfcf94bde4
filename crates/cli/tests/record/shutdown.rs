//! Tests of how recordings end, by a signal or after their duration: the history is always complete.

use std::path::Path;
use std::time::{Duration, Instant};

use testcluster::Cluster;

use crate::recorded_history::{RecordedHistory, has, has_listed, is_closed};
use crate::recorder::Recorder;
use crate::server::{Churn, TestKind, client, seed, shared, watch};

const TEST_KINDS: [TestKind; 2] = [TestKind::Pods, TestKind::Nodes];
/// One second, with some margin for a busy machine.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_complete_and_resumable_however_it_ends() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let mut watches = Vec::new();
    for test_kind in TEST_KINDS {
        watches.push((test_kind, watch(&client, test_kind.path(), "the-end-of-ends").await));
    }
    let kinds = TEST_KINDS.map(TestKind::kind);
    let mut recorder = record(&cluster, folder.path(), &[]);
    recorder.wait("everything is listed", || has_listed(&path, &kinds)).await;
    recorder.stop().await.success();
    let churn = Churn::start(&cluster, seed(), &TEST_KINDS, 2, Duration::from_millis(10)).await;
    for (how, why) in [("-INT", "interrupted"), ("-TERM", "terminated"), ("--duration", "duration elapsed")] {
        let before = RecordedHistory::read(&path).changes.len();
        let begun = Instant::now();
        let arguments: &[&str] = if how == "--duration" { &["--duration", "2"] } else { &[] };
        let mut recorder = record(&cluster, folder.path(), arguments);
        if how != "--duration" {
            let made = churn.made();
            recorder.wait("a lot happens", || churn.made() > made + 200).await;
            let signaled_at = Instant::now();
            recorder.signal(how);
            check_end(recorder, &path, before, why).await;
            assert!(signaled_at.elapsed() < STOP_TIMEOUT, "{how}: {:?}", signaled_at.elapsed());
        } else {
            check_end(recorder, &path, before, why).await;
            assert!(begun.elapsed() >= Duration::from_secs(2));
        }
    }
    churn.stop().await;
    for test_kind in TEST_KINDS {
        test_kind.create(&client, "the-end-of-ends").await;
    }
    let mut recorder = record(&cluster, folder.path(), &[]);
    recorder
        .wait("the end marker is recorded", || kinds.iter().all(|kind| has(&path, kind, "the-end-of-ends")))
        .await;
    recorder.stop().await.success();
    let recording = RecordedHistory::read(&path);
    assert_eq!(recording.gaps, []);
    for (test_kind, watch) in watches {
        let counts = recording.compare(&test_kind.kind(), &watch.await.unwrap(), None);
        assert_eq!((counts.missing.len(), counts.inferred), (0, 0), "{counts}");
    }
}

fn record(cluster: &Cluster, folder: &Path, more: &[&str]) -> Recorder {
    let arguments = ["--into", "h.kine", "--kinds", "pods,nodes", "--everything", "--no-redact"];
    Recorder::start(folder, cluster.kubeconfig(), &[&arguments, more].concat())
}

/// Checks that the recorder succeeds, and that its summary matches the history.
async fn check_end(recorder: Recorder, path: &Path, before: usize, why: &str) {
    let output = recorder.end().await;
    let summary = output.err.lines().last().unwrap_or_default().to_owned();
    output.success();
    let recorded = RecordedHistory::read(path).changes.len() - before;
    let (count, rest) = summary.split_once(' ').unwrap();
    assert_eq!(count.replace(',', "").parse(), Ok(recorded), "{summary}");
    assert!(rest.starts_with("changes recorded from real to h.kine in "), "{summary}");
    assert!(rest.ends_with(&format!(" s ({why})")), "{summary}");
    assert!(recorded > 0 && is_closed(path));
}
