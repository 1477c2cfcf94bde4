//! Tests of a recorder that is killed repeatedly: after restarts its history is as complete as without.

use std::time::{Duration, Instant};

use history::{History, Selection};
use model::{Change, Kind, Moment, Window};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use testcluster::{Asked, Options, Plan, Proxy, Step, Trouble};

use crate::recorded_history::{ComparisonCounts, RecordedHistory, has, has_listed};
use crate::recorder::Recorder;
use crate::server::{Churn, Sort, client, seed, shared, start, watch};

const SORTS: [Sort; 2] = [Sort::Pods, Sort::Nodes];

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_kills_leave_no_trace() {
    let Some(cluster) = start(Options::default()) else { return };
    let (seed, begun) = (seed(), Instant::now());
    let mut chance = Pcg64::seed_from_u64(seed);
    let client = client(&cluster).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let kinds = SORTS.map(Sort::kind);
    let record = || {
        let arguments = ["--into", "h.kine", "--kinds", "pods,nodes", "--everything", "--no-redact"];
        Recorder::start(folder.path(), cluster.kubeconfig(), &arguments)
    };
    let mut watches = Vec::new();
    for sort in SORTS {
        watches.push((sort, watch(&client, sort.path(), "the-end").await));
    }
    let mut recorder = record();
    recorder.wait("everything is listed", || has_listed(&path, &kinds)).await;
    recorder.kill();

    let churn = Churn::start(&cluster, seed, &SORTS, 3, Duration::from_millis(25)).await;
    // The changes found durable so far, and the number of kills after which there were new ones.
    let mut durable: Vec<Change> = Vec::new();
    let kills = testobjects::cases(50, 300);
    let mut fruitful = 0;
    for _ in 0..kills {
        let mut recorder = record();
        // Half of them are killed before they record anything, the others while recording.
        if chance.random_range(0..2) == 0 {
            let before = durable.len();
            recorder.wait("something is recorded", || changes(&path).len() > before).await;
        }
        tokio::time::sleep(Duration::from_millis(chance.random_range(0..250))).await;
        recorder.kill();
        let now = changes(&path);
        assert!(now.starts_with(&durable), "what was durable is no more");
        fruitful += usize::from(now.len() > durable.len());
        durable = now;
    }
    let made = churn.stop().await;
    for sort in SORTS {
        sort.create(&client, "the-end").await;
    }
    let mut recorder = record();
    recorder.wait("the end is heard", || kinds.iter().all(|kind| has(&path, kind, "the-end"))).await;
    recorder.stop().await.fine();

    let film = RecordedHistory::read(&path);
    assert!(film.changes.starts_with(&durable));
    // The server keeps more than a minute of events, so that a restart within that misses nothing.
    assert_eq!(film.gaps, []);
    let mut all = ComparisonCounts::default();
    for (sort, watch) in watches {
        let tally = film.compare(&sort.kind(), &watch.await.unwrap(), None);
        assert_eq!((tally.missing.len(), tally.inferred), (0, 0), "{tally}");
        film.check_state(&client, &sort.kind(), sort.path(), None).await;
        all += tally;
    }
    // An unchanged server version is not recorded again.
    let versions = film.of(&Kind::new("kinescope.io", "ServerVersion")).count();
    assert_eq!(versions, 1);
    assert!(fruitful > kills / 3, "only {fruitful} of {kills} recorders lived to see anything");
    eprintln!(
        "seed {seed}: {kills} kills, {fruitful} after something was recorded; {made} writes; {all}; in {:?}",
        begun.elapsed()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_in_the_middle_of_a_list_is_a_gap() {
    let Some(cluster) = shared() else { return };
    let client = client(&cluster).await;
    let sort = Sort::Deployments;
    // More than one page of a list; of the others some are on the first page and some are not.
    for number in 0..510 {
        sort.create(&client, &format!("many-{number}")).await;
    }
    let others = ["a-changes", "a-goes", "z-changes", "z-goes"];
    for name in others {
        sort.create(&client, name).await;
    }
    let watch = watch(&client, sort.path(), "the-end").await;
    let trouble = Trouble::Delay(Duration::from_secs(60));
    let step = Step { path: sort.path().to_owned(), asked: Asked::List, nth: 2, trouble };
    let proxy = Proxy::start(&cluster, Plan { seed: None, steps: vec![step] }).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let arguments = ["--into", "h.kine", "--kinds", "deploy", "--everything", "--no-redact"];
    let mut recorder = Recorder::start(folder.path(), proxy.kubeconfig(), &arguments);
    recorder.wait("the first page is there", || has(&path, &sort.kind(), "a-goes")).await;
    recorder.kill();
    assert!(!has_listed(&path, &[sort.kind()]) && !has(&path, &sort.kind(), "z-goes"));

    for name in others {
        match name.ends_with("goes") {
            true => sort.delete(&client, name).await,
            false => sort.label(&client, name, "1").await,
        }
    }
    let mut recorder = Recorder::start(folder.path(), proxy.kubeconfig(), &arguments);
    recorder.wait("everything is listed", || has_listed(&path, &[sort.kind()])).await;
    sort.create(&client, "the-end").await;
    recorder.wait("the end is heard", || has(&path, &sort.kind(), "the-end")).await;
    recorder.stop().await.fine();
    let film = RecordedHistory::read(&path);
    let whys: Vec<&str> = film.gaps.iter().map(|gap| &*gap.why).collect();
    assert!(
        !whys.is_empty() && whys.iter().all(|why| *why == "the recorder did not know where to go on"),
        "{whys:?}"
    );
    let tally = film.compare(&sort.kind(), &watch.await.unwrap(), None);
    film.check_state(&client, &sort.kind(), sort.path(), None).await;
    // Both deletions, and the earlier versions of z-changes and z-goes.
    assert_eq!((tally.missing.len(), tally.inferred), (4, 1), "{tally}");
}

/// All changes, even of a history whose writer was killed.
fn changes(path: &std::path::Path) -> Vec<Change> {
    let history = History::open(path).unwrap();
    let all = history.between(Window { from: Moment::MIN, to: Moment::MAX }, &Selection::default()).unwrap();
    all.collect::<Result<_, _>>().unwrap()
}
