//! A test with thousands of changes and every kind of fault between recorder and API server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kubernetes::change_filter::{FilterOptions, RedactKey};
use model::Moment;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use testcluster::{
    ClusterOptions, ErrorResponse, FaultKind, FaultPlan, InjectedFault, PlannedFault, Proxy, RequestKind,
    WatchFault,
};

use crate::common::run;
use crate::recorded_history::{ComparisonCounts, RecordedHistory, has, has_listed, is_closed, merge_gaps};
use crate::recorder::Recorder;
use crate::server::{Churn, PASSWORD, TestKind, WatchedEvent, client, moment, seed, start, watch};

/// A recorder behind a fault-injecting proxy.
struct FaultyRecorder {
    seed: u64,
    /// `None` with `--everything`.
    rules: Option<FilterOptions>,
    folder: tempfile::TempDir,
    proxy: Proxy,
    plan: FaultPlan,
    recorder: Option<Recorder>,
}

/// More than one page of a list.
const MANY: usize = 520;
const KEY: [u8; 16] = *b"0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn with_faults_every_event_is_recorded_or_within_a_gap() {
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let (seed, begun) = (seed(), Instant::now());
    let client = client(&cluster).await;
    for number in 0..MANY {
        TestKind::PriorityClasses.create(&client, &format!("many-{number}")).await;
    }

    let mut faulty_recorders: Vec<FaultyRecorder> = Vec::new();
    for (seed, rules) in
        [(seed, None), (seed + 1, None), (seed + 2, Some(FilterOptions { redact: Some(RedactKey(KEY)) }))]
    {
        let plan = plan(seed);
        let proxy = Proxy::start(&cluster, plan.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut faulty_recorder = FaultyRecorder { seed, rules, folder, proxy, plan, recorder: None };
        faulty_recorder.start();
        faulty_recorders.push(faulty_recorder);
    }
    let mut watches = Vec::new();
    for test_kind in TestKind::ALL {
        watches.push((test_kind, watch(&client, test_kind.path(), "the-end").await));
    }
    let kinds = TestKind::ALL.map(TestKind::kind);
    for faulty_recorder in &mut faulty_recorders {
        let path = faulty_recorder.path();
        faulty_recorder.wait("everything is listed", |_| has_listed(&path, &kinds)).await;
    }

    // Lasting faults end when the recorder is stopped and started again.
    let churn = Churn::start(&cluster, seed, &TestKind::ALL, 4, Duration::from_millis(20)).await;
    for round in 1..=ROUNDS {
        for faulty_recorder in &mut faulty_recorders {
            faulty_recorder
                .wait(&format!("the faults of round {round} have been injected"), |faulty_recorder| {
                    faulty_recorder.has_injected(round)
                })
                .await;
            faulty_recorder.recorder.take().unwrap().stop().await.success();
            let made = churn.made();
            faulty_recorder.start();
            faulty_recorder.wait("something happens", |_| churn.made() > made).await;
        }
    }
    let made = churn.stop().await;
    for test_kind in TestKind::ALL {
        test_kind.create(&client, "the-end").await;
    }
    let mut seen = Vec::new();
    for (test_kind, watch) in watches {
        seen.push((test_kind, watch.await.unwrap()));
    }

    for faulty_recorder in &mut faulty_recorders {
        let path = faulty_recorder.path();
        faulty_recorder
            .wait("the end marker is recorded", |_| kinds.iter().all(|kind| has(&path, kind, "the-end")))
            .await;
        let output = faulty_recorder.recorder.take().unwrap().stop().await;
        assert!(output.err.contains(" to h.kine in "), "{}", output.err);
        let recording = RecordedHistory::read(&path);
        let faults = faulty_recorder.proxy.faults();
        let mut all = ComparisonCounts::default();
        for (test_kind, seen) in &seen {
            let counts = recording.compare(&test_kind.kind(), seen, faulty_recorder.rules.as_ref());
            recording
                .check_state(&client, &test_kind.kind(), test_kind.path(), faulty_recorder.rules.as_ref())
                .await;
            check_gaps(&recording, *test_kind, &faults);
            check_losses(&counts.missing, *test_kind, seen, &faults);
            all += counts;
        }
        assert!(
            !all.missing.is_empty(),
            "no event was missed in spite of the faults of seed {}: {all}",
            faulty_recorder.seed
        );
        check_export(&recording, faulty_recorder);
        eprintln!("seed {}: {made} writes; {all}; {}", faulty_recorder.seed, counted(&faults));
    }
    eprintln!("in {:?}", begun.elapsed());
}

impl FaultyRecorder {
    fn path(&self) -> PathBuf {
        self.folder.path().join("h.kine")
    }

    fn start(&mut self) {
        let kinds = TestKind::ALL.map(TestKind::kubectl_name).join(",");
        let mut arguments = vec!["--into", "h.kine", "--kinds", &kinds];
        match &self.rules {
            None => arguments.extend(["--everything", "--no-redact"]),
            Some(_) => {
                let key: String = KEY.iter().chain(&KEY).map(|byte| format!("{byte:02x}")).collect();
                std::fs::write(self.folder.path().join("key"), key).unwrap();
                arguments.extend(["--redact-key", "key"]);
            }
        }
        self.recorder = Some(Recorder::start(self.folder.path(), self.proxy.kubeconfig(), &arguments));
    }

    async fn wait(&mut self, what: &str, condition: impl Fn(&FaultyRecorder) -> bool) {
        let mut recorder = self.recorder.take().unwrap();
        recorder.wait(&format!("seed {}: {what}", self.seed), || condition(self)).await;
        self.recorder = Some(recorder);
    }

    /// Whether all faults up to this round have been injected.
    fn has_injected(&self, round: usize) -> bool {
        let faults = self.proxy.faults();
        let is_injected = |planned: &PlannedFault| faults.iter().any(|fault| fault.planned == *planned);
        // Bookmarks are sent once a minute, so a watch may end before there is one to drop.
        let mut planned_faults =
            self.plan.faults.iter().filter(|planned| planned.fault != FaultKind::DropBookmarks);
        planned_faults.all(|planned| round_of(planned) > round || is_injected(planned))
    }
}

// === The plan ===

const ROUNDS: usize = 2;
/// The number of faulty watches of a kind per round; the last fault is a lasting one.
const WATCHES: u32 = 11;

/// The round of a fault.
fn round_of(planned: &PlannedFault) -> usize {
    match planned.request_kind {
        RequestKind::List | RequestKind::Write => 1,
        RequestKind::Watch => planned.nth.div_ceil(WATCHES) as usize,
    }
}

/// All faults for all kinds, in random order.
fn plan(seed: u64) -> FaultPlan {
    let mut rng = Pcg64::seed_from_u64(seed);
    let mut planned_faults = Vec::new();
    let lasting: Vec<[FaultKind; TestKind::ALL.len()]> = (1..=ROUNDS)
        .map(|round| {
            let mut midway = |what| FaultKind::DuringWatch { after: rng.random_range(0..9), what };
            let mut lasting = [
                midway(WatchFault::Hang),
                midway(WatchFault::Hang),
                midway(WatchFault::RepeatEvent),
                midway(WatchFault::RepeatEvent),
                // The start of such a watch cannot be observed, so that no other can be awaited after it.
                if round == ROUNDS { FaultKind::DropBookmarks } else { midway(WatchFault::RepeatEvent) },
                FaultKind::Delay(Duration::from_millis(rng.random_range(100..900))),
            ];
            shuffle(&mut lasting, &mut rng);
            lasting
        })
        .collect();
    let refused = rng.random_range(0..TestKind::ALL.len());
    for (index, test_kind) in TestKind::ALL.into_iter().enumerate() {
        let mut add_fault = |request_kind, nth, fault| {
            planned_faults.push(PlannedFault { path: test_kind.path().to_owned(), request_kind, nth, fault })
        };
        let mut lists = [
            FaultKind::TruncateList,
            FaultKind::CloseConnection,
            FaultKind::Respond(ErrorResponse::TooManyRequests),
            FaultKind::Delay(Duration::from_millis(rng.random_range(100..600))),
            FaultKind::Respond(ErrorResponse::Gone),
        ];
        shuffle(&mut lists, &mut rng);
        for (nth, fault) in [1, 3, 5].into_iter().zip(lists) {
            add_fault(RequestKind::List, nth, fault);
        }
        for round in 0..ROUNDS as u32 {
            let mut refusals = [
                FaultKind::Respond(ErrorResponse::Gone),
                FaultKind::Respond(ErrorResponse::TooManyRequests),
                FaultKind::Respond(ErrorResponse::InternalError),
                FaultKind::Respond(ErrorResponse::Unavailable),
                FaultKind::CloseConnection,
            ];
            if index == refused && round == 0 {
                refusals[3] = FaultKind::Respond(ErrorResponse::Unauthorized);
            }
            shuffle(&mut refusals, &mut rng);
            let mut watch_faults = [
                WatchFault::Gone,
                WatchFault::Gone,
                WatchFault::TruncateEvent,
                WatchFault::TruncateEvent,
                WatchFault::TruncateEvent,
            ];
            shuffle(&mut watch_faults, &mut rng);
            let first = round * WATCHES + 1;
            for (nth, (refusal, what)) in (0..).zip(refusals.into_iter().zip(watch_faults)) {
                add_fault(RequestKind::Watch, first + 2 * nth, refusal);
                // A watch without any data is retried with growing backoff: once is enough.
                let after = if nth == 3 { 0 } else { rng.random_range(1..12) };
                add_fault(RequestKind::Watch, first + 2 * nth + 1, FaultKind::DuringWatch { after, what });
            }
            add_fault(RequestKind::Watch, first + WATCHES - 1, lasting[round as usize][index]);
        }
    }
    FaultPlan { seed: Some(seed), faults: planned_faults }
}

fn shuffle<T>(list: &mut [T], rng: &mut impl Rng) {
    for index in (1..list.len()).rev() {
        list.swap(index, rng.random_range(0..=index));
    }
}

// === Further checks ===

/// Checks that each gap has a reason, and that the proxy injected a fault since the last event before it.
fn check_gaps(recording: &RecordedHistory, test_kind: TestKind, faults: &[InjectedFault]) {
    let kind = test_kind.kind();
    let gaps = recording.gaps_of(&kind);
    assert!(gaps.iter().all(|gap| !gap.why.is_empty() && gap.from <= gap.to), "{gaps:?}");
    let faults: Vec<Moment> = faults
        .iter()
        .filter(|fault| fault.planned.path == test_kind.path())
        .map(|fault| moment(fault.at))
        .collect();
    for gap in merge_gaps(&gaps) {
        let before = recording.of(&kind).map(|change| change.seen).filter(|seen| *seen < gap.from);
        let before = before.max().unwrap_or(Moment::MIN);
        let is_caused_by_fault = faults.iter().any(|at| before <= *at && *at <= gap.to);
        assert!(is_caused_by_fault, "{gap:?} of {test_kind:?}: {faults:?}");
    }
}

/// Checks that missing changes could not be recorded: they happened after the last event of a watch that got 410 Gone,
/// and before the version of the next watch.
fn check_losses(missing: &[u64], test_kind: TestKind, seen: &[WatchedEvent], faults: &[InjectedFault]) {
    let is_watch = |fault: &&InjectedFault| {
        fault.planned.request_kind == RequestKind::Watch && fault.planned.path == test_kind.path()
    };
    let watches: Vec<&InjectedFault> = faults.iter().filter(is_watch).collect();
    let begun_at = |fault: &InjectedFault| -> u64 {
        let version = fault.request.split_once("resourceVersion=").unwrap().1;
        version.split('&').next().unwrap().parse().unwrap()
    };
    let versions: Vec<u64> =
        seen.iter().filter(|event| !event.is_initial()).map(WatchedEvent::version).collect();
    let mut missed_ranges: Vec<(u64, u64)> = Vec::new();
    for (index, watch) in watches.iter().enumerate() {
        let passed = match watch.planned.fault {
            FaultKind::Respond(ErrorResponse::Gone) => 0,
            FaultKind::DuringWatch { after, what: WatchFault::Gone } => after as usize,
            _ => continue,
        };
        let begun = begun_at(watch);
        let last_received =
            versions.iter().filter(|version| **version > begun).take(passed).last().unwrap_or(&begun);
        // After the last fault there may be a watch that has no bookmarks to drop.
        missed_ranges.push((*last_received, watches.get(index + 1).map_or(u64::MAX, |next| begun_at(next))));
    }
    for version in missing {
        let is_in_missed_range =
            missed_ranges.iter().any(|(after, until)| after < version && version <= until);
        assert!(is_in_missed_range, "{version} of {test_kind:?} was available: {missed_ranges:?}");
    }
}

/// Checks that an export has all changes and gaps in order, and secrets only where they belong.
fn check_export(recording: &RecordedHistory, faulty_recorder: &FaultyRecorder) {
    let lines = run(faulty_recorder.folder.path(), &["export", "h.kine", "--format", "jsonl"]).success();
    let mut changes = recording.changes.iter();
    let mut gaps = 0;
    for line in lines.lines() {
        if line.contains(r#""type":"GAP""#) {
            gaps += 1;
            continue;
        }
        let change = changes.next().unwrap();
        assert!(line.contains(change.what.object().as_str()), "{line} is not {change:?}");
        assert!(
            line.contains(&format!(r#""type":"{}""#, change.what.event_type())),
            "{line} is not {change:?}"
        );
    }
    assert!(changes.next().is_none());
    assert_eq!(gaps, recording.gaps.len());
    assert_eq!(lines.contains(PASSWORD), faulty_recorder.rules.is_none());
    run(faulty_recorder.folder.path(), &["doctor", "h.kine"]).success();
    assert!(is_closed(&faulty_recorder.path()));
}

/// `12 × cut the next one, …`
fn counted(faults: &[InjectedFault]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for fault in faults {
        let description = fault.planned.fault.to_string();
        // Without the number of events and the duration.
        let description = description.split_once(" events ").map_or(&*description, |(_, what)| what);
        let description = if description.starts_with("wait for") { "wait" } else { description };
        let list = if fault.planned.request_kind == RequestKind::List { " to a list" } else { "" };
        *counts.entry(format!("{description}{list}")).or_default() += 1;
    }
    let parts: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} × {what}")).collect();
    parts.join(", ")
}
