//! `snapshot run` and `snapshot diff`: decisions, changed settings, and several cycles.

use serde_json::{Value, json};

use super::cluster::{NOW, cluster, folder, snapshot, snapshot_json, write_zip};

fn pods<'a>(actions: &'a Value, action: &str, list: &str) -> Vec<&'a str> {
    let action = actions.as_array().unwrap().iter().find(|it| it["action"] == action).unwrap();
    action[list].as_array().unwrap().iter().map(|it| it["pod"].as_str().unwrap()).collect()
}

#[test]
fn a_queue_below_its_quota_reclaims() {
    let folder = folder();
    let report = snapshot_json(folder.path(), "run cluster.zip");
    assert_eq!(report["snapshot"]["now"], "2026-06-01T11:00:00Z", "the newest time in the objects");
    assert_eq!(report["snapshot"]["nowFrom"], "newestObject");
    let cycle = &report["cycles"][0];
    assert_eq!(pods(&cycle["actions"], "reclaim", "pipelined"), ["ml/train-0", "ml/train-1"]);
    let evicted = pods(&cycle["actions"], "reclaim", "evicted");
    assert_eq!(evicted.len(), 2);
    let eviction = &cycle["actions"][2]["evicted"][0];
    assert_eq!((&eviction["preemptor"], &eviction["preemptorQueue"]), (&json!("ml/train"), &json!("team-a")));
    assert_eq!((&eviction["queue"], eviction["gangSize"].as_i64()), (&json!("team-b"), Some(2)));
    let queue =
        |name: &str| cycle["queues"].as_array().unwrap().iter().find(|it| it["name"] == name).unwrap();
    assert_eq!(queue("team-a")["gpu"]["quota"], 4.0);
    assert_eq!(queue("team-a")["gpu"]["requested"], 2.0);
    assert_eq!(queue("team-a")["gpu"]["fairShare"], 2.0);
    assert_eq!(queue("team-b")["gpu"]["allocated"], 8.0);
    assert_eq!(queue("team-b")["gpu"]["allocatedAfter"], 6.0);
    assert_eq!((queue("team-b")["depth"].as_i64(), &queue("dept")["parent"]), (Some(1), &Value::Null));
    let borrowing = &cycle["borrowing"][0];
    assert_eq!(borrowing["borrowers"], json!([{"queue": "team-b", "amount": 2.0}]));
    assert_eq!(borrowing["lenders"], json!([{"queue": "team-a", "unused": 2.0, "isWaiting": false}]));
    let waiting: Vec<&Value> =
        cycle["pending"].as_array().unwrap().iter().map(|it| &it["podGroup"]).collect();
    assert_eq!(waiting, ["ml/huge", "ml/huge"]);
}

#[test]
fn the_same_snapshot_prints_the_same_bytes() {
    let folder = folder();
    for style in ["table", "wide", "json"] {
        let run = || snapshot(folder.path(), &format!("run cluster.zip --cycles 5 -o {style}")).success();
        assert_eq!(run(), run());
    }
    // The order of objects has no meaning.
    let mut other = cluster();
    for list in ["pods", "nodes", "queues", "podGroups"] {
        other["rawObjects"][list].as_array_mut().unwrap().reverse();
    }
    write_zip(&folder.path().join("other.zip"), &other);
    let difference = snapshot(folder.path(), "diff cluster.zip other.zip");
    assert_eq!(difference.code, 0, "{}", difference.out);
    assert!(difference.out.contains("no differences"));
}

#[test]
fn the_table_shows_actions_queues_and_reasons() {
    let folder = folder();
    let text = snapshot(folder.path(), "run cluster.zip").success();
    for expected in [
        "cluster.zip at 2026-06-01T11:00:00Z, the newest time in its objects",
        "reclaim: 2 pipelined, 2 evicted",
        "EVICTED",
        "allocate, consolidation, preempt, stalegangeviction: nothing to do",
        "GPU BY QUEUE",
        "team-b borrows 2 GPU (of 2 GPU unused by team-a)",
        "ml/huge",
    ] {
        assert!(text.contains(expected), "{expected:?} is missing:\n{text}");
    }
}

#[test]
fn cycles_go_on_until_nothing_changes() {
    let folder = folder();
    let report = snapshot_json(folder.path(), "run cluster.zip --cycles 20");
    let cycles = report["cycles"].as_array().unwrap();
    assert_eq!(report["isSettled"], true);
    assert!((3..20).contains(&cycles.len()), "{}", cycles.len());
    assert_eq!(pods(&cycles[1]["actions"], "allocate", "bound"), ["ml/train-0", "ml/train-1"]);
    assert_eq!(cycles[1]["now"], "2026-06-01T11:00:01Z");
    let last = cycles.last().unwrap();
    let evicted_again: usize =
        last["actions"].as_array().unwrap().iter().map(|it| it["evicted"].as_array().unwrap().len()).sum();
    assert_eq!(evicted_again, 0);
    // Evicted pods have come back, and wait.
    let pending: Vec<&str> =
        last["pending"].as_array().unwrap().iter().map(|it| it["podGroup"].as_str().unwrap()).collect();
    assert_eq!(pending.iter().filter(|group| group.starts_with("ml/run-")).count(), 2, "{pending:?}");
    let one = snapshot(folder.path(), "run cluster.zip --cycles 2").success();
    assert!(one.contains("not settled after 2 cycles"), "{one}");
}

#[test]
fn settings_can_be_changed() {
    let folder = folder();
    let cycle = |arguments: &str| {
        snapshot_json(folder.path(), &format!("run cluster.zip {arguments}"))["cycles"][0].clone()
    };
    let fewer = cycle("--set queue/team-a.gpu.quota=0 --set queue/team-b.gpu.quota=8");
    assert!(pods(&fewer["actions"], "reclaim", "evicted").is_empty());
    let limited = cycle("--set podgroup/ml/train.minMember=1 --set queue/team-a.gpu.limit=1");
    assert_eq!(pods(&limited["actions"], "reclaim", "pipelined"), ["ml/train-0"]);
    let allocate = cycle("--actions allocate");
    assert_eq!(allocate["actions"].as_array().unwrap().len(), 1);
    let report = snapshot_json(
        folder.path(),
        &format!("run cluster.zip --now {NOW} --set params.fullHierarchyFairness=false"),
    );
    assert_eq!((&report["snapshot"]["now"], &report["snapshot"]["nowFrom"]), (&json!(NOW), &json!("given")));
    assert_eq!(report["snapshot"]["overrides"], json!(["params.fullHierarchyFairness=false"]));
}

#[test]
fn two_runs_are_compared() {
    let folder = folder();
    let same = snapshot(folder.path(), "diff cluster.zip cluster.zip");
    assert_eq!(same.code, 0, "{}", same.out);
    let quota = "--set queue/team-a.gpu.quota=0 --set queue/team-b.gpu.quota=8";
    let by_diff = snapshot(folder.path(), &format!("diff cluster.zip cluster.zip {quota}"));
    assert_eq!(by_diff.code, 1);
    let by_run = snapshot(folder.path(), &format!("run cluster.zip {quota} --against cluster.zip"));
    assert_eq!((by_run.code, &by_run.out), (1, &by_diff.out));
    for expected in ["ml/train-0", "Pipelined on gpu-", "Pending", "4 → 0", "total: 4 pods"] {
        assert!(by_run.out.contains(expected), "{expected:?} is missing:\n{}", by_run.out);
    }
    let json = snapshot(folder.path(), &format!("diff cluster.zip cluster.zip {quota} -o json"));
    let json: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["pods"].as_array().unwrap().len(), 4);
    assert_eq!(json["samePods"], 9);
    let error = snapshot(folder.path(), "diff cluster.zip none.zip");
    assert_eq!(error.code, 2, "{}", error.err);
    assert_eq!(snapshot(folder.path(), "run none.zip --against cluster.zip").code, 2);
    assert_eq!(snapshot(folder.path(), "run none.zip").code, 1);
}
