//! Tests of clock changes and suspended machines while a recorder runs: nothing is pruned because of them, changes keep
//! their times, and `info` reports them.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use history::{Batch, History, Writer};
use model::{Gap, IncomingChange, Moment};
use testcluster::Cluster;

use crate::common::{command, run};
use crate::recorded_history::{RecordedHistory, has};
use crate::recorder::Recorder;
use crate::server::{TestKind, client, now, shared};

const HOUR: i64 = 3600;
const YEAR: i64 = 365 * 24 * HOUR;
const TEST_KIND: TestKind = TestKind::PriorityClasses;

/// A folder in which a recorder runs with a clock that the test shifts.
struct ClockFixture {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl ClockFixture {
    /// Builds the clock; `None`, with a message, if there is no C compiler.
    fn build() -> Option<ClockFixture> {
        let folder = tempfile::tempdir().unwrap();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/record/shifted_clock.c");
        let library = folder.path().join("shifted_clock.so");
        let made =
            Command::new("cc").args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output();
        let fixture = ClockFixture { folder, library };
        match made {
            Ok(made) if made.status.success() => {
                fixture.shift(0, 0);
                Some(fixture)
            }
            Ok(made) => panic!("{}", String::from_utf8_lossy(&made.stderr)),
            Err(_) => {
                // Written directly: the test runner captures the output of print macros.
                std::io::stderr().write_all(b"skipped: no cc\n").unwrap();
                None
            }
        }
    }

    /// Shifts the wall clock by `offset` seconds, and pretends that the machine was suspended for `suspended` seconds.
    fn shift(&self, offset: i64, suspended: i64) {
        let (next, file) = (self.folder.path().join("next"), self.folder.path().join("shift"));
        std::fs::write(&next, format!("{offset} {suspended}")).unwrap();
        std::fs::rename(next, file).unwrap();
    }

    fn record(&self, cluster: &Cluster, arguments: &[&str]) -> Recorder {
        let mut command = command(self.folder.path());
        command.env("LD_PRELOAD", &self.library).env("SHIFT_FILE", self.folder.path().join("shift"));
        command.args(["record", "--into", "h.kine", "--kinds", TEST_KIND.kubectl_name(), "--kubeconfig"]);
        Recorder::run(command.arg(cluster.kubeconfig()).args(arguments))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("h.kine")
    }

    fn gap(&self, reason: &str) -> Option<Gap> {
        let gaps = History::open(&self.path()).and_then(|history| history.gaps()).unwrap_or_default();
        gaps.into_iter().find(|gap| gap.why.contains(reason))
    }

    fn info(&self) -> String {
        run(self.folder.path(), &["info", "h.kine"]).success()
    }

    /// The time at which the object was first seen.
    fn seen(&self, name: &str) -> Moment {
        let recording = RecordedHistory::read(&self.path());
        let mut of_name = recording.changes.iter().filter(|change| *change.key.name == *name);
        of_name.next().unwrap_or_else(|| panic!("{name} is not in the history")).at
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn setting_the_clock_does_not_move_changes() {
    let (Some(cluster), Some(fixture)) = (shared(), ClockFixture::build()) else { return };
    let (client, path) = (client(&cluster).await, fixture.path());
    let begun = now();
    let mut recorder = fixture.record(&cluster, &["--keep-age", "1h"]);
    let names = ["clock-before", "clock-wrong", "clock-later", "clock-right"];
    for (name, shift, step) in [
        (names[0], 0, None),
        (names[1], 10 * YEAR, Some("the clock was set forward by 10y")),
        (names[2], 10 * YEAR, None),
        (names[3], 0, Some("the clock was set back by 10y")),
    ] {
        fixture.shift(shift, 0);
        TEST_KIND.create(&client, name).await;
        TEST_KIND.label(&client, name, "1").await;
        recorder.wait(name, || has(&path, &TEST_KIND.kind(), name)).await;
        // By then retention has run too.
        let has_gap = || step.is_none_or(|step| fixture.gap(step).is_some());
        recorder
            .wait("the clock change is recorded", || has_gap() || fixture.info().contains("pruned: "))
            .await;
        assert!(!fixture.info().contains("pruned: "), "{}", fixture.info());
    }
    let output = recorder.stop().await;
    assert!(output.err.contains("warning: the clock was set forward by 10y\n"), "{}", output.err);
    output.success();
    let seen = names.map(|name| fixture.seen(name));
    assert!(seen.is_sorted() && begun <= seen[0] && seen[3] <= now(), "{seen:?}");
    let info = fixture.info();
    for step in ["forward", "back"] {
        assert!(info.contains(&format!("all kinds: the clock was set {step} by 10y")), "{info}");
    }
    run(fixture.folder.path(), &["doctor", "h.kine"]).success();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_suspension_of_the_machine_is_a_gap() {
    let (Some(cluster), Some(fixture)) = (shared(), ClockFixture::build()) else { return };
    let (client, path) = (client(&cluster).await, fixture.path());
    let mut recorder = fixture.record(&cluster, &[]);
    TEST_KIND.create(&client, "asleep-before").await;
    recorder.wait("something is recorded", || has(&path, &TEST_KIND.kind(), "asleep-before")).await;
    fixture.shift(0, 8 * HOUR);
    TEST_KIND.create(&client, "asleep-after").await;
    recorder.wait("recording continues", || has(&path, &TEST_KIND.kind(), "asleep-after")).await;
    recorder.stop().await.success();
    let gap = fixture.gap("the machine was suspended for 8h").unwrap_or_else(|| panic!("{}", fixture.info()));
    assert!(gap.kinds.is_empty() && gap.to.nanos_since(gap.from) >= 8 * HOUR * 1_000_000_000);
    assert!(fixture.seen("asleep-before") <= gap.from && gap.to <= fixture.seen("asleep-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_wrong_from_the_start_is_not_trusted() {
    let (Some(cluster), Some(fixture)) = (shared(), ClockFixture::build()) else { return };
    let (client, path) = (client(&cluster).await, fixture.path());
    // Not so far that the server's certificate has expired.
    fixture.shift(YEAR / 2, 0);
    let begun = now();
    let mut recorder = fixture.record(&cluster, &[]);
    TEST_KIND.create(&client, "early").await;
    recorder.wait("something is recorded", || has(&path, &TEST_KIND.kind(), "early")).await;
    recorder.stop().await.success();
    // The Date header of an API server has a resolution of one second.
    let (seen, second) = (fixture.seen("early"), 1_000_000_000);
    assert!(seen >= begun.plus_nanos(-second) && seen <= now().plus_nanos(second), "{seen}");
    assert!(fixture.gap("the clock is 182d ahead of the API server's").is_some(), "{}", fixture.info());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_that_ends_in_the_future_says_so() {
    let Some(cluster) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("h.kine");
    let end = now().plus_nanos(YEAR * 1_000_000_000);
    let writer = Writer::open(&path).unwrap();
    let changes = vec![IncomingChange::received(end, &"s".into(), testobjects::node("n").added())];
    writer.append(Batch { changes, ..Batch::default() }).unwrap();
    writer.close().unwrap();
    let arguments = ["--into", "h.kine", "--source", "s", "--kinds", "ns", "--keep-age", "1h"];
    let mut recorder = Recorder::start(folder.path(), cluster.kubeconfig(), &arguments);
    recorder.wait("a namespace is recorded", || has(&path, &TestKind::Namespaces.kind(), "default")).await;
    let output = recorder.stop().await.err;
    assert!(output.contains("warning: the history ends 364d in the future"), "{output}");
    let gaps = RecordedHistory::read(&path).gaps;
    assert!(
        gaps.iter().any(|gap| gap.to == end && gap.why.starts_with("the history ends 364d in the future")),
        "{gaps:?}"
    );
}
