//! Scale-down candidates and their order, kept from loop to loop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::go;
use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::candidate::ScaleDownCandidate;
use super::groups::ScaleDownGroups;
use super::node_details::NodeDetailsCache;
use super::node_summary::NodeSummaryCache;

/// Nodes of groups above their minimum size, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub(super) struct ScaleDownCandidates {
    pub all: Vec<ScaleDownCandidate>,
    /// Those that are eligible by their summary.
    pub eligible: Vec<ScaleDownCandidate>,
    /// By node ID, whether pods may move to the node.
    pub destinations: Vec<bool>,
}

/// The order of candidates, kept from loop to loop because few nodes change in between.
#[derive(Debug, Default)]
pub(super) struct CandidateRanking {
    /// The inputs of the ranking.
    inputs: RankingInputs,
    /// The position of each node in the inputs, by node ID.
    positions: Vec<Option<usize>>,
    /// Each node's generation when it was ranked.
    generations: Vec<u64>,
    /// Until this moment the ranks are valid.
    valid_until: Option<Moment>,
    node_summaries: NodeSummaryCache,
    /// The rank of each node whose group is above its minimum size.
    ranked: Vec<Option<RankedCandidate>>,
    sorted: ScaleDownCandidates,
}

/// The inputs of the ranking: if any of them changes, all nodes are ranked again.
#[derive(Debug, Default, PartialEq)]
struct RankingInputs {
    nodes: Vec<NodeId>,
    /// Nodes that were unneeded in the last loop.
    previously_unneeded: BTreeSet<NodeId>,
    /// By group, whether it is above its minimum size.
    can_scale_down: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct RankedCandidate {
    rank: u8,
    candidate: ScaleDownCandidate,
    eligible: bool,
}

impl CandidateRanking {
    /// The candidates: empty nodes first, then those that were unneeded in the last loop.
    pub(super) fn candidates(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        summaries: &mut NodeDetailsCache,
        nodes: &[NodeId],
        previous: &BTreeSet<Arc<str>>,
    ) -> ScaleDownCandidates {
        let snapshot = &context.cluster.snapshot;
        let inputs = RankingInputs {
            nodes: nodes.to_vec(),
            previously_unneeded: previous.iter().filter_map(|name| snapshot.find_node(name)).collect(),
            can_scale_down: groups.ids().map(|id| groups.get(id).target > groups.get(id).min).collect(),
        };
        let changed_nodes = context.cluster.snapshot.filter_snapshot.take_generation_changes();
        let is_valid =
            self.valid_until.is_some_and(|until| !context.clock.is_past(until)) && self.inputs == inputs;
        if is_valid {
            if self.update_ranks(&changed_nodes, context, groups, summaries) {
                self.sort();
            }
        } else {
            self.reset(inputs);
            self.update_ranks(nodes, context, groups, summaries);
            self.sort();
        }
        let local = context.settings.scale_down_delay_type_local;
        let in_cooldown: Vec<bool> =
            groups.ids().map(|group| local && is_in_local_cooldown(context, group)).collect();
        let mut candidates = self.sorted.clone();
        for candidates in [&mut candidates.all, &mut candidates.eligible] {
            candidates.retain(|candidate| !in_cooldown[candidate.group.index()]);
        }
        candidates
    }

    /// Clears all ranks.
    fn reset(&mut self, inputs: RankingInputs) {
        let (nodes, end) = (inputs.nodes.len(), inputs.nodes.iter().map(|node| node.index() + 1).max());
        self.positions = vec![None; end.unwrap_or(0)];
        for (position, node) in inputs.nodes.iter().enumerate() {
            self.positions[node.index()] = Some(position);
        }
        self.sorted.destinations = self.positions.iter().map(Option::is_some).collect();
        (self.generations, self.ranked) = (vec![0; nodes], vec![None; nodes]);
        self.valid_until = Some(Moment::MAX);
        self.inputs = inputs;
    }

    /// Updates the ranks of those of these nodes that changed. Returns whether any rank changed.
    fn update_ranks(
        &mut self,
        nodes: &[NodeId],
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        summaries: &mut NodeDetailsCache,
    ) -> bool {
        let mut changed = false;
        for &node in nodes {
            let Some(position) = self.positions.get(node.index()).copied().flatten() else { continue };
            let generation = context.cluster.snapshot.filter_snapshot.generation(node);
            if self.generations[position] == generation {
                continue;
            }
            self.generations[position] = generation;
            let summary = self.node_summaries.get(summaries, context, groups, node);
            self.valid_until = self.valid_until.min(Some(summary.valid_until));
            let ranked =
                summary.group.filter(|group| self.inputs.can_scale_down[group.index()]).map(|group| {
                    let is_new = !self.inputs.previously_unneeded.contains(&node);
                    let rank = u8::from(!summary.is_empty) << 2
                        | u8::from(summary.has_on_completion_pods) << 1
                        | u8::from(is_new);
                    RankedCandidate {
                        rank,
                        candidate: ScaleDownCandidate { node, group },
                        eligible: summary.is_eligible,
                    }
                });
            changed |= std::mem::replace(&mut self.ranked[position], ranked) != ranked;
        }
        changed
    }

    fn sort(&mut self) {
        let mut ranked: Vec<RankedCandidate> = self.ranked.iter().flatten().copied().collect();
        // Go's sort determines the order of equal ranks.
        go::sort(&mut ranked, |a, b| a.rank < b.rank);
        let eligible = ranked.iter().filter(|ranked| ranked.eligible);
        self.sorted.eligible = eligible.map(|ranked| ranked.candidate).collect();
        self.sorted.all = ranked.iter().map(|ranked| ranked.candidate).collect();
    }
}

/// Whether a group is in its own cooldown (`--scale-down-delay-type-local`).
fn is_in_local_cooldown(context: &AutoscalingContext<'_>, group: GroupId) -> bool {
    let (settings, registry) = (context.settings, &*context.registry);
    let is_recent = |last: Option<&Moment>, delay: Duration| {
        last.is_some_and(|last| !context.clock.has_reached(after(*last, delay)))
    };
    is_recent(registry.last_scale_ups.get(&group), settings.scale_down_delay_after_add)
        || is_recent(registry.last_scale_downs.get(&group), settings.scale_down_delay_after_delete)
        || is_recent(registry.last_failed_scale_downs.get(&group), settings.scale_down_delay_after_failure)
}
