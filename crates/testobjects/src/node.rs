//! Builder methods for nodes.

use std::fmt::Display;

use serde_json::{Value, json};

use crate::Builder;

/// Marks nodes.
#[derive(Debug)]
pub enum Node {}

/// Builds a node.
pub type NodeBuilder = Builder<Node>;

/// A node whose uid and hostname label are its name.
pub fn node(name: &str) -> NodeBuilder {
    Builder::new(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": {"kubernetes.io/hostname": name}},
    }))
}

impl Builder<Node> {
    /// Sets the allocatable amount of a resource.
    pub fn allocatable(self, resource: &str, amount: impl Into<Value>) -> NodeBuilder {
        self.set_at(&["status", "allocatable", resource], amount)
    }

    /// Sets the capacity and the allocatable amount of a resource.
    pub fn capacity(self, resource: &str, amount: impl Into<Value>) -> NodeBuilder {
        let amount = amount.into();
        self.set_at(&["status", "capacity", resource], amount.clone()).allocatable(resource, amount)
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
        self.set_at(&["spec", "unschedulable"], true)
    }

    /// Sets `spec.providerID`.
    pub fn provider_id(self, id: &str) -> NodeBuilder {
        self.set_at(&["spec", "providerID"], id)
    }

    /// Sets the condition `Ready` to true, without a time.
    pub fn ready(self) -> NodeBuilder {
        self.condition(json!({"type": "Ready", "status": "True"}))
    }

    /// Sets the condition `Ready` to true.
    pub fn ready_since(self, time: impl Display) -> NodeBuilder {
        self.condition(json!({"type": "Ready", "status": "True", "lastTransitionTime": time.to_string()}))
    }

    /// Sets the condition `Ready` to false.
    pub fn not_ready_since(self, time: impl Display) -> NodeBuilder {
        self.condition(json!({"type": "Ready", "status": "False", "lastTransitionTime": time.to_string()}))
    }

    /// Sets a condition, replacing the one of the same type.
    fn condition(mut self, condition: Value) -> NodeBuilder {
        let conditions = self.field(&["status", "conditions"]);
        if let Value::Array(conditions) = conditions {
            conditions.retain(|other| other["type"] != condition["type"]);
        }
        push(conditions, condition);
        self
    }
}

/// Appends to a list, which may be missing.
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
        let built = node("n")
            .ready_since("2026-11-14T00:00:00Z")
            .not_ready_since("2026-11-15T00:00:00Z")
            .capacity("cpu", "4")
            .json();
        let condition =
            json!({"type": "Ready", "status": "False", "lastTransitionTime": "2026-11-15T00:00:00Z"});
        let cpu = json!({"cpu": "4"});
        assert_eq!(built["status"], json!({"conditions": [condition], "capacity": cpu, "allocatable": cpu}));
    }
}
