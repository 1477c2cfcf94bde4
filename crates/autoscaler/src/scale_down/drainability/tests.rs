//! The outcome of each drainability rule, and their order.

use BlockingPodReason::{
    ControllerNotFound, LocalStorageRequested, MinReplicasReached, NotEnoughPdb, NotReplicated,
    NotSafeToEvictAnnotation, UnmovableKubeSystemPod,
};
use DrainabilityOutcome::{BlockDrain, DrainOk, SkipDrain, WaitForCompletion};
use model::What;
use serde_json::{Value, json};
use testobjects::{ObjectBuilder, PodBuilder, resource};

use super::super::tests::{START, harness, node, pod, replica_set};
use super::*;

/// A budget for pods that are `critical`.
fn pod_disruption_budget(namespace: &str, allowed: i64) -> ObjectBuilder {
    resource("policy/v1", "PodDisruptionBudget", "b")
        .namespace(namespace)
        .set("spec.selector", json!({"matchLabels": {"critical": "true"}}))
        .set("status.disruptionsAllowed", allowed)
}

/// A pod `p`, to be modified; its ReplicaSet exists.
fn plain() -> PodBuilder {
    pod("p", "n", "1m", "1")
}

fn outcome(settings: Settings, others: &[ObjectBuilder], pod: PodBuilder) -> DrainabilityOutcome {
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
    let disruptions = RemainingPdbTracker::of(&harness.state.cluster);
    let rules = DrainabilityRules {
        settings: &harness.state.settings,
        clock: &LoopClock::at(START),
        controllers: Some(&harness.state.cluster),
        disruptions: Some(&disruptions),
    };
    rules.outcome(harness.state.cluster.snapshot.pod(id))
}

#[track_caller]
fn check(expected: DrainabilityOutcome, pod: PodBuilder) {
    assert_eq!(outcome(Settings::default(), &[], pod), expected);
}

fn with_owner(kind: &str, api_version: &str, name: &str) -> PodBuilder {
    let owner =
        json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true});
    plain().set("metadata.ownerReferences", json!([owner]))
}

fn without_controller() -> PodBuilder {
    plain().set("metadata.ownerReferences", json!([]))
}

#[test]
fn mirror_and_long_terminating_pods_are_skipped() {
    check(SkipDrain, plain().annotation("kubernetes.io/config.mirror", ""));
    // Its grace period of 30 s, and 30 s more.
    check(SkipDrain, plain().terminating("2025-12-31T23:58:59Z"));
    check(DrainOk, plain().terminating("2025-12-31T23:59:00Z"));
    let terminating = |grace: i64| {
        plain().terminating("2025-12-31T23:50:00Z").set("spec.terminationGracePeriodSeconds", grace)
    };
    check(SkipDrain, terminating(120));
    check(DrainOk, terminating(20 * 60));
}

#[test]
fn a_controller_must_exist() {
    check(DrainOk, plain());
    check(BlockDrain(ControllerNotFound), with_owner("ReplicaSet", "apps/v1", "missing"));
    check(BlockDrain(ControllerNotFound), with_owner("ReplicationController", "v1", "missing"));
    check(BlockDrain(ControllerNotFound), with_owner("Job", "batch/v1", "missing"));
    check(BlockDrain(ControllerNotFound), with_owner("StatefulSet", "apps/v1", "missing"));
    check(BlockDrain(ControllerNotFound), with_owner("DaemonSet", "apps/v1", "missing"));
    // Controllers of other API groups are not looked up.
    check(DrainOk, with_owner("StatefulSet", "other/v1", "missing"));
    check(DrainOk, with_owner("DaemonSet", "other/v1", "missing"));
    check(BlockDrain(NotReplicated), with_owner("Foo", "bar/v1", "missing"));
    check(BlockDrain(NotReplicated), without_controller());
    let trusting = Settings { skip_nodes_with_custom_controller_pods: false, ..Settings::default() };
    assert_eq!(outcome(trusting.clone(), &[], with_owner("Foo", "bar/v1", "missing")), DrainOk);
    assert_eq!(outcome(trusting.clone(), &[], with_owner("ReplicaSet", "apps/v1", "missing")), DrainOk);
    assert_eq!(outcome(trusting, &[], without_controller()), BlockDrain(NotReplicated));
}

#[test]
fn a_controller_must_have_enough_replicas() {
    // The ReplicaSet has three.
    for (min_replicas, expected) in [(3, DrainOk), (4, BlockDrain(MinReplicasReached))] {
        let settings = Settings { min_replica_count: min_replicas, ..Settings::default() };
        assert_eq!(outcome(settings, &[], plain()), expected);
    }
}

#[test]
fn safe_to_evict_annotations_decide() {
    const KEY: &str = SAFE_TO_EVICT;
    check(BlockDrain(NotSafeToEvictAnnotation), plain().annotation(KEY, "false"));
    check(WaitForCompletion, plain().annotation(KEY, "on-completion"));
    let older = Settings::for_version(Version::V1_35);
    assert_eq!(outcome(older, &[], plain().annotation(KEY, "on-completion")), DrainOk);
    let alone_and = |value: &str| {
        let volumes = json!([{"name": "scratch", "emptyDir": {}}]);
        without_controller().namespace("kube-system").set("spec.volumes", volumes).annotation(KEY, value)
    };
    check(DrainOk, alone_and("true"));
    check(BlockDrain(NotReplicated), alone_and("false"));
}

#[test]
fn local_storage_blocks_unless_its_volumes_are_safe_to_evict() {
    let with = |volumes: Value, given_up: &str| {
        plain().set("spec.volumes", volumes).annotation(SAFE_TO_EVICT_LOCAL_VOLUMES, given_up)
    };
    let two =
        || json!([{"name": "v1", "emptyDir": {"medium": ""}}, {"name": "v2", "hostPath": {"path": "/x"}}]);
    check(BlockDrain(LocalStorageRequested), with(two(), ""));
    check(BlockDrain(LocalStorageRequested), with(two(), "v1"));
    check(BlockDrain(LocalStorageRequested), with(two(), "v1, v2"));
    check(BlockDrain(LocalStorageRequested), with(two(), "wrong,v2"));
    check(DrainOk, with(two(), "v1,v2"));
    check(DrainOk, with(json!([{"name": "v", "emptyDir": {"medium": "Memory"}}]), ""));
    let settings = Settings { skip_nodes_with_local_storage: false, ..Settings::default() };
    assert_eq!(outcome(settings, &[], with(two(), "")), DrainOk);
}

#[test]
fn system_pods_block_for_an_hour_unless_a_budget_matches_them() {
    let system = |created: &str| {
        let pod = plain().namespace("kube-system").created(created).label("critical", "true");
        // Later rules do not apply once the pod is old enough.
        pod.annotation(SAFE_TO_EVICT, "false")
    };
    let owner = replica_set().namespace("kube-system");
    let others = [owner.clone()];
    let default = Settings::default;
    assert_eq!(
        outcome(default(), &others, system("2025-12-31T23:00:00Z")),
        BlockDrain(UnmovableKubeSystemPod)
    );
    assert_eq!(outcome(default(), &others, system("2025-12-31T22:59:59Z")), DrainOk);
    let oldest = Settings::for_version(Version::V1_32);
    assert_eq!(outcome(oldest, &others, system("2025-12-31T00:00:00Z")), BlockDrain(UnmovableKubeSystemPod));
    let guarded = [owner, pod_disruption_budget("kube-system", 1)];
    assert_eq!(
        outcome(default(), &guarded, system("2025-12-31T23:00:00Z")),
        BlockDrain(NotSafeToEvictAnnotation)
    );
    let settings = Settings { skip_nodes_with_system_pods: false, ..default() };
    assert_eq!(
        outcome(settings, &others, system("2025-12-31T23:00:00Z")),
        BlockDrain(NotSafeToEvictAnnotation)
    );
}

#[test]
fn a_disruption_budget_must_allow_the_eviction() {
    let critical = || plain().label("critical", "true");
    for (namespace, allowed, expected) in
        [("default", 0, BlockDrain(NotEnoughPdb)), ("default", 1, DrainOk), ("other", 0, DrainOk)]
    {
        assert_eq!(
            outcome(Settings::default(), &[pod_disruption_budget(namespace, allowed)], critical()),
            expected
        );
    }
    assert_eq!(outcome(Settings::default(), &[pod_disruption_budget("default", 0)], plain()), DrainOk);
}

#[test]
fn disruption_budgets_are_used_up() {
    let mut harness = harness(Settings::default(), 0);
    harness.add_node("g", node("g", "n"));
    harness.apply(pod_disruption_budget("default", 2).added());
    for name in ["a", "b", "c"] {
        harness.apply(pod(name, "n", "1m", "1").label("critical", "true").added());
    }
    let snapshot = &harness.state.cluster.snapshot;
    let on_it = snapshot.pods_on(snapshot.find_node("n").expect("it is there"));
    let pods: Vec<&Pod> = on_it.iter().map(|id| &**snapshot.pod(*id)).collect();
    let mut disruptions = RemainingPdbTracker::of(&harness.state.cluster);
    assert!(disruptions.remove_pods(pods[..2].iter().copied()));
    assert!(disruptions.are_exhausted_for(pods[2]));
    assert!(!RemainingPdbTracker::of(&harness.state.cluster).remove_pods(pods.iter().copied()));
}
