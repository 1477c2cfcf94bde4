//! What makes little sense and is yet answered by kube-scheduler, compared with its answers: amounts beyond all
//! measure, negative ones, nodes that have nothing, constraints that say nothing, words that mean nothing.

use std::collections::BTreeMap;
use std::io::Read;

use model::{Moment, What};
use scheduler::{Decision, NodeVerdict, Scheduler, Settings};
use serde_json::{Map, Value, json};

const CASES: &[u8] = include_bytes!("../../../testdata/scheduler/absurd.jsonl.gz");
const NOW: Moment = Moment::from_nanos(0);

#[test]
fn absurd_clusters_are_answered_as_by_the_original() {
    let mut text = String::new();
    flate2::read::GzDecoder::new(CASES).read_to_string(&mut text).unwrap();
    let wrong: Vec<String> = text.lines().filter_map(|line| check(line).err()).collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), text.lines().count(), wrong.join("\n"));
}

/// One case: its objects, then its pods one after the other; or what is wrong.
fn check(line: &str) -> Result<(), String> {
    let case: Value = serde_json::from_str(line).expect("a line is JSON");
    let list = |field: &str| case[field].as_array().cloned().unwrap_or_default();
    let mut scheduler = Scheduler::new(Settings::default());
    for object in list("objects").iter().chain(&list("pending")) {
        scheduler.apply(NOW, &What::Added(testobjects::object(object)));
    }
    for (index, pod) in list("pending").iter().enumerate() {
        let (namespace, name) = ("default", pod["metadata"]["name"].as_str().expect("a pod has a name"));
        let explanation = scheduler.explain(NOW, namespace, name).expect("it was told of");
        let right = &case["expect"][index];
        let nodes = explanation.nodes.iter().map(|node| (node.node.to_string(), verdict(&node.verdict)));
        let mut found = match scheduler.attempt(NOW, namespace, name).expect("it was told of") {
            Decision::Placed(placement) => json!({"node": &*placement.node}),
            Decision::Refused(rejection) => json!({"message": rejection.message}),
            Decision::Failed(error) => json!({"error": error}),
            other => json!(format!("{other:?}")),
        };
        found["nodes"] = json!(nodes.collect::<Map<String, Value>>());
        for field in ["node", "message", "error", "nodes"] {
            let (right, found) =
                (right.get(field).unwrap_or(&Value::Null), found.get(field).unwrap_or(&Value::Null));
            if right != found && !(right.is_null() && found == &json!({})) {
                return Err(format!("{} {name}: {field} is {found}, not {right}", case["id"]));
            }
        }
    }
    Ok(())
}

fn verdict(verdict: &NodeVerdict) -> Value {
    match verdict {
        NodeVerdict::Refused(refusal) => {
            let mut reasons = refusal.reasons.to_vec();
            reasons.sort();
            json!({"plugin": refusal.plugin.name(), "code": refusal.code.to_string(), "reasons": reasons})
        }
        NodeVerdict::Fits { scores, total } => {
            let by_plugin: BTreeMap<&str, i64> =
                scores.iter().map(|score| (score.plugin.name(), score.weighted)).collect();
            json!({"scores": by_plugin, "total": total})
        }
    }
}
