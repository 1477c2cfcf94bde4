//! The cloud provider interface: node groups, their target sizes and instances.

mod observed;

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::read::nullable;
use model::{Moment, Object};
use serde::Deserialize;

use super::groups::{Membership, NodeGroup, PodPricing};
use super::node::Node;

pub use observed::ObservedCloud;

/// A group by its index in the cloud provider's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A cloud provider with node groups. The list of groups never changes; their sizes do.
pub trait CloudProvider {
    /// The node groups, in its order.
    fn groups(&self) -> &[NodeGroup];

    /// The group of a node.
    fn group_for_node(&self, node: &ProviderNodeRef<'_>) -> Option<GroupId>;

    /// The target size of a group.
    fn target_size(&self, group: GroupId) -> i64;

    /// The instances of a group, registered as nodes or not.
    fn instances(&self, group: GroupId) -> Arc<[Instance]>;

    /// Whether the instance of a node still exists; `None` if the provider does not implement this.
    fn has_instance(&self, node: &ProviderNodeRef<'_>) -> Option<bool>;

    /// Whether [`has_instance`](CloudProvider::has_instance) gives the same answer until the node changes.
    fn has_instance_until_node_changes(&self) -> bool {
        false
    }

    /// Increases the target size of a group.
    fn increase_size(&mut self, now: Moment, group: GroupId, by: i64) -> Result<(), CloudProviderError>;

    /// Deletes instances by ID, and decreases the target size of the group by their number.
    fn delete_nodes(
        &mut self,
        now: Moment,
        group: GroupId,
        instances: &[Arc<str>],
    ) -> Result<(), CloudProviderError>;

    /// Decreases the target size of a group by instances that do not exist yet.
    fn decrease_target_size(
        &mut self,
        now: Moment,
        group: GroupId,
        delta: i64,
    ) -> Result<(), CloudProviderError>;

    /// The prices of pods, if known.
    fn pricing(&self) -> Option<&PodPricing>;

    /// The label with the GPU type of a node; empty if there is none.
    fn gpu_label(&self) -> &str;
}

/// The fields of a node that cloud providers use, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct ProviderNodeRef<'a> {
    name: &'a str,
    provider_id: &'a str,
    labels: &'a Labels,
    annotations: &'a Labels,
}

/// The fields of a node that cloud providers use, read from its object.
#[derive(Clone, Debug)]
pub struct ProviderNode {
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

/// An instance of a cloud provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Its ID: the `providerID` of its node.
    pub id: Arc<str>,
    /// Its state.
    pub state: InstanceState,
}

/// The state of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// It runs.
    Running,
    /// It is being created.
    Creating,
    /// Its creation failed.
    Failed(CreationError),
    /// It is being deleted.
    Deleting,
}

/// The error of a failed creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreationError {
    /// Whether its class is `OutOfResources`, not `Other`.
    pub out_of_resources: bool,
    /// `STOCKOUT`, for example.
    pub code: Arc<str>,
    /// The cloud provider's message.
    pub message: Arc<str>,
}

/// The error message of a refused request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CloudProviderError(pub String);

// === impl ProviderNodeRef ===

impl<'a> ProviderNodeRef<'a> {
    pub(crate) fn of(node: &'a Node) -> ProviderNodeRef<'a> {
        let Node { name, provider_id, labels, annotations, .. } = node;
        ProviderNodeRef { name, provider_id, labels, annotations }
    }

    /// Its name.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// Its `providerID`; may be empty.
    pub fn provider_id(&self) -> &'a str {
        self.provider_id
    }

    /// Its instance ID: the `providerID`, or the node's name without one.
    pub fn instance_id(&self) -> &'a str {
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

    /// Whether a group's membership rule matches it.
    pub fn is_member(&self, members: &Membership) -> bool {
        members.matches_node(
            self.name(),
            self.provider_id(),
            |key| self.label(key),
            |key| self.annotation(key),
        )
    }
}

// === impl ProviderNode ===

impl ProviderNode {
    /// Reads an object; of one that cannot be parsed, only the name.
    pub fn read(node: &Object) -> ProviderNode {
        ProviderNode { name: node.meta().name.as_ref().into(), json: node.view().unwrap_or_default() }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Its instance ID: the `providerID`, or the node's name without one.
    pub fn instance_id(&self) -> &Arc<str> {
        let provider_id = &self.json.spec.provider_id;
        if provider_id.is_empty() { &self.name } else { provider_id }
    }

    /// The same, borrowed, as argument for a cloud provider.
    pub fn node_ref(&self) -> ProviderNodeRef<'_> {
        let (metadata, provider_id) = (&self.json.metadata, &self.json.spec.provider_id);
        ProviderNodeRef {
            name: &self.name,
            provider_id,
            labels: &metadata.labels,
            annotations: &metadata.annotations,
        }
    }
}

// === impl GroupId ===

impl GroupId {
    /// Its index in the cloud provider's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
