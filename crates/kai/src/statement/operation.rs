//! The operations of a statement.

use std::sync::Arc;

use model::NamespacedName;

use crate::cluster::Cluster;
use crate::cluster::ids::{NodeId, PodId, PodInfoId};
use crate::cluster::pod_info::{AssignedNode, GpuGroups, PodInfo};
use crate::cluster::status::PodStatus;
use crate::settings::Action;

/// An operation of a statement.
#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// A pod is evicted.
    Evict { info: PodInfoId, pod: PodId, previous: PreviousState, node: NodeId, reason: Arc<EvictionReason> },
    /// A pod waits for a node's resources.
    Pipeline { info: PodInfoId, previous: PreviousState, node: NodeId },
    /// A pod is given a node. What is committed is the copy of its state.
    Allocate { info: PodInfoId, copy: PodInfoId, was_virtual_status: bool, node: NodeId },
    /// Another operation, by index, is undone.
    Undo { operation: usize },
}

/// The state of a pod before an operation.
#[derive(Clone, Debug)]
pub(super) struct PreviousState {
    pub status: PodStatus,
    pub node: AssignedNode,
    pub gpu_groups: GpuGroups,
    pub is_virtual_status: bool,
}

/// Why pods are evicted together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EvictionReason {
    pub action: Action,
    /// The pod group that needs their place.
    pub preemptor: NamespacedName,
    pub gang_size: usize,
    /// About both queues, if it is not within one.
    pub queue_details: Option<Arc<str>>,
}

impl PreviousState {
    pub(super) fn of(info: &PodInfo) -> PreviousState {
        PreviousState {
            status: info.status,
            node: info.node,
            gpu_groups: info.gpu_groups.clone(),
            is_virtual_status: info.is_virtual_status,
        }
    }
}

impl EvictionReason {
    /// The message about a pod.
    pub(super) fn message(&self, cluster: &Cluster, pod: PodId) -> String {
        let pod = cluster.pod(pod).full_name();
        let preemptor = format!("{}/{}", self.preemptor.namespace, self.preemptor.name);
        match self.action {
            Action::Consolidation => format!(
                "Pod {pod} was preempted and rescheduled due to bin packing (resource consolidation) procedure"
            ),
            Action::Reclaim => {
                let details = self.queue_details.as_deref().unwrap_or_default();
                format!("Pod {pod} was preempted by workload {preemptor}.\n{details}")
            }
            Action::Preempt | Action::Allocate | Action::StaleGangEviction => {
                format!("Pod {pod} was preempted by higher priority workload {preemptor}")
            }
        }
    }
}
