//! Tests with handwritten histories and their exact latencies.

use autoscaler::Delay;
use model::Object;
use serde_json::{Value, json};
use testobjects::{NodeBuilder, ObjectBuilder, PodBuilder, resource};

use super::*;

/// Milliseconds since the history began.
fn at(millis: i64) -> Moment {
    Moment::from_nanos(1_800_000_000_000_000_000 + millis * 1_000_000)
}

fn added(object: impl Into<Value>) -> ObservedChange {
    What::Added(object_of(object)).into()
}

fn modified(object: impl Into<Value>) -> ObservedChange {
    What::Modified(object_of(object)).into()
}

fn deleted(object: impl Into<Value>) -> ObservedChange {
    What::Deleted(object_of(object)).into()
}

fn object_of(object: impl Into<Value>) -> Object {
    testobjects::object(&object.into())
}

/// A pod that was created at that moment.
fn pod(name: &str, created: i64) -> PodBuilder {
    testobjects::pod(name).namespace("a").created(at(created)).phase("Pending")
}

/// A pod that has been running since before the recording.
fn running(name: &str) -> PodBuilder {
    pod(name, -9000).on("n").phase("Running")
}

fn node(name: &str, created: i64) -> NodeBuilder {
    testobjects::node(name).created(at(created))
}

fn deleting(pod: PodBuilder, moment: i64, grace: i64) -> PodBuilder {
    pod.terminating(at(moment)).set("metadata.deletionGracePeriodSeconds", grace)
}

fn disrupted(pod: PodBuilder, reason: &str) -> PodBuilder {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
    pod.set("status.conditions", json!([condition]))
}

/// An Event of `events.k8s.io`.
fn event(reason: &str, uid: &str, moment: i64, note: &str) -> ObjectBuilder {
    resource("events.k8s.io/v1", "Event", &format!("{uid}.{moment}"))
        .namespace("a")
        .set("reason", reason)
        .set("note", note)
        .set("regarding", json!({"kind": "Pod", "uid": uid}))
        .set("eventTime", at(moment).to_string())
        .set("series", Value::Null)
}

fn failed(uid: &str, moment: i64, note: &str) -> ObservedChange {
    added(event("FailedScheduling", uid, moment, note))
}

/// Checks the measurements of each kind, in milliseconds: start and duration.
#[track_caller]
fn check(changes: &[(i64, ObservedChange)], expected: &[(LatencyKind, &[(i64, u64)])]) {
    let mut meter = LatencyMeter::new(7);
    for (moment, what) in changes {
        meter.observe(at(*moment), what);
    }
    let latencies = meter.finish();
    for step in LatencyKind::ALL {
        let found = match latencies.of(step) {
            Delay::SamplesByTime(all) => all.clone(),
            usual => {
                assert_eq!(*usual, *Latencies::typical().of(step));
                Vec::new()
            }
        };
        let of_step = expected.iter().filter(|(expected, _)| *expected == step).flat_map(|(_, spans)| *spans);
        let expected: Vec<_> =
            of_step.map(|(began, millis)| (at(*began), Duration::from_millis(*millis))).collect();
        assert_eq!(found, expected, "{step:?}");
    }
}

#[test]
fn a_pod_is_bound_and_runs() {
    check(
        &[
            (0, added(pod("p", 0))),
            (40, modified(pod("p", 0).on("n"))),
            (900, modified(pod("p", 0).on("n").phase("Running"))),
            (950, modified(pod("p", 0).on("n").phase("Running"))),
        ],
        &[(LatencyKind::Bind, &[(0, 40)]), (LatencyKind::PodStart, &[(40, 860)])],
    );
}

#[test]
fn objects_older_than_the_recording_are_not_measured() {
    let old = |name: &str| pod(name, -60_000).on("n").phase("Running");
    check(
        &[
            (0, added(pod("waits", -60_000))),
            (0, added(old("runs"))),
            (0, added(deleting(old("leaves"), -5_000, 30))),
            (40, modified(pod("waits", -60_000).on("n"))),
            (60, modified(old("runs"))),
            (90, deleted(deleting(old("leaves"), -5_000, 30))),
        ],
        &[],
    );
}

#[test]
fn a_refusal_lasts_until_its_write_is_seen() {
    check(
        &[
            (0, added(pod("p", 0))),
            (60, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            // Events arrive late.
            (90, failed("p", 10, "0/3 nodes")),
        ],
        &[(LatencyKind::StatusPatch, &[(10, 50)])],
    );
}

#[test]
fn a_refusal_counts_even_if_the_pod_is_deleted() {
    check(
        &[
            (0, added(pod("p", 0))),
            (60, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (70, deleted(pod("p", 0).unschedulable("0/3 nodes"))),
            (90, failed("p", 10, "0/3 nodes")),
            (9000, added(node("n", 9000))),
        ],
        &[(LatencyKind::StatusPatch, &[(10, 50)])],
    );
}

#[test]
fn the_next_refusal_ends_it_at_the_latest() {
    let changes = |second: i64| {
        vec![
            (0, added(pod("p", 0))),
            (0, added(pod("q", 0))),
            (60, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (200, modified(pod("q", 0).unschedulable("0/4 nodes"))),
            (210, failed("q", second, "0/4 nodes")),
            (211, failed("p", 10, "0/3 nodes")),
        ]
    };
    check(&changes(40), &[(LatencyKind::StatusPatch, &[(10, 30), (40, 160)])]);
    // Immediately after: the response arrived shortly after the watch event.
    check(&changes(75), &[(LatencyKind::StatusPatch, &[(10, 65), (75, 125)])]);
    // The scheduler was idle in between.
    check(&changes(190), &[(LatencyKind::StatusPatch, &[(10, 50), (190, 10)])]);
}

#[test]
fn a_refusal_that_says_nothing_new_costs_an_attempt() {
    let same = || modified(pod("p", 0).unschedulable("0/3 nodes"));
    check(
        &[
            (0, added(pod("p", 0))),
            (0, added(pod("q", 0))),
            (50, same()),
            (60, failed("p", 10, "0/3 nodes")),
            (70, modified(pod("q", 0).unschedulable("0/3 nodes"))),
            (80, failed("q", 50, "0/3 nodes")),
            // Retried, one after the other.
            (2010, failed("p", 2000, "0/3 nodes")),
            (2011, failed("q", 2003, "0/3 nodes")),
            (2300, same()),
        ],
        &[(LatencyKind::Attempt, &[(2000, 3)]), (LatencyKind::StatusPatch, &[(10, 40), (50, 20)])],
    );
}

#[test]
fn event_series_have_a_time_but_no_message() {
    let series = json!({"count": 2, "lastObservedTime": at(3000).to_string()});
    let repeated = event("FailedScheduling", "p", 10, "0/3 nodes").set("series", series);
    check(
        &[
            (0, added(pod("p", 0))),
            (30, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (40, failed("p", 10, "0/3 nodes")),
            (3040, modified(pod("p", 0).unschedulable("0/4 nodes"))),
            (3050, modified(repeated)),
        ],
        &[(LatencyKind::StatusPatch, &[(10, 20), (3000, 40)])],
    );
}

#[test]
fn events_of_the_core_group_are_equivalent() {
    let core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "a"}, "reason": "FailedScheduling",
        "message": "0/3 nodes", "involvedObject": {"kind": "Pod", "uid": "p"}, "eventTime": at(10).to_string(),
        "firstTimestamp": null,
    });
    check(
        &[(0, added(pod("p", 0))), (60, modified(pod("p", 0).unschedulable("0/3 nodes"))), (90, added(core))],
        &[(LatencyKind::StatusPatch, &[(10, 50)])],
    );
}

#[test]
fn clocks_that_disagree_measure_nothing() {
    check(
        &[
            (0, added(pod("p", 0))),
            (60, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (90, failed("p", -5000, "0/3 nodes")),
            (95, failed("p", 60_000, "0/3 nodes")),
        ],
        &[],
    );
}

#[test]
fn a_binding_delayed_by_a_write_is_not_measured() {
    check(
        &[
            (0, added(pod("p", 0))),
            (20, added(pod("behind", 0))),
            (110, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (120, failed("p", 10, "0/3 nodes")),
            (150, modified(pod("behind", 0).on("n"))),
            (5000, added(pod("free", 5000))),
            (5030, modified(pod("free", 5000).on("n"))),
        ],
        &[(LatencyKind::StatusPatch, &[(10, 100)]), (LatencyKind::Bind, &[(5000, 30)])],
    );
}

#[test]
fn victims_are_deleted_one_after_the_other() {
    let preempted =
        |victim, moment| added(event("Preempted", victim, moment, "Preempted by pod p on node n"));
    check(
        &[
            (0, added(pod("p", 0))),
            (30, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            // Events in the wrong order.
            (300, preempted("v2", 290)),
            (301, preempted("v1", 110)),
            (302, failed("p", 10, "0/3 nodes")),
        ],
        &[(LatencyKind::StatusPatch, &[(10, 20)]), (LatencyKind::Preempt, &[(10, 100), (110, 180)])],
    );
}

#[test]
fn pods_terminate_on_nodes_and_are_deleted_at_once_elsewhere() {
    let ends = |name: &str| deleting(running(name), 1000, 30);
    let ended = || deleting(running("ended").phase("Succeeded"), 1000, 0);
    check(
        &[
            (0, added(running("runs"))),
            (0, added(running("ended").phase("Succeeded"))),
            (0, added(pod("waits", -9000))),
            (0, added(running("missed"))),
            (1000, modified(ends("runs"))),
            (1001, modified(ended())),
            (1030, deleted(ended())),
            (1040, deleted(deleting(pod("waits", -9000), 1040, 0))),
            (1050, deleted(ends("missed"))),
            (1700, deleted(ends("runs"))),
        ],
        &[
            (LatencyKind::PodDeletion, &[(1000, 700)]),
            (LatencyKind::ForcedPodDeletion, &[(1001, 29), (1040, 0)]),
        ],
    );
}

#[test]
fn a_replica_set_replaces_a_deleting_pod_and_a_stateful_set_a_deleted_one() {
    let of_replica_set = |pod: PodBuilder| pod.owner("ReplicaSet", "rs");
    let of_stateful_set = |pod: PodBuilder| pod.owner("StatefulSet", "sts");
    let deleted_pod = |pod: PodBuilder| deleting(disrupted(pod, "PreemptionByScheduler"), 1000, 30);
    check(
        &[
            (0, added(of_replica_set(running("r1")))),
            (0, added(of_stateful_set(running("s-0")))),
            (1000, modified(deleted_pod(of_replica_set(running("r1"))))),
            (1001, modified(deleted_pod(of_stateful_set(running("s-0"))))),
            (1100, added(of_replica_set(pod("r2", 1100)))),
            (1101, added(of_replica_set(pod("r3", 1101)))),
            (2000, deleted(deleted_pod(of_stateful_set(running("s-0"))))),
            (2060, added(of_stateful_set(pod("s-0", 2060)).uid("s-0-again"))),
        ],
        &[
            (LatencyKind::PodRecreation, &[(1000, 100), (2000, 60)]),
            (LatencyKind::PodDeletion, &[(1001, 999)]),
        ],
    );
}

#[test]
fn pods_deleted_by_their_owner_are_not_replaced() {
    let owned = |pod: PodBuilder| pod.owner("ReplicaSet", "rs");
    check(
        &[
            (0, added(owned(running("r1")))),
            (1000, modified(deleting(owned(running("r1")), 1000, 30))),
            (1100, added(owned(pod("r2", 1100)))),
        ],
        &[],
    );
}

#[test]
fn a_job_makes_the_next_pod_when_one_has_succeeded() {
    let of_job = |pod: PodBuilder| pod.owner("Job", "j");
    let ran = |name: &str, phase: &str| of_job(running(name)).phase(phase);
    check(
        &[
            (0, added(ran("j1", "Running"))),
            (0, added(ran("j2", "Running"))),
            (100, modified(ran("j1", "Succeeded"))),
            (150, modified(ran("j1", "Succeeded"))),
            (1200, added(of_job(pod("j3", 1200)))),
            // Long after: the parallelism was raised.
            (2000, modified(ran("j2", "Succeeded"))),
            (14_000, added(of_job(pod("j4", 14_000)))),
        ],
        &[(LatencyKind::NextJobPod, &[(100, 1100)])],
    );
}

#[test]
fn a_daemon_set_follows_new_nodes() {
    let daemon = |name: &str, created: i64, set: &str| pod(name, created).owner("DaemonSet", set);
    check(
        &[
            (0, added(node("old", -90_000))),
            (0, added(daemon("d-old", -9000, "d").on("old"))),
            (1000, added(node("new", 1000))),
            (1070, added(daemon("d-new", 1070, "d"))),
            (1090, modified(daemon("d-new", 1070, "d").on("new"))),
            // A DaemonSet that was created later than the node.
            (3000, added(daemon("e-new", 3000, "e"))),
            (3020, modified(daemon("e-new", 3000, "e").on("new"))),
        ],
        &[(LatencyKind::DaemonPodCreation, &[(1000, 70)]), (LatencyKind::Bind, &[(1070, 20), (3000, 20)])],
    );
}

#[test]
fn pods_of_a_deleted_node_are_garbage_collected() {
    let collected = || deleting(disrupted(running("p").phase("Failed"), "DeletionByPodGC"), 50_000, 0);
    check(
        &[
            (0, added(node("n", -90_000))),
            (0, added(running("p"))),
            (0, added(running("q"))),
            (1000, deleted(node("n", -90_000))),
            // The kubelet was still terminating it.
            (1100, modified(deleting(running("q"), 900, 30))),
            (1600, deleted(deleting(running("q"), 900, 30))),
            (50_000, modified(collected())),
            (50_100, deleted(collected())),
        ],
        &[(LatencyKind::PodGc, &[(1000, 49_100)])],
    );
}

#[test]
fn malformed_objects_are_ignored() {
    let bad_time = event("FailedScheduling", "p", 10, "0/3 nodes").set("eventTime", "tomorrow");
    let nameless = pod("p", 0).on("n").set("metadata.uid", Value::Null);
    check(
        &[
            (0, added(bad_time)),
            (1, added(event("Preempted", "v", 1, "by chance"))),
            (2, modified(nameless)),
            (3, added(pod("x", 3).set("spec", 3))),
            (4, deleted(deleting(pod("never seen", 0), 4, 0))),
            (5, deleted(node("never seen", 0))),
        ],
        &[],
    );
}

#[test]
fn a_loop_of_the_autoscaler_is_timed_once_and_by_one_clock() {
    let status = |began: &str| {
        let status = format!("time: {began} +0000 UTC\nautoscalerStatus: Running\n");
        let map = resource("v1", "ConfigMap", "cluster-autoscaler-status").namespace("kube-system");
        map.set("data.status", status)
    };
    let labeled = status("2027-01-15 08:00:10").label("a", "b");
    check(
        &[
            // A status from a list was written earlier.
            (9_000, added(status("2027-01-15 08:00:00"))),
            (10_030, modified(status("2027-01-15 08:00:10"))),
            // No new loop.
            (12_000, modified(labeled)),
            // A clock difference.
            (15_000, modified(status("2027-01-15 08:00:20"))),
            (95_000, modified(status("2027-01-15 08:00:30"))),
        ],
        &[(LatencyKind::AutoscalerLoop, &[(10_000, 30)])],
    );
}
