//! Edits of Node objects, as an autoscaler makes them.

use kubernetes::well_known::{DELETION_CANDIDATE, TO_BE_DELETED};
use model::Object;
use serde_json::{Value, json};

use crate::store::StoredNode;

/// Taints that only an autoscaler adds and removes.
const AUTOSCALER_TAINTS: [&str; 2] = [TO_BE_DELETED, DELETION_CANDIDATE];

/// An edit of a Node by an autoscaler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeEdit<'a> {
    /// Adds a taint, which replaces one of the same key.
    Taint {
        /// Its key.
        key: &'a str,
        /// Its value.
        value: &'a str,
        /// Its effect.
        effect: &'a str,
    },
    /// Removes the taints with this key.
    Untaint(&'a str),
    /// Sets `spec.unschedulable`.
    Cordon(bool),
}

impl NodeEdit<'_> {
    /// Edits a Node.
    pub fn apply(self, node: &mut Value) {
        let spec = &mut node["spec"];
        match self {
            NodeEdit::Taint { key, value, effect } => {
                let taints = as_list(&mut spec["taints"]);
                taints.retain(|taint| taint["key"] != *key);
                taints.push(json!({"key": key, "value": value, "effect": effect}));
            }
            NodeEdit::Untaint(key) => as_list(&mut spec["taints"]).retain(|taint| taint["key"] != *key),
            NodeEdit::Cordon(unschedulable) => spec["unschedulable"] = unschedulable.into(),
        }
    }

    /// The edited Node; `None` if it is not readable.
    pub(crate) fn edited(self, node: &Object) -> Option<Object> {
        let mut value = node.value().ok()?;
        self.apply(&mut value);
        Some(Object::from_trusted(value.to_string()))
    }
}

/// A recorded node with the autoscaler's taints of this run instead of the recorded ones.
pub(crate) fn with_autoscaler_taints_of(node: StoredNode, current: &StoredNode) -> StoredNode {
    let has_autoscaler_taint =
        |node: &StoredNode| node.view.taints.iter().any(|taint| AUTOSCALER_TAINTS.contains(&&*taint.key));
    if !has_autoscaler_taint(&node) && !has_autoscaler_taint(current) {
        return node;
    }
    let (Ok(mut value), Ok(current)) = (node.object.value(), current.object.value()) else { return node };
    let is_autoscaler_taint =
        |taint: &Value| taint["key"].as_str().is_some_and(|key| AUTOSCALER_TAINTS.contains(&key));
    let taints = as_list(&mut value["spec"]["taints"]);
    taints.retain(|taint| !is_autoscaler_taint(taint));
    taints.extend(
        current["spec"]["taints"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|taint| is_autoscaler_taint(taint))
            .cloned(),
    );
    StoredNode::parse(Object::from_trusted(value.to_string()))
}

fn as_list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("the value was just made an array")
}
