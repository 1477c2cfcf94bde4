//! Nodes.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::Builder;

/// The kind of nodes.
#[derive(Debug)]
pub enum Node {}

/// Builds a node.
pub type NodeBuilder = Builder<Node>;

/// A node whose uid is its name, with the label that names it.
pub fn node(name: &str) -> NodeBuilder {
    Builder::new(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
    }))
}

impl Builder<Node> {
    /// Sets how much of a resource its pods may request.
    pub fn allocatable(self, resource: &str, amount: impl Into<Value>) -> NodeBuilder {
        self.at(&["status", "allocatable", resource], amount)
    }

    /// Sets how much of a resource it has, all of which its pods may request.
    pub fn capacity(self, resource: &str, amount: impl Into<Value>) -> NodeBuilder {
        let amount = amount.into();
        self.at(&["status", "capacity", resource], amount.clone()).allocatable(resource, amount)
    }

    /// Adds a taint, written as for `kubectl taint`: `gpu=yes:NoSchedule`, or `gpu:NoSchedule`.
    pub fn taint(mut self, taint: &str) -> NodeBuilder {
        let (key, effect) = taint.rsplit_once(':').expect("a taint has an effect");
        let taint = match key.split_once('=') {
            Some((key, value)) => json!({"key": key, "value": value, "effect": effect}),
            None => json!({"key": key, "effect": effect}),
        };
        push(self.field(&["spec", "taints"]), taint);
        self
    }

    /// Sets `spec.unschedulable`, as `kubectl cordon` does.
    pub fn cordoned(self) -> NodeBuilder {
        self.at(&["spec", "unschedulable"], true)
    }

    /// Sets `spec.providerID`.
    pub fn provider_id(self, id: &str) -> NodeBuilder {
        self.at(&["spec", "providerID"], id)
    }

    /// Gives it the condition `Ready`.
    pub fn ready(self) -> NodeBuilder {
        self.condition(json!({"type": "Ready", "status": "True"}))
    }

    /// Gives it the condition `Ready`, which it has since then.
    pub fn ready_since(self, time: impl Display) -> NodeBuilder {
        self.condition(json!({"type": "Ready", "status": "True", "lastTransitionTime": time.to_string()}))
    }

    /// It is not ready since then.
    pub fn not_ready_since(self, time: impl Display) -> NodeBuilder {
        self.condition(json!({"type": "Ready", "status": "False", "lastTransitionTime": time.to_string()}))
    }

    /// Sets a condition in place of the one of the same type, if it has one.
    fn condition(mut self, condition: Value) -> NodeBuilder {
        let conditions = self.field(&["status", "conditions"]);
        if let Value::Array(conditions) = conditions {
            conditions.retain(|other| other["type"] != condition["type"]);
        }
        push(conditions, condition);
        self
    }
}

/// Adds to a list, which may not be there yet.
fn push(list: &mut Value, element: Value) {
    match list {
        Value::Array(list) => list.push(element),
        other => *other = json!([element]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_written_as_for_kubectl_and_add_up() {
        let built = node("n").taint("gpu=yes:NoSchedule").taint("example.com/x:NoExecute").json();
        let taints = json!([
            {"key": "gpu", "value": "yes", "effect": "NoSchedule"},
            {"key": "example.com/x", "effect": "NoExecute"},
        ]);
        assert_eq!(built["spec"], json!({"taints": taints}));
    }

    #[test]
    fn a_node_is_ready_or_it_is_not() {
        let built = node("n").ready().not_ready_since("2026-11-15T00:00:00Z").capacity("cpu", "4").json();
        let condition =
            json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-15T00:00:00Z"});
        let cpu = json!({"cpu": "4"});
        assert_eq!(built["status"], json!({"conditions": [condition], "capacity": cpu, "allocatable": cpu}));
    }
}
