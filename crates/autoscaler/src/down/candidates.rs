//! Which nodes are looked at, and in which order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::go;
use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::candidate::Candidate;
use super::groups::Groups;
use super::node_summaries::NodeSummaries;
use super::summaries::Summaries;

/// Nodes of groups that may shrink, in the order in which they are tried.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidates {
    pub all: Vec<Candidate>,
    /// Those that a summary does not rule out.
    pub promising: Vec<Candidate>,
    /// Whether a node is one that pods may move to, by number.
    pub destinations: Vec<bool>,
}

/// The order of candidates, kept from loop to loop: mostly it is the same again, and few nodes have changed.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    /// What it was made of.
    ground: Ground,
    /// The place of each node in it, by number.
    places: Vec<Option<usize>>,
    /// Each node's generation when it was looked at.
    generations: Vec<u64>,
    /// Up to this moment what was seen of the nodes holds.
    until: Option<Moment>,
    node_summaries: NodeSummaries,
    /// What each of the nodes is worth, if its group may shrink.
    ranked: Vec<Option<Ranked>>,
    sorted: Candidates,
}

/// If any of this is other than it was, all nodes are ranked anew.
#[derive(Debug, Default, PartialEq)]
struct Ground {
    nodes: Vec<NodeId>,
    /// Those that were unneeded already.
    known: BTreeSet<NodeId>,
    /// Groups that may shrink.
    shrinks: Vec<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranked {
    rank: u8,
    candidate: Candidate,
    promising: bool,
}

impl Ranking {
    /// Empty nodes first, then those that were unneeded already.
    pub(super) fn candidates(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        summaries: &mut Summaries,
        nodes: &[NodeId],
        previous: &BTreeSet<Arc<str>>,
    ) -> Candidates {
        let snapshot = &context.cluster.snapshot;
        let ground = Ground {
            nodes: nodes.to_vec(),
            known: previous.iter().filter_map(|name| snapshot.find(name)).collect(),
            shrinks: groups.ids().map(|id| groups.get(id).target > groups.get(id).min).collect(),
        };
        let touched = context.cluster.snapshot.trial.take_touched();
        let holds = self.until.is_some_and(|until| !context.clock.is_past(until)) && self.ground == ground;
        if holds {
            if self.look_at(&touched, context, groups, summaries) {
                self.sort();
            }
        } else {
            self.begin(ground);
            self.look_at(nodes, context, groups, summaries);
            self.sort();
        }
        let local = context.settings.scale_down_delay_type_local;
        let resting: Vec<bool> = groups.ids().map(|group| local && is_resting(context, group)).collect();
        let mut candidates = self.sorted.clone();
        for candidates in [&mut candidates.all, &mut candidates.promising] {
            candidates.retain(|candidate| !resting[candidate.group.index()]);
        }
        candidates
    }

    /// Forgets all nodes that were looked at.
    fn begin(&mut self, ground: Ground) {
        let (nodes, end) = (ground.nodes.len(), ground.nodes.iter().map(|node| node.index() + 1).max());
        self.places = vec![None; end.unwrap_or(0)];
        for (place, node) in ground.nodes.iter().enumerate() {
            self.places[node.index()] = Some(place);
        }
        self.sorted.destinations = self.places.iter().map(Option::is_some).collect();
        (self.generations, self.ranked) = (vec![0; nodes], vec![None; nodes]);
        self.until = Some(Moment::MAX);
        self.ground = ground;
    }

    /// Looks at those of these nodes that changed. Says whether one of them is worth something else than before.
    fn look_at(
        &mut self,
        nodes: &[NodeId],
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        summaries: &mut Summaries,
    ) -> bool {
        let mut is_other = false;
        for &node in nodes {
            let Some(place) = self.places.get(node.index()).copied().flatten() else { continue };
            let generation = context.cluster.snapshot.trial.generation(node);
            if self.generations[place] == generation {
                continue;
            }
            self.generations[place] = generation;
            let summary = self.node_summaries.get(summaries, context, groups, node);
            self.until = self.until.min(Some(summary.until));
            let ranked = summary.group.filter(|group| self.ground.shrinks[group.index()]).map(|group| {
                let is_new = !self.ground.known.contains(&node);
                let rank = u8::from(!summary.empty) << 2 | u8::from(summary.waits) << 1 | u8::from(is_new);
                Ranked { rank, candidate: Candidate { node, group }, promising: summary.eligible }
            });
            is_other |= std::mem::replace(&mut self.ranked[place], ranked) != ranked;
        }
        is_other
    }

    fn sort(&mut self) {
        let mut ranked: Vec<Ranked> = self.ranked.iter().flatten().copied().collect();
        // Go's sort decides among equals when there are many.
        go::sort(&mut ranked, |a, b| a.rank < b.rank);
        let promising = ranked.iter().filter(|ranked| ranked.promising);
        self.sorted.promising = promising.map(|ranked| ranked.candidate).collect();
        self.sorted.all = ranked.iter().map(|ranked| ranked.candidate).collect();
    }
}

/// Whether a group grew, shrank or failed to a short while ago.
fn is_resting(context: &AutoscalingContext<'_>, group: GroupId) -> bool {
    let (settings, registry) = (context.settings, &*context.registry);
    let recent = |last: Option<&Moment>, delay: Duration| {
        last.is_some_and(|last| !context.clock.has_come(after(*last, delay)))
    };
    recent(registry.scale_ups.get(&group), settings.scale_down_delay_after_add)
        || recent(registry.scale_downs.get(&group), settings.scale_down_delay_after_delete)
        || recent(registry.failed_scale_downs.get(&group), settings.scale_down_delay_after_failure)
}
