//! The cloud that an autoscaler asks for nodes.

mod observed;

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::read::nullable;
use model::{Moment, Object};
use serde::Deserialize;

use super::groups::{Membership, NodeGroup, Pricing};
use super::node::Node;

pub use observed::ObservedCloud;

/// A group by its place in the cloud's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A cloud with node groups. The groups are the same all the time; their sizes are not.
pub trait Cloud {
    /// Its groups, in its order.
    fn groups(&self) -> &[NodeGroup];

    /// The group a node belongs to.
    fn group_of(&self, node: &Registered<'_>) -> Option<GroupId>;

    /// How many nodes a group is to have.
    fn target(&self, group: GroupId) -> i64;

    /// The instances of a group, registered as nodes or not.
    fn instances(&self, group: GroupId) -> Arc<[Instance]>;

    /// Whether the instance of a node still exists; `None` from a cloud that cannot tell.
    fn has_instance(&self, node: &Registered<'_>) -> Option<bool>;

    /// Makes a group larger.
    fn increase(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudError>;

    /// Removes instances, named by what the cloud calls them, and makes the group smaller by as many.
    fn delete(&mut self, now: Moment, group: GroupId, instances: &[Arc<str>]) -> Result<(), CloudError>;

    /// Makes a group smaller by instances that do not exist yet.
    fn decrease(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudError>;

    /// What pods cost, if prices are known.
    fn pricing(&self) -> Option<&Pricing>;

    /// The label that names the GPU of a node; empty if there is none.
    fn gpu_label(&self) -> &str;
}

/// A node of the cluster, as a cloud may want to know it.
#[derive(Clone, Copy, Debug)]
pub struct Registered<'a> {
    name: &'a str,
    provider_id: &'a str,
    labels: &'a Labels,
    annotations: &'a Labels,
}

/// What an object says of a node that a cloud may want to know.
#[derive(Clone, Debug)]
pub struct RegisteredNode {
    name: Arc<str>,
    json: NodeJson,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct NodeJson {
    #[serde(deserialize_with = "nullable")]
    metadata: MetadataJson,
    #[serde(deserialize_with = "nullable")]
    spec: SpecJson,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct MetadataJson {
    labels: Labels,
    annotations: Labels,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SpecJson {
    #[serde(rename = "providerID", deserialize_with = "nullable")]
    provider_id: Arc<str>,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// What the cloud calls it: the `providerID` of its node.
    pub id: Arc<str>,
    /// What it is doing.
    pub state: InstanceState,
}

/// What a machine is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It runs.
    Running,
    /// It is being made.
    Creating,
    /// It could not be made.
    Failed(CreationError),
    /// It is being removed.
    Deleting,
}

/// Why a machine could not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationError {
    /// Whether there were none to be had (`OutOfResources`), or anything else.
    pub out_of_resources: bool,
    /// `STOCKOUT`.
    pub code: Arc<str>,
    /// In the cloud's words.
    pub message: Arc<str>,
}

/// What a cloud refuses, in its words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CloudError(pub String);

// === impl Registered ===

impl<'a> Registered<'a> {
    pub(crate) fn of(node: &'a Node) -> Registered<'a> {
        let Node { name, provider_id, labels, annotations, .. } = node;
        Registered { name, provider_id, labels, annotations }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// What the cloud calls it.
    pub fn provider_id(&self) -> &'a str {
        self.provider_id
    }

    /// What the cloud calls it, or its own name where nothing tells.
    pub fn instance(&self) -> &'a str {
        if self.provider_id.is_empty() { self.name } else { self.provider_id }
    }

    /// The value of one of its labels.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.labels.get(key)
    }

    /// The value of one of its annotations.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key)
    }

    /// Whether it is one of these.
    pub fn is_of(&self, members: &Membership) -> bool {
        members.has(self.name(), self.provider_id(), |key| self.label(key), |key| self.annotation(key))
    }
}

// === impl RegisteredNode ===

impl RegisteredNode {
    /// What an object says; of one that makes no sense, its name alone.
    pub fn read(node: &Object) -> RegisteredNode {
        RegisteredNode { name: node.meta().name.as_ref().into(), json: node.view().unwrap_or_default() }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// What the cloud calls it; a node that says nothing of that goes by its own name.
    pub fn instance(&self) -> &Arc<str> {
        let provider_id = &self.json.spec.provider_id;
        if provider_id.is_empty() { &self.name } else { provider_id }
    }

    /// The same, to ask a cloud about.
    pub fn registered(&self) -> Registered<'_> {
        let (metadata, provider_id) = (&self.json.metadata, &self.json.spec.provider_id);
        Registered {
            name: &self.name,
            provider_id,
            labels: &metadata.labels,
            annotations: &metadata.annotations,
        }
    }
}

// === impl GroupId ===

impl GroupId {
    /// Its place in the cloud's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
