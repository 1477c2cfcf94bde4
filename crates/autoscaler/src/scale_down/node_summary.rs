//! Compact summaries of all nodes for the ranking of candidates, cached until the node changes.

use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::candidate::ScaleDownCandidate;
use super::eligibility::unremovable_reason_and_utilization;
use super::groups::ScaleDownGroups;
use super::node_cache::{Expiring, NodeCache};
use super::node_details::NodeDetailsCache;
use super::node_markers::being_deleted_until;

/// The cache of summaries.
#[derive(Debug, Default)]
pub(super) struct NodeSummaryCache(NodeCache<NodeSummary>);

/// The fields of a node that every loop reads, kept small for the CPU cache.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSummary {
    /// It is valid until this moment.
    pub valid_until: Moment,
    /// Without a group the other fields are not set.
    pub group: Option<GroupId>,
    pub is_empty: bool,
    pub has_on_completion_pods: bool,
    /// Whether it is eligible for the removal simulation.
    pub is_eligible: bool,
}

impl NodeSummaryCache {
    /// The summary of a node as it is in the snapshot now.
    pub(super) fn get(
        &mut self,
        summaries: &mut NodeDetailsCache,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        id: NodeId,
    ) -> NodeSummary {
        if let Some(cached) = self.0.get(context, id) {
            return *cached;
        }
        let summary = summarize(summaries, context, groups, id);
        self.0.insert(id, context.cluster.snapshot.filter_snapshot.generation(id), summary);
        summary
    }
}

impl Expiring for NodeSummary {
    fn valid_until(&self) -> Moment {
        self.valid_until
    }
}

fn summarize(
    summaries: &mut NodeDetailsCache,
    context: &mut AutoscalingContext<'_>,
    groups: &ScaleDownGroups,
    id: NodeId,
) -> NodeSummary {
    let mut node = NodeSummary {
        valid_until: Moment::MAX,
        group: None,
        is_empty: false,
        has_on_completion_pods: false,
        is_eligible: false,
    };
    let Some(eligibility) = context.node_eligibility(id) else { return node };
    let Some(group) = eligibility.group else { return node };
    node.group = Some(group);
    let summary = summaries.get(context, id, groups.get(group).ignored_pods);
    (node.is_empty, node.has_on_completion_pods) = (summary.is_empty, summary.has_on_completion_pods);
    let (reason, _) = unremovable_reason_and_utilization(
        context,
        groups,
        summaries,
        ScaleDownCandidate { node: id, group },
    );
    node.is_eligible = reason.is_none();
    let being_deleted_until =
        summary.to_be_deleted_since.and_then(|marked| being_deleted_until(marked, context.clock));
    node.valid_until =
        being_deleted_until.map_or(summary.valid_until, |until| until.min(summary.valid_until));
    node
}
