//! `kinescope replay` in virtual time: its files, their use by other commands, and its errors.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;
#[path = "replay/errors.rs"]
mod errors;
#[path = "replay/replay_of_replay.rs"]
mod replay_of_replay;

use std::fmt::Write as _;
use std::path::Path;

use common::{ProgramOutput, recordings, run};
use serde_json::{Value, json};

const FILES: [&str; 3] = ["decisions.jsonl", "replay.kine", "report.json"];

/// Builds a history from watch events at given seconds.
#[derive(Default)]
struct RecordingBuilder(String);

impl RecordingBuilder {
    fn add(self, second: u32, object: Value) -> RecordingBuilder {
        self.push(second, "ADDED", object)
    }

    fn change(self, second: u32, object: Value) -> RecordingBuilder {
        self.push(second, "MODIFIED", object)
    }

    fn push(mut self, second: u32, event_type: &str, object: Value) -> RecordingBuilder {
        let line = json!({"at": time(second), "type": event_type, "object": object});
        writeln!(self.0, "{line}").unwrap();
        self
    }

    fn gap(mut self, from: u32, to: u32) -> RecordingBuilder {
        let line = json!({"at": time(from), "type": "GAP", "to": time(to), "kinds": ["Pod"], "why": "the line was cut"});
        writeln!(self.0, "{line}").unwrap();
        self
    }

    fn import(self) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("film.jsonl"), self.0).unwrap();
        run(folder.path(), &["import", "film.jsonl"]).success();
        folder
    }
}

fn time(second: u32) -> String {
    format!("2026-11-01T14:{:02}:{:02}Z", second / 60, second % 60)
}

fn node(name: &str, cpu: &str, memory: &str) -> Value {
    testobjects::node(name)
        .uid(&format!("uid-of-{name}"))
        .created("2026-11-01T10:00:00Z")
        .capacity("cpu", cpu)
        .capacity("memory", memory)
        .capacity("pods", "110")
        .ready_since("2026-11-01T10:00:00Z")
        .set("spec", json!({}))
        .json()
}

fn pod(name: &str, cpu: &str, second: u32) -> Value {
    testobjects::pod(name)
        .namespace("shop")
        .uid(&format!("uid-of-{name}"))
        .created(time(second))
        .set("spec.schedulerName", "default-scheduler")
        .set("spec.containers.0.image", "a:1")
        .priority(0)
        .request("cpu", cpu)
        .request("memory", "1Gi")
        .phase("Pending")
        .json()
}

fn on(mut pod: Value, node: &str) -> Value {
    pod["spec"]["nodeName"] = node.into();
    pod["status"]["phase"] = "Running".into();
    pod
}

/// A small node and a big one; a pod that was bound to the big one, and a pending one.
fn two_nodes() -> RecordingBuilder {
    RecordingBuilder::default()
        .add(0, node("small", "4", "8Gi"))
        .add(0, node("big", "16", "32Gi"))
        .add(10, pod("web-1", "1", 10))
        .change(11, on(pod("web-1", "1", 10), "big"))
        .add(20, pod("huge", "64", 20))
        .change(120, on(pod("web-1", "1", 10), "big"))
}

const GROUPS: &str = "
groups:
- name: large
  min: 0
  max: 3
  members: {label: pool, value: large}
  template: {cpu: 96, memory: 256Gi, pods: 110, labels: {pool: large}}
  provisioning: {registersAfter: 30s}
";

fn replay(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    run(folder, &[&["replay"], arguments].concat())
}

fn report(folder: &Path, out: &str) -> Value {
    let text = std::fs::read_to_string(folder.join(out).join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn decisions(folder: &Path, out: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.join(out).join("decisions.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The decisions of one type.
fn decisions_of_type(decisions: &[Value], what: &str) -> Vec<Value> {
    decisions.iter().filter(|decision| decision["what"] == what).cloned().collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[track_caller]
fn assert_same(folder: &Path, one: &str, other: &str) {
    for file in FILES {
        let bytes = |out: &str| std::fs::read(folder.join(out).join(file)).unwrap();
        assert!(bytes(one) == bytes(other), "{file} differs");
    }
}

#[test]
fn decisions_are_compared_with_the_recording() {
    let folder = two_nodes().import();
    replay(folder.path(), &[]).success();
    assert_eq!(names(&folder.path().join("replay-film")), FILES);
    let output = decisions(folder.path(), "replay-film");
    // The bigger node has more free resources, which NodeResourcesFit prefers by default.
    let [bound] = &decisions_of_type(&output, "bound")[..] else { panic!("{output:?}") };
    assert_eq!((&bound["pod"], &bound["node"]), (&json!("shop/web-1"), &json!("big")));
    assert_eq!(bound["why"], "highest score of 2 feasible nodes, of 2 evaluated");
    let recorded = json!({"pod": "web-1", "node": "big", "bound": time(11)});
    assert_eq!(bound["recorded"], recorded);
    let refused = decisions_of_type(&output, "refused");
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: 0/2 nodes are \
                 available: 2 Preemption is not helpful for scheduling.";
    assert!(refused.iter().all(|it| it["pod"] == "shop/huge" && it["why"] == message), "{refused:?}");
    assert_eq!(refused.len(), 1, "a repeated message is only counted");
    let [waits] = &decisions_of_type(&output, "stillWaits")[..] else { panic!("{output:?}") };
    assert_eq!((&waits["pod"], &waits["at"]), (&json!("shop/huge"), &json!(time(120))));
    let report = report(folder.path(), "replay-film");
    assert_eq!(report["window"], json!({"from": time(0), "to": time(120)}));
    let placements = &report["fidelity"]["placements"];
    assert_eq!((&placements["recorded"], &placements["sameNode"]), (&json!(1), &json!(1)));
    for side in ["recorded", "replayed"] {
        assert_eq!(report[side]["podsBound"], 1, "{side}");
        assert_eq!(report[side]["nodes"], 2.0, "{side}");
    }
    // One core of twenty for 110 of the 120 seconds, within the second until it was bound.
    let cpu = report["recorded"]["utilization"]["cpu"].as_f64().unwrap();
    assert!((cpu - 109.0 / 120.0 / 20.0).abs() < 1e-6, "{cpu}");
}

#[test]
fn other_scheduler_settings_change_decisions() {
    let folder = two_nodes().import();
    let path = "scheduler.profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated";
    let output = replay(folder.path(), &["film.kine", "--set", path, "--out", "packed"]).success();
    assert!(output.contains("Scheduler:   defaults of 1.36, 1 override\n"), "{output}");
    let decisions = decisions(folder.path(), "packed");
    let [bound] = &decisions_of_type(&decisions, "bound")[..] else { panic!("{decisions:?}") };
    assert_eq!((&bound["node"], &bound["recorded"]["node"]), (&json!("small"), &json!("big")));
    assert!(bound["recordedNode"].as_str().unwrap().starts_with("score lower by "), "{bound}");
    let report = report(folder.path(), "packed");
    assert_eq!(report["settings"]["set"], json!([path]));
    assert_eq!(report["settings"]["scheduler"]["from"], json!({"by": "defaults"}));
    assert_eq!(report["fidelity"]["placements"]["elsewhere"], 1);
    // The replay's history has the same.
    let shown =
        run(folder.path(), &["get", "pods", "-n", "shop", "-o", "wide", "--history", "packed/replay.kine"]);
    let shown = shown.success();
    assert!(shown.lines().any(|line| line.starts_with("web-1 ") && line.contains(" small ")), "{shown}");
}

#[test]
fn the_autoscaler_adds_a_node_that_was_not_recorded() {
    let folder = two_nodes().import();
    std::fs::write(folder.path().join("groups.yaml"), GROUPS).unwrap();
    let output = replay(folder.path(), &["--node-groups", "groups.yaml"]).success();
    assert!(output.contains("\n  large  "), "{output}");
    let decisions = decisions(folder.path(), "replay-film");
    let [up] = &decisions_of_type(&decisions, "scaledUp")[..] else { panic!("{decisions:?}") };
    assert_eq!((&up["group"], &up["size"]), (&json!("large"), &json!({"from": 0, "to": 1, "max": 3})));
    assert_eq!(up["why"], "shop/huge is unschedulable");
    assert_eq!(up["recordedNodes"], 0);
    let [.., came] = &decisions_of_type(&decisions, "nodeCame")[..] else { panic!("{decisions:?}") };
    assert_eq!(came["group"], "large");
    let between = |from: &Value, to: &Value| {
        let at = |line: &Value| line["at"].as_str().unwrap().parse::<model::Moment>().unwrap();
        at(to).nanos_since(at(from))
    };
    assert_eq!(between(up, came), 30_000_000_000);
    let report = report(folder.path(), "replay-film");
    let [large] = &report["scaling"]["groups"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&large["recorded"]["came"], &large["replayed"]["came"]), (&json!(0), &json!(1)));
    let bound = decisions_of_type(&decisions, "bound");
    assert!(bound.iter().any(|it| it["pod"] == "shop/huge" && it["node"] == came["node"]), "{bound:?}");
    // Without an autoscaler the pod stays pending.
    replay(folder.path(), &["--node-groups", "groups.yaml", "--autoscaler", "off"]).success();
    let decisions = self::decisions(folder.path(), "replay-film");
    assert!(
        decisions_of_type(&decisions, "scaledUp").is_empty()
            && decisions_of_type(&decisions, "stillWaits").len() == 1
    );
}

#[test]
fn the_same_history_settings_and_seed_give_the_same_bytes() {
    let folder = common::demo_history("shop.kine");
    let arguments = ["shop.kine", "--from", "2026-11-02T13:30Z", "--to", "2026-11-02T14:30Z"];
    for out in ["one", "other"] {
        replay(folder.path(), &[&arguments[..], &["--out", out]].concat()).success();
    }
    assert_same(folder.path(), "one", "other");
    assert!(decisions(folder.path(), "one").len() > 10);
    // Also when it replaces an earlier replay.
    replay(folder.path(), &[&arguments[..], &["--out", "one"]].concat()).success();
    assert_same(folder.path(), "one", "other");
}

#[test]
fn recordings_of_real_control_planes_replay_deterministically() {
    for recording in recordings().iter().filter(|recording| {
        recording.ends_with("small.jsonl.gz") || recording.ends_with("autoscaled.jsonl.gz")
    }) {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["import", recording.to_str().unwrap(), "--into", "film.kine", "--strip"])
            .success();
        for out in ["one", "other"] {
            replay(folder.path(), &["--out", out]).success();
        }
        assert_same(folder.path(), "one", "other");
        let report = report(folder.path(), "one");
        let placements = &report["fidelity"]["placements"];
        let count = |field: &str| placements[field].as_u64().unwrap();
        assert!(count("recorded") > 100, "{placements}");
        let parts = ["sameNode", "sameClass", "elsewhere", "notBound"].map(count).iter().sum::<u64>();
        assert_eq!(parts, count("recorded"), "each recorded placement counts once");
    }
}

#[test]
fn a_replay_of_a_replay_finds_its_settings() {
    let folder = two_nodes().import();
    std::fs::write(folder.path().join("groups.yaml"), format!("{GROUPS}settings: {{scan-interval: 7s}}\n"))
        .unwrap();
    let arguments = [
        "film.kine",
        "--out",
        "one",
        "--seed",
        "7",
        "--node-groups",
        "groups.yaml",
        "--autoscaler",
        "--expander=most-pods",
        "--set",
        "autoscaler.max-node-provision-time=3m",
        "--set",
        "nodeGroups.large.max=2",
        "--set",
        "scheduler.percentageOfNodesToScore=70",
        "--scheduler-version",
        "1.35",
    ];
    replay(folder.path(), &arguments).success();
    replay(folder.path(), &["one/replay.kine", "--out", "two"]).success();
    let (one, two) = (report(folder.path(), "one"), report(folder.path(), "two"));
    assert_eq!((&one["seed"], &two["seed"]), (&json!(7), &json!(7)));
    let configuration = |report: &Value| report["settings"]["scheduler"]["configuration"].clone();
    assert_eq!(configuration(&one)["percentageOfNodesToScore"], 70);
    assert_eq!(configuration(&one), configuration(&two));
    let of = |report: &Value, field: &str| report["settings"]["autoscaler"][field].clone();
    assert_eq!(of(&one, "flags"), json!(["--expander=most-pods", "--max-node-provision-time=3m"]));
    assert_eq!(of(&one, "groups")[0]["max"], 2);
    let nodes = |groups: Value| -> Vec<(Value, Value)> {
        groups.as_array().unwrap().iter().map(|group| (group["name"].clone(), group["max"].clone())).collect()
    };
    assert_eq!(nodes(of(&one, "groups")), nodes(of(&two, "groups")));
    for field in ["flags", "version", "nodes"] {
        assert_eq!(of(&one, field), of(&two, field), "{field}");
    }
    assert_eq!(two["settings"]["scheduler"]["version"], "1.35");
    assert_eq!(of(&two, "from"), json!({"by": "replay"}));
    assert_eq!(of(&two, "groupsFrom"), json!({"by": "replay"}));
    // It decides the same again.
    let placements = &two["fidelity"]["placements"];
    assert!(placements["recorded"].as_u64().unwrap() >= 2, "{placements}");
    assert_eq!(placements["sameNode"], placements["recorded"], "{placements}");
    // The user's settings take precedence.
    replay(
        folder.path(),
        &["one/replay.kine", "--out", "three", "--set", "nodeGroups.large.max=1", "--seed", "3"],
    )
    .success();
    let three = report(folder.path(), "three");
    assert_eq!((&three["seed"], &of(&three, "groups")[0]["max"]), (&json!(3), &json!(1)));
}

#[test]
fn other_commands_open_the_history_of_a_replay() {
    let folder = two_nodes().import();
    let packed =
        "scheduler.profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated";
    replay(folder.path(), &["--set", packed, "--out", "r"]).success();
    let at = &time(30);
    let run_on_replay =
        |arguments: &[&str]| run(folder.path(), &[arguments, &["--history", "r/replay.kine"]].concat());
    assert!(run_on_replay(&["get", "pods", "-n", "shop", "--at", at]).success().contains("web-1"));
    let log = run_on_replay(&["log", "pod/web-1", "-n", "shop"]).success();
    assert!(log.contains("spec.nodeName: \"small\""), "{log}");
    let explained = run_on_replay(&["explain", "pod/web-1", "-n", "shop"]).success();
    assert!(explained.contains("Scheduled: assigned to small"), "{explained}");
    assert!(explained.contains("recorded configuration (kube-scheduler)"), "{explained}");
    assert!(run(folder.path(), &["doctor", "r/replay.kine"]).success().starts_with("no damage found"));
    run(folder.path(), &["info", "r/replay.kine"]).success();
    // The differences between both at the same moment.
    let arguments = ["diff", at, "pods", "--history", "film.kine", "--against", "r/replay.kine"];
    let output = run(folder.path(), &arguments);
    assert_eq!(output.code, 1, "{}", output.err);
    assert!(output.out.contains("~ shop/web-1\n"), "{}", output.out);
    assert!(output.out.contains("spec.nodeName: \"big\" → \"small\"\n"), "{}", output.out);
    let same = run(folder.path(), &["diff", at, "pods", "--history", "film.kine", "--against", "film.kine"]);
    assert_eq!(same.success(), "no differences\n");
    let late = ["diff", "2026-11-01T14:01:59Z", "--history", "r/replay.kine", "--against", "film.kine"];
    assert_eq!(run(folder.path(), &late).code, 1);
}

#[test]
fn a_gap_is_a_caveat_of_the_report() {
    let folder = RecordingBuilder::default()
        .add(0, node("big", "16", "32Gi"))
        .add(10, pod("web-1", "1", 10))
        .gap(20, 30)
        .gap(100, 110)
        .change(120, on(pod("web-1", "1", 10), "big"))
        .import();
    let output = replay(folder.path(), &["--to", &time(60)]).success();
    assert!(output.contains("the line was cut"), "{output}");
    let report = report(folder.path(), "replay-film");
    let gaps: Vec<&Value> =
        report["reservations"].as_array().unwrap().iter().filter(|it| it["about"] == "gap").collect();
    assert_eq!(gaps.len(), 1, "the other is not in the window");
    assert_eq!(gaps[0]["during"], json!({"from": time(20), "to": time(30)}));
    assert!(gaps[0]["text"].as_str().unwrap().contains("short-lived pods may be missing"));
}

#[test]
fn the_speed_paces_the_replay() {
    let folder = two_nodes().import();
    let begun = std::time::Instant::now();
    // Two minutes at sixty times the speed.
    replay(folder.path(), &["--speed", "60"]).success();
    let took = begun.elapsed().as_secs_f64();
    assert!(took > 1.9, "{took}");
}

#[test]
fn json_output_is_the_report_as_written() {
    let folder = two_nodes().import();
    let output = replay(folder.path(), &["-o", "json"]).success();
    assert_eq!(output, std::fs::read_to_string(folder.path().join("replay-film/report.json")).unwrap());
}

#[test]
fn node_groups_add_nodes_to_a_history_without_nodes() {
    let groups =
        GROUPS.replace("  members: {label: pool, value: large}\n", "").replace(", labels: {pool: large}", "");
    let folder =
        RecordingBuilder::default().add(0, pod("web-1", "1", 0)).add(300, pod("web-2", "1", 300)).import();
    std::fs::write(folder.path().join("groups.yaml"), groups).unwrap();
    replay(folder.path(), &["--node-groups", "groups.yaml", "--out", "out"]).success();
    let report = report(folder.path(), "out");
    let group = &report["scaling"]["groups"][0];
    assert_eq!(
        (&group["group"], &group["recorded"]["came"], &group["replayed"]["came"]),
        (&json!("large"), &json!(0), &json!(1))
    );
    assert_eq!((&report["recorded"]["podsBound"], &report["replayed"]["podsBound"]), (&json!(0), &json!(1)));
}

/// A Deployment that is scaled from two pods to three, and a Job whose pod ran for ten seconds.
fn workloads() -> RecordingBuilder {
    let deployment = |replicas: u32| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "uid-of-web", "creationTimestamp": time(5)},
            "spec": {
                "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}}, "spec": template("Always")},
            },
        })
    };
    let set = |replicas: u32| {
        let mut set = deployment(replicas);
        set["kind"] = "ReplicaSet".into();
        set["metadata"]["name"] = "web-5d4f8".into();
        set["metadata"]["uid"] = "uid-of-web-5d4f8".into();
        set["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": "5d4f8"});
        set["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "uid-of-web", "controller": true}]);
        set["spec"]["selector"]["matchLabels"]["pod-template-hash"] = "5d4f8".into();
        set["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] = "5d4f8".into();
        set
    };
    let owned = |mut pod: Value, version: &str, kind: &str, name: &str| {
        pod["metadata"]["labels"] = json!({"app": "web", "pod-template-hash": "5d4f8"});
        pod["metadata"]["ownerReferences"] = json!([
            {"apiVersion": version, "kind": kind, "name": name, "uid": format!("uid-of-{name}"), "controller": true}]);
        pod
    };
    let web = |name: &str, second: u32| owned(pod(name, "1", second), "apps/v1", "ReplicaSet", "web-5d4f8");
    let sum = || owned(pod("sum-q7x2p", "1", 30), "batch/v1", "Job", "sum");
    let ended = |mut pod: Value| {
        pod["status"] = json!({"phase": "Succeeded", "startTime": time(31)});
        pod
    };
    let started = |mut pod: Value| {
        pod["status"]["startTime"] = time(31).into();
        pod
    };
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": "shop", "uid": "uid-of-sum", "creationTimestamp": time(30)},
        "spec": {
            "parallelism": 1, "completions": 1, "selector": {"matchLabels": {"job-name": "sum"}},
            "template": {"metadata": {"labels": {"job-name": "sum"}}, "spec": template("Never")},
        },
    });
    RecordingBuilder::default()
        .add(0, node("small", "4", "8Gi"))
        .add(0, node("big", "16", "32Gi"))
        .add(5, deployment(2))
        .add(5, set(2))
        .add(6, web("web-5d4f8-aaaaa", 6))
        .add(6, web("web-5d4f8-bbbbb", 6))
        .change(7, on(web("web-5d4f8-aaaaa", 6), "big"))
        .change(7, on(web("web-5d4f8-bbbbb", 6), "small"))
        .change(20, deployment(3))
        .change(20, set(3))
        .add(21, web("web-5d4f8-ccccc", 21))
        .change(22, on(web("web-5d4f8-ccccc", 21), "big"))
        .add(30, job)
        .add(30, sum())
        .change(31, started(on(sum(), "big")))
        .change(41, ended(on(sum(), "big")))
        .change(120, node("small", "4", "8Gi"))
}

fn template(policy: &str) -> Value {
    json!({"restartPolicy": policy, "schedulerName": "default-scheduler", "terminationGracePeriodSeconds": 30,
        "containers": [{"name": "a", "image": "a:1", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]})
}

#[test]
fn at_level_workloads_controllers_create_the_pods() {
    let folder = workloads().import();
    replay(folder.path(), &["--level", "workloads", "--out", "out"]).success();
    let report = report(folder.path(), "out");
    assert_eq!(report["level"], "workloads");
    let placements = &report["fidelity"]["placements"];
    // Four were recorded; each pod made by a controller is matched with one of them.
    assert_eq!((&placements["recorded"], &placements["notRecorded"]), (&json!(4), &json!(0)), "{placements}");
    assert_eq!((&placements["notBound"], &placements["sameNode"]), (&json!(0), &json!(4)), "{placements}");
    let shown = |arguments: &[&str]| {
        run(folder.path(), &[arguments, &["--history", "out/replay.kine"]].concat()).success()
    };
    let pods = shown(&["get", "pods", "-n", "shop", "--at", &time(100), "-o", "name"]);
    assert_eq!(
        pods.lines().collect::<Vec<_>>(),
        ["pod/sum-q7x2p", "pod/web-5d4f8-aaaaa", "pod/web-5d4f8-bbbbb", "pod/web-5d4f8-ccccc"]
    );
    let deployment = shown(&["get", "deployment", "web", "-n", "shop", "--at", &time(100)]);
    assert!(deployment.contains("3/3"), "{deployment}");
    let job = shown(&["get", "job", "sum", "-n", "shop", "--at", &time(100)]);
    assert!(job.contains("1/1"), "{job}");
    // A replay of that replay has the level workloads too.
    replay(folder.path(), &["out/replay.kine", "--out", "again"]).success();
    let again = std::fs::read_to_string(folder.path().join("again/report.json")).unwrap();
    let again: Value = serde_json::from_str(&again).unwrap();
    assert_eq!(
        (&again["level"], &again["fidelity"]["placements"]["sameNode"]),
        (&json!("workloads"), &json!(4))
    );
    assert_eq!(again["fidelity"]["waits"]["apart"], json!(0.0));
}
