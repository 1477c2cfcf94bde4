//! Changes of a node's text, as an autoscaler makes them.

use model::Object;
use serde_json::{Value, json};

use crate::components::taints_of;

/// Taints that only an autoscaler gives and takes.
const SCALERS: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"];

/// The node with a taint, instead of one of the same key.
pub(crate) fn tainted(node: &Object, key: &str, value: &str, effect: &str) -> Option<Object> {
    edited(node, |spec| {
        let taints = as_list(&mut spec["taints"]);
        taints.retain(|taint| taint["key"] != *key);
        taints.push(json!({"key": key, "value": value, "effect": effect}));
    })
}

/// The node without a taint.
pub(crate) fn untainted(node: &Object, key: &str) -> Option<Object> {
    edited(node, |spec| as_list(&mut spec["taints"]).retain(|taint| taint["key"] != *key))
}

/// The node cordoned, or not any more.
pub(crate) fn cordoned(node: &Object, unschedulable: bool) -> Option<Object> {
    edited(node, |spec| spec["unschedulable"] = unschedulable.into())
}

fn edited(node: &Object, edit: impl FnOnce(&mut Value)) -> Option<Object> {
    let mut value = node.value().ok()?;
    edit(&mut value["spec"]);
    Some(Object::trusted(value.to_string()))
}

/// A recorded node with an autoscaler's taints as they are in this run, not as they were recorded.
pub(crate) fn with_taints_of(node: &Object, known: &Object) -> Object {
    let has_own = |object: &Object| taints_of(object).iter().any(|taint| SCALERS.contains(&&*taint.key));
    if !has_own(node) && !has_own(known) {
        return node.clone();
    }
    let (Ok(mut value), Ok(known)) = (node.value(), known.value()) else { return node.clone() };
    let is_own = |taint: &Value| taint["key"].as_str().is_some_and(|key| SCALERS.contains(&key));
    let taints = as_list(&mut value["spec"]["taints"]);
    taints.retain(|taint| !is_own(taint));
    taints.extend(
        known["spec"]["taints"].as_array().into_iter().flatten().filter(|taint| is_own(taint)).cloned(),
    );
    Object::trusted(value.to_string())
}

fn as_list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it was made one")
}
