//! The little that every loop wants to know of every node, kept until the node changes.

use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::candidate::Candidate;
use super::eligibility::eligibility;
use super::groups::Groups;
use super::marks::is_taken_for_going;
use super::summaries::Summaries;

/// Glances at nodes.
#[derive(Debug, Default)]
pub(super) struct Glances {
    /// By number.
    nodes: Vec<Option<Glance>>,
}

/// As much of a node as every loop wants to know of it, so small that many are at hand at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Glance {
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

impl Glances {
    /// The most important of a node as it is in the snapshot now.
    pub(super) fn get(
        &mut self,
        summaries: &mut Summaries,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        id: NodeId,
    ) -> Glance {
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
        let glance = look_closer(summaries, context, groups, id, generation);
        self.nodes[id.index()] = Some(glance);
        glance
    }
}

fn look_closer(
    summaries: &mut Summaries,
    context: &mut AutoscalingContext<'_>,
    groups: &Groups,
    id: NodeId,
    generation: u64,
) -> Glance {
    let mut glance =
        Glance { generation, until: Moment::MAX, group: None, empty: false, waits: false, eligible: false };
    let Some(standing) = context.standing(id) else { return glance };
    let Some(group) = standing.group else { return glance };
    glance.group = Some(group);
    let summary = summaries.get(context, id, groups.get(group).ignored);
    (glance.empty, glance.waits) = (summary.empty, summary.waits);
    let (reason, _) = eligibility(context, groups, summaries, Candidate { node: id, group });
    glance.eligible = reason.is_none();
    let going_until = summary.marked.and_then(|marked| is_taken_for_going(marked, context.clock));
    glance.until = going_until.map_or(summary.until, |until| until.min(summary.until));
    glance
}
