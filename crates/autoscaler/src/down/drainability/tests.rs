//! What each drainability rule says of pods, and which is asked first.

use BlockingReason::{
    ControllerNotFound, LocalStorageRequested, MinReplicasReached, NotEnoughPdb, NotReplicated,
    NotSafeToEvictAnnotation, UnmovableKubeSystemPod,
};
use Verdict::{Blocks, Moves, Skipped, Waits};
use model::What;
use serde_json::{Value, json};
use testobjects::{ObjectBuilder, PodBuilder, resource};

use super::super::tests::{START, harness, node, pod, replica_set};
use super::*;

/// A budget for pods that are `critical`.
fn budget(namespace: &str, allowed: i64) -> ObjectBuilder {
    resource("policy/v1", "PodDisruptionBudget", "b")
        .namespace(namespace)
        .set("spec.selector", json!({"matchLabels": {"critical": "true"}}))
        .set("status.disruptionsAllowed", allowed)
}

/// A pod `p` that may be changed; the ReplicaSet that it belongs to is there.
fn plain() -> PodBuilder {
    pod("p", "n", "1m", "1")
}

fn verdict(settings: Settings, others: &[ObjectBuilder], pod: PodBuilder) -> Verdict {
    let mut harness = harness(settings, 0);
    harness.add_node("g", node("g", "n"));
    harness.apply(replica_set().added());
    for other in others {
        harness.apply(other.clone().added());
    }
    let pod = pod.object();
    let namespace = pod.meta().namespace.to_string();
    harness.apply(What::Added(pod));
    let id = harness.pod(&namespace, "p");
    let disruptions = Disruptions::of(&harness.state.cluster);
    let rules = Rules {
        settings: &harness.state.settings,
        clock: &Clock::at(START),
        controllers: Some(&harness.state.cluster),
        disruptions: Some(&disruptions),
    };
    rules.verdict(harness.state.cluster.snapshot.pod(id))
}

#[track_caller]
fn check(expected: Verdict, pod: PodBuilder) {
    assert_eq!(verdict(Settings::default(), &[], pod), expected);
}

fn own(kind: &str, api_version: &str, name: &str) -> PodBuilder {
    let owner =
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true});
    plain().set("metadata.ownerReferences", json!([owner]))
}

fn alone() -> PodBuilder {
    plain().set("metadata.ownerReferences", json!([]))
}

#[test]
fn pods_that_do_not_count_are_skipped() {
    check(Skipped, plain().annotation("kubernetes.io/config.mirror", ""));
    // 30 s of its own, and 30 s more.
    check(Skipped, plain().terminating("2025-12-31T23:58:59Z"));
    check(Moves, plain().terminating("2025-12-31T23:59:00Z"));
    let terminating = |grace: i64| {
        plain().terminating("2025-12-31T23:50:00Z").set("spec.terminationGracePeriodSeconds", grace)
    };
    check(Skipped, terminating(120));
    check(Moves, terminating(20 * 60));
}

#[test]
fn a_controller_must_be_there() {
    check(Moves, plain());
    check(Blocks(ControllerNotFound), own("ReplicaSet", "apps/v1", "missing"));
    check(Blocks(ControllerNotFound), own("ReplicationController", "v1", "missing"));
    check(Blocks(ControllerNotFound), own("Job", "batch/v1", "missing"));
    check(Blocks(ControllerNotFound), own("StatefulSet", "apps/v1", "missing"));
    check(Blocks(ControllerNotFound), own("DaemonSet", "apps/v1", "missing"));
    // Nobody looks them up.
    check(Moves, own("StatefulSet", "other/v1", "missing"));
    check(Moves, own("DaemonSet", "other/v1", "missing"));
    check(Blocks(NotReplicated), own("Foo", "bar/v1", "missing"));
    check(Blocks(NotReplicated), alone());
    let trusting = Settings { skip_nodes_with_custom_controller_pods: false, ..Settings::default() };
    assert_eq!(verdict(trusting.clone(), &[], own("Foo", "bar/v1", "missing")), Moves);
    assert_eq!(verdict(trusting.clone(), &[], own("ReplicaSet", "apps/v1", "missing")), Moves);
    assert_eq!(verdict(trusting, &[], alone()), Blocks(NotReplicated));
}

#[test]
fn a_controller_must_have_enough_replicas() {
    // The ReplicaSet has three.
    for (least, expected) in [(3, Moves), (4, Blocks(MinReplicasReached))] {
        let settings = Settings { min_replica_count: least, ..Settings::default() };
        assert_eq!(verdict(settings, &[], plain()), expected);
    }
}

#[test]
fn annotations_decide() {
    const KEY: &str = SAFE_TO_EVICT;
    check(Blocks(NotSafeToEvictAnnotation), plain().annotation(KEY, "false"));
    check(Waits, plain().annotation(KEY, "on-completion"));
    let older = Settings::for_version(Version::V1_35);
    assert_eq!(verdict(older, &[], plain().annotation(KEY, "on-completion")), Moves);
    let alone_and = |value: &str| {
        let volumes = json!([{"name": "scratch", "emptyDir": {}}]);
        alone().namespace("kube-system").set("spec.volumes", volumes).annotation(KEY, value)
    };
    check(Moves, alone_and("true"));
    check(Blocks(NotReplicated), alone_and("false"));
}

#[test]
fn local_storage_stays_unless_it_is_given_up() {
    let with = |volumes: Value, given_up: &str| {
        plain().set("spec.volumes", volumes).annotation(SAFE_LOCAL_VOLUMES, given_up)
    };
    let two =
        || json!([{"name": "v1", "emptyDir": {"medium": ""}}, {"name": "v2", "hostPath": {"path": "/x"}}]);
    check(Blocks(LocalStorageRequested), with(two(), ""));
    check(Blocks(LocalStorageRequested), with(two(), "v1"));
    check(Blocks(LocalStorageRequested), with(two(), "v1, v2"));
    check(Blocks(LocalStorageRequested), with(two(), "wrong,v2"));
    check(Moves, with(two(), "v1,v2"));
    check(Moves, with(json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]), ""));
    let settings = Settings { skip_nodes_with_local_storage: false, ..Settings::default() };
    assert_eq!(verdict(settings, &[], with(two(), "")), Moves);
}

#[test]
fn system_pods_stay_for_an_hour_unless_a_budget_guards_them() {
    let system = |created: &str| {
        let pod = plain().namespace("kube-system").created(created).label("critical", "true");
        // What comes after is not looked at once it is old enough.
        pod.annotation(SAFE_TO_EVICT, "false")
    };
    let owner = replica_set().namespace("kube-system");
    let others = [owner.clone()];
    let default = Settings::default;
    assert_eq!(verdict(default(), &others, system("2025-12-31T23:00:00Z")), Blocks(UnmovableKubeSystemPod));
    assert_eq!(verdict(default(), &others, system("2025-12-31T22:59:59Z")), Moves);
    let oldest = Settings::for_version(Version::V1_32);
    assert_eq!(verdict(oldest, &others, system("2025-12-31T00:00:00Z")), Blocks(UnmovableKubeSystemPod));
    let guarded = [owner, budget("kube-system", 1)];
    assert_eq!(
        verdict(default(), &guarded, system("2025-12-31T23:00:00Z")),
        Blocks(NotSafeToEvictAnnotation)
    );
    let settings = Settings { skip_nodes_with_system_pods: false, ..default() };
    assert_eq!(verdict(settings, &others, system("2025-12-31T23:00:00Z")), Blocks(NotSafeToEvictAnnotation));
}

#[test]
fn a_budget_must_allow_it() {
    let critical = || plain().label("critical", "true");
    for (namespace, allowed, expected) in
        [("default", 0, Blocks(NotEnoughPdb)), ("default", 1, Moves), ("other", 0, Moves)]
    {
        assert_eq!(verdict(Settings::default(), &[budget(namespace, allowed)], critical()), expected);
    }
    assert_eq!(verdict(Settings::default(), &[budget("default", 0)], plain()), Moves);
}

#[test]
fn budgets_are_spent() {
    let mut harness = harness(Settings::default(), 0);
    harness.add_node("g", node("g", "n"));
    harness.apply(budget("default", 2).added());
    for name in ["a", "b", "c"] {
        harness.apply(pod(name, "n", "1m", "1").label("critical", "true").added());
    }
    let snapshot = &harness.state.cluster.snapshot;
    let on_it = snapshot.pods_on(snapshot.find("n").expect("it is there"));
    let pods: Vec<&Pod> = on_it.iter().map(|id| &**snapshot.pod(*id)).collect();
    let mut disruptions = Disruptions::of(&harness.state.cluster);
    assert!(disruptions.spend(pods[..2].iter().copied()));
    assert!(disruptions.forbid(pods[2]));
    assert!(!Disruptions::of(&harness.state.cluster).spend(pods.iter().copied()));
}
