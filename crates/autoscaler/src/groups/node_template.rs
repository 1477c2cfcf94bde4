//! The node that the new ones of a group are made from: written out from a few facts, or taken from a node that is
//! there, less what is its own.

use std::collections::BTreeMap;

use kubernetes::quantity::Quantity;
use model::Object;
use serde_json::{Map, Value, json};

use crate::{CANDIDATE, TO_BE_DELETED};

/// The label with the name of the machine.
pub const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label with the type of the machine.
pub const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The label with its zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The label with its region.
pub const REGION: &str = "topology.kubernetes.io/region";

/// The labels with which clouds and tools name the pool of a node, the most telling first.
pub const POOL_LABELS: [&str; 11] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "kops.k8s.io/instancegroup",
    "worker.gardener.cloud/pool",
    "karpenter.sh/nodepool",
    "doks.digitalocean.com/node-pool",
    "node.cluster.x-k8s.io/pool",
    "node-pool",
];

/// What new nodes of a group have.
#[derive(Clone, Debug, Default)]
pub struct Outline {
    /// Labels, but for the name of the machine.
    pub labels: BTreeMap<String, String>,
    /// Taints as an object has them.
    pub taints: Vec<Value>,
    /// What there is.
    pub capacity: BTreeMap<String, Quantity>,
    /// What pods may have of it.
    pub allocatable: BTreeMap<String, Quantity>,
}

// === impl Outline ===

impl Outline {
    /// A label, unless another value was chosen already.
    pub fn label(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    /// Takes a reserve off the capacity to get what pods may have; nothing gets less than zero.
    pub fn reserve(&mut self, reserved: &BTreeMap<String, Quantity>) {
        self.allocatable = self.capacity.clone();
        for (name, amount) in reserved {
            if let Some(left) = self.allocatable.get_mut(name) {
                *left -= amount;
                if left.sign() < 0 {
                    *left = Quantity::ZERO;
                }
            }
        }
    }

    /// Such a node.
    pub fn node(&self, group: &str) -> Value {
        let name = template_name(group);
        let mut labels = self.labels.clone();
        labels.insert(HOSTNAME.to_owned(), name.clone());
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": labels },
            "spec": { "taints": self.taints },
            "status": { "capacity": self.capacity, "allocatable": self.allocatable, "conditions": [ready()] },
        })
    }
}

/// What a node that is there would be like if it were new in a group.
pub fn stripped(node: &Value, group: &str) -> Value {
    let name = template_name(group);
    let own = node["metadata"]["name"].as_str().unwrap_or_default();
    let mut labels = node["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.retain(|_, value| value.as_str() != Some(own));
    labels.insert(HOSTNAME.to_owned(), json!(name));
    let taints: Vec<&Value> =
        node["spec"]["taints"].as_array().into_iter().flatten().filter(|taint| is_lasting(taint)).collect();
    let mut status = Map::new();
    for field in ["capacity", "allocatable", "nodeInfo"] {
        if let Some(value) = node["status"].get(field) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    status.insert("conditions".to_owned(), json!([ready()]));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
        "status": status,
    })
}

/// Whether every node of a group has a taint, not just one that is being made, is ill or is about to go.
fn is_lasting(taint: &Value) -> bool {
    let key = taint["key"].as_str().unwrap_or_default();
    let passing = [
        "node.kubernetes.io/",
        "node.cloudprovider.kubernetes.io/",
        "startup-taint.cluster-autoscaler.kubernetes.io/",
        "ignore-taint.cluster-autoscaler.kubernetes.io/",
        TO_BE_DELETED,
        CANDIDATE,
        "karpenter.sh/",
    ];
    !passing.iter().any(|prefix| key.starts_with(prefix))
}

/// The object of a tree; `None` if nothing of that name could be in a cluster.
pub fn object(value: &Value) -> Option<Object> {
    Object::parse(&value.to_string()).ok()
}

/// What the template of a group is called. Names of groups may be addresses, those of nodes not.
fn template_name(group: &str) -> String {
    let local = group.rsplit('/').next().unwrap_or(group);
    let plain: String =
        local.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("{}-template", plain.to_ascii_lowercase())
}

fn ready() -> Value {
    json!({ "type": "Ready", "status": "True" })
}
