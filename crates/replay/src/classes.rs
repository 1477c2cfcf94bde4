//! What nodes are alike: those of a group, or of one type of instance.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::NodeGroup;
use model::Object;
use serde::Deserialize;
use simulation::made_for;

/// Tells what nodes are alike.
#[derive(Clone, Debug, Default)]
pub struct Classes {
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

// === impl Classes ===

impl Classes {
    /// By these groups.
    pub fn new(groups: Vec<NodeGroup>) -> Classes {
        Classes { groups }
    }

    /// The group that a node belongs to: the first that has it.
    pub fn group_of(&self, node: &Object) -> Option<&Arc<str>> {
        if self.groups.is_empty() {
            return None;
        }
        self.group(&node.meta().name, &node.view().unwrap_or_default())
    }

    /// What a node is like: its group, else its type; one that has neither is like no other.
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
            .map_or(&*name, |it| it)
            .into()
    }

    fn group(&self, name: &str, node: &NodeJson) -> Option<&Arc<str>> {
        fn value<'n>(fields: &'n Option<BTreeMap<String, String>>, key: &str) -> Option<&'n str> {
            fields.as_ref()?.get(key).map(String::as_str)
        }
        let NodeJson { metadata, spec } = node;
        let provider_id = spec.provider_id.as_deref().unwrap_or_default();
        let is_of = |group: &&NodeGroup| {
            let label = |key: &str| value(&metadata.labels, key);
            let annotation = |key: &str| value(&metadata.annotations, key);
            group.members.has(name, provider_id, label, annotation)
        };
        // A group of which no node was recorded is known by no mark but that of the cloud that makes them.
        let is_made_for = |group: &&NodeGroup| made_for(provider_id) == Some(&*group.name);
        let group = self.groups.iter().find(is_of).or_else(|| self.groups.iter().find(is_made_for));
        group.map(|group| &group.name)
    }
}
