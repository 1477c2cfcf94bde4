//! Nodes, and how many volumes they take.

use model::{Moment, Object};
use serde_json::{Value, json};

use super::hash::Hash;
use super::{Fit, Labels, Meta, Resources, changed, labels, list, put, resources, taints, text};

/// Machine-controller-manager's note to itself, which the recorder drops.
const LAST_APPLIED: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";

/// What `node_info` keeps of a node.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// What names it.
    pub meta: Meta,
    /// The last change of a condition, or else when it was made.
    pub changed: Option<Moment>,
    /// What the cloud calls it.
    pub provider_id: String,
    /// How many volumes it takes; 0 if that is not known. It is told by its CSINode, so the recorder always writes 0.
    pub volumes: i64,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Value>,
    /// What pods may have of it.
    pub allocatable: Resources,
    /// All it has.
    pub capacity: Resources,
}

/// What `csi_node_info` keeps of a CSINode.
#[derive(Clone, Debug)]
pub(crate) struct CsiNodeInfo {
    pub(crate) meta: Meta,
    /// Of the first driver; -1 if there is none or it does not say.
    pub(crate) volumes: i64,
}

// === impl NodeInfo ===

impl NodeInfo {
    /// What is kept of this node. Says why it cannot be understood.
    pub fn read(node: &Object) -> Fit<NodeInfo> {
        NodeInfo::of(&node.value().map_err(|error| error.to_string())?)
    }

    /// What the recorder keeps of this node.
    pub(crate) fn of(object: &Value) -> Fit<NodeInfo> {
        let meta = Meta::of(object)?;
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut labels = labels(&object["metadata"]["labels"])?;
        labels.remove(LAST_APPLIED);
        Ok(NodeInfo {
            changed: changed(meta.created, &status["conditions"])?,
            meta,
            provider_id: text(spec, "providerID").to_owned(),
            volumes: 0,
            labels,
            taints: taints(&spec["taints"])?,
            allocatable: resources(&status["allocatable"])?,
            capacity: resources(&status["capacity"])?,
        })
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = Hash::default();
        hash.text(&self.meta.name);
        hash.text(&self.meta.namespace);
        hash.labels(&self.labels);
        hash.taints(&self.taints);
        hash.resources(&self.allocatable);
        hash.resources(&self.capacity);
        hash.hex()
    }

    /// A node that the recorder would have seen so: ready, as all it records are.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("v1", "Node");
        put(&mut object["metadata"], "labels", json!(self.labels));
        object["spec"] = json!({});
        put(&mut object["spec"], "providerID", json!(self.provider_id));
        put(&mut object["spec"], "taints", json!(self.taints));
        let mut condition = json!({ "type": "Ready", "status": "True" });
        put(&mut condition, "lastTransitionTime", json!(self.changed.map(|at| at.to_string())));
        object["status"] = json!({ "conditions": [condition] });
        put(&mut object["status"], "allocatable", json!(self.allocatable));
        put(&mut object["status"], "capacity", json!(self.capacity));
        object
    }
}

/// Whether a node says that it is ready.
pub(crate) fn is_ready(node: &Value) -> bool {
    list(&node["status"]["conditions"])
        .iter()
        .any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True")
}

// === impl CsiNodeInfo ===

impl CsiNodeInfo {
    /// What the recorder keeps of this CSINode: its first driver's count.
    pub(crate) fn of(object: &Value) -> Fit<CsiNodeInfo> {
        let first = &object["spec"]["drivers"][0];
        let volumes = first["allocatable"]["count"].as_i64().unwrap_or(-1);
        Ok(CsiNodeInfo { meta: Meta::of(object)?, volumes })
    }

    /// A CSINode that the recorder would have seen so. The driver's name is not recorded.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("storage.k8s.io/v1", "CSINode");
        let driver = json!({ "name": "unknown", "nodeID": self.meta.name, "topologyKeys": null, "allocatable": { "count": self.volumes } });
        let drivers = if self.volumes < 0 { Vec::new() } else { vec![driver] };
        object["spec"] = json!({ "drivers": drivers });
        object
    }
}
