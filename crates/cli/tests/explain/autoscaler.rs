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

pub(super) fn import_with_groups(recording: RecordingBuilder, groups: &str) -> tempfile::TempDir {
    let folder = recording.import();
    std::fs::write(folder.path().join("groups.yaml"), groups).unwrap();
    folder
}

pub(super) fn explain_json(folder: &Path, arguments: &[&str]) -> Value {
    json_of(folder, &[arguments, &["--node-groups", "groups.yaml"]].concat())
}

#[test]
fn an_underutilized_node_is_removed_after_the_unneeded_time() {
    let folder = import_with_groups(pool(), GROUPS);
    let arguments = ["node/idle", "--at", &time(300)];
    let explanation = explain_json(folder.path(), &arguments);
    assert_eq!((&explanation["node"], &explanation["at"]), (&json!("idle"), &json!(time(300))));
    assert_eq!(
        explanation["group"],
        json!({"name": "small", "min": 0, "max": 5, "target": 3, "upcoming": 0, "backedOff": false, "healthy": true})
    );
    assert_eq!(explanation["utilization"]["cpu"], 0.25);
    assert_eq!(explanation["utilization"]["resource"], "memory", "equals: 1 of 4 cores, 2 of 8 GiB");
    assert_eq!(explanation["threshold"], 0.5);
    // The first loop runs ten seconds after the history's beginning.
    assert_eq!((&explanation["verdict"], &explanation["since"]), (&json!("mayGo"), &json!(time(10))));
    assert_eq!(explanation["reason"], "NotUnneededLongEnough");
    assert_eq!(explanation["pods"], json!([{"namespace": "shop", "name": "web-2"}]));
    let text =
        explain(folder.path(), &[&arguments[..], &["--node-groups", "groups.yaml"]].concat()).success();
    for line in [
        "Node group:  small, 0 to 5 nodes; target size 3\n",
        "Autoscaler:  defaults of 1.36; groups from groups.yaml\n",
        "Utilization: CPU 25 %, memory 25 %; threshold 50 %, memory decides\n",
        "Scale-down:  Removable since 2026-11-01T14:00:10Z or earlier\n",
        "Delayed:     must be unneeded for 10m, until 2026-11-01T14:10:10Z at the latest\n",
        "Pods:        1 to evict: shop/web-2\n",
        "Timeline:    2026-11-01T14:00:00Z  first seen\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    assert!(!text.contains("Removal:"), "the node may have been unneeded before the history: {text}");
    // After ten unneeded minutes the next loop removes it.
    assert_eq!(explain_json(folder.path(), &["node/idle", "--at", &time(610)])["verdict"], "mayGo");
    let explanation = explain_json(folder.path(), &["node/idle", "--at", &time(620)]);
    assert_eq!(
        (&explanation["verdict"], &explanation["since"], &explanation["drains"]),
        (&json!("goes"), &json!(time(620)), &json!(true))
    );
    assert_eq!(explanation["means"], "unneeded for long enough; its pods are drained first");
    // It was not removed: every later loop decides the same, and the explanation says since when.
    let arguments = ["node/idle", "--at", &time(1200)];
    let explanation = explain_json(folder.path(), &arguments);
    assert_eq!((&explanation["verdict"], &explanation["since"]), (&json!("goes"), &json!(time(620))));
    let text =
        explain(folder.path(), &[&arguments[..], &["--node-groups", "groups.yaml"]].concat()).success();
    assert!(text.contains("Scale-down:  Removal would have started at 2026-11-01T14:10:20Z\n"), "{text}");
}

#[test]
fn flags_override_recorded_settings() {
    let folder = import_with_groups(pool(), GROUPS);
    let flags =
        ["--autoscaler-flags", "--scale-down-unneeded-time=2m --scale-down-utilization-threshold 0.2"];
    let explanation = explain_json(folder.path(), &[&["node/idle", "--at", &time(300)], &flags[..]].concat());
    assert_eq!(
        (&explanation["verdict"], &explanation["reason"]),
        (&json!("stays"), &json!("NotUnderutilized"))
    );
    assert_eq!((&explanation["threshold"], &explanation["unneededSeconds"]), (&json!(0.2), &json!(120.0)));
    assert_eq!(explanation["autoscaler"]["settings"]["flags"], flags[1]);
    let arguments = ["node/idle", "--node-groups", "groups.yaml", "--autoscaler-version", "1.34"];
    let text = explain(folder.path(), &arguments).success();
    assert!(
        text.contains("defaults of 1.34; groups from groups.yaml; this version is not verified\n"),
        "{text}"
    );
}

#[test]
fn an_unremovable_node_has_its_reason() {
    let folder = import_with_groups(pool(), GROUPS);
    let check = |node: &str, groups: &str, reason: &str, lines: &[&str]| {
        std::fs::write(folder.path().join("groups.yaml"), groups).unwrap();
        let arguments = [node, "--at", "2026-11-01T14:05:05Z"];
        let explanation = explain_json(folder.path(), &arguments);
        assert_eq!(
            (&explanation["verdict"], &explanation["reason"]),
            (&json!("stays"), &json!(reason)),
            "{node}"
        );
        let text =
            explain(folder.path(), &[&arguments[..], &["--node-groups", "groups.yaml"]].concat()).success();
        for line in [&[&*format!("Scale-down:  Not removable: {reason} (")], lines].concat() {
            assert!(text.contains(line), "{line}{text}");
        }
    };
    check(
        "node/busy",
        GROUPS,
        "NotUnderutilized",
        &["NotUnderutilized (CPU 75 % > 50 %)\n", "CPU 75 %, memory 12.5 %; threshold 50 %, CPU decides\n"],
    );
    check(
        "node/naked",
        GROUPS,
        "RecentlyUnremovable",
        &[
            "             2026-11-01T14:00:10Z  BlockedByPod (one of its pods cannot be evicted)\n",
            "             rechecked after 2026-11-01T14:05:10Z\n",
            "Blocked by:  pod shop/naked: NotReplicated (not backed by a controller)\n",
        ],
    );
    check(
        "node/stray",
        GROUPS,
        "NotAutoscaled",
        &["Node group:  none\n", "NotAutoscaled (not matched by `members` of any group in groups.yaml)\n"],
    );
    check(
        "node/idle",
        &GROUPS.replacen("min: 0", "min: 3", 1),
        "NodeGroupMinSizeReached",
        &["NodeGroupMinSizeReached (node group at min size)\n"],
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
    let recording = pool().change(marked.clone()).add(event).add(other).delete(marked);
    let folder = import_with_groups(recording, GROUPS);
    let explanation = explain_json(folder.path(), &["node/idle"]);
    assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(1800)), &json!(true)));
    assert_eq!(explanation["why"], "when it was tainted ToBeDeletedByClusterAutoscaler");
    assert_eq!(
        explanation["happened"]["changes"],
        json!([{"at": time(1800), "what": "marked to be deleted"}])
    );
    assert_eq!(explanation["happened"]["events"].as_array().unwrap().len(), 1);
    assert_eq!(
        explanation["happened"]["events"][0]["message"],
        "marked the node as toBeDeleted/unschedulable"
    );
    assert_eq!(explanation["happened"]["goneAt"], time(1803));
    let being_deleted = explain_json(folder.path(), &["node/idle", "--at", &time(1801)]);
    assert_eq!(being_deleted["verdict"], "stays");
    assert_eq!(being_deleted["reason"], "CurrentlyBeingDeleted");
}

/// The group of a deleted node is derived from the nodes that existed just before.
#[test]
fn a_deleted_node_belongs_to_its_group() {
    let recording = RecordingBuilder::new()
        .add_at_same_time(replica_set())
        .push("ADDED", with(member("deleted", "small"), "/metadata/labels/node-pool", "small".into()), 60)
        .push("DELETED", with(member("deleted", "small"), "/metadata/labels/node-pool", "small".into()), 60)
        .push("MODIFIED", replica_set(), 0);
    let explanation = json_of(recording.import().path(), &["node/deleted"]);
    assert_eq!((&explanation["at"], &explanation["before"]), (&json!(time(60)), &json!(true)));
    assert_eq!(explanation["why"], "when it was deleted");
    assert!(explanation["group"]["name"].is_string(), "{explanation}");
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
    let recording = pool()
        .add_at_same_time(event(1800, 1))
        .push("MODIFIED", marked.clone(), 100)
        .push("MODIFIED", member("idle", "small"), 500)
        .push("MODIFIED", event(2400, 2), 0)
        .push("MODIFIED", marked.clone(), 50)
        .delete(marked);
    let folder = import_with_groups(recording, GROUPS);
    let explanation = explain_json(folder.path(), &["node/idle"]);
    let tainted = "when it was tainted ToBeDeletedByClusterAutoscaler";
    assert_eq!((&explanation["at"], &explanation["why"]), (&json!(time(2400)), &json!(tainted)));
    let changes = explanation["happened"]["changes"].as_array().unwrap();
    let at: Vec<&str> = changes.iter().map(|change| change["at"].as_str().unwrap()).collect();
    assert_eq!(at, [time(1800), time(1900), time(2400)]);
    let event = &explanation["happened"]["events"][0];
    assert_eq!((&event["times"], &event["last"]), (&json!(2), &json!(time(2400))), "{event}");
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
    let recording = pool().push("ADDED", pending_pod("wide", "6"), 20).push("ADDED", event, 40).push(
        "MODIFIED",
        replica_set(),
        60,
    );
    let folder = import_with_groups(recording, GROUPS);
    let arguments = ["pod/wide", "-n", "shop"];
    let explanation = explain_json(folder.path(), &arguments);
    let scaling = &explanation["autoscaler"];
    assert_eq!(scaling["outcome"], "triggers");
    assert_eq!(scaling["increases"], json!([{"group": "large", "from": 0, "to": 1, "max": 2}]));
    assert_eq!(explanation["happened"]["scaleUp"][0]["reason"], "TriggeredScaleUp");
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
    assert_eq!(triggered[0]["lastAt"], explanation["at"]);
    // 10 of 16 cores and 31 of 32 GiB stay unused.
    assert_eq!(scaling["search"]["expanders"][0]["scores"], json!({"large": 0.625 + 0.96875}));
    let text =
        explain(folder.path(), &[&arguments[..], &["--node-groups", "groups.yaml"]].concat()).success();
    for line in [
        "Scale-up:    Triggered: large 0 -> 1 (max 2)\n",
        "Expander:    least-waste (large 1.594)\n",
        "Options:     large: 1 node for 1 pod\n",
        "Rejected:    small: Insufficient cpu\n             tainted: node(s) had untolerated taint(s)\n",
        "2026-11-01T14:30:20Z  TriggeredScaleUp, \"pod triggered scale-up: [{large 0->1 (max: 2)}]\", same message\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
    let full = GROUPS.replace("max: 2", "max: 0");
    std::fs::write(folder.path().join("groups.yaml"), full).unwrap();
    let explanation = explain_json(folder.path(), &arguments);
    assert_eq!(explanation["autoscaler"]["outcome"], "refused");
    assert_eq!(
        explanation["autoscaler"]["event"]["message"],
        "pod didn't trigger scale-up: 1 Insufficient cpu, 1 max node group size reached, 1 node(s) had untolerated taint(s)"
    );
    assert_eq!(
        explanation["autoscaler"]["search"]["skipped"],
        json!({"large": ["max node group size reached"]})
    );
    let text =
        explain(folder.path(), &[&arguments[..], &["--node-groups", "groups.yaml"]].concat()).success();
    assert!(text.contains("Scale-up:    Not triggered: large at max size\n"), "{text}");
}

/// A blocking pod is not the reason if the utilization is above the threshold by now.
#[test]
fn a_blocking_pod_is_shown_only_if_it_is_the_reason() {
    let recording = pool()
        .add_at_same_time(on(owned(pod("web-9", "3", "1Gi")), "naked"))
        .push("MODIFIED", replica_set(), 600)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let text = explain(folder.path(), &["node/naked", "--node-groups", "groups.yaml"]).success();
    assert!(text.contains("Scale-down:  Not removable: NotUnderutilized"), "{text}");
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
    let arguments = ["node/idle", "--node-groups", "groups.yaml"];
    let explanation = json_of(folder.path(), &arguments);
    assert_eq!(explanation["autoscaler"]["settings"]["from"], "history");
    assert_eq!(
        explanation["autoscaler"]["assumed"],
        json!([
            "the version of cluster-autoscaler is unknown: the image has no version tag",
            "cluster-autoscaler 1.36 is simulated, which supports all of its flags",
        ])
    );
    let warned = explain(folder.path(), &arguments).err;
    assert!(warned.contains("warning: --expander=price selects no node group without prices: "), "{warned}");
}

#[test]
fn a_pod_without_a_scale_up_has_its_reason() {
    let recording = pool()
        .add_at_same_time(with(pending_pod("low", "6"), "/spec/priority", json!(-11)))
        .add_at_same_time(pending_pod("narrow", "2"))
        .add_at_same_time(pod("unseen", "6", "1Gi"))
        .push("MODIFIED", replica_set(), 60)
        .push("MODIFIED", replica_set(), 0);
    let folder = import_with_groups(recording, GROUPS);
    let outcome = |pod: &str| explain_json(folder.path(), &[pod, "-n", "shop"])["autoscaler"].clone();
    assert_eq!(outcome("pod/low")["outcome"], "expendable");
    assert_eq!(outcome("pod/narrow")["outcome"], "findsRoom");
    assert_eq!(outcome("pod/narrow")["room"]["upcoming"], false);
    assert_eq!(outcome("pod/unseen")["outcome"], "notRefused");
    std::fs::write(folder.path().join("pod.json"), pod("new", "6", "1Gi").to_string()).unwrap();
    let explanation = explain_json(folder.path(), &["--manifest", "pod.json"]);
    assert_eq!(explanation["autoscaler"]["outcome"], "triggers", "a pod that was never created");
    std::fs::write(folder.path().join("pod.json"), pod("new", "1", "1Gi").to_string()).unwrap();
    let arguments = ["--manifest", "pod.json", "--node-groups", "groups.yaml"];
    let text = explain(folder.path(), &arguments).success();
    assert!(text.contains("Scale-up:    Not needed: the pod fits on an existing node\n"), "{text}");
}

#[test]
fn no_autoscaler_is_shown_without_node_groups() {
    let folder = pool().add(pending_pod("wide", "6")).import();
    let explanation = json_of(folder.path(), &["pod/wide", "-n", "shop"]);
    assert_eq!(explanation.get("autoscaler"), None);
    let arguments =
        explain(folder.path(), &["pod/wide", "-n", "shop", "--autoscaler-flags", "--expander=random"]);
    assert!(arguments.err.contains("specify them in a file with --node-groups"), "{}", arguments.err);
    let error = explain(folder.path(), &["node/idle"]).failure(1);
    assert!(error.contains("at 2026-11-01T14:30:00Z: specify them in a file with --node-groups"), "{error}");
}

#[test]
fn invalid_autoscaler_options_are_rejected() {
    let folder =
        import_with_groups(pool(), "groups:\n- {name: a, min: 3, max: 1, template: {cpu: 1, pods: 1}}\n");
    let error_of = |arguments: &[&str]| explain(folder.path(), arguments).failure(1);
    let error = error_of(&["node/idle", "--node-groups", "groups.yaml"]);
    assert!(error.starts_with("error: groups.yaml: invalid node groups: groups[0].max: "), "{error}");
    assert!(error_of(&["node/idle", "--node-groups", "no.yaml"]).contains("cannot read no.yaml"));
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    let flags =
        |flags: &str| error_of(&["node/idle", "--node-groups", "groups.yaml", "--autoscaler-flags", flags]);
    assert_eq!(
        flags("--scale-down-wombat=1"),
        "error: --autoscaler-flags: invalid autoscaler flag --scale-down-wombat=1: unknown flag\n"
    );
    assert!(flags("expander=price").contains("expander=price: not a flag: expected --name=value"));
    assert_eq!(
        flags("--expander=price"),
        "error: --autoscaler-flags: --expander=price requires prices: set `pricing`, and the `price` of every group, in the file given by --node-groups\n"
    );
    let explain_with_flags = |flags: &str| {
        let explain_arguments = ["node/idle", "--node-groups", "groups.yaml", "--autoscaler-flags", flags];
        explain(folder.path(), &explain_arguments)
    };
    let warned = explain_with_flags("--nodes=1:3:small");
    assert!(warned.err.contains("warning: --nodes of --autoscaler-flags is ignored: "), "{}", warned.err);
    assert!(
        explain_with_flags("").success().contains("Autoscaler:  defaults of 1.36; groups from groups.yaml\n")
    );
    for (flag, value) in [("-n", Some("web")), ("--nodes", None), ("--scheduler-version", Some("1.36"))] {
        let explain_arguments: Vec<&str> = ["node/idle", flag].into_iter().chain(value).collect();
        assert!(error_of(&explain_arguments).contains("cannot be used with a node"), "{flag}");
    }
    assert!(flags("--expander='price").contains("unclosed quote '"));
    let error = explain(folder.path(), &["node/idle", "--autoscaler-version", "1.20"]).failure(2);
    assert!(error.contains("1.32 to 1.37"), "{error}");
    assert_eq!(error_of(&["node/never"]), "error: node \"never\" not found in the history\n");
    assert_eq!(
        error_of(&["node/idle", "--at", "13:00"]),
        "error: node \"idle\" did not exist at 2026-11-01T13:00:00Z: it existed from 2026-11-01T14:00:00Z to the end of the history\n"
    );
}
