//! Templates of nodes.

use std::net::Ipv4Addr;

use kubernetes::well_known;
use serde_json::{Value, json};

/// A template of nodes.
#[derive(Clone, Debug)]
pub struct NodeTemplate {
    node: Value,
    /// The prefix of the nodes' names.
    prefix: String,
}

/// A template that is not a Node.
#[derive(Debug, thiserror::Error)]
#[error("the node template is not a Node: expected kind Node, found {0}")]
pub struct NotANode(String);

/// The address of the first node; nodes that nobody gives an address have the one before it.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

impl NodeTemplate {
    /// A template from the manifest of a Node. The nodes are named after it: `NAME-0`, `NAME-1`.
    pub fn new(node: Value) -> Result<NodeTemplate, NotANode> {
        if node["kind"] != "Node" {
            return Err(NotANode(node["kind"].to_string()));
        }
        let name = node["metadata"]["name"].as_str().filter(|name| !name.is_empty()).unwrap_or("node");
        let prefix = name.to_owned();
        Ok(NodeTemplate { node, prefix })
    }

    /// The node of this number, with an address of its own.
    pub fn node(&self, index: usize) -> Value {
        let name = format!("{}-{index}", self.prefix);
        let mut node = self.node.clone();
        let metadata = &mut node["metadata"];
        metadata["name"] = name.as_str().into();
        for field in ["uid", "resourceVersion", "creationTimestamp"] {
            if let Some(metadata) = metadata.as_object_mut() {
                metadata.remove(field);
            }
        }
        for field in ["labels", "annotations"] {
            if !metadata[field].is_object() {
                metadata[field] = json!({});
            }
        }
        metadata["labels"][well_known::HOSTNAME] = name.as_str().into();
        // Programs that write to clusters of fake nodes only look for this annotation.
        metadata["annotations"][well_known::KWOK_NODE] = "fake".into();
        let address =
            Ipv4Addr::from(u32::from(FIRST_ADDRESS).wrapping_add(u32::try_from(index).unwrap_or(0)));
        node["status"]["addresses"] = json!([
            {"type": "InternalIP", "address": address.to_string()}, {"type": "Hostname", "address": name},
        ]);
        node
    }
}

impl Default for NodeTemplate {
    /// 32 CPUs, 256 GiB and 110 pods.
    fn default() -> NodeTemplate {
        let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "node", "labels": {"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
            "status": {"capacity": resources, "allocatable": resources},
        });
        NodeTemplate { node, prefix: "node".to_owned() }
    }
}
