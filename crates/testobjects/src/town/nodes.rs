//! Random creation, change, deletion and re-creation of nodes.

use model::What;
use serde_json::{Value, json};

use super::{Town, object};

impl Town {
    pub(super) fn new_node(&mut self) -> What {
        let name = format!("node-{}", self.number());
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
        let index = self.some_node()?;
        let mut node = self.nodes[index].clone();
        let name = super::text(&node["metadata"]["name"]);
        match self.dice.below(5) {
            0 => node["metadata"]["labels"] = self.node_labels(&name),
            1 => node["spec"]["taints"] = self.taints(),
            2 => node["status"]["allocatable"] = self.allocatable(),
            3 => node["status"]["images"] = self.images(),
            _ => node["spec"]["unschedulable"] = json!(self.dice.chance(50)),
        }
        self.nodes[index] = node.clone();
        Some(What::Modified(object(&node)))
    }

    /// Deletes a node. Its pods stay for now.
    pub(super) fn lose_node(&mut self) -> Option<What> {
        let index = self.some_node()?;
        let node = self.nodes.remove(index);
        self.gone_nodes.push(node.clone());
        Some(What::Deleted(object(&node)))
    }

    pub(super) fn return_node(&mut self) -> Option<What> {
        if self.gone_nodes.is_empty() {
            return None;
        }
        let which = self.dice.below(self.gone_nodes.len());
        let mut node = self.gone_nodes.swap_remove(which);
        if self.dice.chance(30) {
            let name = super::text(&node["metadata"]["name"]);
            node["metadata"]["labels"] = self.node_labels(&name);
        }
        self.nodes.push(node.clone());
        Some(What::Added(object(&node)))
    }

    pub(super) fn some_node(&mut self) -> Option<usize> {
        (!self.nodes.is_empty()).then(|| self.dice.below(self.nodes.len()))
    }

    fn node_labels(&mut self, name: &str) -> Value {
        let mut labels = json!({});
        if self.dice.chance(95) {
            let twin = self.dice.chance(5);
            labels["kubernetes.io/hostname"] = json!(if twin { "node-1" } else { name });
        }
        if self.dice.chance(85) {
            labels["topology.kubernetes.io/zone"] = json!(self.dice.one(&["z1", "z2", "z3", ""]));
        }
        if self.dice.chance(30) {
            labels["topology.kubernetes.io/region"] = json!(self.dice.one(&["r1", "r2"]));
        }
        if self.dice.chance(60) {
            labels["rack"] = json!(self.dice.one(&["1", "2", "3", "10"]));
        }
        if self.dice.chance(50) {
            labels["disk"] = json!(self.dice.one(&["ssd", "hdd"]));
        }
        labels
    }

    fn taints(&mut self) -> Value {
        let mut taints = Vec::new();
        while self.dice.chance(25) {
            taints.push(json!({
                "key": self.dice.one(&["gpu", "spot"]),
                "value": self.dice.one(&["", "yes"]),
                "effect": self.dice.one(&["NoSchedule", "PreferNoSchedule", "PreferNoSchedule", "NoExecute"]),
            }));
        }
        json!(taints)
    }

    fn allocatable(&mut self) -> Value {
        let mut has = json!({
            "cpu": self.dice.one(&["2", "4", "3900m", "1500m"]),
            "memory": self.dice.one(&["4Gi", "8Gi", "7900Mi", "3000000k"]),
            "pods": self.dice.one(&["3", "8", "110"]),
        });
        if self.dice.chance(30) {
            has["example.com/gpu"] = json!(self.dice.one(&["0", "2", "4"]));
        }
        if self.dice.chance(30) {
            has["hugepages-2Mi"] = json!("64Mi");
        }
        if self.dice.chance(60) {
            has["ephemeral-storage"] = json!("10Gi");
        }
        if self.dice.chance(3) {
            has = json!({"pods": "10"});
        }
        has
    }

    fn images(&mut self) -> Value {
        let mut images = Vec::new();
        for image in ["web", "registry:5000/db", "cache"] {
            if self.dice.chance(35) {
                let size = *self.dice.one(&[50_000_000_i64, 400_000_000, 1_500_000_000]);
                images.push(
                    json!({"names": [format!("{image}:latest"), format!("{image}:v1")], "sizeBytes": size}),
                );
            }
        }
        json!(images)
    }
}
