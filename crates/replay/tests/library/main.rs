//! The library as a consumer uses it, on a small cluster of Gardener's of which all is known.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod film;
mod shop;

use std::collections::BTreeMap;
use std::io::Cursor;
use std::time::Duration;

use formats::scaling_scenario::Scenario;
use formats::{Format, Given, Input, Item};
use history::History;
use model::{Moment, What, Window};
use replay::decisions::DecisionKind;
use replay::plan::{Plan, ReplayOptions, Watcher};
use replay::play::{Follower, Part, StepFollower, Steps, play_in_batches, survey};
use replay::replayer::{Error, ReplayReport, Replayer, ScalingTold};
use replay::snapshot::{PodInfo, ScheduleStatus};
use scheduler::Settings;
use simulation as run;
use simulation::pace::Pace;
use simulation::{Demand, Observer, Setup};

use shop::{END, GROUP, START, Shop, at};

const STEP: Duration = Duration::from_secs(10);

fn names(pods: &[PodInfo]) -> Vec<&str> {
    pods.iter().map(|pod| pod.meta.name.as_str()).collect()
}

fn whole(replayer: &Replayer) -> Duration {
    let nanos = replayer.record_end().nanos_since(replayer.whole_from());
    Duration::from_nanos(u64::try_from(nanos).unwrap())
}

fn replayed(shop: &Shop) -> ReplayReport {
    let replayer = Replayer::open(&shop.path).unwrap();
    replayer.replay(whole(&replayer), STEP).unwrap()
}

#[test]
fn the_cluster_at_a_moment_has_every_part() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    assert_eq!((replayer.record_start(), replayer.record_end()), (at(START), at(END)));
    assert_eq!(replayer.whole_from(), at(START + 1), "a recorder lists kind after kind");

    let cluster = replayer.cluster_at(at(START + 1)).unwrap();
    assert_eq!(names(&cluster.unscheduled_pods), ["waiting"]);
    assert_eq!(names(&cluster.scheduled_pods), ["old"], "what has ended is left out");
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
fn recorded_scaling_is_told() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    let told = |from, to| -> Vec<String> {
        let events = replayer.scaling_events(at(START + from), at(START + to)).unwrap();
        let words = |what: &ScalingTold| match what {
            ScalingTold::Said { reason, about, .. } => format!("{reason} {about}"),
            ScalingTold::NodeCame { node, group } => format!("came {node} {group}"),
            ScalingTold::NodeWent { node, group } => format!("went {node} {group}"),
        };
        events
            .iter()
            .map(|event| {
                format!("{} {}", event.at.nanos_since(at(START)) / 1_000_000_000, words(&event.what))
            })
            .collect()
    };
    assert_eq!(
        told(0, 120),
        [
            format!("1 came n1 {GROUP}"),
            "15 TriggeredScaleUp default/waiting".to_owned(),
            format!("20 came n2 {GROUP}"),
            "70 ScaleDown n2".to_owned(),
            format!("75 went n2 {GROUP}"),
        ]
    );
    assert_eq!(told(20, 20), [format!("20 came n2 {GROUP}")]);
    assert_eq!(told(21, 69), Vec::<String>::new());
}

#[test]
fn a_replay_gives_every_field() {
    let shop = Shop::open();
    let report = replayed(&shop);
    assert_eq!(report.batch_interval, STEP);
    assert_eq!((report.start.at, report.end.at), (at(START + 1), at(END)));
    assert_eq!(names(&report.start.unscheduled_pods), ["waiting"]);
    assert!(report.start.autoscaler.is_some());
    assert_eq!(report.start.autoscaler, report.end.autoscaler, "it is the recorded one");

    // Steps are from 1 to 11, to 21, to 31: pods come together at their beginning.
    let batches: Vec<(i64, Vec<&str>)> = report
        .deployed_pods
        .iter()
        .map(|batch| (batch.recorded.nanos_since(at(START)) / 1_000_000_000, names(&batch.pods)))
        .collect();
    assert_eq!(batches, [(1, vec!["promised", "waiting", "a"]), (11, vec!["b", "d"]), (21, vec!["c"])]);
    assert!(report.is_stable(), "a pod that no group helps is no unrest: {:?}", report.deployed_pods);
    let first = &report.deployed_pods[0];
    assert_eq!(first.began, at(START + 1));
    assert!(first.settled >= at(START + 6), "nodes took five seconds in the record");

    // One node has room for one of the two large pods, and n1 for none of them.
    assert_eq!(report.scaled_up_groups, BTreeMap::from([(GROUP.to_owned(), 2)]));
    assert_eq!(report.scaled_up_nodes.len(), 2);
    assert!(report.scaled_up_nodes.iter().all(|node| node.labels["worker.gardener.cloud/pool"] == "p1"));
    let end = &report.end;
    assert_eq!(end.nodes.len(), 3, "n2 is of the record, and nothing is removed");
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
    let bound = report.decisions.iter().filter(|it| it.what == DecisionKind::Bound).count();
    assert_eq!(bound, 5, "all but the one that no group helps");
    assert!(report.decisions.is_sorted_by_key(|decision| decision.at));
}

#[test]
fn the_same_replay_gives_the_same() {
    let shop = Shop::open();
    assert_eq!(format!("{:?}", replayed(&shop)), format!("{:?}", replayed(&shop)));
    assert_eq!(scenarios(&shop), scenarios(&shop));
}

#[test]
fn a_replay_can_be_set_otherwise() {
    let shop = Shop::open();
    let replayer = Replayer::open(&shop.path).unwrap();
    let off = replayer.prepare().without_autoscaler().run().unwrap();
    assert_eq!(off.scaled_up_groups, BTreeMap::new());
    assert!(off.start.autoscaler.is_some() && off.end.autoscaler.is_none(), "only one was recorded");
    assert_eq!(off.batch_interval, STEP, "as long as autoscalers usually wait");
    assert!(off.end.nodes.iter().all(|node| node.meta.name == "n1"), "n2 comes and goes as recorded");
    let late = replayer.prepare().from(at(START + 22)).lasting(Duration::from_secs(60)).run().unwrap();
    let pods: Vec<&str> = late.deployed_pods.iter().flat_map(|batch| names(&batch.pods)).collect();
    assert_eq!(pods, ["promised", "c"], "all others have their nodes by then");
    let one = replayer.prepare().batch_interval(Duration::from_secs(1_000)).run().unwrap();
    assert_eq!(one.deployed_pods.len(), 1);
    assert_eq!(one.deployed_pods[0].pods.len(), 6);
}

/// The scenarios of a replay, by the names of their files.
fn scenarios(shop: &Shop) -> BTreeMap<String, Vec<u8>> {
    let replayer = Replayer::open(&shop.path).unwrap();
    let mut files = BTreeMap::new();
    let take = |scenario: Scenario| {
        let mut out = Vec::new();
        scenario.write(&mut out)?;
        files.insert(scenario.file_name(), out);
        Ok(())
    };
    replayer.prepare().batch_interval(STEP).scenarios("live_a_b", take).run().unwrap();
    files
}

#[test]
fn scenarios_are_gardeners_and_read_again() {
    let shop = Shop::open();
    let files = scenarios(&shop);
    assert_eq!(files.keys().collect::<Vec<_>>(), ["live_a_b_ca-replay-1.json"], "only where groups grew");
    let text = files.into_values().next().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["ScalingResult"]["ScaledUpNodeGroups"], serde_json::json!({ GROUP: 2 }));
    assert_eq!(json["ClusterSnapshot"]["AutoscalerConfig"]["NodeGroups"][GROUP]["TargetSize"], 1);
    assert_eq!(json["ClusterSnapshot"]["AutoscalerConfig"]["CASettings"]["ScanInterval"], 10_000_000_000_i64);
    let input = Input::open("file", Box::new(Cursor::new(text))).unwrap();
    let given = Given { source: "s".into(), at: None, now: at(0) };
    let items: Vec<Item> =
        formats::read(input, Format::ScalingScenario, given).unwrap().map(Result::unwrap).collect();
    let mut found: Vec<String> = Vec::new();
    for item in &items {
        match item {
            Item::Change(change) => found.push(format!("{} {}", change.key.kind.kind, change.key.name)),
            Item::Warning(warning) => {
                let told = "file: ScalingResult is of a simulation and left out: 2 nodes scaled up, 4 pods scheduled, 0 pods pending";
                assert_eq!(warning, told);
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
    assert!(matches!(error, Error::Scenario(source) if source.to_string() == "disk full"));
}

/// Has enough as soon as the second batch begins.
#[derive(Default)]
struct Impatient {
    batches: usize,
    given: usize,
}

impl Observer for Impatient {
    fn wants_changes(&self) -> bool {
        false
    }

    fn changed(&mut self, _: Moment, _: What) {}

    fn decided(&mut self, _: Moment, _: &run::Decided<'_>) {}
}

impl Follower for Impatient {
    fn asked(&mut self, _: Moment, _: &Demand) {}

    fn goes_on(&self) -> bool {
        self.batches < 2
    }
}

impl StepFollower for Impatient {
    fn batch_begins(&mut self, _: Moment, _: Moment) {
        self.batches += 1;
    }

    fn batch_given(&mut self, _: Moment) {
        self.given += 1;
    }

    fn batch_settled(&mut self, _: Moment, _: bool) {}
}

#[test]
fn steps_stop_when_their_follower_has_enough() {
    let shop = Shop::open();
    let history = History::open(&shop.path).unwrap();
    let part = Part { source: "shop".into(), window: Window { from: at(START + 1), to: at(END) } };
    let causes = survey(&history, &part, true, &[], &|_| None, None, |_, _| Ok(())).unwrap();
    let setup = Setup {
        start: part.window.from,
        scheduler: Settings::default(),
        autoscaler: None,
        pace: Pace::usual(),
        seed: 1,
    };
    let steps = Steps { interval: STEP, patience: STEP };
    let mut follower = Impatient::default();
    let played = play_in_batches(&history, &part, &causes, &|_| false, setup, steps, &mut follower);
    assert!(matches!(played, Err(replay::Error::Stopped)), "{played:?}");
    assert_eq!((follower.batches, follower.given), (2, 1));
}

/// Waits for a replay until it has come to its first moment.
#[derive(Default)]
struct Hasty {
    moments: usize,
}

impl Watcher for Hasty {
    fn reached(&mut self, _: Moment) {
        self.moments += 1;
    }

    fn check(&self) -> anyhow::Result<()> {
        anyhow::ensure!(self.moments == 0, "nobody waits any more");
        Ok(())
    }
}

#[test]
fn a_survey_stops_when_nobody_waits_for_it() {
    let shop = Shop::open();
    let chosen = query::Chosen::open(&shop.path).unwrap();
    let asked = ReplayOptions { autoscaler: "recorded".to_owned(), ..ReplayOptions::default() };
    let mut plan = Plan::make(&asked, &chosen).unwrap();
    let mut watcher = Hasty::default();
    let error = plan.survey(&chosen, &mut watcher).err().unwrap();
    assert_eq!((error.to_string().as_str(), watcher.moments), ("nobody waits any more", 1));
}

#[track_caller]
fn refused<T>(result: Result<T, Error>, because: &str) {
    let error = result.err().expect(because).to_string();
    assert!(error.contains(because), "{error:?} should say {because:?}");
}

#[test]
fn what_was_not_recorded_is_refused() {
    let shop = Shop::open();
    let directory = shop.path.parent().unwrap();
    refused(Replayer::open(directory.join("none.kine")), "there is no history at");
    let text = directory.join("text");
    std::fs::write(&text, "this is no history, whatever its name is").unwrap();
    refused(Replayer::open(&text), "is not a Kinescope history");
    refused(Replayer::open_source(&shop.path, "other"), "holds shop: choose one of them");

    let replayer = Replayer::open(&shop.path).unwrap();
    let span = "was not recorded: the recording goes from";
    refused(replayer.cluster_at(at(START - 1)), span);
    refused(replayer.cluster_at(at(END + 1)), span);
    refused(replayer.scaling_events(at(START - 1), at(END)), span);
    refused(replayer.scaling_events(at(END), at(START)), "ends before it begins");
    refused(replayer.replay(Duration::from_secs(100_000), None), span);
    refused(replayer.replay(Duration::MAX, None), span);
    refused(replayer.prepare().from(at(END + 5)).run(), span);
    refused(replayer.replay(Duration::from_secs(9), Duration::ZERO), "a batch interval of zero");
    refused(replayer.replay(Duration::ZERO, None), "a duration of zero");
}
