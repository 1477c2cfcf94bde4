mod controlling;
mod fates;
mod repetition;

use std::time::Duration;

use autoscaler::{Delay, NodeGroups};
use model::{Moment, NamespacedName, Object, What};
use serde_json::{Value, json};
use testobjects::object;

use super::*;
use crate::pace::{Pace, Step};

/// Who writes down what is told.
#[derive(Default)]
struct Notes {
    changes: Vec<(Moment, What)>,
    decisions: Vec<(i64, String)>,
}

impl Observer for Notes {
    fn wants_changes(&self) -> bool {
        true
    }

    fn changed(&mut self, at: Moment, what: What) {
        self.changes.push((at, what));
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        let words = match decided {
            Decided::Bound { pod, placement, .. } => format!("{} on {}", pod.name, placement.node),
            Decided::Refused { pod, .. } => format!("{} refused", pod.name),
            Decided::Lost { pod, to, .. } => format!("{} lost, {}", pod.name, to.reason()),
            Decided::ScaledUp(up) => format!("{} grows to {}", up.increases[0].group, up.increases[0].to),
            Decided::ScaledDown { removed, .. } => format!("{} goes", removed.node),
            Decided::NodeCame { node, .. } => format!("{node} came"),
            Decided::NodeWent { node, .. } => format!("{node} went"),
            _ => return,
        };
        self.decisions.push((at.nanos() / 1_000_000, words));
    }
}

impl Notes {
    fn said(&self) -> Vec<(i64, &str)> {
        self.decisions.iter().map(|(at, words)| (*at, words.as_str())).collect()
    }

    /// What is told of a pod: when, how, and its phase.
    fn life(&self, name: &str) -> Vec<(i64, &'static str, String)> {
        let of_pod = self.changes.iter().filter(|(_, what)| {
            let meta = what.object().meta();
            meta.kind == "Pod" && meta.name == name
        });
        let told = of_pod.map(|(at, what)| {
            let phase = what.object().value().unwrap()["status"]["phase"].as_str().unwrap().to_owned();
            (at.nanos() / 1_000_000, what.word(), phase)
        });
        told.collect()
    }
}

fn at(millis: i64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// Every step takes as long as it takes to tell them apart.
fn pace() -> Pace {
    let millis = [
        (Step::Attempt, 1),
        (Step::Refuse, 10),
        (Step::Bind, 20),
        (Step::Preempt, 30),
        (Step::Start, 500),
        (Step::End, 700),
        (Step::Again, 40),
        (Step::NextOfJob, 1_000),
        (Step::Collect, 50_000),
        (Step::Loop, 50),
    ];
    millis.into_iter().fold(Pace::usual(), |pace, (step, millis)| {
        pace.with(step, Delay::Constant(Duration::from_millis(millis)))
    })
}

fn cluster<'m>(autoscaler: Option<AutoscalerSetup>) -> Run<'m, Notes> {
    let scheduler = scheduler::Settings::default();
    Run::new(Setup { start: at(0), scheduler, autoscaler, pace: pace(), seed: 1 }, Notes::default())
}

fn node(name: &str, taints: &Value) -> Object {
    let node = testobjects::node(name).allocatable("cpu", "1").allocatable("memory", "1Gi");
    node.allocatable("pods", "10").ready().set("spec.taints", taints.clone()).object()
}

fn demand(id: u64, name: &str, cpu: &str, priority: i32) -> Demand {
    let pod = testobjects::pod(name).namespace("shop").uid(&format!("uid-{name}")).request("cpu", cpu);
    let pod = pod.created("1970-01-01T00:00:00Z").owner_with_uid("ReplicaSet", "web", "set");
    let pod = pod.set("metadata.generateName", "web-").set("spec.containers.0.image", "i");
    let pod = pod.set("spec.schedulerName", "default-scheduler").priority(priority.into()).object();
    Demand {
        id: DemandId(id),
        pod,
        after: None,
        begun: None,
        again: Again::AtOnce,
        set: None,
        runs: None,
        lives: vec![Life { name: name.into(), ..Life::default() }],
        unmade: None,
    }
}

fn give(run: &mut Run<'_, Notes>, millis: i64, given: Given) {
    run.advance(at(millis));
    run.give(at(millis), given).unwrap();
}

fn ask(run: &mut Run<'_, Notes>, millis: i64, demand: Demand) {
    give(run, millis, Given::asked(demand).unwrap());
}

fn add(run: &mut Run<'_, Notes>, millis: i64, node: Object) {
    give(run, millis, Given::Object(What::Added(node)));
}

#[test]
fn a_pod_comes_is_bound_runs_and_ends() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let runs = Some(Runs { lasting: Duration::from_secs(3), fails: false });
    ask(&mut run, 100, Demand { runs, ..demand(1, "a", "500m", 0) });
    ask(&mut run, 200, Demand { after: Some(DemandId(1)), ..demand(2, "b", "500m", 0) });
    give(&mut run, 9_000, Given::Withdrawn(DemandId(1)));
    run.advance(at(20_000));
    let told = |at, word, phase: &str| (at, word, phase.to_owned());
    assert_eq!(
        run.observer().life("a"),
        [
            told(100, "ADDED", "Pending"),
            told(120, "MODIFIED", "Pending"),
            told(620, "MODIFIED", "Running"),
            told(3_620, "MODIFIED", "Succeeded"),
            told(9_000, "DELETED", "Succeeded"),
        ]
    );
    // The next of the Job comes when the first has ended.
    assert_eq!(run.observer().life("b")[0], told(4_620, "ADDED", "Pending"));
}

#[test]
fn a_victim_is_made_again_under_another_name() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, demand(1, "weak", "800m", 0));
    ask(&mut run, 2_000, demand(2, "strong", "800m", 100));
    run.advance(at(4_000));
    let made: Vec<String> = (run.observer().changes.iter())
        .filter(|(_, what)| matches!(what, What::Added(pod) if pod.meta().kind == "Pod"))
        .map(|(at, what)| format!("{} {}", at.nanos() / 1_000_000, what.object().meta().name))
        .collect();
    // Refused at 2,000; its victim is marked 30 ms later, and its owner makes another 40 ms after that.
    let again = made.iter().find(|made| made.starts_with("2070 web-")).unwrap();
    assert_eq!(made, ["100 weak", "2000 strong", again]);
    let said = run.observer().said();
    assert_eq!(
        said[1..4],
        [(120, "weak on n1"), (2_000, "strong refused"), (2_030, "weak lost, PreemptionByScheduler")]
    );
    // The victim is gone after 700 ms. Who waits is then tried at once, if nobody else is ready.
    assert!(said.contains(&(2_750, "strong on n1")), "{said:?}");
    let marked = |(at, what): &&(Moment, What)| at.nanos() == 2_030_000_000 && what.word() == "MODIFIED";
    let pod = run.observer().changes.iter().find(marked).unwrap().1.object().value().unwrap();
    let reasons =
        pod["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["reason"]);
    assert!(reasons.into_iter().any(|reason| reason == "PreemptionByScheduler"), "{pod}");
}

#[test]
fn nobody_makes_a_bare_pod_again() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, Demand { again: Again::Never, ..demand(1, "bare", "800m", 0) });
    give(&mut run, 5_000, Given::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(60_000));
    assert_eq!(
        run.observer().said(),
        [(0, "n1 came"), (120, "bare on n1"), (5_000, "n1 went"), (55_000, "bare lost, DeletionByPodGC")]
    );
    assert!(run.is_empty());
}

#[test]
fn a_pod_is_bound_to_a_node_that_has_just_gone_and_collected_later() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, Demand { again: Again::Never, ..demand(1, "late", "800m", 0) });
    give(&mut run, 110, Given::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(60_000));
    let said =
        [(0, "n1 came"), (110, "n1 went"), (120, "late on n1"), (50_110, "late lost, DeletionByPodGC")];
    assert_eq!(run.observer().said(), said);
    assert!(run.observer().life("late").iter().all(|(_, _, phase)| phase != "Running"));
    assert!(run.is_empty());
}

#[test]
fn a_name_is_free_when_its_pod_is_gone() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, demand(1, "a", "100m", 0));
    give(&mut run, 1_000, Given::Withdrawn(DemandId(1)));
    ask(&mut run, 1_100, demand(2, "a", "100m", 0));
    run.advance(at(9_000));
    let words: Vec<(i64, &str)> =
        run.observer().life("a").into_iter().map(|(at, word, _)| (at, word)).collect();
    assert_eq!(words[3..6], [(1_000, "MODIFIED"), (1_700, "DELETED"), (1_700, "ADDED")]);
}

#[test]
fn a_set_gives_up_who_waits_before_who_runs() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let of = |set: &str, demand| Demand { set: Some(set.into()), ..demand };
    ask(&mut run, 100, of("web", demand(1, "first", "600m", 0)));
    ask(&mut run, 1_000, of("web", demand(2, "second", "600m", 0)));
    ask(&mut run, 1_100, of("other", demand(3, "other", "600m", 0)));
    // In the recording it was the first that had found no place.
    give(&mut run, 2_000, Given::Withdrawn(DemandId(1)));
    run.advance(at(3_000));
    let ends = |notes: &Notes, name: &str| notes.life(name).last().map(|(at, word, _)| (*at, *word)).unwrap();
    assert_eq!(ends(run.observer(), "second"), (2_000, "DELETED"));
    assert_eq!(ends(run.observer(), "first"), (620, "MODIFIED"));
    // What is said of the second from now on means the first.
    give(&mut run, 4_000, Given::Withdrawn(DemandId(2)));
    run.advance(at(5_000));
    assert_eq!(ends(run.observer(), "first"), (4_700, "DELETED"));
    assert!(run.observer().said().contains(&(4_720, "other on n1")), "{:?}", run.observer().said());
    assert!(run.remembers_no_substitute());
}

#[test]
fn a_taint_drives_pods_out_when_their_time_is_over() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let mut tolerant = demand(1, "tolerant", "100m", 0);
    let mut pod = tolerant.pod.value().unwrap();
    pod["spec"]["tolerations"] =
        json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    tolerant.pod = object(&pod);
    ask(&mut run, 100, tolerant);
    ask(&mut run, 100, demand(2, "other", "100m", 0));
    let tainted = node("n1", &json!([{"key": "gone", "effect": "NoExecute"}]));
    give(&mut run, 1_000, Given::Object(What::Modified(tainted)));
    run.advance(at(10_000));
    let lost: Vec<(i64, &str)> =
        run.observer().said().into_iter().filter(|(_, words)| words.contains("lost")).collect();
    assert_eq!(
        lost,
        [(1_000, "other lost, DeletionByTaintManager"), (6_000, "tolerant lost, DeletionByTaintManager")]
    );
}

fn tolerant(id: u64, name: &str, seconds: i64) -> Demand {
    let demand = demand(id, name, "100m", 0);
    let mut pod = demand.pod.value().unwrap();
    pod["spec"]["tolerations"] =
        json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    Demand { pod: object(&pod), ..demand }
}

fn tainted(name: &str) -> Object {
    node(name, &json!([{"key": "gone", "effect": "NoExecute"}]))
}

fn lost(notes: &Notes) -> Vec<(i64, &str)> {
    notes.said().into_iter().filter(|(_, words)| words.contains("lost")).collect()
}

#[test]
fn a_taint_that_comes_back_counts_anew_and_one_that_stays_does_not() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, Demand { again: Again::Never, ..tolerant(1, "a", 5) });
    for (millis, node) in [(1_000, tainted("n1")), (3_000, node("n1", &json!([]))), (4_000, tainted("n1"))] {
        give(&mut run, millis, Given::Object(What::Modified(node)));
    }
    for millis in 5..9 {
        give(&mut run, millis * 1_000, Given::Object(What::Modified(tainted("n1"))));
    }
    run.advance(at(20_000));
    assert_eq!(lost(run.observer()), [(9_000, "a lost, DeletionByTaintManager")]);
}

#[test]
fn a_node_that_is_tainted_already_drives_out_who_is_there_and_who_comes() {
    let mut run = cluster(None);
    add(&mut run, 0, tainted("n1"));
    let begun = Begun {
        came: at(0),
        node: Some("n1".into()),
        nominated: None,
        refused: None,
        started: Some(at(0)),
        leaving: false,
    };
    let there = Demand { again: Again::Never, begun: Some(begun), ..tolerant(1, "there", 3) };
    run.give(at(0), Given::asked(there).unwrap()).unwrap();
    ask(&mut run, 1_000, Demand { again: Again::Never, ..tolerant(2, "comes", 3) });
    run.advance(at(20_000));
    let expected =
        [(3_000, "there lost, DeletionByTaintManager"), (4_020, "comes lost, DeletionByTaintManager")];
    assert_eq!(lost(run.observer()), expected);
}

#[test]
fn a_pod_may_come_to_tolerate_a_taint() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, tolerant(1, "a", 5));
    give(&mut run, 1_000, Given::Object(What::Modified(tainted("n1"))));
    let mut pod = demand(1, "a", "100m", 0).pod.value().unwrap();
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let changed = object(&pod);
    give(&mut run, 2_000, Given::Changed(DemandId(1), changed));
    run.advance(at(20_000));
    assert_eq!(lost(run.observer()), []);
    let (at, told) =
        run.observer().changes.iter().rfind(|(_, what)| what.object().meta().kind == "Pod").unwrap();
    assert_eq!(at.nanos(), 2_000_000_000);
    assert_eq!(told.object().value().unwrap()["spec"]["tolerations"], json!([{"operator": "Exists"}]));
}

#[test]
fn what_another_scheduler_decided_is_given() {
    let mut run = cluster(None);
    for name in ["n1", "n2"] {
        add(&mut run, 0, node(name, &json!([])));
    }
    let mut other = demand(1, "other", "900m", 0);
    let mut pod = other.pod.value().unwrap();
    pod["spec"]["schedulerName"] = "kai".into();
    other.pod = object(&pod);
    other.lives[0] = Life {
        node: Some("n2".into()),
        bind: Some(Took::exactly(Duration::from_millis(300))),
        ..other.lives[0].clone()
    };
    ask(&mut run, 100, other);
    // Our own scheduler knows what room is left.
    for (id, name) in [(2, "a"), (3, "b")] {
        ask(&mut run, 1_000, demand(id, name, "600m", 0));
    }
    run.advance(at(1_500));
    assert_eq!(run.observer().said()[2..], [(400, "other on n2"), (1_001, "b refused"), (1_020, "a on n1")]);
}

#[test]
fn a_promise_made_before_the_beginning_is_kept() {
    let mut run = cluster(None);
    for name in ["n1", "n2"] {
        add(&mut run, 0, node(name, &json!([])));
    }
    let begun = Begun {
        came: at(0),
        node: None,
        nominated: Some("n2".into()),
        refused: None,
        started: None,
        leaving: false,
    };
    let promised = Demand { begun: Some(begun), ..demand(1, "promised", "800m", 10) };
    run.give(at(0), Given::asked(promised).unwrap()).unwrap();
    run.advance(at(1_000));
    assert_eq!(run.observer().said()[2], (20, "promised on n2"));
    let told = run.observer().changes[2].1.object().value().unwrap();
    assert_eq!(told["status"]["nominatedNodeName"], "n2");
}

#[test]
fn a_pod_that_is_held_goes_when_it_is_let_go() {
    for (finalizers, gone) in [(json!([]), 5_000), (json!(["batch.kubernetes.io/job-tracking"]), 5_010)] {
        let mut run = cluster(None);
        let mut waits = demand(1, "waits", "100m", 0);
        let mut pod = waits.pod.value().unwrap();
        pod["metadata"]["finalizers"] = finalizers;
        waits.pod = object(&pod);
        ask(&mut run, 100, waits);
        give(&mut run, 5_000, Given::Withdrawn(DemandId(1)));
        run.advance(at(9_000));
        let (at, word, _) = run.observer().life("waits").pop().unwrap();
        assert_eq!((at, word), (gone, "DELETED"));
    }
}

#[test]
fn nobody_stops_a_pod_whose_node_went_meanwhile() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, demand(1, "a", "100m", 0));
    give(&mut run, 1_000, Given::Withdrawn(DemandId(1)));
    give(&mut run, 1_200, Given::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(60_000));
    let (at, word, _) = run.observer().life("a").pop().unwrap();
    assert_eq!((at, word), (51_200, "DELETED"));
}

#[test]
fn a_name_that_is_taken_is_not_made_up_again() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, demand(1, "a", "100m", 0));
    // Whatever the first draw is, somebody else has it.
    let mut probe = cluster(None);
    ask(&mut probe, 100, demand(1, "a", "100m", 0));
    give(&mut probe, 1_000, Given::Deleted(DemandId(1)));
    probe.advance(at(2_000));
    let is_new_pod =
        |(_, what): &&(Moment, What)| what.word() == "ADDED" && what.object().meta().kind == "Pod";
    let mut made = probe.observer().changes.iter().filter(is_new_pod);
    let drawn = made.nth(1).unwrap().1.object().meta().name.to_string();
    ask(&mut run, 200, demand(2, &drawn, "100m", 0));
    give(&mut run, 1_000, Given::Deleted(DemandId(1)));
    run.advance(at(2_000));
    let again: Vec<String> = (run.observer().changes.iter())
        .filter(|(at, what)| {
            at.nanos() > 1_000_000_000 && what.word() == "ADDED" && what.object().meta().kind == "Pod"
        })
        .map(|(_, what)| what.object().meta().name.to_string())
        .collect();
    assert!(again.len() == 1 && again[0] != drawn && again[0].starts_with("web-"), "{again:?}");
}

#[test]
fn an_autoscaler_that_never_pauses_lets_time_pass() {
    let groups = "groups:\n- name: small\n  min: 0\n  max: 5\n  template: {cpu: 2, memory: 4Gi, pods: 10}\n";
    let cloud = SimulatedCloud::new(NodeGroups::parse(groups).unwrap().groups, 1);
    let settings = autoscaler::Settings { scan_interval: Duration::ZERO, ..autoscaler::Settings::default() };
    let pace = pace().with(Step::Loop, Delay::Constant(Duration::ZERO));
    let autoscaler = Some(AutoscalerSetup { settings, cloud, start: at(0) });
    let scheduler = scheduler::Settings::default();
    let mut run = Run::new(Setup { start: at(0), scheduler, autoscaler, pace, seed: 1 }, Notes::default());
    run.advance(at(100));
    assert_eq!(run.now(), at(100));
}

/// What the original says of it: the preemptor is kept back until its last victim is marked, whatever happens meanwhile,
/// and then waits for a pod to go.
#[test]
fn a_preemptor_is_not_tried_again_before_its_victims_are_marked() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    ask(&mut run, 100, demand(1, "weak", "800m", 0));
    ask(&mut run, 100, Demand { again: Again::Never, ..demand(2, "small", "100m", 100) });
    // Its end will be seen between the decision to preempt and the mark on the victim.
    give(&mut run, 1_310, Given::Withdrawn(DemandId(2)));
    ask(&mut run, 2_000, demand(3, "strong", "800m", 100));
    run.advance(at(4_000));
    let tries: Vec<(i64, &str)> =
        run.observer().said().into_iter().filter(|(_, words)| words.starts_with("strong")).collect();
    assert_eq!(tries, [(2_000, "strong refused"), (2_750, "strong on n1")]);
}

#[test]
fn among_equals_the_recorded_node_is_taken() {
    for recorded in ["n1", "n2", "n3"] {
        let mut run = cluster(None);
        for name in ["n1", "n2", "n3"] {
            add(&mut run, 0, node(name, &json!([])));
        }
        let lives = vec![Life { name: "a".into(), node: Some(recorded.into()), ..Life::default() }];
        ask(&mut run, 100, Demand { lives, ..demand(1, "a", "100m", 0) });
        run.advance(at(1_000));
        assert_eq!(run.observer().said()[3], (120, format!("a on {recorded}").as_str()));
    }
}

#[test]
fn the_autoscaler_asks_for_a_node_and_gives_it_back() {
    let groups = "groups:\n- name: small\n  min: 0\n  max: 5\n  template: {cpu: 2, memory: 4Gi, pods: 10}\n  provisioning: {registersAfter: 30s}\n";
    let groups = NodeGroups::parse(groups).unwrap();
    let settings = autoscaler::Settings {
        scale_down_delay_after_add: Duration::from_secs(10),
        group_defaults: autoscaler::GroupDefaults {
            scale_down_unneeded_time: Duration::from_secs(60),
            ..autoscaler::Settings::default().group_defaults
        },
        ..autoscaler::Settings::default()
    };
    let play = || {
        let cloud = SimulatedCloud::new(groups.groups.clone(), 1).with_names("small", ["small-x".into()]);
        let mut run = cluster(Some(AutoscalerSetup { settings: settings.clone(), cloud, start: at(0) }));
        add(&mut run, 0, node("n1", &json!([])));
        ask(&mut run, 100, demand(1, "large", "1500m", 0));
        give(&mut run, 100_000, Given::Withdrawn(DemandId(1)));
        run.advance(at(300_000));
        run.into_observer()
    };
    let notes = play();
    let said: Vec<&str> = notes.said().into_iter().map(|(_, words)| words).collect();
    assert_eq!(
        said.iter().copied().filter(|words| !words.contains("refused")).collect::<Vec<_>>(),
        ["n1 came", "small grows to 1", "small-x came", "large on small-x", "small-x goes", "small-x went"]
    );
    let when = |wanted: &str| notes.said().into_iter().find(|(_, words)| *words == wanted).unwrap().0;
    assert_eq!(when("small-x came") - when("small grows to 1"), 30_000);
    // Nobody needs it from 100 s on; a loop must see that, and another that a minute is over.
    assert!((160_000..=185_000).contains(&when("small-x goes")), "{}", when("small-x goes"));
    // The same again, to the byte.
    let again = play();
    assert_eq!((notes.changes, notes.decisions), (again.changes, again.decisions));
}

#[test]
fn a_pod_that_cannot_be_understood_is_refused() {
    let pod = Object::parse(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"},"spec":[]}"#,
    )
    .unwrap();
    let error = Given::asked(Demand { pod, ..demand(1, "a", "1", 0) }).unwrap_err();
    assert!(error.to_string().starts_with("pod b/a cannot be understood: "), "{error}");
}
