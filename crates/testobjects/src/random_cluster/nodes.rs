//! Random creation, change, deletion and re-creation of nodes.

use model::What;
use serde_json::{Value, json};

use super::{RandomCluster, object};

impl RandomCluster {
    pub(super) fn new_node(&mut self) -> What {
        let name = format!("node-{}", self.next_number());
        let mut node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {}, "status": {}
        });
        node["metadata"]["labels"] = self.node_labels(&name);
        node["spec"]["taints"] = self.taints();
        node["status"]["allocatable"] = self.allocatable();
        node["status"]["images"] = self.images();
        self.nodes.push(node.clone());
        What::Added(object(&node))
    }

    pub(super) fn change_node(&mut self) -> Option<What> {
        let index = self.pick_node()?;
        let mut node = self.nodes[index].clone();
        let name = super::text(&node["metadata"]["name"]);
        match self.rng.below(5) {
            0 => node["metadata"]["labels"] = self.node_labels(&name),
            1 => node["spec"]["taints"] = self.taints(),
            2 => node["status"]["allocatable"] = self.allocatable(),
            3 => node["status"]["images"] = self.images(),
            _ => node["spec"]["unschedulable"] = json!(self.rng.chance(50)),
        }
        self.nodes[index] = node.clone();
        Some(What::Modified(object(&node)))
    }

    /// Deletes a node. Its pods stay for now.
    pub(super) fn delete_node(&mut self) -> Option<What> {
        let index = self.pick_node()?;
        let node = self.nodes.remove(index);
        self.deleted_nodes.push(node.clone());
        Some(What::Deleted(object(&node)))
    }

    pub(super) fn recreate_node(&mut self) -> Option<What> {
        if self.deleted_nodes.is_empty() {
            return None;
        }
        let which = self.rng.below(self.deleted_nodes.len());
        let mut node = self.deleted_nodes.swap_remove(which);
        if self.rng.chance(30) {
            let name = super::text(&node["metadata"]["name"]);
            node["metadata"]["labels"] = self.node_labels(&name);
        }
        self.nodes.push(node.clone());
        Some(What::Added(object(&node)))
    }

    pub(super) fn pick_node(&mut self) -> Option<usize> {
        (!self.nodes.is_empty()).then(|| self.rng.below(self.nodes.len()))
    }

    fn node_labels(&mut self, name: &str) -> Value {
        let mut labels = json!({});
        if self.rng.chance(95) {
            let twin = self.rng.chance(5);
            labels["kubernetes.io/hostname"] = json!(if twin { "node-1" } else { name });
        }
        if self.rng.chance(85) {
            labels["topology.kubernetes.io/zone"] = json!(self.rng.choose(&["z1", "z2", "z3", ""]));
        }
        if self.rng.chance(30) {
            labels["topology.kubernetes.io/region"] = json!(self.rng.choose(&["r1", "r2"]));
        }
        if self.rng.chance(60) {
            labels["rack"] = json!(self.rng.choose(&["1", "2", "3", "10"]));
        }
        if self.rng.chance(50) {
            labels["disk"] = json!(self.rng.choose(&["ssd", "hdd"]));
        }
        labels
    }

    fn taints(&mut self) -> Value {
        let mut taints = Vec::new();
        while self.rng.chance(25) {
            taints.push(json!({
                "key": self.rng.choose(&["gpu", "spot"]),
                "value": self.rng.choose(&["", "yes"]),
                "effect": self.rng.choose(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]),
            }));
        }
        json!(taints)
    }

    fn allocatable(&mut self) -> Value {
        let mut has = json!({
            "cpu": self.rng.choose(&["2", "4", "3900m", "1500m"]),
            "memory": self.rng.choose(&["4Gi", "8Gi", "7900Mi", "3000000k"]),
            "pods": self.rng.choose(&["3", "8", "110"]),
        });
        if self.rng.chance(30) {
            has["example.com/gpu"] = json!(self.rng.choose(&["0", "2", "4"]));
        }
        if self.rng.chance(30) {
            has["hugepages-2Mi"] = json!("64Mi");
        }
        if self.rng.chance(60) {
            has["ephemeral-storage"] = json!("10Gi");
        }
        if self.rng.chance(3) {
            has = json!({"pods": "10"});
        }
        has
    }

    fn images(&mut self) -> Value {
        let mut images = Vec::new();
        for image in ["web", "registry:5000/db", "cache"] {
            if self.rng.chance(35) {
                let size = *self.rng.choose(&[50_000_000_i64, 400_000_000, 1_500_000_000]);
                images.push(
                    json!({"names": [format!("{image}:latest"), format!("{image}:v1")], "sizeBytes": size}),
                );
            }
        }
        json!(images)
    }
}
