//! The facts about every node that a loop needs, computed once for each change of the node.

use std::sync::Arc;

use kubernetes::well_known::{DELETION_CANDIDATE, TO_BE_DELETED};
use model::Moment;
use scheduler::ids::NodeId;
use scheduler::node::Node;

use super::SUSPENDED_CONDITION;
use super::cloud::{CloudProvider, GroupId};
use super::readiness::Readiness;
use super::settings::Settings;

/// The facts about a node that depend on the node alone.
#[derive(Clone, Debug)]
pub(crate) struct NodeEligibility {
    /// The node that this describes: during a loop another node may get its ID.
    pub node: Arc<Node>,
    pub readiness: Readiness,
    /// Its node group.
    pub group: Option<GroupId>,
    pub created: Moment,
    /// Whether the cloud provider has its instance, as of the node's last change.
    pub has_instance: Option<bool>,
    pub unschedulable: bool,
    /// It has the `ToBeDeleted` taint.
    pub is_being_deleted: bool,
    /// It has the `DeletionCandidate` taint.
    pub is_deletion_candidate: bool,
    /// It has the condition `Suspended`.
    pub is_suspended: bool,
    /// It is a virtual-kubelet node, which does not count for cluster-wide quotas.
    pub is_virtual_kubelet: bool,
}

/// The entries of all nodes, by node ID.
#[derive(Debug, Default)]
pub(crate) struct NodeEligibilities {
    nodes: Vec<Option<NodeEligibility>>,
    /// The number of nodes that are ready and schedulable.
    pub ready_and_schedulable_count: usize,
    /// The number of nodes of groups with the `DeletionCandidate` taint.
    pub soft_tainted_count: usize,
    /// Increases with every update.
    pub revision: u64,
}

// === impl NodeEligibility ===

impl NodeEligibility {
    pub(crate) fn of(node: &Arc<Node>, settings: &Settings, cloud: &dyn CloudProvider) -> NodeEligibility {
        NodeEligibility {
            node: node.clone(),
            readiness: Readiness::of(node, settings, cloud.gpu_label()),
            group: cloud.group_for_node(node),
            created: node.creation_timestamp.unwrap_or_default(),
            has_instance: cloud.has_instance(node),
            unschedulable: node.unschedulable,
            is_being_deleted: node.taint(TO_BE_DELETED).is_some(),
            is_deletion_candidate: node.taint(DELETION_CANDIDATE).is_some(),
            is_suspended: node
                .condition(SUSPENDED_CONDITION)
                .is_some_and(|condition| &*condition.status == "True"),
            is_virtual_kubelet: is_virtual_kubelet(node),
        }
    }

    /// Whether it is a node of a group with the `DeletionCandidate` taint and without the `ToBeDeleted` taint.
    pub(crate) fn is_soft_tainted(&self) -> bool {
        self.is_deletion_candidate && self.is_soft_taintable()
    }

    /// Whether it is a node of a group without the `ToBeDeleted` taint.
    pub(crate) fn is_soft_taintable(&self) -> bool {
        self.group.is_some() && !self.is_being_deleted
    }

    /// Whether it is ready and not cordoned.
    pub(crate) fn is_ready_and_schedulable(&self) -> bool {
        self.readiness.ready && !self.unschedulable
    }
}

// === impl NodeEligibilities ===

impl NodeEligibilities {
    /// The entry of a node as of its last update.
    pub(crate) fn get(&self, id: NodeId) -> Option<&NodeEligibility> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// Updates the entry of a node; `None` if the node is deleted.
    pub(crate) fn set(&mut self, id: NodeId, eligibility: Option<NodeEligibility>) {
        self.revision += 1;
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, None);
        }
        let is_ready_and_schedulable = |eligibility: &Option<NodeEligibility>| {
            eligibility.as_ref().is_some_and(NodeEligibility::is_ready_and_schedulable)
        };
        let is_soft_tainted = |eligibility: &Option<NodeEligibility>| {
            eligibility.as_ref().is_some_and(NodeEligibility::is_soft_tainted)
        };
        self.ready_and_schedulable_count += usize::from(is_ready_and_schedulable(&eligibility));
        self.soft_tainted_count += usize::from(is_soft_tainted(&eligibility));
        let before = std::mem::replace(&mut self.nodes[id.index()], eligibility);
        self.ready_and_schedulable_count -= usize::from(is_ready_and_schedulable(&before));
        self.soft_tainted_count -= usize::from(is_soft_tainted(&before));
    }
    /// Removes all entries.
    #[cfg(test)]
    pub(crate) fn clear(&mut self) {
        *self = NodeEligibilities { revision: self.revision + 1, ..NodeEligibilities::default() };
    }
}

/// Whether a node is a virtual-kubelet node.
pub(crate) fn is_virtual_kubelet(node: &Node) -> bool {
    node.label("type") == Some("virtual-kubelet")
}
