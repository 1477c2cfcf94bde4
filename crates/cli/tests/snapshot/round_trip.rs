//! Snapshots that are imported into a history and taken from it, and those of a history that is not KAI's.

use std::io::Read;
use std::path::Path;

use serde_json::{Value, json};

use super::cluster::{cluster, folder, snapshot, snapshot_json};
use crate::common::{self, run};

fn read_zip(path: &Path) -> Value {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(path).unwrap()).unwrap();
    assert_eq!(archive.len(), 1);
    let mut text = String::new();
    archive.by_name("snapshot.json").unwrap().read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_was_captured_is_written_back() {
    let folder = folder();
    let path = folder.path();
    run(path, &["import", "cluster.zip", "--at", "2026-06-01T12:00:00Z", "--into", "gpu.kine"]).success();
    let output = snapshot(path, "take --history gpu.kine");
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(!output.err.contains("added"), "{}", output.err);
    let taken = read_zip(&path.join("gpu-20260601T120000Z.zip"));
    let original = cluster();
    assert_eq!(taken["config"], original["config"]);
    assert_eq!(taken["schedulerParams"], original["schedulerParams"]);
    assert_eq!(taken["discovery"], original["discovery"]);
    assert_eq!(taken["kinescope"]["time"], "2026-06-01T12:00:00Z");
    let same = snapshot(path, "diff cluster.zip gpu-20260601T120000Z.zip");
    assert_eq!(same.code, 0, "{}", same.out);
    // The time of the capture is read back; a moment of the history is the same.
    let of_file = snapshot_json(path, "run gpu-20260601T120000Z.zip");
    assert_eq!(
        (&of_file["snapshot"]["now"], &of_file["snapshot"]["nowFrom"]),
        (&json!("2026-06-01T12:00:00Z"), &json!("captureTime"))
    );
    let of_history = snapshot_json(path, "run --history gpu.kine --at 12:00");
    assert_eq!(of_history["cycles"], of_file["cycles"]);
    let moments = snapshot(path, "diff --history gpu.kine start end");
    assert_eq!(moments.code, 0, "{}{}", moments.out, moments.err);
    let again = run(path, &["import", "gpu-20260601T120000Z.zip", "--into", "again.kine"]);
    again.success();
    let out = run(path, &["info", "again.kine", "-o", "json"]).success();
    assert!(out.contains("2026-06-01T12:00:00Z"), "{out}");
}

#[test]
fn the_real_tool_finds_what_it_needs() {
    let folder = common::demo_history("day.kine");
    let output = snapshot(folder.path(), "take --history day.kine --out day.zip");
    assert_eq!(output.code, 0, "{}", output.err);
    let added = "added, because KAI's snapshot-tool needs it: config (defaults of v0.17), schedulerParams (defaults of v0.17), discovery";
    assert!(output.err.contains(added), "{}", output.err);
    let taken = read_zip(&folder.path().join("day.zip"));
    let partition = json!({"NodePoolLabelKey": "kai.scheduler/node-pool", "NodePoolLabelValue": ""});
    assert_eq!(taken["schedulerParams"]["partitionParams"], partition);
    assert_eq!(taken["schedulerParams"]["schedulerName"], "kai-scheduler");
    let plugins: Vec<&str> = taken["config"]["tiers"][0]["plugins"]
        .as_array()
        .unwrap()
        .iter()
        .map(|plugin| plugin["name"].as_str().unwrap())
        .collect();
    assert_eq!(plugins[18..], ["sg-nodelocalgreedy", "sg-multinodegang"]);
    let lists = taken["rawObjects"].as_object().unwrap();
    assert_eq!(lists.len(), 17);
    let optional = ["resourceClaims", "resourceSlices", "deviceClasses", "nodeResourceTopologies"];
    for (name, list) in lists {
        assert!(list.is_array() || optional.contains(&name.as_str()) && list.is_null(), "{name}: {list}");
    }
    assert!(taken["discovery"]["resources"].is_array());
    assert!(!lists["pods"].as_array().unwrap().is_empty() && !lists["nodes"].as_array().unwrap().is_empty());
    let text = snapshot(folder.path(), "run day.zip").success();
    assert!(text.contains("nothing to do"), "{text}");
}

#[test]
fn an_anonymous_snapshot_has_the_same_decisions_without_the_names() {
    let folder = folder();
    let path = folder.path();
    run(path, &["import", "cluster.zip", "--at", "2026-06-01T12:00:00Z", "--into", "gpu.kine"]).success();
    for _ in 0..2 {
        let output = snapshot(path, "take --history gpu.kine --anonymize --key anon.key --out anon.zip");
        assert_eq!(output.code, 0, "{}", output.err);
    }
    let text = read_zip(&path.join("anon.zip")).to_string();
    for name in ["team-a", "train-0", "huge"] {
        assert!(!text.contains(name), "{name}: {text}");
    }
    let cycle = |file: &str| snapshot_json(path, &format!("run {file}"))["cycles"][0].clone();
    let (plain, anonymous) = (cycle("cluster.zip"), cycle("anon.zip"));
    let counts = |cycle: &Value| {
        let actions = cycle["actions"].as_array().unwrap().iter();
        let count = |list: &Value| list.as_array().unwrap().len();
        actions
            .map(|it| (count(&it["bound"]), count(&it["pipelined"]), count(&it["evicted"])))
            .collect::<Vec<_>>()
    };
    assert_eq!(counts(&anonymous), counts(&plain));
    let gpus = |cycle: &Value| {
        let mut gpus: Vec<String> =
            cycle["queues"].as_array().unwrap().iter().map(|it| it["gpu"].to_string()).collect();
        gpus.sort();
        gpus
    };
    assert_eq!(gpus(&anonymous), gpus(&plain));
}

#[test]
fn standard_output_and_data_of_config_maps() {
    let folder = folder();
    let path = folder.path();
    run(path, &["import", "cluster.zip", "--at", "2026-06-01T12:00:00Z", "--into", "gpu.kine"]).success();
    let output = common::command(path)
        .args(["snapshot", "take", "--history", "gpu.kine", "--without-configmap-data", "--out", "-"])
        .output()
        .unwrap();
    assert!(output.status.success());
    std::fs::write(path.join("out.zip"), &output.stdout).unwrap();
    let taken = read_zip(&path.join("out.zip"));
    assert_eq!(taken["rawObjects"]["configMaps"][0].get("data"), None);
    let error = snapshot(path, "take --history gpu.kine --out gpu.kine").failure(1);
    assert!(error.contains("is the history itself"), "{error}");
    let error = snapshot(path, "take --history gpu.kine --out none/out.zip").failure(1);
    assert!(error.contains("none/out.zip"), "{error}");
    assert!(
        snapshot(path, "take --history gpu.kine --partition a=b=c").failure(2).contains("invalid partition")
    );
}
