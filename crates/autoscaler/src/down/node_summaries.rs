//! The facts about a node that every loop asks for, cached until the node changes.

use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::candidate::Candidate;
use super::eligibility::eligibility;
use super::groups::Groups;
use super::marks::is_taken_for_going;
use super::summaries::Summaries;

/// What every loop asks of every node.
#[derive(Debug, Default)]
pub(super) struct NodeSummaries {
    /// By number.
    nodes: Vec<Option<NodeSummary>>,
}

/// As much of a node as every loop wants to know of it, so small that many are at hand at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeSummary {
    /// It holds for this generation of the node,
    generation: u64,
    /// and up to this moment.
    pub until: Moment,
    /// Without one nothing else is known.
    pub group: Option<GroupId>,
    pub empty: bool,
    pub waits: bool,
    /// It is worth a closer look.
    pub eligible: bool,
}

impl NodeSummaries {
    /// The most important of a node as it is in the snapshot now.
    pub(super) fn get(
        &mut self,
        summaries: &mut Summaries,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        id: NodeId,
    ) -> NodeSummary {
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, None);
        }
        let generation = context.cluster.snapshot.trial.generation(id);
        if let Some(known) = self.nodes[id.index()]
            && known.generation == generation
            && !context.clock.is_past(known.until)
        {
            return known;
        }
        let node = look_closer(summaries, context, groups, id, generation);
        self.nodes[id.index()] = Some(node);
        node
    }
}

fn look_closer(
    summaries: &mut Summaries,
    context: &mut AutoscalingContext<'_>,
    groups: &Groups,
    id: NodeId,
    generation: u64,
) -> NodeSummary {
    let mut node = NodeSummary {
        generation,
        until: Moment::MAX,
        group: None,
        empty: false,
        waits: false,
        eligible: false,
    };
    let Some(standing) = context.standing(id) else { return node };
    let Some(group) = standing.group else { return node };
    node.group = Some(group);
    let summary = summaries.get(context, id, groups.get(group).ignored);
    (node.empty, node.waits) = (summary.empty, summary.waits);
    let (reason, _) = eligibility(context, groups, summaries, Candidate { node: id, group });
    node.eligible = reason.is_none();
    let going_until = summary.marked.and_then(|marked| is_taken_for_going(marked, context.clock));
    node.until = going_until.map_or(summary.until, |until| until.min(summary.until));
    node
}
