//! Tests of the library as a consumer uses it, on a small Gardener cluster that is fully known.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod real_recording;
mod shop;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::time::Duration;

use formats::scaling_scenario::Scenario;
use formats::{Format, ImportItem, Input, ReadOptions};
use history::History;
use model::{Moment, What, Window};
use replay::decisions::DecisionKind;
use replay::demands::extract_demands;
use replay::history_part::HistoryPart;
use replay::plan::{ReplayListener, ReplayOptions, ReplayPlan};
use replay::play::{BatchObserver, BatchSettings, ReplayObserver, play_in_batches};
use replay::replayer::{ReplayReport, Replayer, ReplayerError, ScalingEventKind};
use replay::snapshot::{PodInfo, ScheduleStatus};
use scheduler::Settings;
use simulation as run;
use simulation::latency::Latencies;
use simulation::{Observer, PodDemand, RunSetup};

use shop::{END, GROUP, START, Shop, at};

const BATCH_INTERVAL: Duration = Duration::from_secs(10);

fn names(pods: &[PodInfo]) -> Vec<&str> {
    pods.iter().map(|pod| pod.meta.name.as_str()).collect()
}

fn complete_duration(replayer: &Replayer) -> Duration {
    let nanos = replayer.record_end().nanos_since(replayer.complete_from());
    Duration::from_nanos(u64::try_from(nanos).unwrap())
}

fn replayed(shop: &Shop) -> ReplayReport {
    let replayer = Replayer::open(&shop.path).unwrap();
    replayer.replay(complete_duration(&replayer), BATCH_INTERVAL).unwrap()
}

#[test]
fn the_cluster_at_a_moment_has_every_part() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    assert_eq!((replayer.record_start(), replayer.record_end()), (at(START), at(END)));
    assert_eq!(replayer.complete_from(), at(START + 1), "a recorder lists one kind after another");

    let cluster = replayer.cluster_at(at(START + 1)).unwrap();
    assert_eq!(names(&cluster.unscheduled_pods), ["waiting"]);
    assert_eq!(names(&cluster.scheduled_pods), ["old"], "finished pods are left out");
    assert_eq!(names(&cluster.nominated_pods), ["promised"]);
    assert_eq!(cluster.nominated_pods[0].nominated, "n1");
    assert_eq!(cluster.unscheduled_pods[0].status, ScheduleStatus::Unscheduled);
    let old = &cluster.scheduled_pods[0];
    assert_eq!((old.node_name(), old.requests["cpu"].to_string()), ("n1", "1".to_owned()));
    assert_eq!(
        cluster.nodes.iter().map(|node| (&*node.meta.name, node.volumes)).collect::<Vec<_>>(),
        [("n1", 25)]
    );
    let pool = &cluster.worker_pools[0];
    assert_eq!((&*pool.meta.name, pool.minimum, pool.maximum), ("p1", 1, 4));
    let group = &cluster.node_groups[0];
    assert_eq!((&*group.name, &*group.pool, &*group.zone), (GROUP, "p1", "z1"));
    assert_eq!((group.target, group.min, group.max), (1, 1, 4));
    let machines = &cluster.machine_deployments[0];
    assert_eq!((&*machines.meta.name, machines.replicas), ("shoot--a--b-p1-z1", 1));
    let template = &cluster.node_templates[0];
    assert_eq!((&*template.name, template.allocatable["cpu"].to_string()), (GROUP, "1920m".to_owned()));
    assert_eq!(cluster.priority_classes[0].value, 7);
    let settings = cluster.autoscaler.unwrap();
    assert_eq!((&*settings.expander, settings.scan_interval_millis), ("least-waste", 10_000));
    assert_eq!(settings.groups, BTreeMap::from([(GROUP.to_owned(), (1, 4))]));

    let later = replayer.cluster_at(at(START + 41)).unwrap();
    let a = later.scheduled_pods.iter().find(|pod| pod.meta.name == "a").unwrap();
    assert_eq!(a.meta.deleted, Some(at(START + 70)), "with the time of its deletion");
}

#[test]
fn recorded_scaling_events_are_listed() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    let events_between = |from, to| -> Vec<String> {
        let events = replayer.scaling_events(at(START + from), at(START + to)).unwrap();
        let describe = |what: &ScalingEventKind| match what {
            ScalingEventKind::AutoscalerEvent { reason, object: about, .. } => format!("{reason} {about}"),
            ScalingEventKind::NodeAdded { node, group } => format!("added {node} {group}"),
            ScalingEventKind::NodeDeleted { node, group } => format!("deleted {node} {group}"),
        };
        events
            .iter()
            .map(|event| {
                format!("{} {}", event.at.nanos_since(at(START)) / 1_000_000_000, describe(&event.kind))
            })
            .collect()
    };
    assert_eq!(
        events_between(0, 120),
        [
            format!("1 added n1 {GROUP}"),
            "15 TriggeredScaleUp default/waiting".to_owned(),
            format!("20 added n2 {GROUP}"),
            "70 ScaleDown n2".to_owned(),
            format!("75 deleted n2 {GROUP}"),
        ]
    );
    assert_eq!(events_between(20, 20), [format!("20 added n2 {GROUP}")]);
    assert_eq!(events_between(21, 69), Vec::<String>::new());
}

#[test]
fn a_replay_fills_every_field_of_its_report() {
    let shop = Shop::open();
    let report = replayed(&shop);
    assert_eq!(report.batch_interval, BATCH_INTERVAL);
    assert_eq!((report.start.at, report.end.at), (at(START + 1), at(END)));
    assert_eq!(names(&report.start.unscheduled_pods), ["waiting"]);
    assert!(report.start.autoscaler.is_some());
    assert_eq!(report.start.autoscaler, report.end.autoscaler, "the autoscaler is the recorded one");

    // Batches are from 1 to 11, to 21, to 31: pods are created together at their beginning.
    let batches: Vec<(i64, Vec<&str>)> = report
        .deployed_pods
        .iter()
        .map(|batch| (batch.recorded.nanos_since(at(START)) / 1_000_000_000, names(&batch.pods)))
        .collect();
    assert_eq!(batches, [(1, vec!["promised", "waiting", "a"]), (11, vec!["b", "d"]), (21, vec!["c"])]);
    assert!(
        report.is_stable(),
        "a pod that no group helps does not delay settling: {:?}",
        report.deployed_pods
    );
    let first = &report.deployed_pods[0];
    assert_eq!(first.began, at(START + 1));
    assert!(first.settled >= at(START + 6), "nodes took five seconds in the record");

    // A new node has room for one of the two large pods, and n1 for none of them.
    assert_eq!(report.scaled_up_groups, BTreeMap::from([(GROUP.to_owned(), 2)]));
    assert_eq!(report.scaled_up_nodes.len(), 2);
    assert!(report.scaled_up_nodes.iter().all(|node| node.labels["worker.gardener.cloud/pool"] == "p1"));
    let end = &report.end;
    assert_eq!(end.nodes.len(), 3, "n2 is recorded, and nothing is removed");
    assert_eq!((end.node_groups[0].target, end.machine_deployments[0].replicas), (3, 3));
    assert_eq!(names(&end.unscheduled_pods), ["c"]);
    assert_eq!(names(&end.scheduled_pods), ["b", "d", "old", "promised", "waiting"], "a was deleted");

    let of = |name: &str| {
        let pods = report.deployed_pods.iter().flat_map(|batch| &batch.pods);
        pods.into_iter().find(|pod| pod.meta.name == name).unwrap()
    };
    assert!(of("a").meta.deleted.is_some(), "with the time of its deletion");
    assert_eq!(of("b").meta.deleted, None);
    assert_ne!(of("a").node_name(), of("waiting").node_name());
    assert_eq!((of("c").node_name(), of("c").status), ("", ScheduleStatus::Unscheduled));

    let scaled_up: i64 =
        report.decisions.iter().filter_map(|decision| decision.size).map(|size| size.to - size.from).sum();
    assert_eq!(scaled_up, 2);
    let bound = report.decisions.iter().filter(|entry| entry.kind == DecisionKind::Bound).count();
    assert_eq!(bound, 5, "all pods except the one that no group helps");
    assert!(report.decisions.is_sorted_by_key(|decision| decision.at));
}

#[test]
fn equal_replays_give_equal_reports() {
    let shop = Shop::open();
    assert_eq!(format!("{:?}", replayed(&shop)), format!("{:?}", replayed(&shop)));
    assert_eq!(scenarios(&shop), scenarios(&shop));
}

#[test]
fn a_replay_can_have_other_settings() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    let off = replayer.prepare().without_autoscaler().run().unwrap();
    assert_eq!(off.scaled_up_groups, BTreeMap::new());
    assert!(off.start.autoscaler.is_some() && off.end.autoscaler.is_none(), "only one was recorded");
    assert_eq!(off.batch_interval, BATCH_INTERVAL, "the default of the autoscaler");
    assert!(off.end.nodes.iter().all(|node| node.meta.name == "n1"), "n2 is added and deleted as recorded");
    let late = replayer.prepare().from(at(START + 22)).lasting(Duration::from_secs(60)).run().unwrap();
    let pods: Vec<&str> = late.deployed_pods.iter().flat_map(|batch| names(&batch.pods)).collect();
    assert_eq!(pods, ["promised", "c"], "all other pods are bound by then");
    let one = replayer.prepare().batch_interval(Duration::from_secs(1_000)).run().unwrap();
    assert_eq!(one.deployed_pods.len(), 1);
    assert_eq!(one.deployed_pods[0].pods.len(), 6);
}

/// The scenarios of a replay, by file name.
fn scenarios(shop: &Shop) -> BTreeMap<String, Vec<u8>> {
    let replayer = Replayer::open(&shop.path).unwrap();
    let mut files = BTreeMap::new();
    let take = |scenario: Scenario| {
        let mut out = Vec::new();
        scenario.write(&mut out)?;
        files.insert(scenario.file_name(), out);
        Ok(())
    };
    replayer.prepare().batch_interval(BATCH_INTERVAL).scenarios("live_a_b", take).run().unwrap();
    files
}

#[test]
fn scenarios_have_gardeners_format_and_are_read_back() {
    let shop = Shop::open();
    let files = scenarios(&shop);
    assert_eq!(
        files.keys().collect::<Vec<_>>(),
        ["live_a_b_ca-replay-1.json"],
        "only batches that scaled up groups"
    );
    let text = files.into_values().next().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["ScalingResult"]["ScaledUpNodeGroups"], serde_json::json!({ GROUP: 2 }));
    assert_eq!(json["ClusterSnapshot"]["AutoscalerConfig"]["NodeGroups"][GROUP]["TargetSize"], 1);
    assert_eq!(json["ClusterSnapshot"]["AutoscalerConfig"]["CASettings"]["ScanInterval"], 10_000_000_000_i64);
    let input = Input::open("file", Box::new(Cursor::new(text))).unwrap();
    let read_options = ReadOptions { source: "s".into(), at: None, now: at(0) };
    let items: Vec<ImportItem> =
        formats::read(input, Format::ScalingScenario, read_options).unwrap().map(Result::unwrap).collect();
    let mut found: Vec<String> = Vec::new();
    for item in &items {
        match item {
            ImportItem::Change(change) => found.push(format!("{} {}", change.key.kind.kind, change.key.name)),
            ImportItem::Warning(warning) => {
                let expected_warning = "file: ScalingResult is from a simulation and was skipped: 2 nodes scaled up, 4 pods scheduled, 0 pods pending";
                assert_eq!(warning, expected_warning);
            }
            other => panic!("{other:?}"),
        }
    }
    for expected in ["Node n1", "Pod a", "Pod waiting", "Pod promised", "Pod old", "Worker p1", "CSINode n1"]
    {
        assert!(found.iter().any(|found| found == expected), "{expected} in {found:?}");
    }
}

#[test]
fn a_scenario_that_cannot_be_written_ends_the_replay() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    let full = |_| Err(std::io::Error::other("disk full"));
    let error = replayer.prepare().scenarios("x", full).run().unwrap_err();
    assert!(matches!(error, ReplayerError::Scenario(source) if source.to_string() == "disk full"));
}

/// Stops the replay when the second batch begins.
#[derive(Default)]
struct StoppingObserver {
    batches: usize,
    given: usize,
}

impl Observer for StoppingObserver {
    fn wants_changes(&self) -> bool {
        false
    }

    fn on_change(&mut self, _: Moment, _: What) {}

    fn on_event(&mut self, _: Moment, _: &run::SimulationEvent<'_>) {}
}

impl ReplayObserver for StoppingObserver {
    fn on_demand(&mut self, _: Moment, _: &PodDemand) {}

    fn should_continue(&self) -> bool {
        self.batches < 2
    }
}

impl BatchObserver for StoppingObserver {
    fn on_batch_started(&mut self, _: Moment, _: Moment) {
        self.batches += 1;
    }

    fn on_batch_submitted(&mut self, _: Moment) {
        self.given += 1;
    }

    fn on_batch_settled(&mut self, _: Moment, _: bool) {}
}

#[test]
fn batches_stop_when_their_observer_stops() {
    let shop = Shop::open();
    let history = History::open(&shop.path).unwrap();
    let part = HistoryPart { source: "shop".into(), window: Window { from: at(START + 1), to: at(END) } };
    let demands = extract_demands(&history, &part, true, &[], &|_| None, None, |_, _| Ok(())).unwrap();
    let setup = RunSetup {
        start: part.window.from,
        scheduler: Settings::default(),
        autoscaler: None,
        latencies: Latencies::typical(),
        seed: 1,
    };
    let batch_settings = BatchSettings { interval: BATCH_INTERVAL, settle_timeout: BATCH_INTERVAL };
    let mut observer = StoppingObserver::default();
    let result = play_in_batches(&history, &part, &demands, &|_| false, setup, batch_settings, &mut observer);
    assert!(matches!(result, Err(replay::Error::Stopped)), "{result:?}");
    assert_eq!((observer.batches, observer.given), (2, 1));
}

/// Cancels a replay at its first moment.
#[derive(Default)]
struct CancellingListener {
    moments: usize,
}

impl ReplayListener for CancellingListener {
    fn on_progress(&mut self, _: Moment) {
        self.moments += 1;
    }

    fn check_cancelled(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.moments == 0, "nobody waits any more");
        Ok(())
    }
}

#[test]
fn the_analysis_stops_when_its_listener_cancels() {
    let shop = Shop::open();
    let open_history = query::OpenHistory::open(&shop.path).unwrap();
    let options = ReplayOptions { autoscaler: "recorded".to_owned(), ..ReplayOptions::default() };
    let mut plan = ReplayPlan::make(&options, &open_history).unwrap();
    let mut listener = CancellingListener::default();
    let error = plan.analyze_recording(&open_history, &mut listener).err().unwrap();
    assert_eq!((error.to_string().as_str(), listener.moments), ("nobody waits any more", 1));
}

#[track_caller]
fn assert_refused<T>(result: Result<T, ReplayerError>, because: &str) {
    let error = result.err().expect(because).to_string();
    assert!(error.contains(because), "{error:?} should say {because:?}");
}

#[test]
fn moments_outside_the_recording_are_refused() {
    let shop = Shop::open();
    let directory = shop.path.parent().unwrap();
    assert_refused(Replayer::open(directory.join("none.kine")), "not found");
    let text = directory.join("text");
    std::fs::write(&text, "this is no history, whatever its name is").unwrap();
    assert_refused(Replayer::open(&text), "is not a Kinescope history");
    assert_refused(Replayer::open_source(&shop.path, "other"), "has the sources shop: specify one");

    let replayer = Replayer::open(&shop.path).unwrap();
    let span = "is outside the recording, which is from";
    assert_refused(replayer.cluster_at(at(START - 1)), span);
    assert_refused(replayer.cluster_at(at(END + 1)), span);
    assert_refused(replayer.scaling_events(at(START - 1), at(END)), span);
    assert_refused(replayer.scaling_events(at(END), at(START)), "invalid window");
    assert_refused(replayer.replay(Duration::from_secs(100_000), None), span);
    assert_refused(replayer.replay(Duration::MAX, None), span);
    assert_refused(replayer.prepare().from(at(END + 5)).run(), span);
    assert_refused(
        replayer.replay(Duration::from_secs(9), Duration::ZERO),
        "a batch interval must be more than zero",
    );
    assert_refused(replayer.replay(Duration::ZERO, None), "a duration must be more than zero");
}
