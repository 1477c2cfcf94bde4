//! Extreme but valid objects, compared with kube-scheduler's results: huge and negative amounts, nodes without
//! resources, empty constraints, unknown values.

use std::collections::BTreeMap;
use std::io::Read;

use model::{Moment, What};
use scheduler::{Decision, NodeVerdict, Scheduler, Settings};
use serde_json::{Map, Value, json};

const CASES: &[u8] = include_bytes!("../../../testdata/scheduler/absurd.jsonl.gz");
const NOW: Moment = Moment::from_nanos(0);

#[test]
fn extreme_values_are_handled_as_by_kube_scheduler() {
    let mut text = String::new();
    flate2::read::GzDecoder::new(CASES).read_to_string(&mut text).unwrap();
    let wrong: Vec<String> = text.lines().filter_map(|line| check(line).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), text.lines().count(), wrong.join("\n"));
}

/// Checks one case: applies its objects, then schedules its pods one after the other.
fn check(line: &str) -> Result<(), String> {
    let case: Value = serde_json::from_str(line).expect("a line is JSON");
    let list = |field: &str| case[field].as_array().cloned().unwrap_or_default();
    let mut scheduler = Scheduler::new(Settings::default());
    for object in list("objects").iter().chain(&list("pending")) {
        scheduler.apply(NOW, &What::Added(testobjects::object(object)));
    }
    for (index, pod) in list("pending").iter().enumerate() {
        let (namespace, name) = ("default", pod["metadata"]["name"].as_str().expect("a pod has a name"));
        let explanation = scheduler.explain(NOW, namespace, name).expect("the pod was added");
        let expected = &case["expect"][index];
        let nodes = explanation.nodes.iter().map(|node| (node.node.to_string(), verdict(&node.verdict)));
        let mut found = match scheduler.attempt(NOW, namespace, name).expect("the pod was added") {
            Decision::Scheduled(placement) => json!({"node": &*placement.node}),
            Decision::Unschedulable(rejection) => json!({"message": rejection.message}),
            Decision::Failed(error) => json!({"error": error}),
            other => json!(format!("{other:?}")),
        };
        found["nodes"] = json!(nodes.collect::<Map<String, Value>>());
        for field in ["node", "message", "error", "nodes"] {
            let (expected, found) =
                (expected.get(field).unwrap_or(&Value::Null), found.get(field).unwrap_or(&Value::Null));
            if expected != found && !(expected.is_null() && found == &json!({})) {
                return Err(format!("{} {name}: {field} is {found}, not {expected}", case["id"]));
            }
        }
    }
    Ok(())
}

fn verdict(verdict: &NodeVerdict) -> Value {
    match verdict {
        NodeVerdict::Rejected(status) => {
            let mut reasons = status.reasons.to_vec();
            reasons.sort();
            json!({"plugin": status.plugin.name(), "code": status.code.to_string(), "reasons": reasons})
        }
        NodeVerdict::Feasible { scores, total } => {
            let by_plugin: BTreeMap<&str, i64> =
                scores.iter().map(|score| (score.plugin.name(), score.weighted)).collect();
            json!({"scores": by_plugin, "total": total})
        }
    }
}
