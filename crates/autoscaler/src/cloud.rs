//! The cloud provider interface: node groups, their target sizes and instances.

mod observed;

use std::sync::Arc;

use kubernetes::objects::NodeView;
use model::Moment;

use super::groups::{NodeGroup, PodPricing};

pub use observed::ObservedCloud;

/// A group by its index in the cloud provider's list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupId(pub u32);

/// A cloud provider with node groups. The list of groups never changes; their sizes do.
pub trait CloudProvider {
    /// The node groups, in its order.
    fn groups(&self) -> &[NodeGroup];

    /// The group of a node.
    fn group_for_node(&self, node: &NodeView) -> Option<GroupId>;

    /// The target size of a group.
    fn target_size(&self, group: GroupId) -> i64;

    /// The instances of a group, registered as nodes or not.
    fn instances(&self, group: GroupId) -> Arc<[Instance]>;

    /// Whether the instance of a node still exists; `None` if the provider does not implement this.
    fn has_instance(&self, node: &NodeView) -> Option<bool>;

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

// === impl GroupId ===

impl GroupId {
    /// Its index in the cloud provider's list.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
