//! Nodes, and CSINodes with their volume limits.

use model::{Moment, Object};
use serde_json::{Value, json};

use super::hash::InfoHasher;
use super::{
    InfoResult, Labels, Resources, SnapshotMeta, labels, last_changed, list, resources, set_if_not_empty,
    taints, text,
};

/// Bookkeeping of machine-controller-manager, which the recorder drops.
const LAST_APPLIED: &str = "node.machine.sapcloud.io/last-applied-anno-labels-taints";

/// A row of `node_info`.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeInfo {
    /// Its name and times.
    pub meta: SnapshotMeta,
    /// The last transition of a condition, or else the creation.
    pub changed: Option<Moment>,
    /// The cloud provider's ID.
    pub provider_id: String,
    /// How many volumes can be attached; 0 if not known. It comes from the CSINode, so the recorder always writes 0.
    pub volumes: i64,
    /// Its labels.
    pub labels: Labels,
    /// Its taints.
    pub taints: Vec<Value>,
    /// Resources available to pods.
    pub allocatable: Resources,
    /// All its resources.
    pub capacity: Resources,
}

/// A row of `csi_node_info`.
#[derive(Clone, Debug)]
pub(crate) struct CsiNodeInfo {
    pub(crate) meta: SnapshotMeta,
    /// The first driver's volume limit; -1 if there is none.
    pub(crate) volumes: i64,
}

// === impl NodeInfo ===

impl NodeInfo {
    /// The row for a node. The error says why the node cannot be parsed.
    pub fn read(node: &Object) -> InfoResult<NodeInfo> {
        NodeInfo::of(&node.value().map_err(|error| error.to_string())?)
    }

    /// The recorder's row for a node.
    pub(crate) fn of(object: &Value) -> InfoResult<NodeInfo> {
        let meta = SnapshotMeta::of(object)?;
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut labels = labels(&object["metadata"]["labels"])?;
        labels.remove(LAST_APPLIED);
        Ok(NodeInfo {
            changed: last_changed(meta.created, &status["conditions"])?,
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
        let mut hash = InfoHasher::default();
        hash.text(&self.meta.name);
        hash.text(&self.meta.namespace);
        hash.labels(&self.labels);
        hash.taints(&self.taints);
        hash.resources(&self.allocatable);
        hash.resources(&self.capacity);
        hash.hex()
    }

    /// A node from which the recorder would make this row: ready, as are all that it records.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("v1", "Node");
        set_if_not_empty(&mut object["metadata"], "labels", json!(self.labels));
        object["spec"] = json!({});
        set_if_not_empty(&mut object["spec"], "providerID", json!(self.provider_id));
        set_if_not_empty(&mut object["spec"], "taints", json!(self.taints));
        let mut condition = json!({ "type": "Ready", "status": "True" });
        set_if_not_empty(&mut condition, "lastTransitionTime", json!(self.changed.map(|at| at.to_string())));
        object["status"] = json!({ "conditions": [condition] });
        set_if_not_empty(&mut object["status"], "allocatable", json!(self.allocatable));
        set_if_not_empty(&mut object["status"], "capacity", json!(self.capacity));
        object
    }
}

/// Whether a node's condition `Ready` is `True`.
pub(crate) fn is_ready(node: &Value) -> bool {
    list(&node["status"]["conditions"])
        .iter()
        .any(|condition| text(condition, "type") == "Ready" && text(condition, "status") == "True")
}

// === impl CsiNodeInfo ===

impl CsiNodeInfo {
    /// The recorder's row for a CSINode: its first driver's count.
    pub(crate) fn of(object: &Value) -> InfoResult<CsiNodeInfo> {
        let first = &object["spec"]["drivers"][0];
        let volumes = first["allocatable"]["count"].as_i64().unwrap_or(-1);
        Ok(CsiNodeInfo { meta: SnapshotMeta::of(object)?, volumes })
    }

    /// A CSINode from which the recorder would make this row. The driver's name is not recorded.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("storage.k8s.io/v1", "CSINode");
        let driver = json!({ "name": "unknown", "nodeID": self.meta.name, "topologyKeys": null, "allocatable": { "count": self.volumes } });
        let drivers = if self.volumes < 0 { Vec::new() } else { vec![driver] };
        object["spec"] = json!({ "drivers": drivers });
        object
    }
}
