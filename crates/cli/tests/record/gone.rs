//! A test of events that the API server has compacted while no recorder was running.

use std::collections::BTreeSet;

use history::History;
use model::{Change, Gap, Kind};
use testcluster::Options;

use crate::common::run;
use crate::recorded_history::{RecordedHistory, built_in_kinds, has, has_listed, is_closed};
use crate::recorder::Recorder;
use crate::server::{Sort, client, start, watch};

#[tokio::test(flavor = "multi_thread")]
async fn compacted_events_are_one_gap_per_kind() {
    // Without its watch cache the server has only what etcd has.
    let flags = vec!["--watch-cache=false".to_owned()];
    let Some(cluster) = start(Options { apiserver_flags: flags, ..Options::default() }) else { return };
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let kinds = Sort::ALL.map(Sort::kind);
    let record = || {
        let arguments = ["--into", "h.kine", "--everything", "--no-redact"];
        Recorder::start(folder.path(), cluster.kubeconfig(), &arguments)
    };
    let mut watches = Vec::new();
    for sort in Sort::ALL {
        watches.push((sort, watch(&client, sort.path(), "the-end").await));
    }
    for sort in Sort::ALL {
        for name in ["stays", "changes", "goes", "goes-too", "comes-back"] {
            sort.create(&client, name).await;
        }
    }
    let mut recorder = record();
    // A kind that the first run did not list would be a gap for another reason.
    recorder.wait("everything is listed", || has_listed(&path, &built_in_kinds())).await;
    for sort in Sort::ALL {
        sort.create(&client, "the-last").await;
    }
    recorder.wait("the last one is heard", || kinds.iter().all(|kind| has(&path, kind, "the-last"))).await;
    recorder.stop().await.fine();
    let before = RecordedHistory::read(&path);
    assert_eq!(before.gaps, []);
    let positions = History::open(&path).unwrap().positions().unwrap();

    for sort in Sort::ALL {
        for turn in ["1", "2"] {
            sort.label(&client, "changes", turn).await;
        }
        for name in ["goes", "goes-too", "comes-back"] {
            sort.delete(&client, name).await;
        }
        for name in ["comes-back", "comes", "never-seen"] {
            sort.create(&client, name).await;
        }
        sort.delete(&client, "never-seen").await;
    }
    cluster.compact().unwrap();
    let mut recorder = record();
    recorder.wait("the gaps are told", || kinds.iter().all(|kind| has(&path, kind, "comes"))).await;
    for sort in Sort::ALL {
        sort.create(&client, "the-end").await;
    }
    recorder.wait("the end is heard", || kinds.iter().all(|kind| has(&path, kind, "the-end"))).await;
    let said = recorder.stop().await;
    assert!(is_closed(&path));

    let film = RecordedHistory::read(&path);
    assert!(film.changes.starts_with(&before.changes));
    let of_kinds: BTreeSet<&[Kind]> = film.gaps.iter().map(|gap| &*gap.kinds).collect();
    assert_eq!(of_kinds.len(), film.gaps.len(), "one gap of each kind: {:?}", film.gaps);
    assert!(said.err.contains(&format!("{} gaps: see `kinescope info`", film.gaps.len())), "{}", said.err);
    // Also for kinds without changes, since that is not known.
    let watched: BTreeSet<Vec<Kind>> = positions.into_iter().map(|position| vec![position.kind]).collect();
    assert!(watched.iter().map(Vec::as_slice).eq(of_kinds), "{watched:?} were watched, gaps {:?}", film.gaps);
    let end = before.changes.iter().map(|change| change.seen).max().unwrap();
    for gap in &film.gaps {
        assert!(gap.why.starts_with("the server no longer had the changes after version "), "{gap:?}");
        assert!(gap.to > end, "{gap:?}");
    }
    for (sort, watch) in watches {
        let kind = sort.kind();
        let tally = film.compare(&kind, &watch.await.unwrap(), None);
        film.check_state(&client, &kind, sort.path(), None).await;
        let inferred = film.of(&kind).filter(|change| change.inferred);
        let mut gone: Vec<&str> = inferred.map(|change: &Change| &*change.key.name).collect();
        gone.sort_unstable();
        assert_eq!(gone, ["comes-back", "goes", "goes-too"], "{kind}");
        // Both labels but the last, three deletions, and everything that was created and deleted.
        assert!(tally.missing.len() >= 6, "{kind}: {tally}");
        check_warning(&film, folder.path(), sort);
    }
}

/// Checks that a reader within the gap gets a warning.
fn check_warning(film: &RecordedHistory, folder: &std::path::Path, sort: Sort) {
    let kind = sort.kind();
    let gap: &Gap = film.gaps_of(&kind)[0];
    let said =
        run(folder, &["get", sort.word(), "--all-namespaces", "--at", &gap.to.plus_nanos(-1).to_string()]);
    let words = format!(
        "warning: changes of {kind} from {} to {} may have been missed: {}",
        gap.from, gap.to, gap.why
    );
    assert_eq!(said.err.trim(), words, "of no other kind");
    // The state is that before the gap.
    assert!(said.fine().contains("goes-too"));
}
