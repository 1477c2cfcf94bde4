//! The state of the simulated autoscaler in `explain`: recorded scale-ups and removals count, its own decisions have no
//! effect.

use serde_json::json;

use super::autoscaler::{GROUPS, explain_json, import_with_groups, member, pending_pod, pool, replica_set};
use super::{RecordingBuilder, explain, json_of, on, pod, time, with};

#[test]
fn scale_down_is_delayed_after_a_scale_up() {
    let new = with(member("new", "small"), "/metadata/creationTimestamp", time(30).into());
    let recording = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .push("ADDED", member("idle", "small"), 10)
        // An old node that was only seen late: not a scale-up.
        .push("ADDED", member("other", "small"), 20)
        .push("ADDED", new, 1800)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let explain_at = |at: &str| {
        let flags = "--scale-down-unneeded-time=10s";
        let arguments =
            ["node/idle", "--at", at, "--node-groups", "groups.yaml", "--autoscaler-flags", flags];
        (json_of(folder.path(), &arguments), explain(folder.path(), &arguments).success())
    };
    let (output, text) = explain_at(&time(62));
    assert_eq!(output["verdict"], "mayGo");
    assert_eq!(output["means"], "scale-down is in cooldown");
    assert_eq!(output["cooldown"], json!({"after": "a scale-up", "since": time(30), "until": time(630)}));
    let line = "Delayed:     scale-down in cooldown until 2026-11-01T14:10:30Z, after a scale-up at 2026-11-01T14:00:30Z\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("Removal:     in the first loop after 2026-11-01T14:10:30Z"), "{text}");
    assert_eq!(explain_at(&time(640)).0["verdict"], "goes");
}

/// A loop's scale-up has no effect: it delays scale-down in that loop, but not for ten minutes after.
#[test]
fn simulated_decisions_have_no_effect() {
    let recording = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .add_at_same_time(member("idle", "small"))
        .push("ADDED", member("other", "small"), 30)
        .push("ADDED", pending_pod("wide", "6"), 30)
        .push("DELETED", pending_pod("wide", "6"), 30)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let explain_at = |at: &str| {
        let flags = ["--autoscaler-flags", "--scale-down-unneeded-time=10s"];
        explain_json(folder.path(), &[&["node/idle", "--at", at], &flags[..]].concat())
    };
    let output = explain_at(&time(52));
    assert_eq!(output["verdict"], "mayGo");
    assert_eq!(output["means"], "scale-up in the same loop: scale-down is in cooldown");
    assert_eq!(output.get("cooldown"), None);
    assert_eq!(explain_at(&time(85))["verdict"], "goes");
}

/// A recorded target size shows a scale-up before its nodes appear, and a taint a removal.
#[test]
fn recorded_scaling_delays_scale_down() {
    let status = |target: u32| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
            "data": {"status": format!(
                "nodeGroups:\n- name: small\n  health:\n    cloudProviderTarget: {target}\n    minSize: 1\n    maxSize: 4\n"
            )},
        })
    };
    let elsewhere = with(status(9), "/metadata/namespace", "other".into());
    let new = with(member("new", "small"), "/metadata/creationTimestamp", time(90).into());
    let taints = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    let marked = with(member("other", "small"), "/spec/taints", taints);
    let recording = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .add_at_same_time(status(2))
        .add_at_same_time(member("idle", "small"))
        .push("ADDED", member("other", "small"), 30)
        .add_at_same_time(elsewhere)
        .push("MODIFIED", status(3), 60)
        .push("ADDED", new, 900)
        .push("MODIFIED", marked, 100)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let explain_at = |at: u32| {
        let flags = "--scale-down-unneeded-time=10s --scale-down-delay-after-delete=5m";
        explain_json(folder.path(), &["node/idle", "--at", &time(at), "--autoscaler-flags", flags])
    };
    assert_eq!(explain_at(60)["group"]["upcoming"], 1, "the node was requested and has not appeared yet");
    let output = explain_at(120);
    assert_eq!((&output["group"]["target"], &output["group"]["upcoming"]), (&json!(3), &json!(0)));
    assert_eq!(output["cooldown"], json!({"after": "a scale-up", "since": time(30), "until": time(630)}));
    assert_eq!(explain_at(700)["verdict"], "goes");
    let output = explain_at(1000);
    assert_eq!(output["cooldown"], json!({"after": "a removal", "since": time(990), "until": time(1290)}));
    assert_eq!(output["verdict"], "mayGo");
}

#[test]
fn what_happened_before_the_simulation_is_assumed() {
    let folder = import_with_groups(pool(), GROUPS);
    let flags = "--scale-down-delay-after-add=2h --scale-down-unneeded-time=10s";
    let arguments = ["node/idle", "--node-groups", "groups.yaml", "--autoscaler-flags", flags];
    let explanation = json_of(folder.path(), &arguments);
    assert_eq!(
        explanation["cooldown"],
        json!({"after": "a scale-up", "since": null, "until": "2026-11-01T15:00:00Z"})
    );
    let text = explain(folder.path(), &arguments).success();
    let line = "Delayed:     scale-down in cooldown until 2026-11-01T15:00:00Z: a scale-up one hour before the simulation is assumed\n";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("Removal:"), "{text}");
}

/// After a loop that ended early a node's verdict is that of an earlier loop.
#[test]
fn a_loop_that_ends_early_has_no_verdict_on_a_node() {
    let unready = |name: &str| {
        let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": time(300)}]);
        with(member(name, "small"), "/status/conditions", condition)
    };
    let recording = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .add_at_same_time(member("naked", "small"))
        .push("ADDED", on(pod("naked", "1", "1Gi"), "naked"), 300)
        .push("MODIFIED", unready("naked"), 60)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let flags = ["--autoscaler-flags", "--scale-up-from-zero=false"];
    let before = explain_json(folder.path(), &[&["node/naked", "--at", &time(200)], &flags[..]].concat());
    assert_eq!(before["verdict"], "stays");
    let explanation = explain_json(folder.path(), &[&["node/naked"], &flags[..]].concat());
    assert_eq!(explanation["verdict"], "notTried");
    assert_eq!(explanation["means"], "no ready nodes, and --scale-up-from-zero=false");
    let arguments = ["node/naked", "--node-groups", "groups.yaml"];
    let text = explain(folder.path(), &[&arguments[..], &flags].concat()).success();
    assert!(!text.contains("Blocked by:"), "{text}");
}

/// A requested node never appeared: the loop fixes the group's target size, and does nothing else.
#[test]
fn a_wrong_target_size_is_fixed_first() {
    let status = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
        "data": {"status": "nodeGroups:\n- {name: small, health: {cloudProviderTarget: 4, minSize: 1, maxSize: 4}}\n"},
    });
    let recording = RecordingBuilder::new().add_at_same_time(status).line(&pool().lines).push(
        "MODIFIED",
        replica_set(),
        0,
    );
    let folder = import_with_groups(recording, GROUPS);
    let early = explain_json(folder.path(), &["node/naked", "--at", &time(100)]);
    assert_eq!(early["verdict"], "stays");
    let explanation = explain_json(folder.path(), &["node/naked", "--at", &time(1700)]);
    assert_eq!(explanation["verdict"], "notTried", "{explanation}");
    assert_eq!(explanation["means"], "the target size of a node group is fixed first");
    assert_eq!(explanation.get("reason"), None);
}

/// Half an hour is too short for a node that must be unneeded for longer.
#[test]
fn the_simulated_time_covers_what_the_flags_require() {
    let recording = pool().push("MODIFIED", replica_set(), 1700).push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let flags = ["--autoscaler-flags", "--scale-down-unneeded-time=40m"];
    let explanation = explain_json(folder.path(), &[&["node/idle"], &flags[..]].concat());
    assert_eq!(explanation["autoscaler"]["played"]["from"], time(3500 - 2420), "40 minutes and two loops");
    let explanation =
        explain_json(folder.path(), &[&["node/idle", "--at", &time(2500)], &flags[..]].concat());
    assert_eq!(explanation["verdict"], "goes");
}

/// A recorded status ConfigMap has the times of loops and the target sizes of groups.
#[test]
fn the_recorded_status_has_groups_and_loops() {
    let status = |began: &str| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
            "data": {"status": format!(
                "time: 2026-11-01 {began} +0000 UTC\nautoscalerStatus: Running\nnodeGroups:\n- name: small\n  health:\n    status: Healthy\n    cloudProviderTarget: 4\n    minSize: 1\n    maxSize: 4\n"
            )},
        })
    };
    let member = |name: &str| with(member(name, "small"), "/metadata/labels/node-pool", "small".into());
    let recording = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .add_at_same_time(member("small-a"))
        .add_at_same_time(member("small-b"))
        .push("ADDED", member("small-c"), 20)
        .push("ADDED", status("14:00:19.5"), 20)
        .push("MODIFIED", status("14:00:39.5"), 20)
        .add(pending_pod("wide", "6"));
    let folder = recording.import();
    let explanation = json_of(folder.path(), &["node/small-a"]);
    assert_eq!(explanation["group"]["target"], 4);
    // Up to 1.35 every missing node counts as upcoming; from 1.36 on, the requested ones.
    assert_eq!(explanation["group"]["upcoming"], 0);
    let before = json_of(folder.path(), &["node/small-a", "--autoscaler-version", "1.35"]);
    assert_eq!(before["group"]["upcoming"], 1);
    assert_eq!(explanation["autoscaler"]["groupsFrom"]["name"], "the autoscaler's status");
    assert_eq!(explanation["autoscaler"]["played"]["asRecorded"], true);
    // These two, and the loop at the moment itself.
    assert_eq!(explanation["autoscaler"]["played"]["loops"], 3);
    assert_eq!(
        (&explanation["verdict"], &explanation["since"]),
        (&json!("mayGo"), &json!("2026-11-01T14:00:19.5Z"))
    );
    assert!(!explanation["autoscaler"]["assumed"].as_array().unwrap().is_empty());
    // A pod's explanation includes the autoscaler without `--node-groups`.
    let explanation = json_of(folder.path(), &["pod/wide", "-n", "shop"]);
    assert_eq!(
        explanation["autoscaler"]["search"]["skipped"],
        json!({"small": ["max node group size reached"]})
    );
}
