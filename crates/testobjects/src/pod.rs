//! Builder methods for pods.

use serde_json::{Value, json};

use crate::Builder;

/// Marks pods.
#[derive(Debug)]
pub enum Pod {}

/// Builds a pod.
pub type PodBuilder = Builder<Pod>;

/// A pod in the namespace `default` whose uid is its name, with one container that requests nothing.
pub fn pod(name: &str) -> PodBuilder {
    Builder::new(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"containers": [{"name": "c"}]},
    }))
}

impl Builder<Pod> {
    /// Sets the first container's request for a resource.
    pub fn request(self, resource: &str, amount: impl Into<Value>) -> PodBuilder {
        self.set_at(&["spec", "containers", "0", "resources", "requests", resource], amount)
    }

    /// Sets `spec.nodeName`.
    pub fn on(self, node: &str) -> PodBuilder {
        self.set_at(&["spec", "nodeName"], node)
    }

    /// Sets `spec.priority`.
    pub fn priority(self, priority: i64) -> PodBuilder {
        self.set_at(&["spec", "priority"], priority)
    }

    /// Adds a label to `spec.nodeSelector`.
    pub fn node_selector(self, key: &str, value: &str) -> PodBuilder {
        self.set_at(&["spec", "nodeSelector", key], value)
    }

    /// Gives the first container a host port.
    pub fn host_port(self, port: u16) -> PodBuilder {
        self.set("spec.containers.0.ports", json!([{"containerPort": port, "hostPort": port}]))
    }

    /// Sets `status.phase`.
    pub fn phase(self, phase: &str) -> PodBuilder {
        self.set_at(&["status", "phase"], phase)
    }

    /// Sets the condition that the scheduler writes when no node fits.
    pub fn unschedulable(self, message: &str) -> PodBuilder {
        let condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message});
        self.set_at(&["status", "conditions"], json!([condition]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_of_the_first_container() {
        let built = pod("p").request("cpu", "1").request("example.com/gpu", 2).on("n").json();
        let requests = json!({"cpu": "1", "example.com/gpu": 2});
        let spec =
            json!({"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": requests}}]});
        assert_eq!(built["spec"], spec);
    }
}
