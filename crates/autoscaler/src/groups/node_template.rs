//! Template nodes of groups: built from a few values, or taken from a live node without its individual fields.

use std::collections::BTreeMap;

use kubernetes::quantity::Quantity;
use kubernetes::well_known::{
    DELETION_CANDIDATE, HOSTNAME, KARPENTER_NODE_POOL, KOPS_INSTANCE_GROUP, TO_BE_DELETED,
};
use model::Object;
use serde_json::{Map, Value, json};

/// The labels with which cloud providers and tools name the pool of a node, the most specific first.
pub const POOL_LABELS: [&str; 11] = [
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    KOPS_INSTANCE_GROUP,
    "worker.gardener.cloud/pool",
    KARPENTER_NODE_POOL,
    "doks.digitalocean.com/node-pool",
    "node.cluster.x-k8s.io/pool",
    "node-pool",
];

/// The labels, taints and resources of a group's template node.
#[derive(Clone, Debug, Default)]
pub struct TemplateSpec {
    /// Labels, except the hostname.
    pub labels: BTreeMap<String, String>,
    /// Taints as in a Node object.
    pub taints: Vec<Value>,
    /// `status.capacity`.
    pub capacity: BTreeMap<String, Quantity>,
    /// `status.allocatable`.
    pub allocatable: BTreeMap<String, Quantity>,
}

// === impl TemplateSpec ===

impl TemplateSpec {
    /// Adds a label, unless it has a value already.
    pub fn set_default_label(&mut self, key: &str, value: &str) {
        if !value.is_empty() {
            self.labels.entry(key.to_owned()).or_insert_with(|| value.to_owned());
        }
    }

    /// Sets allocatable to the capacity less the reserved amounts, at least zero.
    pub fn reserve(&mut self, reserved: &BTreeMap<String, Quantity>) {
        self.allocatable = self.capacity.clone();
        for (name, amount) in reserved {
            if let Some(remaining) = self.allocatable.get_mut(name) {
                *remaining -= amount;
                if remaining.sign() < 0 {
                    *remaining = Quantity::ZERO;
                }
            }
        }
    }

    /// The template node as an object.
    pub fn to_node(&self, group: &str) -> Value {
        let name = template_name(group);
        let mut labels = self.labels.clone();
        labels.insert(HOSTNAME.to_owned(), name.clone());
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": { "name": name, "labels": labels },
            "spec": { "taints": self.taints },
            "status": { "capacity": self.capacity, "allocatable": self.allocatable, "conditions": [ready_condition()] },
        })
    }
}

/// The template of a group from one of its nodes.
pub fn template_from_node(node: &Value, group: &str) -> Value {
    let name = template_name(group);
    let own_name = node["metadata"]["name"].as_str().unwrap_or_default();
    let mut labels = node["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    labels.retain(|_, value| value.as_str() != Some(own_name));
    labels.insert(HOSTNAME.to_owned(), json!(name));
    let taints: Vec<&Value> = node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|taint| is_permanent_taint(taint))
        .collect();
    let mut status = Map::new();
    for field in ["capacity", "allocatable", "nodeInfo"] {
        if let Some(value) = node["status"].get(field) {
            status.insert(field.to_owned(), value.clone());
        }
    }
    status.insert("conditions".to_owned(), json!([ready_condition()]));
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": { "name": name, "labels": labels },
        "spec": { "taints": taints },
        "status": status,
    })
}

/// Whether a taint is permanent: not one of nodes that are starting, unhealthy or being deleted.
fn is_permanent_taint(taint: &Value) -> bool {
    let key = taint["key"].as_str().unwrap_or_default();
    let transient = [
        "node.kubernetes.io/",
        "node.cloudprovider.kubernetes.io/",
        "startup-taint.cluster-autoscaler.kubernetes.io/",
        "ignore-taint.cluster-autoscaler.kubernetes.io/",
        TO_BE_DELETED,
        DELETION_CANDIDATE,
        "karpenter.sh/",
    ];
    !transient.iter().any(|prefix| key.starts_with(prefix))
}

/// The object of a JSON value; `None` if its name is not valid in a cluster.
pub fn parse_object(value: &Value) -> Option<Object> {
    Object::parse(&value.to_string()).ok()
}

/// The name of a group's template. Group names may be URLs, node names may not.
fn template_name(group: &str) -> String {
    let local = group.rsplit('/').next().unwrap_or(group);
    let plain: String =
        local.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    format!("{}-template", plain.to_ascii_lowercase())
}

fn ready_condition() -> Value {
    json!({ "type": "Ready", "status": "True" })
}
