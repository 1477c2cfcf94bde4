//! What each drainability rule says of pods, and which is asked first.

use BlockingReason::{
    ControllerNotFound, LocalStorageRequested, MinReplicasReached, NotEnoughPdb, NotReplicated,
    NotSafeToEvictAnnotation, UnmovableKubeSystemPod,
};
use Verdict::{Blocks, Moves, Skipped, Waits};
use serde_json::{Value, json};

use super::super::tests::{Fixture, START, pod, replica_set};
use super::*;

/// A budget for pods that are `critical`.
fn budget(namespace: &str, allowed: i64) -> Value {
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"critical": "true"}}},
        "status": {"disruptionsAllowed": allowed}
    })
}

fn verdict(settings: Settings, others: &[Value], change: impl FnOnce(&mut Value)) -> Verdict {
    let mut fixture = Fixture::new(settings, &[("g", 0)]);
    fixture.node("g", "n", |_| ());
    fixture.apply(replica_set());
    for other in others {
        fixture.apply(other.clone());
    }
    let mut value = pod("p", "n", "1m", "1");
    change(&mut value);
    fixture.apply(value.clone());
    let namespace = value["metadata"]["namespace"].as_str().expect("every pod has one");
    let name = NamespacedName { namespace: namespace.into(), name: "p".into() };
    let id = fixture.cluster.find_pod(&name).expect("it was just added");
    let disruptions = Disruptions::of(&fixture.cluster);
    let rules = Rules {
        settings: &fixture.settings,
        clock: &Clock::at(START),
        controllers: Some(&fixture.cluster),
        disruptions: Some(&disruptions),
    };
    rules.verdict(fixture.cluster.snapshot.pod(id))
}

#[track_caller]
fn check(expected: Verdict, change: impl FnOnce(&mut Value)) {
    assert_eq!(verdict(Settings::default(), &[], change), expected);
}

fn annotate(key: &'static str, value: &'static str) -> impl Fn(&mut Value) {
    move |pod| pod["metadata"]["annotations"][key] = json!(value)
}

fn own(kind: &'static str, api_version: &'static str, name: &'static str) -> impl Fn(&mut Value) {
    move |pod| {
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": api_version, "kind": kind, "name": name, "uid": "u", "controller": true}
        ]);
    }
}

#[test]
fn pods_that_do_not_count_are_skipped() {
    check(Skipped, annotate("kubernetes.io/config.mirror", ""));
    // 30 s of its own, and 30 s more.
    check(Skipped, |pod| pod["metadata"]["deletionTimestamp"] = json!("2025-12-31T23:58:59Z"));
    check(Moves, |pod| pod["metadata"]["deletionTimestamp"] = json!("2025-12-31T23:59:00Z"));
    let terminating = |grace: i64| {
        move |pod: &mut Value| {
            pod["metadata"]["deletionTimestamp"] = json!("2025-12-31T23:50:00Z");
            pod["spec"]["terminationGracePeriodSeconds"] = json!(grace);
        }
    };
    check(Skipped, terminating(120));
    check(Moves, terminating(20 * 60));
}

#[test]
fn a_controller_must_be_there() {
    check(Moves, |_| ());
    check(Blocks(ControllerNotFound), own("ReplicaSet", "apps/v1", "missing"));
    check(Blocks(ControllerNotFound), own("ReplicationController", "v1", "missing"));
    check(Blocks(ControllerNotFound), own("Job", "batch/v1", "missing"));
    check(Blocks(ControllerNotFound), own("StatefulSet", "apps/v1", "missing"));
    check(Blocks(ControllerNotFound), own("DaemonSet", "apps/v1", "missing"));
    // Nobody looks them up.
    check(Moves, own("StatefulSet", "other/v1", "missing"));
    check(Moves, own("DaemonSet", "other/v1", "missing"));
    check(Blocks(NotReplicated), own("Foo", "bar/v1", "missing"));
    check(Blocks(NotReplicated), |pod| pod["metadata"]["ownerReferences"] = json!([]));
    let trusting = Settings { skip_nodes_with_custom_controller_pods: false, ..Settings::default() };
    assert_eq!(verdict(trusting.clone(), &[], own("Foo", "bar/v1", "missing")), Moves);
    assert_eq!(verdict(trusting.clone(), &[], own("ReplicaSet", "apps/v1", "missing")), Moves);
    let alone = |pod: &mut Value| pod["metadata"]["ownerReferences"] = json!([]);
    assert_eq!(verdict(trusting, &[], alone), Blocks(NotReplicated));
}

#[test]
fn a_controller_must_have_enough_replicas() {
    // The ReplicaSet has three.
    for (least, expected) in [(3, Moves), (4, Blocks(MinReplicasReached))] {
        let settings = Settings { min_replica_count: least, ..Settings::default() };
        assert_eq!(verdict(settings, &[], |_| ()), expected);
    }
}

#[test]
fn annotations_decide() {
    const KEY: &str = SAFE_TO_EVICT;
    check(Blocks(NotSafeToEvictAnnotation), annotate(KEY, "false"));
    check(Waits, annotate(KEY, "on-completion"));
    let older = Settings::for_version(Version::V1_35);
    assert_eq!(verdict(older, &[], annotate(KEY, "on-completion")), Moves);
    let alone_and = |value: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["ownerReferences"] = json!([]);
            pod["metadata"]["namespace"] = json!("kube-system");
            pod["spec"]["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
            pod["metadata"]["annotations"][KEY] = json!(value);
        }
    };
    check(Moves, alone_and("true"));
    check(Blocks(NotReplicated), alone_and("false"));
}

#[test]
fn local_storage_stays_unless_it_is_given_up() {
    let with = |volumes: Value, given_up: &'static str| {
        move |pod: &mut Value| {
            pod["spec"]["volumes"] = volumes;
            pod["metadata"]["annotations"][SAFE_LOCAL_VOLUMES] = json!(given_up);
        }
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
    let system = |created: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["namespace"] = json!("kube-system");
            pod["metadata"]["creationTimestamp"] = json!(created);
            pod["metadata"]["labels"]["critical"] = json!("true");
            // What comes after is not looked at once it is old enough.
            pod["metadata"]["annotations"][SAFE_TO_EVICT] = json!("false");
        }
    };
    let mut owner = replica_set();
    owner["metadata"]["namespace"] = json!("kube-system");
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
    let critical = |pod: &mut Value| pod["metadata"]["labels"]["critical"] = json!("true");
    for (namespace, allowed, expected) in
        [("default", 0, Blocks(NotEnoughPdb)), ("default", 1, Moves), ("other", 0, Moves)]
    {
        assert_eq!(verdict(Settings::default(), &[budget(namespace, allowed)], critical), expected);
    }
    assert_eq!(verdict(Settings::default(), &[budget("default", 0)], |_| ()), Moves);
}

#[test]
fn budgets_are_spent() {
    let mut fixture = Fixture::new(Settings::default(), &[("g", 0)]);
    fixture.node("g", "n", |_| ());
    fixture.apply(budget("default", 2));
    for name in ["a", "b", "c"] {
        let mut value = pod(name, "n", "1m", "1");
        value["metadata"]["labels"]["critical"] = json!("true");
        fixture.apply(value);
    }
    let snapshot = &fixture.cluster.snapshot;
    let on_it = snapshot.pods_on(snapshot.find("n").expect("it is there"));
    let pods: Vec<&Pod> = on_it.iter().map(|id| &**snapshot.pod(*id)).collect();
    let mut disruptions = Disruptions::of(&fixture.cluster);
    assert!(disruptions.spend(pods[..2].iter().copied()));
    assert!(disruptions.forbid(pods[2]));
    assert!(!Disruptions::of(&fixture.cluster).spend(pods.iter().copied()));
}
