//! The state of a pod in the cycle. Partial copies of jobs have copies of their own, and a copy that a statement
//! changes takes the place of the one in the job, as pointers do in the original.

use smallvec::SmallVec;

use super::gpu::{GpuRequirement, ReceivedType};
use super::ids::{GpuGroupId, NodeId, PodId, PodInfoId};
use super::resources::ResourceVector;
use super::status::PodStatus;

/// The state of a pod in the cycle.
#[derive(Clone, Debug)]
pub(crate) struct PodInfo {
    pub pod: PodId,
    pub status: PodStatus,
    pub node: AssignedNode,
    pub gpu_groups: GpuGroups,
    /// Whether the status was changed by a statement that is not committed.
    pub is_virtual_status: bool,
    pub received: ReceivedType,
    /// Set when the pod is added to a node.
    pub accepted: ResourceVector,
    pub accepted_gpu: GpuRequirement,
}

/// The groups whose GPUs a pod shares.
pub(crate) type GpuGroups = SmallVec<[GpuGroupId; 1]>;

/// The node of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum AssignedNode {
    /// It has none.
    None,
    /// A node of the snapshot.
    Node(NodeId),
    /// A node that is not in the snapshot, or belongs to another partition.
    Unknown,
}

/// The states of all pods, then those of copies.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodInfos {
    infos: Vec<PodInfo>,
    /// How many pods there are; the others are copies.
    pod_count: usize,
}

// === impl PodInfo ===

impl PodInfo {
    /// Whether a job may be given a node for it: in simulations also if it was evicted by the statement.
    pub(crate) fn should_allocate(&self, is_real: bool) -> bool {
        self.status == PodStatus::Pending
            || (!is_real && self.status == PodStatus::Releasing && self.is_virtual_status)
    }

    /// Whether it received shares of GPUs.
    pub(crate) fn is_shared_gpu_allocation(&self) -> bool {
        self.received == ReceivedType::Fraction
    }
}

// === impl AssignedNode ===

impl AssignedNode {
    pub(crate) fn known(self) -> Option<NodeId> {
        match self {
            AssignedNode::Node(node) => Some(node),
            AssignedNode::None | AssignedNode::Unknown => None,
        }
    }
}

// === impl PodInfos ===

impl PodInfos {
    /// Adds the state of the next pod of the snapshot.
    pub(crate) fn push_pod(&mut self, info: PodInfo) {
        self.infos.push(info);
        self.pod_count = self.infos.len();
    }

    /// The state of a pod before anything was copied.
    pub(crate) fn of_pod(pod: PodId) -> PodInfoId {
        PodInfoId(pod.0)
    }

    /// Copies a state.
    pub(crate) fn copy(&mut self, info: PodInfoId) -> PodInfoId {
        let copy = self[info].clone();
        self.infos.push(copy);
        PodInfoId::of(self.infos.len() - 1)
    }

    /// The copies, each with its pod.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (PodInfoId, PodId)> {
        let copies = self.infos.iter().enumerate().skip(self.pod_count);
        copies.map(|(index, info)| (PodInfoId::of(index), info.pod))
    }

    /// Moves a copy to the place of its pod.
    pub(crate) fn restore(&mut self, copy: PodInfoId) -> PodInfoId {
        let info = self[copy].clone();
        let place = PodInfos::of_pod(info.pod);
        self[place] = info;
        place
    }

    /// Drops all copies.
    pub(crate) fn drop_copies(&mut self) {
        self.infos.truncate(self.pod_count);
    }
}

impl std::ops::Index<PodInfoId> for PodInfos {
    type Output = PodInfo;

    fn index(&self, id: PodInfoId) -> &PodInfo {
        &self.infos[id.index()]
    }
}

impl std::ops::IndexMut<PodInfoId> for PodInfos {
    fn index_mut(&mut self, id: PodInfoId) -> &mut PodInfo {
        &mut self.infos[id.index()]
    }
}
