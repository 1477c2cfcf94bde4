//! Classes of nodes: node groups, or else instance types.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::NodeGroup;
use model::Object;
use serde::Deserialize;
use simulation::group_of_provider_id;

/// Assigns nodes to classes.
#[derive(Clone, Debug, Default)]
pub struct NodeClasses {
    groups: Vec<NodeGroup>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeJson {
    metadata: MetadataJson,
    spec: SpecJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct MetadataJson {
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecJson {
    #[serde(rename = "providerID")]
    provider_id: Option<String>,
}

const INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";

// === impl NodeClasses ===

impl NodeClasses {
    /// Classes by these groups.
    pub fn new(groups: Vec<NodeGroup>) -> NodeClasses {
        NodeClasses { groups }
    }

    /// Returns the first group that has a node.
    pub fn group_of(&self, node: &Object) -> Option<&Arc<str>> {
        if self.groups.is_empty() {
            return None;
        }
        self.group(&node.meta().name, &node.view().unwrap_or_default())
    }

    /// Returns the class of a node: its group, else its instance type, else its own name.
    pub fn class_of(&self, node: &Object) -> Arc<str> {
        let name = node.meta().name;
        let json: NodeJson = node.view().unwrap_or_default();
        if let Some(group) = self.group(&name, &json) {
            return group.clone();
        }
        json.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(INSTANCE_TYPE))
            .map_or(&*name, |instance_type| instance_type)
            .into()
    }

    fn group(&self, name: &str, node: &NodeJson) -> Option<&Arc<str>> {
        fn value<'n>(fields: &'n Option<BTreeMap<String, String>>, key: &str) -> Option<&'n str> {
            fields.as_ref()?.get(key).map(String::as_str)
        }
        let NodeJson { metadata, spec } = node;
        let provider_id = spec.provider_id.as_deref().unwrap_or_default();
        let is_member = |group: &&NodeGroup| {
            let label = |key: &str| value(&metadata.labels, key);
            let annotation = |key: &str| value(&metadata.annotations, key);
            group.members.matches_node(name, provider_id, label, annotation)
        };
        // A group without recorded nodes is only recognizable by the provider ID that the simulated cloud gives its
        // nodes.
        let is_named_in_provider_id =
            |group: &&NodeGroup| group_of_provider_id(provider_id) == Some(&*group.name);
        let group =
            self.groups.iter().find(is_member).or_else(|| self.groups.iter().find(is_named_in_provider_id));
        group.map(|group| &group.name)
    }
}
