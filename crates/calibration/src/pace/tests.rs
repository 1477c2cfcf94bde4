//! Histories made by hand, with what a stopwatch would have said.

use autoscaler::Delay;
use model::Object;
use serde_json::{Value, json};

use super::*;

/// Milliseconds since the history began.
fn at(millis: i64) -> Moment {
    Moment::from_nanos(1_800_000_000_000_000_000 + millis * 1_000_000)
}

fn object(value: Value) -> Object {
    Object::parse(&value.to_string()).unwrap()
}

fn added(value: Value) -> Seen {
    What::Added(object(value)).into()
}

fn modified(value: Value) -> Seen {
    What::Modified(object(value)).into()
}

fn deleted(value: Value) -> Seen {
    What::Deleted(object(value)).into()
}

/// A pod that was made at that moment, with more about it: `"metadata.x"`, `"spec.x"` or `"status.x"`.
fn pod(name: &str, made: i64, more: &[(&str, Value)]) -> Value {
    let metadata =
        json!({"name": name, "namespace": "a", "uid": name, "creationTimestamp": at(made).to_string()});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}, "status": {"phase": "Pending"}});
    for (path, value) in more {
        let (part, field) = path.split_once('.').unwrap();
        pod[part][field] = value.clone();
    }
    pod
}

fn node(name: &str, made: i64) -> Value {
    let metadata = json!({"name": name, "creationTimestamp": at(made).to_string()});
    json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
}

fn owner(kind: &str, uid: &str) -> (&'static str, Value) {
    (
        "metadata.ownerReferences",
        json!([{"apiVersion": "apps/v1", "kind": kind, "name": uid, "uid": uid, "controller": true}]),
    )
}

fn on(node: &str) -> (&'static str, Value) {
    ("spec.nodeName", json!(node))
}

fn phase(phase: &str) -> (&'static str, Value) {
    ("status.phase", json!(phase))
}

fn marked(moment: i64, grace: i64) -> [(&'static str, Value); 2] {
    let (timestamp, grace) = (json!(at(moment).to_string()), json!(grace));
    [("metadata.deletionTimestamp", timestamp), ("metadata.deletionGracePeriodSeconds", grace)]
}

fn refused(message: &str) -> (&'static str, Value) {
    let condition =
        json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
    ("status.conditions", json!([condition]))
}

fn disrupted(reason: &str) -> (&'static str, Value) {
    ("status.conditions", json!([{"type": "DisruptionTarget", "status": "True", "reason": reason}]))
}

/// As `events.k8s.io` has it.
fn event(reason: &str, uid: &str, moment: i64, note: &str) -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": format!("{uid}.{moment}"), "namespace": "a"},
        "reason": reason, "note": note, "regarding": {"kind": "Pod", "uid": uid},
        "eventTime": at(moment).to_string(), "series": null,
    })
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
            (0, added(pod("p", 0, &[]))),
            (40, modified(pod("p", 0, &[on("n")]))),
            (900, modified(pod("p", 0, &[on("n"), phase("Running")]))),
            (950, modified(pod("p", 0, &[on("n"), phase("Running")]))),
        ],
        &[(Step::Bind, &[(0, 40)]), (Step::Start, &[(40, 860)])],
    );
}

#[test]
fn what_was_there_before_the_recording_is_not_measured() {
    let old = [on("n"), phase("Running")];
    check(
        &[
            (0, added(pod("waits", -60_000, &[]))),
            (0, added(pod("runs", -60_000, &old))),
            (0, added(pod("leaves", -60_000, &[&old[..], &marked(-5_000, 30)].concat()))),
            (40, modified(pod("waits", -60_000, &[on("n")]))),
            (60, modified(pod("runs", -60_000, &old))),
            (90, deleted(pod("leaves", -60_000, &[&old[..], &marked(-5_000, 30)].concat()))),
        ],
        &[],
    );
}

#[test]
fn a_refusal_lasts_until_its_write_is_seen() {
    check(
        &[
            (0, added(pod("p", 0, &[]))),
            (60, modified(pod("p", 0, &[refused("0/3 nodes")]))),
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
            (0, added(pod("p", 0, &[]))),
            (60, modified(pod("p", 0, &[refused("0/3 nodes")]))),
            (70, deleted(pod("p", 0, &[refused("0/3 nodes")]))),
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
            (0, added(pod("p", 0, &[]))),
            (0, added(pod("q", 0, &[]))),
            (60, modified(pod("p", 0, &[refused("0/3 nodes")]))),
            (200, modified(pod("q", 0, &[refused("0/4 nodes")]))),
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
    let same = || modified(pod("p", 0, &[refused("0/3 nodes")]));
    check(
        &[
            (0, added(pod("p", 0, &[]))),
            (0, added(pod("q", 0, &[]))),
            (50, same()),
            (60, failed("p", 10, "0/3 nodes")),
            (70, modified(pod("q", 0, &[refused("0/3 nodes")]))),
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
    let mut again = event("FailedScheduling", "p", 10, "0/3 nodes");
    again["series"] = json!({"count": 2, "lastObservedTime": at(3000).to_string()});
    check(
        &[
            (0, added(pod("p", 0, &[]))),
            (30, modified(pod("p", 0, &[refused("0/3 nodes")]))),
            (40, failed("p", 10, "0/3 nodes")),
            (3040, modified(pod("p", 0, &[refused("0/4 nodes")]))),
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
        &[
            (0, added(pod("p", 0, &[]))),
            (60, modified(pod("p", 0, &[refused("0/3 nodes")]))),
            (90, added(core)),
        ],
        &[(Step::Refuse, &[(10, 50)])],
    );
}

#[test]
fn clocks_that_disagree_measure_nothing() {
    check(
        &[
            (0, added(pod("p", 0, &[]))),
            (60, modified(pod("p", 0, &[refused("0/3 nodes")]))),
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
            (0, added(pod("p", 0, &[]))),
            (20, added(pod("behind", 0, &[]))),
            (110, modified(pod("p", 0, &[refused("0/3 nodes")]))),
            (120, failed("p", 10, "0/3 nodes")),
            (150, modified(pod("behind", 0, &[on("n")]))),
            (5000, added(pod("free", 5000, &[]))),
            (5030, modified(pod("free", 5000, &[on("n")]))),
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
            (0, added(pod("p", 0, &[]))),
            (30, modified(pod("p", 0, &[refused("0/3 nodes")]))),
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
    let runs = [on("n"), phase("Running")];
    let ends = [&runs[..], &marked(1000, 30)].concat();
    let ended = [&[on("n"), phase("Succeeded")][..], &marked(1000, 0)].concat();
    check(
        &[
            (0, added(pod("runs", -9000, &runs))),
            (0, added(pod("ended", -9000, &[on("n"), phase("Succeeded")]))),
            (0, added(pod("waits", -9000, &[]))),
            (0, added(pod("missed", -9000, &runs))),
            (1000, modified(pod("runs", -9000, &ends))),
            (1001, modified(pod("ended", -9000, &ended))),
            (1030, deleted(pod("ended", -9000, &ended))),
            (1040, deleted(pod("waits", -9000, &marked(1040, 0)))),
            (1050, deleted(pod("missed", -9000, &ends))),
            (1700, deleted(pod("runs", -9000, &ends))),
        ],
        &[(Step::End, &[(1000, 700)]), (Step::Vanish, &[(1001, 29), (1040, 0)])],
    );
}

#[test]
fn a_replica_set_replaces_at_the_mark_and_a_stateful_set_when_the_pod_is_gone() {
    let gone = |kind: &str, uid: &str| {
        [
            &[owner(kind, uid), on("n"), phase("Running"), disrupted("PreemptionByScheduler")][..],
            &marked(1000, 30),
        ]
        .concat()
    };
    let (replica, stateful) = (gone("ReplicaSet", "rs"), gone("StatefulSet", "sts"));
    check(
        &[
            (0, added(pod("r1", -9000, &replica[..3]))),
            (0, added(pod("s-0", -9000, &stateful[..3]))),
            (1000, modified(pod("r1", -9000, &replica))),
            (1001, modified(pod("s-0", -9000, &stateful))),
            (1100, added(pod("r2", 1100, &replica[..1]))),
            (1101, added(pod("r3", 1101, &replica[..1]))),
            (2000, deleted(pod("s-0", -9000, &stateful))),
            (
                2060,
                added({
                    let mut successor = pod("s-0", 2060, &stateful[..1]);
                    successor["metadata"]["uid"] = json!("s-0-again");
                    successor
                }),
            ),
        ],
        &[(Step::Again, &[(1000, 100), (2000, 60)]), (Step::End, &[(1001, 999)])],
    );
}

#[test]
fn what_its_owner_deletes_is_not_replaced() {
    let leaves = [&[owner("ReplicaSet", "rs"), on("n"), phase("Running")][..], &marked(1000, 30)].concat();
    check(
        &[
            (0, added(pod("r1", -9000, &leaves[..3]))),
            (1000, modified(pod("r1", -9000, &leaves))),
            (1100, added(pod("r2", 1100, &leaves[..1]))),
        ],
        &[],
    );
}

#[test]
fn a_job_makes_the_next_pod_when_one_has_succeeded() {
    let of_job = |more: &str| vec![owner("Job", "j"), on("n"), phase(more)];
    check(
        &[
            (0, added(pod("j1", -9000, &of_job("Running")))),
            (0, added(pod("j2", -9000, &of_job("Running")))),
            (100, modified(pod("j1", -9000, &of_job("Succeeded")))),
            (150, modified(pod("j1", -9000, &of_job("Succeeded")))),
            (1200, added(pod("j3", 1200, &of_job("Pending")[..1]))),
            // Long after: the parallelism was raised.
            (2000, modified(pod("j2", -9000, &of_job("Succeeded")))),
            (14_000, added(pod("j4", 14_000, &of_job("Pending")[..1]))),
        ],
        &[(Step::NextOfJob, &[(100, 1100)])],
    );
}

#[test]
fn a_daemon_set_follows_new_nodes() {
    let daemon = |uid: &str, node: &str| vec![owner("DaemonSet", uid), on(node)];
    check(
        &[
            (0, added(node("old", -90_000))),
            (0, added(pod("d-old", -9000, &daemon("d", "old")))),
            (1000, added(node("new", 1000))),
            (1070, added(pod("d-new", 1070, &daemon("d", "new")[..1]))),
            (1090, modified(pod("d-new", 1070, &daemon("d", "new")))),
            // One that came later than the node.
            (3000, added(pod("e-new", 3000, &daemon("e", "new")[..1]))),
            (3020, modified(pod("e-new", 3000, &daemon("e", "new")))),
        ],
        &[(Step::Daemon, &[(1000, 70)]), (Step::Bind, &[(1070, 20), (3000, 20)])],
    );
}

#[test]
fn pods_of_a_node_that_is_gone_are_collected() {
    let runs = [on("n"), phase("Running")];
    let collected =
        [&[on("n"), phase("Failed"), disrupted("DeletionByPodGC")][..], &marked(50_000, 0)].concat();
    check(
        &[
            (0, added(node("n", -90_000))),
            (0, added(pod("p", -9000, &runs))),
            (0, added(pod("q", -9000, &runs))),
            (1000, deleted(node("n", -90_000))),
            // The kubelet was still at it.
            (1100, modified(pod("q", -9000, &[&runs[..], &marked(900, 30)].concat()))),
            (1600, deleted(pod("q", -9000, &[&runs[..], &marked(900, 30)].concat()))),
            (50_000, modified(pod("p", -9000, &collected))),
            (50_100, deleted(pod("p", -9000, &collected))),
        ],
        &[(Step::Collect, &[(1000, 49_100)])],
    );
}

#[test]
fn nonsense_is_passed_over() {
    let mut strange = event("FailedScheduling", "p", 10, "0/3 nodes");
    strange["eventTime"] = json!("tomorrow");
    let mut nameless = pod("p", 0, &[on("n")]);
    nameless["metadata"]["uid"] = json!(null);
    check(
        &[
            (0, added(strange)),
            (1, added(event("Preempted", "v", 1, "by chance"))),
            (2, modified(nameless)),
            (
                3,
                added(
                    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x", "uid": "x"}, "spec": 3}),
                ),
            ),
            (4, deleted(pod("never seen", 0, &marked(4, 0)))),
            (5, deleted(node("never seen", 0))),
        ],
        &[],
    );
}

#[test]
fn a_loop_of_the_autoscaler_is_timed_once_and_by_one_clock() {
    let status = |began: &str| {
        let status = format!("time: {began} +0000 UTC\nautoscalerStatus: Running\n");
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
            "data": {"status": status}})
    };
    let mut labelled = status("2027-01-15 08:00:10");
    labelled["metadata"]["labels"] = json!({"a": "b"});
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
