mod controller_runs;
mod pod_views;
mod repetition;

use std::time::Duration;

use autoscaler::{Delay, NodeGroups};
use model::{Moment, NamespacedName, Object, What};
use serde_json::{Value, json};
use testobjects::object;

use super::*;
use crate::latency::{Latencies, LatencyKind};

/// An observer that collects changes and decisions.
#[derive(Default)]
struct CollectingObserver {
    changes: Vec<(Moment, What)>,
    decisions: Vec<(i64, String)>,
}

impl Observer for CollectingObserver {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        self.changes.push((at, what));
    }

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        let text = match event {
            SimulationEvent::PodBound { pod, placement, .. } => format!("{} on {}", pod.name, placement.node),
            SimulationEvent::PodUnschedulable { pod, .. } => format!("{} unschedulable", pod.name),
            SimulationEvent::PodEvicted { pod, cause, .. } => {
                format!("{} evicted, {}", pod.name, cause.reason())
            }
            SimulationEvent::ScaledUp(up) => {
                format!("{} scaled up to {}", up.increases[0].group, up.increases[0].to)
            }
            SimulationEvent::ScaledDown { removed, .. } => format!("{} scaled down", removed.node),
            SimulationEvent::NodeAdded { node, .. } => format!("{} added", node.name),
            SimulationEvent::NodeDeleted { node, .. } => format!("{} deleted", node.name),
            _ => return,
        };
        self.decisions.push((at.nanos() / 1_000_000, text));
    }
}

impl CollectingObserver {
    fn decisions_so_far(&self) -> Vec<(i64, &str)> {
        self.decisions.iter().map(|(at, text)| (*at, text.as_str())).collect()
    }

    /// The changes of a pod: time, type and phase.
    fn changes_of_pod(&self, name: &str) -> Vec<(i64, &'static str, String)> {
        let of_pod = self.changes.iter().filter(|(_, what)| {
            let meta = what.object().meta();
            meta.kind == "Pod" && meta.name == name
        });
        let changes = of_pod.map(|(at, what)| {
            let phase = what.object().value().unwrap()["status"]["phase"].as_str().unwrap().to_owned();
            (at.nanos() / 1_000_000, what.event_type(), phase)
        });
        changes.collect()
    }
}

fn at(millis: i64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

/// A distinct latency for every operation.
fn distinct_latencies() -> Latencies {
    let millis = [
        (LatencyKind::Attempt, 1),
        (LatencyKind::StatusPatch, 10),
        (LatencyKind::Bind, 20),
        (LatencyKind::Preempt, 30),
        (LatencyKind::PodStart, 500),
        (LatencyKind::PodDeletion, 700),
        (LatencyKind::PodRecreation, 40),
        (LatencyKind::NextJobPod, 1_000),
        (LatencyKind::PodGc, 50_000),
        (LatencyKind::AutoscalerLoop, 50),
    ];
    millis.into_iter().fold(Latencies::typical(), |latencies, (step, millis)| {
        latencies.with(step, Delay::Constant(Duration::from_millis(millis)))
    })
}

fn cluster<'m>(autoscaler: Option<AutoscalerSetup>) -> Run<'m, CollectingObserver> {
    let scheduler = scheduler::Settings::default();
    Run::new(
        RunSetup { start: at(0), scheduler, autoscaler, latencies: distinct_latencies(), seed: 1 },
        CollectingObserver::default(),
    )
}

fn node(name: &str, taints: &Value) -> Object {
    let node = testobjects::node(name).allocatable("cpu", "1").allocatable("memory", "1Gi");
    node.allocatable("pods", "10").ready().set("spec.taints", taints.clone()).object()
}

fn demand(id: u64, name: &str, cpu: &str, priority: i32) -> PodDemand {
    let pod = testobjects::pod(name).namespace("shop").uid(&format!("uid-{name}")).request("cpu", cpu);
    let pod = pod.created("1970-01-01T00:00:00Z").owner_with_uid("ReplicaSet", "web", "set");
    let pod = pod.set("metadata.generateName", "web-").set("spec.containers.0.image", "i");
    let pod = pod.set("spec.schedulerName", "default-scheduler").priority(priority.into()).object();
    PodDemand {
        id: DemandId(id),
        pod,
        after: None,
        initial_state: None,
        recreate: RecreatePolicy::WhenTerminating,
        replica_set: None,
        exit: None,
        incarnations: vec![PodIncarnation { name: name.into(), ..PodIncarnation::default() }],
        not_recreated_for: None,
    }
}

fn apply_input(run: &mut Run<'_, CollectingObserver>, millis: i64, input: Input) {
    run.advance(at(millis));
    run.apply_input(at(millis), input).unwrap();
}

fn demand_pod(run: &mut Run<'_, CollectingObserver>, millis: i64, demand: PodDemand) {
    apply_input(run, millis, Input::parse_demand(demand).unwrap());
}

fn add(run: &mut Run<'_, CollectingObserver>, millis: i64, node: Object) {
    apply_input(run, millis, Input::Object(What::Added(node)));
}

#[test]
fn a_pod_is_created_bound_started_and_finished() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let runs = Some(ContainerExit { after: Duration::from_secs(3), fails: false });
    demand_pod(&mut run, 100, PodDemand { exit: runs, ..demand(1, "a", "500m", 0) });
    demand_pod(&mut run, 200, PodDemand { after: Some(DemandId(1)), ..demand(2, "b", "500m", 0) });
    apply_input(&mut run, 9_000, Input::Withdrawn(DemandId(1)));
    run.advance(at(20_000));
    let change = |at, verb, phase: &str| (at, verb, phase.to_owned());
    assert_eq!(
        run.observer().changes_of_pod("a"),
        [
            change(100, "ADDED", "Pending"),
            change(120, "MODIFIED", "Pending"),
            change(620, "MODIFIED", "Running"),
            change(3_620, "MODIFIED", "Succeeded"),
            change(9_000, "DELETED", "Succeeded"),
        ]
    );
    // The next pod of the Job is created when the first has finished.
    assert_eq!(run.observer().changes_of_pod("b")[0], change(4_620, "ADDED", "Pending"));
}

#[test]
fn a_preempted_pod_is_recreated_under_another_name() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, demand(1, "weak", "800m", 0));
    demand_pod(&mut run, 2_000, demand(2, "strong", "800m", 100));
    run.advance(at(4_000));
    let created: Vec<String> = (run.observer().changes.iter())
        .filter(|(_, what)| matches!(what, What::Added(pod) if pod.meta().kind == "Pod"))
        .map(|(at, what)| format!("{} {}", at.nanos() / 1_000_000, what.object().meta().name))
        .collect();
    // Unschedulable at 2,000; its victim's deletion begins 30 ms later, and its owner creates another pod 40 ms after
    // that.
    let recreated = created.iter().find(|created| created.starts_with("2070 web-")).unwrap();
    assert_eq!(created, ["100 weak", "2000 strong", recreated]);
    let decisions = run.observer().decisions_so_far();
    assert_eq!(
        decisions[1..4],
        [
            (120, "weak on n1"),
            (2_000, "strong unschedulable"),
            (2_030, "weak evicted, PreemptionByScheduler")
        ]
    );
    // The victim is gone after 700 ms. The pending pod is then attempted at once, as no other pod is ready.
    assert!(decisions.contains(&(2_750, "strong on n1")), "{decisions:?}");
    let marked =
        |(at, what): &&(Moment, What)| at.nanos() == 2_030_000_000 && what.event_type() == "MODIFIED";
    let pod = run.observer().changes.iter().find(marked).unwrap().1.object().value().unwrap();
    let reasons =
        pod["status"]["conditions"].as_array().unwrap().iter().map(|condition| &condition["reason"]);
    assert!(reasons.into_iter().any(|reason| reason == "PreemptionByScheduler"), "{pod}");
}

#[test]
fn a_bare_pod_is_not_recreated() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, PodDemand { recreate: RecreatePolicy::Never, ..demand(1, "bare", "800m", 0) });
    apply_input(&mut run, 5_000, Input::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(60_000));
    assert_eq!(
        run.observer().decisions_so_far(),
        [
            (0, "n1 added"),
            (120, "bare on n1"),
            (5_000, "n1 deleted"),
            (55_000, "bare evicted, DeletionByPodGC")
        ]
    );
    assert!(run.is_empty());
}

#[test]
fn a_pod_bound_to_a_deleted_node_is_garbage_collected() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, PodDemand { recreate: RecreatePolicy::Never, ..demand(1, "late", "800m", 0) });
    apply_input(&mut run, 110, Input::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(60_000));
    let decisions = [
        (0, "n1 added"),
        (110, "n1 deleted"),
        (120, "late on n1"),
        (50_110, "late evicted, DeletionByPodGC"),
    ];
    assert_eq!(run.observer().decisions_so_far(), decisions);
    assert!(run.observer().changes_of_pod("late").iter().all(|(_, _, phase)| phase != "Running"));
    assert!(run.is_empty());
}

#[test]
fn a_name_is_free_when_its_pod_is_gone() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, demand(1, "a", "100m", 0));
    apply_input(&mut run, 1_000, Input::Withdrawn(DemandId(1)));
    demand_pod(&mut run, 1_100, demand(2, "a", "100m", 0));
    run.advance(at(9_000));
    let verbs: Vec<(i64, &str)> =
        run.observer().changes_of_pod("a").into_iter().map(|(at, verb, _)| (at, verb)).collect();
    assert_eq!(verbs[3..6], [(1_000, "MODIFIED"), (1_700, "DELETED"), (1_700, "ADDED")]);
}

#[test]
fn a_replica_set_removes_pending_pods_before_running_ones() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let of = |set: &str, demand| PodDemand { replica_set: Some(set.into()), ..demand };
    demand_pod(&mut run, 100, of("web", demand(1, "first", "600m", 0)));
    demand_pod(&mut run, 1_000, of("web", demand(2, "second", "600m", 0)));
    demand_pod(&mut run, 1_100, of("other", demand(3, "other", "600m", 0)));
    // In the recording the first pod was the pending one.
    apply_input(&mut run, 2_000, Input::Withdrawn(DemandId(1)));
    run.advance(at(3_000));
    let ends = |observer: &CollectingObserver, name: &str| {
        observer.changes_of_pod(name).last().map(|(at, verb, _)| (*at, *verb)).unwrap()
    };
    assert_eq!(ends(run.observer(), "second"), (2_000, "DELETED"));
    assert_eq!(ends(run.observer(), "first"), (620, "MODIFIED"));
    // Later inputs for the second demand apply to the first.
    apply_input(&mut run, 4_000, Input::Withdrawn(DemandId(2)));
    run.advance(at(5_000));
    assert_eq!(ends(run.observer(), "first"), (4_700, "DELETED"));
    assert!(
        run.observer().decisions_so_far().contains(&(4_720, "other on n1")),
        "{:?}",
        run.observer().decisions_so_far()
    );
    assert!(run.has_no_withdrawal_state());
}

#[test]
fn a_taint_evicts_pods_when_their_toleration_expires() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    let mut tolerant = demand(1, "tolerant", "100m", 0);
    let mut pod = tolerant.pod.value().unwrap();
    pod["spec"]["tolerations"] =
        json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    tolerant.pod = object(&pod);
    demand_pod(&mut run, 100, tolerant);
    demand_pod(&mut run, 100, demand(2, "other", "100m", 0));
    let tainted = node("n1", &json!([{"key": "gone", "effect": "NoExecute"}]));
    apply_input(&mut run, 1_000, Input::Object(What::Modified(tainted)));
    run.advance(at(10_000));
    assert_eq!(
        evictions(run.observer()),
        [
            (1_000, "other evicted, DeletionByTaintManager"),
            (6_000, "tolerant evicted, DeletionByTaintManager")
        ]
    );
}

fn tolerant(id: u64, name: &str, seconds: i64) -> PodDemand {
    let demand = demand(id, name, "100m", 0);
    let mut pod = demand.pod.value().unwrap();
    pod["spec"]["tolerations"] =
        json!([{"key": "gone", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}]);
    PodDemand { pod: object(&pod), ..demand }
}

fn tainted(name: &str) -> Object {
    node(name, &json!([{"key": "gone", "effect": "NoExecute"}]))
}

fn evictions(observer: &CollectingObserver) -> Vec<(i64, &str)> {
    observer.decisions_so_far().into_iter().filter(|(_, text)| text.contains("evicted")).collect()
}

#[test]
fn toleration_time_restarts_only_for_a_taint_that_was_removed() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, PodDemand { recreate: RecreatePolicy::Never, ..tolerant(1, "a", 5) });
    for (millis, node) in [(1_000, tainted("n1")), (3_000, node("n1", &json!([]))), (4_000, tainted("n1"))] {
        apply_input(&mut run, millis, Input::Object(What::Modified(node)));
    }
    for millis in 5..9 {
        apply_input(&mut run, millis * 1_000, Input::Object(What::Modified(tainted("n1"))));
    }
    run.advance(at(20_000));
    assert_eq!(evictions(run.observer()), [(9_000, "a evicted, DeletionByTaintManager")]);
}

#[test]
fn a_tainted_node_evicts_existing_and_new_pods() {
    let mut run = cluster(None);
    add(&mut run, 0, tainted("n1"));
    let initial_state = InitialPodState {
        created: at(0),
        node: Some("n1".into()),
        nominated: None,
        unschedulable: None,
        started: Some(at(0)),
        is_terminating: false,
    };
    let existing = PodDemand {
        recreate: RecreatePolicy::Never,
        initial_state: Some(initial_state),
        ..tolerant(1, "existing", 3)
    };
    run.apply_input(at(0), Input::parse_demand(existing).unwrap()).unwrap();
    demand_pod(&mut run, 1_000, PodDemand { recreate: RecreatePolicy::Never, ..tolerant(2, "new", 3) });
    run.advance(at(20_000));
    let expected =
        [(3_000, "existing evicted, DeletionByTaintManager"), (4_020, "new evicted, DeletionByTaintManager")];
    assert_eq!(evictions(run.observer()), expected);
}

#[test]
fn a_changed_toleration_cancels_an_eviction() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, tolerant(1, "a", 5));
    apply_input(&mut run, 1_000, Input::Object(What::Modified(tainted("n1"))));
    let mut pod = demand(1, "a", "100m", 0).pod.value().unwrap();
    pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
    let changed = object(&pod);
    apply_input(&mut run, 2_000, Input::PodChanged(DemandId(1), changed));
    run.advance(at(20_000));
    assert_eq!(evictions(run.observer()), []);
    let (at, change) =
        run.observer().changes.iter().rfind(|(_, what)| what.object().meta().kind == "Pod").unwrap();
    assert_eq!(at.nanos(), 2_000_000_000);
    assert_eq!(change.object().value().unwrap()["spec"]["tolerations"], json!([{"operator": "Exists"}]));
}

#[test]
fn pods_of_another_scheduler_are_bound_as_recorded() {
    let mut run = cluster(None);
    for name in ["n1", "n2"] {
        add(&mut run, 0, node(name, &json!([])));
    }
    let mut other = demand(1, "other", "900m", 0);
    let mut pod = other.pod.value().unwrap();
    pod["spec"]["schedulerName"] = "kai".into();
    other.pod = object(&pod);
    other.incarnations[0] = PodIncarnation {
        node: Some("n2".into()),
        bind_duration: Some(ObservedDuration::exactly(Duration::from_millis(300))),
        ..other.incarnations[0].clone()
    };
    demand_pod(&mut run, 100, other);
    // The simulated scheduler knows which resources are left.
    for (id, name) in [(2, "a"), (3, "b")] {
        demand_pod(&mut run, 1_000, demand(id, name, "600m", 0));
    }
    run.advance(at(1_500));
    assert_eq!(
        run.observer().decisions_so_far()[2..],
        [(400, "other on n2"), (1_001, "b unschedulable"), (1_020, "a on n1")]
    );
}

#[test]
fn an_initial_nomination_is_kept() {
    let mut run = cluster(None);
    for name in ["n1", "n2"] {
        add(&mut run, 0, node(name, &json!([])));
    }
    let initial_state = InitialPodState {
        created: at(0),
        node: None,
        nominated: Some("n2".into()),
        unschedulable: None,
        started: None,
        is_terminating: false,
    };
    let nominated = PodDemand { initial_state: Some(initial_state), ..demand(1, "nominated", "800m", 10) };
    run.apply_input(at(0), Input::parse_demand(nominated).unwrap()).unwrap();
    run.advance(at(1_000));
    assert_eq!(run.observer().decisions_so_far()[2], (20, "nominated on n2"));
    let pod_json = run.observer().changes[2].1.object().value().unwrap();
    assert_eq!(pod_json["status"]["nominatedNodeName"], "n2");
}

#[test]
fn a_pod_with_finalizers_is_deleted_when_they_are_removed() {
    for (finalizers, deleted_at) in [(json!([]), 5_000), (json!(["batch.kubernetes.io/job-tracking"]), 5_010)]
    {
        let mut run = cluster(None);
        let mut waits = demand(1, "waits", "100m", 0);
        let mut pod = waits.pod.value().unwrap();
        pod["metadata"]["finalizers"] = finalizers;
        waits.pod = object(&pod);
        demand_pod(&mut run, 100, waits);
        apply_input(&mut run, 5_000, Input::Withdrawn(DemandId(1)));
        run.advance(at(9_000));
        let (at, verb, _) = run.observer().changes_of_pod("waits").pop().unwrap();
        assert_eq!((at, verb), (deleted_at, "DELETED"));
    }
}

#[test]
fn a_terminating_pod_of_a_deleted_node_waits_for_pod_gc() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, demand(1, "a", "100m", 0));
    apply_input(&mut run, 1_000, Input::Withdrawn(DemandId(1)));
    apply_input(&mut run, 1_200, Input::Object(What::Deleted(node("n1", &json!([])))));
    run.advance(at(60_000));
    let (at, verb, _) = run.observer().changes_of_pod("a").pop().unwrap();
    assert_eq!((at, verb), (51_200, "DELETED"));
}

#[test]
fn a_name_that_is_taken_is_not_generated_again() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, demand(1, "a", "100m", 0));
    // Another pod already has the first generated name.
    let mut probe = cluster(None);
    demand_pod(&mut probe, 100, demand(1, "a", "100m", 0));
    apply_input(&mut probe, 1_000, Input::PodDeleted(DemandId(1)));
    probe.advance(at(2_000));
    let is_new_pod =
        |(_, what): &&(Moment, What)| what.event_type() == "ADDED" && what.object().meta().kind == "Pod";
    let mut created = probe.observer().changes.iter().filter(is_new_pod);
    let generated_name = created.nth(1).unwrap().1.object().meta().name.to_string();
    demand_pod(&mut run, 200, demand(2, &generated_name, "100m", 0));
    apply_input(&mut run, 1_000, Input::PodDeleted(DemandId(1)));
    run.advance(at(2_000));
    let recreated: Vec<String> = (run.observer().changes.iter())
        .filter(|(at, what)| {
            at.nanos() > 1_000_000_000 && what.event_type() == "ADDED" && what.object().meta().kind == "Pod"
        })
        .map(|(_, what)| what.object().meta().name.to_string())
        .collect();
    assert!(
        recreated.len() == 1 && recreated[0] != generated_name && recreated[0].starts_with("web-"),
        "{recreated:?}"
    );
}

#[test]
fn time_advances_with_a_scan_interval_of_zero() {
    let groups = "groups:\n- name: small\n  min: 0\n  max: 5\n  template: {cpu: 2, memory: 4Gi, pods: 10}\n";
    let cloud = SimulatedCloud::new(NodeGroups::parse(groups).unwrap().groups, 1);
    let settings = autoscaler::Settings { scan_interval: Duration::ZERO, ..autoscaler::Settings::default() };
    let latencies = distinct_latencies().with(LatencyKind::AutoscalerLoop, Delay::Constant(Duration::ZERO));
    let autoscaler = Some(AutoscalerSetup { settings, cloud, start: at(0) });
    let scheduler = scheduler::Settings::default();
    let mut run = Run::new(
        RunSetup { start: at(0), scheduler, autoscaler, latencies, seed: 1 },
        CollectingObserver::default(),
    );
    run.advance(at(100));
    assert_eq!(run.now(), at(100));
}

/// As in kube-scheduler, the preemptor is gated until the deletion of its last victim has begun, whatever happens
/// meanwhile, and then waits for a pod's deletion.
#[test]
fn a_preemptor_is_not_attempted_before_its_victims_are_terminating() {
    let mut run = cluster(None);
    add(&mut run, 0, node("n1", &json!([])));
    demand_pod(&mut run, 100, demand(1, "weak", "800m", 0));
    demand_pod(
        &mut run,
        100,
        PodDemand { recreate: RecreatePolicy::Never, ..demand(2, "small", "100m", 100) },
    );
    // Its removal becomes visible between the decision to preempt and the deletion of the victim.
    apply_input(&mut run, 1_310, Input::Withdrawn(DemandId(2)));
    demand_pod(&mut run, 2_000, demand(3, "strong", "800m", 100));
    run.advance(at(4_000));
    let attempts: Vec<(i64, &str)> = run
        .observer()
        .decisions_so_far()
        .into_iter()
        .filter(|(_, text)| text.starts_with("strong"))
        .collect();
    assert_eq!(attempts, [(2_000, "strong unschedulable"), (2_750, "strong on n1")]);
}

#[test]
fn among_nodes_of_equal_score_the_recorded_one_is_chosen() {
    for recorded in ["n1", "n2", "n3"] {
        let mut run = cluster(None);
        for name in ["n1", "n2", "n3"] {
            add(&mut run, 0, node(name, &json!([])));
        }
        let incarnations = vec![PodIncarnation {
            name: "a".into(),
            node: Some(recorded.into()),
            ..PodIncarnation::default()
        }];
        demand_pod(&mut run, 100, PodDemand { incarnations, ..demand(1, "a", "100m", 0) });
        run.advance(at(1_000));
        assert_eq!(run.observer().decisions_so_far()[3], (120, format!("a on {recorded}").as_str()));
    }
}

#[test]
fn the_autoscaler_scales_up_and_down() {
    let groups = "groups:\n- name: small\n  min: 0\n  max: 5\n  template: {cpu: 2, memory: 4Gi, pods: 10}\n  provisioning: {registersAfter: 30s}\n";
    let groups = NodeGroups::parse(groups).unwrap();
    let settings = autoscaler::Settings {
        scale_down_delay_after_add: Duration::from_secs(10),
        group_defaults: autoscaler::NodeGroupAutoscalingOptions {
            scale_down_unneeded_time: Duration::from_secs(60),
            ..autoscaler::Settings::default().group_defaults
        },
        ..autoscaler::Settings::default()
    };
    let simulate = || {
        let cloud =
            SimulatedCloud::new(groups.groups.clone(), 1).with_node_names("small", ["small-x".into()]);
        let mut run = cluster(Some(AutoscalerSetup { settings: settings.clone(), cloud, start: at(0) }));
        add(&mut run, 0, node("n1", &json!([])));
        demand_pod(&mut run, 100, demand(1, "large", "1500m", 0));
        apply_input(&mut run, 100_000, Input::Withdrawn(DemandId(1)));
        run.advance(at(300_000));
        run.into_observer()
    };
    let observer = simulate();
    let decisions: Vec<&str> = observer.decisions_so_far().into_iter().map(|(_, text)| text).collect();
    assert_eq!(
        decisions.iter().copied().filter(|text| !text.contains("unschedulable")).collect::<Vec<_>>(),
        [
            "n1 added",
            "small scaled up to 1",
            "small-x added",
            "large on small-x",
            "small-x scaled down",
            "small-x deleted"
        ]
    );
    let when = |decision: &str| {
        observer.decisions_so_far().into_iter().find(|(_, text)| *text == decision).unwrap().0
    };
    assert_eq!(when("small-x added") - when("small scaled up to 1"), 30_000);
    // It is unneeded from 100 s on; a loop must notice that, and another one that a minute has passed.
    assert!((160_000..=185_000).contains(&when("small-x scaled down")), "{}", when("small-x scaled down"));
    // The same again, to the byte.
    let repeated = simulate();
    assert_eq!((observer.changes, observer.decisions), (repeated.changes, repeated.decisions));
}

#[test]
fn an_invalid_pod_is_an_error() {
    let pod = Object::parse(
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"b"},"spec":[]}"#,
    )
    .unwrap();
    let error = Input::parse_demand(PodDemand { pod, ..demand(1, "a", "1", 0) }).unwrap_err();
    assert!(error.to_string().starts_with("invalid pod b/a: "), "{error}");
}
