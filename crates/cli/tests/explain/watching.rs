//! What an autoscaler that only watches remembers: what others did, and nothing of what it would have done itself.

use serde_json::json;

use super::autoscaler::{GROUPS, member, of, pool, replica_set, waiting, with_groups};
use super::{Film, explain, json_of, on, pod, time, with};

#[test]
fn no_node_goes_for_a_while_after_a_scale_up() {
    let new = with(member("new", "small"), "/metadata/creationTimestamp", time(30).into());
    let film = Film::new()
        .at_once(replica_set())
        .tell("ADDED", member("idle", "small"), 10)
        // Seen late, and old: nothing grew.
        .tell("ADDED", member("other", "small"), 20)
        .tell("ADDED", new, 1800)
        .tell("MODIFIED", replica_set(), 0);
    let folder = with_groups(film, GROUPS);
    let asked = |at: &str| {
        let flags = "--scale-down-unneeded-time=10s";
        let asked = ["node/idle", "--at", at, "--node-groups", "groups.yaml", "--autoscaler-flags", flags];
        (json_of(folder.path(), &asked), explain(folder.path(), &asked).fine())
    };
    let (said, text) = asked(&time(62));
    assert_eq!(said["verdict"], "mayGo");
    assert_eq!(said["means"], "no node goes so soon after a change");
    assert_eq!(said["cooldown"], json!({"after": "a scale-up", "since": time(30), "until": time(630)}));
    let line =
        "Held back:   no node goes until 2026-11-01T14:10:30Z, after a scale-up at 2026-11-01T14:00:30Z\n";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("Goes:        at the first loop after 2026-11-01T14:10:30Z"), "{text}");
    assert_eq!(asked(&time(640)).0["verdict"], "goes");
}

/// What a loop asks for has no effect: it holds nodes back in that loop, and not for ten minutes after.
#[test]
fn what_was_only_said_is_not_remembered_as_done() {
    let film = Film::new()
        .at_once(replica_set())
        .at_once(member("idle", "small"))
        .tell("ADDED", member("other", "small"), 30)
        .tell("ADDED", waiting("wide", "6"), 30)
        .tell("DELETED", waiting("wide", "6"), 30)
        .tell("MODIFIED", replica_set(), 0);
    let folder = with_groups(film, GROUPS);
    let asked = |at: &str| {
        let flags = ["--autoscaler-flags", "--scale-down-unneeded-time=10s"];
        of(folder.path(), &[&["node/idle", "--at", at], &flags[..]].concat())
    };
    let said = asked(&time(52));
    assert_eq!(said["verdict"], "mayGo");
    assert_eq!(said["means"], "nodes are asked for in the same loop: no node goes for a while");
    assert_eq!(said.get("cooldown"), None);
    assert_eq!(asked(&time(85))["verdict"], "goes");
}

/// Recorded targets tell of growth before nodes do, and a taint of a removal.
#[test]
fn what_others_did_keeps_nodes() {
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
    let film = Film::new()
        .at_once(replica_set())
        .at_once(status(2))
        .at_once(member("idle", "small"))
        .tell("ADDED", member("other", "small"), 30)
        .at_once(elsewhere)
        .tell("MODIFIED", status(3), 60)
        .tell("ADDED", new, 900)
        .tell("MODIFIED", marked, 100)
        .tell("MODIFIED", replica_set(), 0);
    let folder = with_groups(film, GROUPS);
    let asked = |at: u32| {
        let flags = "--scale-down-unneeded-time=10s --scale-down-delay-after-delete=5m";
        of(folder.path(), &["node/idle", "--at", &time(at), "--autoscaler-flags", flags])
    };
    assert_eq!(asked(60)["group"]["upcoming"], 1, "it was asked for, and is not there yet");
    let said = asked(120);
    assert_eq!((&said["group"]["target"], &said["group"]["upcoming"]), (&json!(3), &json!(0)));
    assert_eq!(said["cooldown"], json!({"after": "a scale-up", "since": time(30), "until": time(630)}));
    assert_eq!(asked(700)["verdict"], "goes");
    let said = asked(1000);
    assert_eq!(said["cooldown"], json!({"after": "a removal", "since": time(990), "until": time(1290)}));
    assert_eq!(said["verdict"], "mayGo");
}

#[test]
fn what_was_before_the_play_is_only_assumed() {
    let folder = with_groups(pool(), GROUPS);
    let flags = "--scale-down-delay-after-add=2h --scale-down-unneeded-time=10s";
    let asked = ["node/idle", "--node-groups", "groups.yaml", "--autoscaler-flags", flags];
    let said = json_of(folder.path(), &asked);
    assert_eq!(
        said["cooldown"],
        json!({"after": "a scale-up", "since": null, "until": "2026-11-01T15:00:00Z"})
    );
    let text = explain(folder.path(), &asked).fine();
    let line =
        "Held back:   no node goes until 2026-11-01T15:00:00Z: what was before the play began is not known";
    assert!(text.contains(line), "{text}");
    assert!(!text.contains("Goes:"), "{text}");
}

/// Such a loop says of nodes what an earlier one found.
#[test]
fn a_loop_that_ends_early_says_nothing_of_a_node() {
    let unready = |name: &str| {
        let condition = json!([{"type": "Ready", "status": "False", "lastTransitionTime": time(300)}]);
        with(member(name, "small"), "/status/conditions", condition)
    };
    let film = Film::new()
        .at_once(replica_set())
        .at_once(member("naked", "small"))
        .tell("ADDED", on(pod("naked", "1", "1Gi"), "naked"), 300)
        .tell("MODIFIED", unready("naked"), 60)
        .tell("MODIFIED", replica_set(), 0);
    let folder = with_groups(film, GROUPS);
    let flags = ["--autoscaler-flags", "--scale-up-from-zero=false"];
    let before = of(folder.path(), &[&["node/naked", "--at", &time(200)], &flags[..]].concat());
    assert_eq!(before["verdict"], "stays");
    let said = of(folder.path(), &[&["node/naked"], &flags[..]].concat());
    assert_eq!(said["verdict"], "notTried");
    assert_eq!(said["means"], "no node is ready, and --scale-up-from-zero is false");
    let asked = ["node/naked", "--node-groups", "groups.yaml"];
    let text = explain(folder.path(), &[&asked[..], &flags].concat()).fine();
    assert!(!text.contains("Blocked by:"), "{text}");
}

/// A node was asked for that never came: the group is told so, and the loop does nothing else.
#[test]
fn a_group_of_a_wrong_size_comes_first() {
    let status = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster-autoscaler-status", "namespace": "kube-system"},
        "data": {"status": "nodeGroups:\n- {name: small, health: {cloudProviderTarget: 4, minSize: 1, maxSize: 4}}\n"},
    });
    let film = Film::new().at_once(status).line(&pool().lines).tell("MODIFIED", replica_set(), 0);
    let folder = with_groups(film, GROUPS);
    let early = of(folder.path(), &["node/naked", "--at", &time(100)]);
    assert_eq!(early["verdict"], "stays");
    let said = of(folder.path(), &["node/naked", "--at", &time(1700)]);
    assert_eq!(said["verdict"], "notTried", "{said}");
    assert_eq!(said["means"], "the size of a group is corrected first");
    assert_eq!(said.get("reason"), None);
}

/// Half an hour is not enough to know of a node that must be unneeded for longer.
#[test]
fn as_much_is_played_as_the_flags_ask_for() {
    let film = pool().tell("MODIFIED", replica_set(), 1700).tell("MODIFIED", replica_set(), 0);
    let folder = with_groups(film, GROUPS);
    let flags = ["--autoscaler-flags", "--scale-down-unneeded-time=40m"];
    let said = of(folder.path(), &[&["node/idle"], &flags[..]].concat());
    assert_eq!(said["autoscaler"]["played"]["from"], time(3500 - 2420), "40 minutes and two loops");
    let said = of(folder.path(), &[&["node/idle", "--at", &time(2500)], &flags[..]].concat());
    assert_eq!(said["verdict"], "goes");
}

/// A status tells when loops ran and how many nodes a group is to have.
#[test]
fn the_recorded_status_tells_of_groups_and_loops() {
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
    let film = Film::new()
        .at_once(replica_set())
        .at_once(member("small-a"))
        .at_once(member("small-b"))
        .tell("ADDED", member("small-c"), 20)
        .tell("ADDED", status("14:00:19.5"), 20)
        .tell("MODIFIED", status("14:00:39.5"), 20)
        .add(waiting("wide", "6"));
    let folder = film.shot();
    let said = json_of(folder.path(), &["node/small-a"]);
    assert_eq!(said["group"]["target"], 4);
    // Up to 1.35 whatever is missing is still to come; from then on, what was asked for.
    assert_eq!(said["group"]["upcoming"], 0);
    let before = json_of(folder.path(), &["node/small-a", "--autoscaler-version", "1.35"]);
    assert_eq!(before["group"]["upcoming"], 1);
    assert_eq!(said["autoscaler"]["groupsFrom"]["name"], "the autoscaler's status");
    assert_eq!(said["autoscaler"]["played"]["asRecorded"], true);
    // Those two, and the one at the moment itself.
    assert_eq!(said["autoscaler"]["played"]["loops"], 3);
    assert_eq!((&said["verdict"], &said["since"]), (&json!("mayGo"), &json!("2026-11-01T14:00:19.5Z")));
    assert!(!said["autoscaler"]["assumed"].as_array().unwrap().is_empty());
    // The pod is told of without being asked for.
    let said = json_of(folder.path(), &["pod/wide", "-n", "shop"]);
    assert_eq!(said["autoscaler"]["search"]["skipped"], json!({"small": ["max node group size reached"]}));
}
