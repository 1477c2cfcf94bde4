//! The report on scale-down candidates: their utilization, and why they are not removed.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::NamespacedName;
use scheduler::ids::NodeId;

use super::super::decision::{BlockingPodReason, UnremovableNode, UnremovableReason};
use super::super::snapshot::ClusterSnapshot;

/// The report of the last update.
#[derive(Debug, Default)]
pub(super) struct CandidateReport {
    /// All nodes, by name.
    order: Vec<NodeId>,
    /// By node ID.
    nodes: Vec<ReportedNode>,
}

#[derive(Debug, Default)]
struct ReportedNode {
    /// Kept from update to update.
    name: Arc<str>,
    utilization: Option<f64>,
    unremovable: Option<UnremovableReason>,
    blocking_pod: Option<(NamespacedName, BlockingPodReason)>,
}

impl CandidateReport {
    /// Begins a new report on these nodes, which are sorted by name.
    pub(super) fn begin(&mut self, nodes: &[NodeId]) {
        self.order.clear();
        self.order.extend_from_slice(nodes);
        for node in &mut self.nodes {
            (node.utilization, node.unremovable, node.blocking_pod) = (None, None, None);
        }
    }

    pub(super) fn set_utilization(&mut self, snapshot: &ClusterSnapshot, id: NodeId, utilization: f64) {
        self.node_mut(snapshot, id).utilization = Some(utilization);
    }

    /// Sets why a node is unremovable, instead of an earlier reason.
    pub(super) fn set_unremovable(
        &mut self,
        snapshot: &ClusterSnapshot,
        id: NodeId,
        reason: UnremovableReason,
        blocking_pod: Option<(NamespacedName, BlockingPodReason)>,
    ) {
        let node = self.node_mut(snapshot, id);
        (node.unremovable, node.blocking_pod) = (Some(reason), blocking_pod);
    }

    /// Unremovable nodes by name.
    pub(super) fn unremovable(&self) -> Vec<UnremovableNode> {
        let unremovable_node = |node: &ReportedNode| {
            let reason = node.unremovable?;
            let (node, blocking_pod) = (node.name.clone(), node.blocking_pod.clone());
            Some(UnremovableNode { node, reason, blocking_pod })
        };
        self.nodes_by_name().filter_map(unremovable_node).collect()
    }

    /// The utilization of nodes for which it was computed, by name.
    pub(super) fn utilization(&self) -> BTreeMap<Arc<str>, f64> {
        self.nodes_by_name().filter_map(|node| Some((node.name.clone(), node.utilization?))).collect()
    }

    fn nodes_by_name(&self) -> impl Iterator<Item = &ReportedNode> {
        self.order.iter().filter_map(|id| self.nodes.get(id.index()))
    }

    fn node_mut(&mut self, snapshot: &ClusterSnapshot, id: NodeId) -> &mut ReportedNode {
        if self.nodes.len() <= id.index() {
            self.nodes.resize_with(id.index() + 1, ReportedNode::default);
        }
        let (node, name) = (&mut self.nodes[id.index()], &snapshot.node(id).name);
        if !Arc::ptr_eq(&node.name, name) {
            node.name = name.clone();
        }
        node
    }
}
