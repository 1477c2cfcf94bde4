//! Histories made by hand, with what a stopwatch would have said.

use autoscaler::Delay;
use model::Object;
use serde_json::{Value, json};
use testobjects::{NodeBuilder, ObjectBuilder, PodBuilder, resource};

use super::*;

/// Milliseconds since the history began.
fn at(millis: i64) -> Moment {
    Moment::from_nanos(1_800_000_000_000_000_000 + millis * 1_000_000)
}

fn added(object: impl Into<Value>) -> Seen {
    What::Added(object_of(object)).into()
}

fn modified(object: impl Into<Value>) -> Seen {
    What::Modified(object_of(object)).into()
}

fn deleted(object: impl Into<Value>) -> Seen {
    What::Deleted(object_of(object)).into()
}

fn object_of(object: impl Into<Value>) -> Object {
    testobjects::object(&object.into())
}

/// A pod that was made at that moment.
fn pod(name: &str, made: i64) -> PodBuilder {
    testobjects::pod(name).namespace("a").created(at(made)).phase("Pending")
}

/// A pod that runs since before the recording.
fn running(name: &str) -> PodBuilder {
    pod(name, -9000).on("n").phase("Running")
}

fn node(name: &str, made: i64) -> NodeBuilder {
    testobjects::node(name).created(at(made))
}

fn marked(pod: PodBuilder, moment: i64, grace: i64) -> PodBuilder {
    pod.terminating(at(moment)).set("metadata.deletionGracePeriodSeconds", grace)
}

fn disrupted(pod: PodBuilder, reason: &str) -> PodBuilder {
    let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": reason});
    pod.set("status.conditions", json!([condition]))
}

/// As `events.k8s.io` has it.
fn event(reason: &str, uid: &str, moment: i64, note: &str) -> ObjectBuilder {
    resource("events.k8s.io/v1", "Event", &format!("{uid}.{moment}"))
        .namespace("a")
        .set("reason", reason)
        .set("note", note)
        .set("regarding", json!({"kind": "Pod", "uid": uid}))
        .set("eventTime", at(moment).to_string())
        .set("series", Value::Null)
}

fn failed(uid: &str, moment: i64, note: &str) -> Seen {
    added(event("FailedScheduling", uid, moment, note))
}

/// What was measured of a step, in milliseconds: when it began and how long it took.
#[track_caller]
fn check(changes: &[(i64, Seen)], expected: &[(Step, &[(i64, u64)])]) {
    let mut measure = MeasurePace::new(7);
    for (moment, what) in changes {
        measure.see(at(*moment), what);
    }
    let pace = measure.finish();
    for step in Step::ALL {
        let found = match pace.of(step) {
            Delay::ByTime(all) => all.clone(),
            usual => {
                assert_eq!(*usual, *Pace::usual().of(step));
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
        &[(Step::Bind, &[(0, 40)]), (Step::Start, &[(40, 860)])],
    );
}

#[test]
fn what_was_there_before_the_recording_is_not_measured() {
    let old = |name: &str| pod(name, -60_000).on("n").phase("Running");
    check(
        &[
            (0, added(pod("waits", -60_000))),
            (0, added(old("runs"))),
            (0, added(marked(old("leaves"), -5_000, 30))),
            (40, modified(pod("waits", -60_000).on("n"))),
            (60, modified(old("runs"))),
            (90, deleted(marked(old("leaves"), -5_000, 30))),
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
            // Events come late.
            (90, failed("p", 10, "0/3 nodes")),
        ],
        &[(Step::Refuse, &[(10, 50)])],
    );
}

#[test]
fn a_refusal_counts_whatever_becomes_of_the_pod() {
    check(
        &[
            (0, added(pod("p", 0))),
            (60, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (70, deleted(pod("p", 0).unschedulable("0/3 nodes"))),
            (90, failed("p", 10, "0/3 nodes")),
            (9000, added(node("n", 9000))),
        ],
        &[(Step::Refuse, &[(10, 50)])],
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
    check(&changes(40), &[(Step::Refuse, &[(10, 30), (40, 160)])]);
    // Right behind: the answer came a little after the watch told.
    check(&changes(75), &[(Step::Refuse, &[(10, 65), (75, 125)])]);
    // The scheduler had nothing to do in between.
    check(&changes(190), &[(Step::Refuse, &[(10, 50), (190, 10)])]);
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
            // Tried again, and one after the other.
            (2010, failed("p", 2000, "0/3 nodes")),
            (2011, failed("q", 2003, "0/3 nodes")),
            (2300, same()),
        ],
        &[(Step::Attempt, &[(2000, 3)]), (Step::Refuse, &[(10, 40), (50, 20)])],
    );
}

#[test]
fn of_a_series_the_time_is_told_and_not_the_message() {
    let series = json!({"count": 2, "lastObservedTime": at(3000).to_string()});
    let again = event("FailedScheduling", "p", 10, "0/3 nodes").set("series", series);
    check(
        &[
            (0, added(pod("p", 0))),
            (30, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            (40, failed("p", 10, "0/3 nodes")),
            (3040, modified(pod("p", 0).unschedulable("0/4 nodes"))),
            (3050, modified(again)),
        ],
        &[(Step::Refuse, &[(10, 20), (3000, 40)])],
    );
}

#[test]
fn events_of_the_core_group_tell_the_same() {
    let core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "a"}, "reason": "FailedScheduling",
        "message": "0/3 nodes", "involvedObject": {"kind": "Pod", "uid": "p"}, "eventTime": at(10).to_string(),
        "firstTimestamp": null,
    });
    check(
        &[(0, added(pod("p", 0))), (60, modified(pod("p", 0).unschedulable("0/3 nodes"))), (90, added(core))],
        &[(Step::Refuse, &[(10, 50)])],
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
fn a_binding_that_stood_behind_a_write_is_not_measured() {
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
        &[(Step::Refuse, &[(10, 100)]), (Step::Bind, &[(5000, 30)])],
    );
}

#[test]
fn victims_go_one_after_the_other() {
    let preempted =
        |victim, moment| added(event("Preempted", victim, moment, "Preempted by pod p on node n"));
    check(
        &[
            (0, added(pod("p", 0))),
            (30, modified(pod("p", 0).unschedulable("0/3 nodes"))),
            // Told the wrong way round.
            (300, preempted("v2", 290)),
            (301, preempted("v1", 110)),
            (302, failed("p", 10, "0/3 nodes")),
        ],
        &[(Step::Refuse, &[(10, 20)]), (Step::Preempt, &[(10, 100), (110, 180)])],
    );
}

#[test]
fn pods_end_on_nodes_and_vanish_elsewhere() {
    let ends = |name: &str| marked(running(name), 1000, 30);
    let ended = || marked(running("ended").phase("Succeeded"), 1000, 0);
    check(
        &[
            (0, added(running("runs"))),
            (0, added(running("ended").phase("Succeeded"))),
            (0, added(pod("waits", -9000))),
            (0, added(running("missed"))),
            (1000, modified(ends("runs"))),
            (1001, modified(ended())),
            (1030, deleted(ended())),
            (1040, deleted(marked(pod("waits", -9000), 1040, 0))),
            (1050, deleted(ends("missed"))),
            (1700, deleted(ends("runs"))),
        ],
        &[(Step::End, &[(1000, 700)]), (Step::Vanish, &[(1001, 29), (1040, 0)])],
    );
}

#[test]
fn a_replica_set_replaces_at_the_mark_and_a_stateful_set_when_the_pod_is_gone() {
    let of_replica_set = |pod: PodBuilder| pod.owner("ReplicaSet", "rs");
    let of_stateful_set = |pod: PodBuilder| pod.owner("StatefulSet", "sts");
    let gone = |pod: PodBuilder| marked(disrupted(pod, "PreemptionByScheduler"), 1000, 30);
    check(
        &[
            (0, added(of_replica_set(running("r1")))),
            (0, added(of_stateful_set(running("s-0")))),
            (1000, modified(gone(of_replica_set(running("r1"))))),
            (1001, modified(gone(of_stateful_set(running("s-0"))))),
            (1100, added(of_replica_set(pod("r2", 1100)))),
            (1101, added(of_replica_set(pod("r3", 1101)))),
            (2000, deleted(gone(of_stateful_set(running("s-0"))))),
            (2060, added(of_stateful_set(pod("s-0", 2060)).uid("s-0-again"))),
        ],
        &[(Step::Again, &[(1000, 100), (2000, 60)]), (Step::End, &[(1001, 999)])],
    );
}

#[test]
fn what_its_owner_deletes_is_not_replaced() {
    let owned = |pod: PodBuilder| pod.owner("ReplicaSet", "rs");
    check(
        &[
            (0, added(owned(running("r1")))),
            (1000, modified(marked(owned(running("r1")), 1000, 30))),
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
        &[(Step::NextOfJob, &[(100, 1100)])],
    );
}

#[test]
fn a_daemon_set_follows_new_nodes() {
    let daemon = |name: &str, made: i64, set: &str| pod(name, made).owner("DaemonSet", set);
    check(
        &[
            (0, added(node("old", -90_000))),
            (0, added(daemon("d-old", -9000, "d").on("old"))),
            (1000, added(node("new", 1000))),
            (1070, added(daemon("d-new", 1070, "d"))),
            (1090, modified(daemon("d-new", 1070, "d").on("new"))),
            // One that came later than the node.
            (3000, added(daemon("e-new", 3000, "e"))),
            (3020, modified(daemon("e-new", 3000, "e").on("new"))),
        ],
        &[(Step::Daemon, &[(1000, 70)]), (Step::Bind, &[(1070, 20), (3000, 20)])],
    );
}

#[test]
fn pods_of_a_node_that_is_gone_are_collected() {
    let collected = || marked(disrupted(running("p").phase("Failed"), "DeletionByPodGC"), 50_000, 0);
    check(
        &[
            (0, added(node("n", -90_000))),
            (0, added(running("p"))),
            (0, added(running("q"))),
            (1000, deleted(node("n", -90_000))),
            // The kubelet was still at it.
            (1100, modified(marked(running("q"), 900, 30))),
            (1600, deleted(marked(running("q"), 900, 30))),
            (50_000, modified(collected())),
            (50_100, deleted(collected())),
        ],
        &[(Step::Collect, &[(1000, 49_100)])],
    );
}

#[test]
fn nonsense_is_passed_over() {
    let strange = event("FailedScheduling", "p", 10, "0/3 nodes").set("eventTime", "tomorrow");
    let nameless = pod("p", 0).on("n").set("metadata.uid", Value::Null);
    check(
        &[
            (0, added(strange)),
            (1, added(event("Preempted", "v", 1, "by chance"))),
            (2, modified(nameless)),
            (3, added(pod("x", 3).set("spec", 3))),
            (4, deleted(marked(pod("never seen", 0), 4, 0))),
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
    let labelled = status("2027-01-15 08:00:10").label("a", "b");
    check(
        &[
            // What a list finds was told before.
            (9_000, added(status("2027-01-15 08:00:00"))),
            (10_030, modified(status("2027-01-15 08:00:10"))),
            // Nothing new of the loop.
            (12_000, modified(labelled)),
            // Clocks that disagree.
            (15_000, modified(status("2027-01-15 08:00:20"))),
            (95_000, modified(status("2027-01-15 08:00:30"))),
        ],
        &[(Step::Loop, &[(10_000, 30)])],
    );
}
