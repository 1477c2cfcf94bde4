//! A test of events that the API server compacted while no recorder was running.

use std::collections::BTreeSet;

use history::History;
use model::{Change, Gap, Kind};
use testcluster::ClusterOptions;

use crate::common::run;
use crate::recorded_history::{RecordedHistory, built_in_kinds, has, has_listed, is_closed};
use crate::recorder::Recorder;
use crate::server::{TestKind, client, start, watch};

#[tokio::test(flavor = "multi_thread")]
async fn compacted_events_are_one_gap_per_kind() {
    // Without its watch cache the server has only what etcd has.
    let flags = vec!["--watch-cache=false".to_owned()];
    let Some(cluster) = start(ClusterOptions { apiserver_flags: flags, ..ClusterOptions::default() }) else {
        return;
    };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let kinds = TestKind::ALL.map(TestKind::kind);
    let record = || {
        let arguments = ["--into", "h.kine", "--everything", "--no-redact"];
        Recorder::start(folder.path(), cluster.kubeconfig(), &arguments)
    };
    let mut watches = Vec::new();
    for test_kind in TestKind::ALL {
        watches.push((test_kind, watch(&client, test_kind.path(), "the-end").await));
    }
    for test_kind in TestKind::ALL {
        for name in ["stays", "changes", "goes", "goes-too", "comes-back"] {
            test_kind.create(&client, name).await;
        }
    }
    let mut recorder = record();
    // A kind that the first run did not list would be a gap for another reason.
    recorder.wait("everything is listed", || has_listed(&path, &built_in_kinds())).await;
    for test_kind in TestKind::ALL {
        test_kind.create(&client, "the-last").await;
    }
    recorder
        .wait("the last object is recorded", || kinds.iter().all(|kind| has(&path, kind, "the-last")))
        .await;
    recorder.stop().await.success();
    let before = RecordedHistory::read(&path);
    assert_eq!(before.gaps, []);
    let positions = History::open(&path).unwrap().positions().unwrap();

    for test_kind in TestKind::ALL {
        for turn in ["1", "2"] {
            test_kind.label(&client, "changes", turn).await;
        }
        for name in ["goes", "goes-too", "comes-back"] {
            test_kind.delete(&client, name).await;
        }
        for name in ["comes-back", "comes", "never-seen"] {
            test_kind.create(&client, name).await;
        }
        test_kind.delete(&client, "never-seen").await;
    }
    cluster.compact().unwrap();
    let mut recorder = record();
    recorder
        .wait("the objects created meanwhile are recorded", || {
            kinds.iter().all(|kind| has(&path, kind, "comes"))
        })
        .await;
    for test_kind in TestKind::ALL {
        test_kind.create(&client, "the-end").await;
    }
    recorder
        .wait("the end marker is recorded", || kinds.iter().all(|kind| has(&path, kind, "the-end")))
        .await;
    let output = recorder.stop().await;
    assert!(is_closed(&path));

    let recording = RecordedHistory::read(&path);
    assert!(recording.changes.starts_with(&before.changes));
    let of_kinds: BTreeSet<&[Kind]> = recording.gaps.iter().map(|gap| &*gap.kinds).collect();
    assert_eq!(of_kinds.len(), recording.gaps.len(), "one gap of each kind: {:?}", recording.gaps);
    assert!(
        output.err.contains(&format!("{} gaps: see `kinescope info`", recording.gaps.len())),
        "{}",
        output.err
    );
    // Also for kinds without changes, since that is not known.
    let watched: BTreeSet<Vec<Kind>> = positions.into_iter().map(|position| vec![position.kind]).collect();
    assert!(
        watched.iter().map(Vec::as_slice).eq(of_kinds),
        "{watched:?} were watched, gaps {:?}",
        recording.gaps
    );
    let end = before.changes.iter().map(|change| change.seen).max().unwrap();
    for gap in &recording.gaps {
        assert!(gap.why.starts_with("the server no longer had the changes after version "), "{gap:?}");
        assert!(gap.to > end, "{gap:?}");
    }
    for (test_kind, watch) in watches {
        let kind = test_kind.kind();
        let counts = recording.compare(&kind, &watch.await.unwrap(), None);
        recording.check_state(&client, &kind, test_kind.path(), None).await;
        let inferred = recording.of(&kind).filter(|change| change.inferred);
        let mut deleted: Vec<&str> = inferred.map(|change: &Change| &*change.key.name).collect();
        deleted.sort_unstable();
        assert_eq!(deleted, ["comes-back", "goes", "goes-too"], "{kind}");
        // Both labels but the last, three deletions, and everything that was created and deleted.
        assert!(counts.missing.len() >= 6, "{kind}: {counts}");
        check_warning(&recording, folder.path(), test_kind);
    }
}

/// Checks that a reader within the gap gets a warning.
fn check_warning(recording: &RecordedHistory, folder: &std::path::Path, test_kind: TestKind) {
    let kind = test_kind.kind();
    let gap: &Gap = recording.gaps_of(&kind)[0];
    let output = run(
        folder,
        &["get", test_kind.kubectl_name(), "--all-namespaces", "--at", &gap.to.plus_nanos(-1).to_string()],
    );
    let warning = format!(
        "warning: changes of {kind} from {} to {} may have been missed: {}",
        gap.from, gap.to, gap.why
    );
    assert_eq!(output.err.trim(), warning, "there are warnings about other kinds");
    // The state is that before the gap.
    assert!(output.success().contains("goes-too"));
}
