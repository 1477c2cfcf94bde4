use kubernetes::objects::PodView;
use model::{Kind, ObjectRef};
use serde_json::{Value, json};
use simulation::{PodRecord, RecordedPodSource};
use testobjects::{object, resource};

use super::*;
use crate::demands::controller_pods::ControllerPodMatcher;

struct TestRecording(DemandExtractor<'static>);

fn at(millis: i64) -> Moment {
    Moment::from_nanos(millis * 1_000_000)
}

fn replica_set(replicas: i64) -> Value {
    let set = resource("apps/v1", "ReplicaSet", "web").namespace("shop").uid("set");
    set.set("spec.replicas", replicas).json()
}

fn owned(name: &str, kind: &str, uid: &str) -> Value {
    let pod = testobjects::pod(name).namespace("shop").uid(&format!("uid-{name}")).phase("Pending");
    pod.owner_with_uid(kind, "web", uid).json()
}

fn pod(name: &str) -> Value {
    owned(name, "ReplicaSet", "set")
}

fn node(name: &str, taints: &Value) -> Value {
    testobjects::node(name).set("spec.taints", taints.clone()).json()
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod
}

fn running(mut pod: Value) -> Value {
    pod["status"]["phase"] = "Running".into();
    pod["status"]["startTime"] = "1970-01-01T00:00:01Z".into();
    pod
}

fn terminating(mut pod: Value) -> Value {
    pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:30Z".into();
    pod
}

fn disrupted(mut pod: Value, reason: &str) -> Value {
    pod["status"]["conditions"] = json!([{"type": "DisruptionTarget", "status": "True", "reason": reason}]);
    pod
}

fn ended(mut pod: Value, phase: &str) -> Value {
    pod["status"]["phase"] = phase.into();
    pod
}

impl TestRecording {
    fn new() -> TestRecording {
        let mut recording = TestRecording::with(&[]);
        recording.add(0, &node("n1", &json!([])));
        recording
    }

    fn with(controllers: &[Controller]) -> TestRecording {
        TestRecording(DemandExtractor::new(at(0), true, controllers, &|_| None).unwrap())
    }

    fn add(&mut self, millis: i64, value: &Value) {
        self.0.observe(at(millis), &What::Added(object(value)).into()).unwrap();
    }

    fn change(&mut self, millis: i64, value: &Value) {
        self.0.observe(at(millis), &What::Modified(object(value)).into()).unwrap();
    }

    fn remove(&mut self, millis: i64, value: &Value) {
        self.0.observe(at(millis), &What::Deleted(object(value)).into()).unwrap();
    }
}

/// The demands of a recording, and the unexplained observations.
fn demands_of(recording: TestRecording) -> (Vec<RecordedDemand>, BTreeMap<&'static str, u64>) {
    let recorded_demands = recording.0.finish(at(10_000)).unwrap();
    let all = (0..recorded_demands.totals.demands).map(|id| recorded_demands.get(DemandId(id)).unwrap());
    (all.collect(), recorded_demands.unexplained)
}

fn names(demand: &RecordedDemand) -> Vec<&str> {
    demand.incarnations.iter().map(|incarnation| &*incarnation.name).collect()
}

#[test]
fn a_preempted_and_recreated_pod_is_one_demand() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    recording.add(1_010, &pod("web-a"));
    recording.change(1_050, &on(pod("web-a"), "n1"));
    recording.change(1_850, &running(on(pod("web-a"), "n1")));
    recording
        .change(5_000, &terminating(disrupted(running(on(pod("web-a"), "n1")), "PreemptionByScheduler")));
    recording.add(5_300, &pod("web-b"));
    recording
        .remove(5_900, &terminating(disrupted(running(on(pod("web-a"), "n1")), "PreemptionByScheduler")));
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(recorded_demands.len(), 1);
    let recorded = &recorded_demands[0];
    assert_eq!(
        (names(recorded), &recorded.actions[..], recorded.recreate),
        (vec!["web-a", "web-b"], &[][..], RecreatePolicy::WhenTerminating)
    );
    let [first, second] = &recorded.incarnations[..] else { panic!("{:?}", recorded.incarnations) };
    let millis = |took: Option<ObservedDuration>| {
        took.filter(|took| !took.is_lower_bound).map(|took| took.duration.as_millis())
    };
    assert_eq!(
        [first.bind_duration, first.start_duration, first.deletion_duration].map(millis),
        [Some(40), Some(800), Some(900)]
    );
    assert_eq!(millis(second.recreate_duration), Some(300));
    assert_eq!(recorded_demands[0].observed[0].eviction, Some(EvictionKind::Preempted));
}

#[test]
fn an_event_shows_preemption_where_the_pod_does_not() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    recording.add(1_010, &on(pod("web-a"), "n1"));
    recording.change(5_000, &terminating(on(pod("web-a"), "n1")));
    let event = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "shop"},
        "reason": "Preempted", "regarding": {"uid": "uid-web-a"}});
    recording.add(5_010, &event);
    recording.remove(5_900, &terminating(on(pod("web-a"), "n1")));
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(
        (recorded_demands[0].observed[0].eviction, recorded_demands[0].actions.len()),
        (Some(EvictionKind::Preempted), 0)
    );
}

#[test]
fn deletions_not_explained_by_scaling_are_attributed_to_users() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(2));
    for name in ["web-a", "web-b"] {
        recording.add(1_010, &on(pod(name), "n1"));
    }
    recording.change(2_000, &terminating(on(pod("web-a"), "n1")));
    recording.add(2_100, &pod("web-c"));
    recording.change(3_000, &replica_set(1));
    recording.change(3_100, &terminating(on(pod("web-b"), "n1")));
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(recorded_demands.len(), 2);
    assert_eq!(names(&recorded_demands[0]), ["web-a", "web-c"]);
    assert_eq!(recorded_demands[0].actions, [(at(2_000), DemandAction::Deleted)]);
    assert_eq!(recorded_demands[1].actions, [(at(3_100), DemandAction::Withdrawn)]);
}

#[test]
fn the_next_pod_of_a_job_follows_the_one_that_ended() {
    let job = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "web", "namespace": "shop", "uid": "job"}, "spec": {"parallelism": 1, "completions": 2}});
    let mut recording = TestRecording::new();
    recording.add(1_000, &job);
    let first = on(owned("job-a", "Job", "job"), "n1");
    recording.add(1_010, &first);
    recording.change(2_000, &running(first.clone()));
    recording.change(9_000, &ended(running(first.clone()), "Succeeded"));
    recording.add(10_000, &owned("job-b", "Job", "job"));
    recording.remove(20_000, &ended(running(first), "Succeeded"));
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(recorded_demands.len(), 2);
    let runs = ContainerExit { after: Duration::from_secs(7), fails: false };
    assert_eq!((recorded_demands[0].exit, recorded_demands[1].after), (Some(runs), Some(DemandId(0))));
    assert_eq!(
        recorded_demands[1].incarnations[0].recreate_duration,
        Some(ObservedDuration::exactly(Duration::from_secs(1)))
    );
    // The deletion of the ended pod is input too.
    assert_eq!(recorded_demands[0].actions, [(at(20_000), DemandAction::CleanedUp)]);
}

#[test]
fn pods_of_a_lost_node_are_recreated() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    recording.add(1_010, &running(on(pod("web-a"), "n1")));
    recording.remove(5_000, &node("n1", &json!([])));
    let collected = disrupted(ended(running(on(pod("web-a"), "n1")), "Failed"), "DeletionByPodGC");
    recording.change(65_000, &collected);
    recording.add(65_200, &pod("web-b"));
    recording.remove(65_300, &collected);
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(
        (recorded_demands.len(), recorded_demands[0].observed[0].eviction),
        (1, Some(EvictionKind::NodeDeleted))
    );
    // It did not end by itself, and was not withdrawn.
    assert_eq!((recorded_demands[0].exit, recorded_demands[0].actions.len()), (None, 0));
}

#[test]
fn an_owner_may_delete_a_pod_on_a_lost_node() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    recording.add(1_010, &running(on(pod("web-a"), "n1")));
    recording.remove(5_000, &node("n1", &json!([])));
    recording.change(6_000, &replica_set(0));
    recording.change(6_100, &terminating(running(on(pod("web-a"), "n1"))));
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(
        (recorded_demands[0].observed[0].eviction, &recorded_demands[0].actions[..]),
        (None, &[(at(6_100), DemandAction::Withdrawn)][..])
    );
}

#[test]
fn an_eviction_is_the_autoscalers_only_where_it_removes_the_node() {
    for (taints, evicted, actions) in [
        (
            json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]),
            EvictionKind::ScaledDown,
            0,
        ),
        (json!([]), EvictionKind::External, 1),
    ] {
        let mut recording = TestRecording::new();
        recording.add(1_000, &replica_set(1));
        recording.add(1_010, &running(on(pod("web-a"), "n1")));
        recording.change(4_000, &node("n1", &taints));
        recording
            .change(5_000, &terminating(disrupted(running(on(pod("web-a"), "n1")), "EvictionByEvictionAPI")));
        recording.add(5_100, &pod("web-b"));
        let (recorded_demands, _) = demands_of(recording);
        assert_eq!(
            (recorded_demands[0].observed[0].eviction, recorded_demands[0].actions.len()),
            (Some(evicted), actions)
        );
        assert_eq!(names(&recorded_demands[0]), ["web-a", "web-b"]);
    }
}

#[test]
fn another_template_is_another_demand() {
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "sts"}, "spec": {"replicas": 1}});
    let of = |hash: &str, uid: &str| {
        let mut pod = owned("db-0", "StatefulSet", "sts");
        pod["metadata"]["labels"] = json!({"controller-revision-hash": hash});
        pod["metadata"]["uid"] = uid.into();
        pod
    };
    for (next, demands) in [("h1", 1), ("h2", 2)] {
        let mut recording = TestRecording::new();
        recording.add(1_000, &set);
        recording.add(1_010, &on(of("h1", "u1"), "n1"));
        recording.change(5_000, &terminating(on(of("h1", "u1"), "n1")));
        recording.remove(6_000, &terminating(on(of("h1", "u1"), "n1")));
        recording.add(6_100, &of(next, "u2"));
        let (recorded_demands, _) = demands_of(recording);
        assert_eq!(recorded_demands.len(), demands, "{next}");
        let action = if demands == 1 { DemandAction::Deleted } else { DemandAction::Withdrawn };
        assert_eq!(recorded_demands[0].actions, [(at(5_000), action)]);
        assert_eq!(recorded_demands[0].recreate, RecreatePolicy::WhenGone);
    }
}

#[test]
fn pods_of_which_only_the_deletion_was_observed_are_unexplained() {
    let mut recording = TestRecording::new();
    recording.remove(1_000, &pod("web-a"));
    let (recorded_demands, unexplained) = demands_of(recording);
    assert_eq!((recorded_demands.len(), unexplained["pods of which only the deletion was recorded"]), (0, 1));
}

#[test]
fn memory_use_follows_the_existing_pods() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    for number in 0..100 {
        let begins = 2_000 + number * 1_000;
        let web = on(pod(&format!("web-{number}")), "n1");
        recording.add(begins, &web);
        // Each is evicted and recreated as the next, except the last of ten, which is no longer wanted.
        let is_last = number % 10 == 9;
        if is_last {
            recording.change(begins + 400, &replica_set(0));
            recording.change(begins + 500, &terminating(web.clone()));
            recording.change(begins + 550, &replica_set(1));
        } else {
            recording.change(begins + 500, &terminating(disrupted(web.clone(), "PreemptionByScheduler")));
        }
        recording.remove(begins + 600, &web);
        assert_eq!((recording.0.pods.len(), recording.0.open_demands.len()), (0, usize::from(!is_last)));
    }
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(
        recorded_demands.iter().map(|recorded| recorded.incarnations.len()).collect::<Vec<_>>(),
        [10; 10]
    );
}

#[test]
fn a_deleted_owner_leaves_no_demand_open() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    let web = on(pod("web-a"), "n1");
    recording.add(2_000, &web);
    recording.change(3_000, &terminating(disrupted(web.clone(), "PreemptionByScheduler")));
    recording.remove(4_000, &web);
    assert_eq!(recording.0.open_demands.len(), 1);
    recording.remove(5_000, &replica_set(1));
    assert_eq!(recording.0.open_demands.len(), 0);
    let (recorded_demands, _) = demands_of(recording);
    assert_eq!(recorded_demands[0].actions, [(at(5_000), DemandAction::Withdrawn)]);
}

#[test]
fn in_a_replay_awaited_pods_outlive_their_owner() {
    let mut recording = TestRecording::new();
    recording.0.recording_is_replay = true;
    let marked = |name: &str, demand: &str| {
        let mut pod = on(pod(name), "n1");
        pod["metadata"]["annotations"] = json!({"replay.kinescope.io/demand": demand});
        pod
    };
    let (evicted, remaining) = (marked("web-a", "7"), marked("web-b", "8"));
    recording.add(1_000, &replica_set(2));
    recording.add(2_000, &evicted);
    recording.add(2_000, &remaining);
    recording.change(3_000, &terminating(disrupted(evicted.clone(), "PreemptionByScheduler")));
    recording.remove(4_000, &evicted);
    recording.remove(5_000, &replica_set(2));
    let mut withdrawn = terminating(remaining.clone());
    withdrawn["status"]["reason"] = "Withdrawn".into();
    recording.change(6_000, &withdrawn);
    recording.remove(6_500, &withdrawn);
    let (recorded_demands, _) = demands_of(recording);
    // The first is not recreated until the recording ends.
    assert_eq!(
        (recorded_demands[0].not_recreated_for, &recorded_demands[0].actions[..]),
        (Some(Duration::from_millis(7_000)), &[][..])
    );
    assert_eq!(recorded_demands[1].actions, [(at(6_000), DemandAction::Withdrawn)]);
}

#[test]
fn unrecorded_owners_are_eventually_forgotten() {
    let mut recording = TestRecording::new();
    for number in 0..10_200 {
        let name = format!("web-{number}");
        let evicted = disrupted(on(owned(&name, "ReplicaSet", &name), "n1"), "PreemptionByScheduler");
        recording.add(1_000 + number, &evicted);
        recording.remove(1_000 + number, &evicted);
    }
    assert_eq!(recording.0.open_demands.len(), 10_000);
}

#[test]
fn pods_that_a_controller_creates_are_matched_by_owner() {
    let mut recording = TestRecording::with(&[Controller::ReplicaSet, Controller::Job]);
    let mut set = replica_set(2);
    set["metadata"]["labels"] = json!({"pod-template-hash": "abc"});
    set["spec"]["template"] = json!({"metadata": {"labels": {"pod-template-hash": "abc"}}, "spec": {}});
    // A watch of pods may be ahead of that of their owners.
    recording.add(1_000, &pod("web-a"));
    recording.add(1_001, &set);
    recording.change(1_100, &running(on(pod("web-a"), "n1")));
    recording.change(3_100, &ended(running(on(pod("web-a"), "n1")), "Succeeded"));
    recording.remove(4_000, &ended(running(on(pod("web-a"), "n1")), "Succeeded"));
    recording.add(4_100, &pod("web-b"));
    let recorded_demands = recording.0.finish(at(10_000)).unwrap();
    assert_eq!(recorded_demands.totals.demands, 2, "the controller decides which pods are recreated");
    assert!(
        recorded_demands.controller_pods.creates(&object(&pod("web-a"))).unwrap()
            && !recorded_demands.controller_pods.creates(&object(&owned("x", "Job", "job"))).unwrap()
    );
    assert_eq!(
        recorded_demands.controller_pods.template_hashes.values().map(|hash| &**hash).collect::<Vec<_>>(),
        ["abc"]
    );

    let mut pod_matcher = ControllerPodMatcher::new(&recorded_demands);
    let owner = |kind: &str, name: &str| ObjectRef::new(Kind::new("apps", kind), "shop", name);
    let owners = [owner("ReplicaSet", "web"), owner("Deployment", "above")];
    let mut next = || pod_matcher.next_record(&PodView::parse(&object(&pod("new"))), &owners).unwrap();
    let (first, second, third) = (next(), next(), next());
    let name =
        |record: &PodRecord| record.incarnations.first().map(|incarnation| incarnation.name.to_string());
    assert_eq!((first.demand, name(&first).as_deref()), (Some(DemandId(0)), Some("web-a")));
    assert_eq!(first.exit.map(|runs| runs.after), Some(Duration::from_secs(2)));
    assert_eq!((second.demand, name(&second).as_deref()), (Some(DemandId(1)), Some("web-b")));
    // A third pod was not recorded: its run time is that of the first.
    assert_eq!((third.demand, name(&third), third.exit), (None, None, first.exit));
    assert!(pod_matcher.next_record(&PodView::parse(&object(&pod("new"))), &owners[1..]).is_none());
}

#[test]
fn pods_of_a_stateful_set_and_a_daemon_set_are_matched_by_name_and_by_node() {
    let mut recording = TestRecording::with(&[Controller::StatefulSet, Controller::DaemonSet]);
    recording.add(0, &node("n1", &json!([])));
    let meant_for = |mut pod: Value, node: &str| {
        pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({"nodeSelectorTerms": [{"matchFields":
                [{"key": "metadata.name", "operator": "In", "values": [node]}]}]});
        pod
    };
    recording.add(1_000, &owned("web-0", "StatefulSet", "set"));
    recording.add(1_000, &owned("web-1", "StatefulSet", "set"));
    recording.add(1_000, &meant_for(owned("log-x", "DaemonSet", "log"), "n1"));
    recording.add(1_000, &meant_for(owned("log-y", "DaemonSet", "log"), "n2"));
    let recorded_demands = recording.0.finish(at(10_000)).unwrap();
    let mut pod_matcher = ControllerPodMatcher::new(&recorded_demands);
    let mut demand = |kind: &str, pod: &Value| {
        let owner = ObjectRef::new(Kind::new("apps", kind), "shop", "web");
        pod_matcher.next_record(&PodView::parse(&object(pod)), &[owner]).unwrap().demand
    };
    assert_eq!(demand("StatefulSet", &owned("web-1", "StatefulSet", "set")), Some(DemandId(1)));
    assert_eq!(demand("StatefulSet", &owned("web-2", "StatefulSet", "set")), None);
    assert_eq!(demand("DaemonSet", &meant_for(owned("z", "DaemonSet", "log"), "n2")), Some(DemandId(3)));
    assert_eq!(demand("DaemonSet", &meant_for(owned("z", "DaemonSet", "log"), "n2")), None);
}

#[test]
fn a_deleted_pod_did_not_end_by_itself() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(1));
    recording.add(1_010, &running(on(pod("web-a"), "n1")));
    recording.change(5_000, &terminating(running(on(pod("web-a"), "n1"))));
    // It terminates on request, without an error.
    recording.change(6_000, &terminating(ended(running(on(pod("web-a"), "n1")), "Succeeded")));
    recording.remove(6_100, &terminating(ended(running(on(pod("web-a"), "n1")), "Succeeded")));
    let (demands, _) = demands_of(recording);
    assert_eq!((demands[0].exit, &demands[0].actions[..]), (None, &[(at(5_000), DemandAction::Deleted)][..]));
}

#[test]
fn unfinished_durations_are_lower_bounds() {
    let mut recording = TestRecording::new();
    recording.add(1_000, &replica_set(3));
    for name in ["web-a", "web-b", "web-c"] {
        recording.add(1_000, &pod(name));
        recording.change(1_100, &on(pod(name), "n1"));
    }
    recording.change(1_400, &terminating(on(pod("web-a"), "n1")));
    recording.remove(2_000, &node("n1", &json!([])));
    recording.change(2_500, &terminating(on(pod("web-b"), "n1")));
    let (demands, _) = demands_of(recording);
    let incarnations: Vec<&PodIncarnation> =
        demands.iter().map(|recorded| &recorded.incarnations[0]).collect();
    let longer = |millis| Some(ObservedDuration::longer_than(Duration::from_millis(millis)));
    assert_eq!(
        incarnations.iter().map(|incarnation| incarnation.start_duration).collect::<Vec<_>>(),
        [longer(300), longer(1_400), longer(8_900)]
    );
    assert_eq!(
        incarnations.iter().map(|incarnation| incarnation.deletion_duration).collect::<Vec<_>>(),
        [longer(600), longer(7_500), None]
    );
    let not_recreated_for: Vec<Option<Duration>> =
        demands.iter().map(|recorded| recorded.not_recreated_for).collect();
    assert_eq!(
        not_recreated_for,
        [Some(Duration::from_millis(8_600)), Some(Duration::from_millis(7_500)), None]
    );
}
