//! `kinescope explain` for nodes, and for pending pods, according to cluster-autoscaler.

use std::path::Path;

use serde_json::{Value, json};

use super::{RecordingBuilder, explain, json_of, node, on, pod, time, with};

pub(super) const GROUPS: &str = "
groups:
- name: small
  min: 0
  max: 5
  members: {label: pool, value: small}
  template: {cpu: 4, memory: 8Gi, pods: 110, labels: {pool: small}}
- name: large
  min: 0
  max: 2
  members: {label: pool, value: large}
  template: {cpu: 16, memory: 32Gi, pods: 110, labels: {pool: large}}
- name: tainted
  min: 0
  max: 9
  members: {label: pool, value: tainted}
  template: {cpu: 32, memory: 64Gi, pods: 110, labels: {pool: tainted}, taints: ['gpu=yes:NoSchedule']}
";

pub(super) fn member(name: &str, pool: &str) -> Value {
    let mut node = node(name, "4", "8Gi");
    node["metadata"]["labels"]["pool"] = pool.into();
    node["spec"]["providerID"] = format!("cloud://{name}").into();
    node["status"]["capacity"] = node["status"]["allocatable"].clone();
    node["status"]["conditions"] =
        json!([{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T10:00:00Z"}]);
    node
}

pub(super) fn owned(mut pod: Value) -> Value {
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-of-web", "controller": true}]);
    pod
}

pub(super) fn replica_set() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-of-web"},
        "spec": {"replicas": 3}, "status": {"replicas": 3},
    })
}

pub(super) fn pending_pod(name: &str, cpu: &str) -> Value {
    let mut pod = pod(name, cpu, "1Gi");
    pod["status"]["conditions"] = json!([{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-11-01T14:00:01Z",
    }]);
    pod
}

/// An idle node, a busy one, one with a bare pod, and one outside all groups; then half an hour without changes.
pub(super) fn pool() -> RecordingBuilder {
    RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .add_at_same_time(member("idle", "small"))
        .add_at_same_time(member("busy", "small"))
        .add_at_same_time(member("naked", "small"))
        .add_at_same_time(member("stray", "none"))
        .add_at_same_time(on(owned(pod("web-1", "3", "1Gi")), "busy"))
        .add_at_same_time(on(owned(pod("web-2", "1", "2Gi")), "idle"))
        .push("ADDED", on(pod("naked", "1", "1Gi"), "naked"), 1800)
        .push("MODIFIED", replica_set(), 0)
}

pub(super) fn import_with_groups(film: RecordingBuilder, groups: &str) -> tempfile::TempDir {
    let folder = film.import();
    std::fs::write(folder.path().join("groups.yaml"), groups).unwrap();
    folder
}

pub(super) fn explain_json(folder: &Path, arguments: &[&str]) -> Value {
    json_of(folder, &[arguments, &["--node-groups", "groups.yaml"]].concat())
}

#[test]
fn an_underutilized_node_is_removed_after_the_unneeded_time() {
    let folder = import_with_groups(pool(), GROUPS);
    let asked = ["node/idle", "--at", &time(300)];
    let said = explain_json(folder.path(), &asked);
    assert_eq!((&said["node"], &said["at"]), (&json!("idle"), &json!(time(300))));
    assert_eq!(
        said["group"],
        json!({"name": "small", "min": 0, "max": 5, "target": 3, "upcoming": 0, "backedOff": false, "healthy": true})
    );
    assert_eq!(said["utilization"]["cpu"], 0.25);
    assert_eq!(said["utilization"]["resource"], "memory", "equals: 1 of 4 cores, 2 of 8 GiB");
    assert_eq!(said["threshold"], 0.5);
    // The first loop runs ten seconds after the history's beginning.
    assert_eq!((&said["verdict"], &said["since"]), (&json!("mayGo"), &json!(time(10))));
    assert_eq!(said["reason"], "NotUnneededLongEnough");
    assert_eq!(said["pods"], json!([{"namespace": "shop", "name": "web-2"}]));
    let text = explain(folder.path(), &[&asked[..], &["--node-groups", "groups.yaml"]].concat()).fine();
    for line in [
        "Group:       small, 0 to 5 nodes; it is to have 3\n",
        "Autoscaler:  defaults of 1.36; groups from groups.yaml\n",
        "Utilization: cpu 25%, memory 25%; memory counts, and more than 50% keeps it\n",
        "Verdict:     it may go, unneeded since at least 2026-11-01T14:00:10Z\n",
        "Held back:   it must be so for 10m: until 2026-11-01T14:10:10Z at the latest\n",
        "Pods:        1 pod has to move: shop/web-2\n",
        "Happened:    2026-11-01T14:00:00Z  first seen\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("Goes:"), "what was before is not known: {text}");
    // After ten unneeded minutes the next loop removes it.
    assert_eq!(explain_json(folder.path(), &["node/idle", "--at", &time(610)])["verdict"], "mayGo");
    let said = explain_json(folder.path(), &["node/idle", "--at", &time(620)]);
    assert_eq!(
        (&said["verdict"], &said["since"], &said["drains"]),
        (&json!("goes"), &json!(time(620)), &json!(true))
    );
    assert_eq!(said["means"], "it was unneeded for long enough; its pods are moved first");
    // It was not removed: every later loop decides the same, and the explanation says since when.
    let asked = ["node/idle", "--at", &time(1200)];
    let said = explain_json(folder.path(), &asked);
    assert_eq!((&said["verdict"], &said["since"]), (&json!("goes"), &json!(time(620))));
    let text = explain(folder.path(), &[&asked[..], &["--node-groups", "groups.yaml"]].concat()).fine();
    assert!(text.contains("Verdict:     its removal would have begun at 2026-11-01T14:10:20Z\n"), "{text}");
}

#[test]
fn flags_override_recorded_settings() {
    let folder = import_with_groups(pool(), GROUPS);
    let flags =
        ["--autoscaler-flags", "--scale-down-unneeded-time=2m --scale-down-utilization-threshold 0.2"];
    let said = explain_json(folder.path(), &[&["node/idle", "--at", &time(300)], &flags[..]].concat());
    assert_eq!((&said["verdict"], &said["reason"]), (&json!("stays"), &json!("NotUnderutilized")));
    assert_eq!((&said["threshold"], &said["unneededSeconds"]), (&json!(0.2), &json!(120.0)));
    assert_eq!(said["autoscaler"]["settings"]["flags"], flags[1]);
    let asked = ["node/idle", "--node-groups", "groups.yaml", "--autoscaler-version", "1.34"];
    let text = explain(folder.path(), &asked).fine();
    assert!(
        text.contains(
            "defaults of 1.34; groups from groups.yaml; the rules of that version are not verified\n"
        ),
        "{text}"
    );
}

#[test]
fn an_unremovable_node_has_its_reason() {
    let folder = import_with_groups(pool(), GROUPS);
    let check = |node: &str, groups: &str, reason: &str, lines: &[&str]| {
        std::fs::write(folder.path().join("groups.yaml"), groups).unwrap();
        let asked = [node, "--at", "2026-11-01T14:05:05Z"];
        let said = explain_json(folder.path(), &asked);
        assert_eq!((&said["verdict"], &said["reason"]), (&json!("stays"), &json!(reason)), "{node}");
        let text = explain(folder.path(), &[&asked[..], &["--node-groups", "groups.yaml"]].concat()).fine();
        for line in [&["Verdict:     it may not go\n"], lines].concat() {
            assert!(text.contains(line), "{line}{text}");
        }
    };
    check(
        "node/busy",
        GROUPS,
        "NotUnderutilized",
        &["Because:     NotUnderutilized: too much of it is used\n", "cpu 75%, memory 12.5%; cpu counts"],
    );
    check(
        "node/naked",
        GROUPS,
        "RecentlyUnremovable",
        &[
            "             2026-11-01T14:00:10Z  BlockedByPod: one of its pods stands in the way\n",
            "             it is looked at again after 2026-11-01T14:05:10Z\n",
            "Blocked by:  pod shop/naked: NotReplicated: nothing would make it anew\n",
        ],
    );
    check(
        "node/stray",
        GROUPS,
        "NotAutoscaled",
        &[
            "Group:       none\n",
            "Because:     NotAutoscaled: no group of groups.yaml has it: see `members`\n",
        ],
    );
    check(
        "node/idle",
        &GROUPS.replacen("min: 0", "min: 3", 1),
        "NodeGroupMinSizeReached",
        &["Because:     NodeGroupMinSizeReached: its group is as small as it may be\n"],
    );
}

#[test]
fn recorded_events_of_a_node_are_shown() {
    let marked = with(
        member("idle", "small"),
        "/spec/taints",
        json!([{"key": "ToBeDeletedByClusterAutoscaler", "value": "1793543400", "effect": "NoSchedule"}]),
    );
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "idle.1", "namespace": "default"},
        "eventTime": "2026-11-01T14:30:00.5Z", "reason": "ScaleDown",
        "note": "marked the node as toBeDeleted/unschedulable",
        "regarding": {"kind": "Node", "name": "idle", "uid": "uid-of-idle"},
    });
    let other =
        with(with(event.clone(), "/metadata/name", "other".into()), "/regarding/name", "idle-2".into());
    let film = pool().change(marked.clone()).add(event).add(other).delete(marked);
    let folder = import_with_groups(film, GROUPS);
    let said = explain_json(folder.path(), &["node/idle"]);
    assert_eq!((&said["at"], &said["before"]), (&json!(time(1800)), &json!(true)));
    assert_eq!(said["why"], "when it was marked to be deleted");
    assert_eq!(said["happened"]["changes"], json!([{"at": time(1800), "what": "marked to be deleted"}]));
    assert_eq!(said["happened"]["events"].as_array().unwrap().len(), 1);
    assert_eq!(said["happened"]["events"][0]["message"], "marked the node as toBeDeleted/unschedulable");
    assert_eq!(said["happened"]["goneAt"], time(1803));
    let being_deleted = explain_json(folder.path(), &["node/idle", "--at", &time(1801)]);
    assert_eq!(being_deleted["verdict"], "stays");
    assert_eq!(being_deleted["reason"], "CurrentlyBeingDeleted");
}

/// The group of a deleted node is derived from the nodes that existed just before.
#[test]
fn a_node_that_vanished_belonged_to_its_group() {
    let film = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .push("ADDED", with(member("lost", "small"), "/metadata/labels/node-pool", "small".into()), 60)
        .push("DELETED", with(member("lost", "small"), "/metadata/labels/node-pool", "small".into()), 60)
        .push("MODIFIED", replica_set(), 0);
    let said = json_of(film.import().path(), &["node/lost"]);
    assert_eq!((&said["at"], &said["before"]), (&json!(time(60)), &json!(true)));
    assert_eq!(said["why"], "when it was gone");
    assert!(said["group"]["name"].is_string(), "{said}");
}

#[test]
fn a_node_that_was_marked_twice_is_explained_as_of_the_last_time() {
    let taints = json!([{"key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule"}]);
    let marked = with(member("idle", "small"), "/spec/taints", taints);
    let event = |second: u32, count: u32| {
        json!({
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": "idle.1", "namespace": "default"},
            "firstTimestamp": time(1800), "lastTimestamp": time(second), "count": count,
            "reason": "ScaleDown", "message": "marked the node as toBeDeleted/unschedulable",
            "involvedObject": {"kind": "Node", "name": "idle", "uid": "uid-of-idle"},
        })
    };
    let film = pool()
        .add_at_same_time(event(1800, 1))
        .push("MODIFIED", marked.clone(), 100)
        .push("MODIFIED", member("idle", "small"), 500)
        .push("MODIFIED", event(2400, 2), 0)
        .push("MODIFIED", marked.clone(), 50)
        .delete(marked);
    let folder = import_with_groups(film, GROUPS);
    let said = explain_json(folder.path(), &["node/idle"]);
    assert_eq!((&said["at"], &said["why"]), (&json!(time(2400)), &json!("when it was marked to be deleted")));
    let changes = said["happened"]["changes"].as_array().unwrap();
    let at: Vec<&str> = changes.iter().map(|change| change["at"].as_str().unwrap()).collect();
    assert_eq!(at, [time(1800), time(1900), time(2400)]);
    let told = &said["happened"]["events"][0];
    assert_eq!((&told["times"], &told["last"]), (&json!(2), &json!(time(2400))), "{told}");
}

#[test]
fn a_pending_pod_shows_the_groups_that_help() {
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event",
        "metadata": {"name": "wide.1", "namespace": "shop"},
        "eventTime": "2026-11-01T14:30:20Z", "reason": "TriggeredScaleUp",
        "note": "pod triggered scale-up: [{large 0->1 (max: 2)}]",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "wide", "uid": "uid-of-wide"},
    });
    let film = pool().push("ADDED", pending_pod("wide", "6"), 20).push("ADDED", event, 40).push(
        "MODIFIED",
        replica_set(),
        60,
    );
    let folder = import_with_groups(film, GROUPS);
    let asked = ["pod/wide", "-n", "shop"];
    let said = explain_json(folder.path(), &asked);
    let scaling = &said["autoscaler"];
    assert_eq!(scaling["outcome"], "triggers");
    assert_eq!(scaling["increases"], json!([{"group": "large", "from": 0, "to": 1, "max": 2}]));
    assert_eq!(said["happened"]["scaleUp"][0]["reason"], "TriggeredScaleUp");
    // The message of cluster-autoscaler's TriggeredScaleUp event.
    assert_eq!(scaling["event"]["message"], "pod triggered scale-up: [{large 0->1 (max: 2)}]");
    assert_eq!(
        scaling["search"]["rejected"],
        json!({"small": ["Insufficient cpu"], "tainted": ["node(s) had untolerated taint(s)"]})
    );
    // Every loop since decides the same.
    let triggered = &scaling["triggered"];
    assert_eq!(triggered.as_array().unwrap().len(), 1, "{triggered}");
    assert!(triggered[0]["times"].as_u64().unwrap() > 5, "{triggered}");
    assert_eq!(triggered[0]["lastAt"], said["at"]);
    // 10 of 16 cores and 31 of 32 GiB stay unused.
    assert_eq!(scaling["search"]["expanders"][0]["scores"], json!({"large": 0.625 + 0.96875}));
    let text = explain(folder.path(), &[&asked[..], &["--node-groups", "groups.yaml"]].concat()).fine();
    for line in [
        "Scale-up:    it triggers one: large 0 -> 1 (max 2)\n",
        "Chosen by:   least-waste (large 1.594)\n",
        "Options:     large: 1 node for 1 pod\n",
        "Rejected:    small: Insufficient cpu\n             tainted: node(s) had untolerated taint(s)\n",
        "2026-11-01T14:30:20Z  TriggeredScaleUp, \"pod triggered scale-up: [{large 0->1 (max: 2)}]\", as here\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let full = GROUPS.replace("max: 2", "max: 0");
    std::fs::write(folder.path().join("groups.yaml"), full).unwrap();
    let said = explain_json(folder.path(), &asked);
    assert_eq!(said["autoscaler"]["outcome"], "refused");
    assert_eq!(
        said["autoscaler"]["event"]["message"],
        "pod didn't trigger scale-up: 1 Insufficient cpu, 1 max node group size reached, 1 node(s) had untolerated taint(s)"
    );
    assert_eq!(said["autoscaler"]["search"]["skipped"], json!({"large": ["max node group size reached"]}));
}

/// A blocking pod is not the reason if the utilization is above the threshold by now.
#[test]
fn a_blocking_pod_is_shown_only_if_it_is_the_reason() {
    let film = pool()
        .add_at_same_time(on(owned(pod("web-9", "3", "1Gi")), "naked"))
        .push("MODIFIED", replica_set(), 600)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(film, GROUPS);
    let text = explain(folder.path(), &["node/naked", "--node-groups", "groups.yaml"]).fine();
    assert!(text.contains("Because:     NotUnderutilized"), "{text}");
    assert!(!text.contains("Blocked by:"), "{text}");
}

/// Node groups come from the file, settings from cluster-autoscaler's Deployment; assumptions about the latter are
/// shown.
#[test]
fn a_deployment_sets_what_a_file_does_not() {
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "cluster-autoscaler", "namespace": "kube-system"},
        "spec": {"template": {"spec": {"containers": [{
            "name": "cluster-autoscaler", "image": "registry.k8s.io/autoscaling/cluster-autoscaler:latest",
            "command": ["./cluster-autoscaler", "--expander=price"],
        }]}}},
    });
    let folder = import_with_groups(pool().add(deployment), GROUPS);
    let asked = ["node/idle", "--node-groups", "groups.yaml"];
    let said = json_of(folder.path(), &asked);
    assert_eq!(said["autoscaler"]["settings"]["from"], "history");
    assert_eq!(
        said["autoscaler"]["assumed"],
        json!([
            "no image names a version of cluster-autoscaler",
            "it is taken for 1.36, which knows all of its flags",
        ])
    );
    let warned = explain(folder.path(), &asked).err;
    assert!(warned.contains("warning: --expander=price chooses no group without prices: "), "{warned}");
}

#[test]
fn a_pod_without_a_scale_up_has_its_reason() {
    let film = pool()
        .add_at_same_time(with(pending_pod("low", "6"), "/spec/priority", json!(-11)))
        .add_at_same_time(pending_pod("narrow", "2"))
        .add_at_same_time(pod("unseen", "6", "1Gi"))
        .push("MODIFIED", replica_set(), 60)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(film, GROUPS);
    let outcome = |pod: &str| explain_json(folder.path(), &[pod, "-n", "shop"])["autoscaler"].clone();
    assert_eq!(outcome("pod/low")["outcome"], "expendable");
    assert_eq!(outcome("pod/narrow")["outcome"], "findsRoom");
    assert_eq!(outcome("pod/narrow")["room"]["upcoming"], false);
    assert_eq!(outcome("pod/unseen")["outcome"], "notRefused");
    std::fs::write(folder.path().join("pod.json"), pod("new", "6", "1Gi").to_string()).unwrap();
    let said = explain_json(folder.path(), &["--manifest", "pod.json"]);
    assert_eq!(said["autoscaler"]["outcome"], "triggers", "a pod that never was");
    std::fs::write(folder.path().join("pod.json"), pod("new", "1", "1Gi").to_string()).unwrap();
    let asked = ["--manifest", "pod.json", "--node-groups", "groups.yaml"];
    let text = explain(folder.path(), &asked).fine();
    assert!(text.contains("Scale-up:    none is needed: the scheduler places it\n"), "{text}");
}

#[test]
fn no_autoscaler_is_shown_where_none_is_known() {
    let folder = pool().add(pending_pod("wide", "6")).import();
    let said = json_of(folder.path(), &["pod/wide", "-n", "shop"]);
    assert_eq!(said.get("autoscaler"), None);
    let asked =
        explain(folder.path(), &["pod/wide", "-n", "shop", "--autoscaler-flags", "--expander=random"]);
    assert!(asked.err.contains("say with --node-groups FILE which there are"), "{}", asked.err);
    let error = explain(folder.path(), &["node/idle"]).wrong(1);
    assert!(
        error.contains("tells of node groups at 2026-11-01T14:30:00Z: say with --node-groups FILE"),
        "{error}"
    );
}

#[test]
fn invalid_autoscaler_options_are_rejected() {
    let folder =
        import_with_groups(pool(), "groups:\n- {name: a, min: 3, max: 1, template: {cpu: 1, pods: 1}}\n");
    let wrong = |arguments: &[&str]| explain(folder.path(), arguments).wrong(1);
    let error = wrong(&["node/idle", "--node-groups", "groups.yaml"]);
    assert!(error.starts_with("error: groups.yaml: bad node groups: "), "{error}");
    assert!(error.contains("(groups[0]"), "{error}");
    assert!(wrong(&["node/idle", "--node-groups", "no.yaml"]).contains("cannot read no.yaml"));
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    let flags =
        |flags: &str| wrong(&["node/idle", "--node-groups", "groups.yaml", "--autoscaler-flags", flags]);
    assert_eq!(
        flags("--scale-down-wombat=1"),
        "error: --autoscaler-flags: bad autoscaler flag --scale-down-wombat=1: there is no such flag\n"
    );
    assert!(flags("expander=price").contains("expander=price: it is no flag: give --name=value"));
    assert_eq!(
        flags("--expander=price"),
        "error: --autoscaler-flags: --expander=price needs prices: give `pricing`, and the `price` of every group, in --node-groups FILE\n"
    );
    let fine = |flags: &str| {
        let asked = ["node/idle", "--node-groups", "groups.yaml", "--autoscaler-flags", flags];
        explain(folder.path(), &asked)
    };
    let warned = fine("--nodes=1:3:small");
    assert!(warned.err.contains("warning: --nodes of --autoscaler-flags does not count: "), "{}", warned.err);
    assert!(fine("").fine().contains("Autoscaler:  defaults of 1.36; groups from groups.yaml\n"));
    for (flag, value) in [("-n", Some("web")), ("--nodes", None), ("--scheduler-version", Some("1.36"))] {
        let asked: Vec<&str> = ["node/idle", flag].into_iter().chain(value).collect();
        assert!(wrong(&asked).contains("means nothing for a node: leave it out"), "{flag}");
    }
    assert!(flags("--expander='price").contains("a ' is not closed"));
    let error = explain(folder.path(), &["node/idle", "--autoscaler-version", "1.20"]).wrong(2);
    assert!(error.contains("1.32 to 1.37"), "{error}");
    assert_eq!(wrong(&["node/never"]), "error: the history never saw a node \"never\"\n");
    assert_eq!(
        wrong(&["node/idle", "--at", "13:00"]),
        "error: there was no node \"idle\" at 2026-11-01T13:00:00Z: it lived from 2026-11-01T14:00:00Z to the end of the history\n"
    );
}
