//! Scale-down: which nodes may go, and their way out.

mod actuation;
mod candidate;
mod candidates;
mod crop;
mod disruptions;
mod drainability;
mod eligibility;
mod eviction;
mod groups;
mod marks;
mod node_summaries;
mod planner;
mod quotas;
mod removal;
mod summaries;
mod taints;
mod unneeded;
mod utilization;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::clock::Clock;
use super::cloud::GroupId;
use super::decision::{About, Event, RemovedNode, ScaleDown, ScaleDownResult};
use super::settings::{Settings, Version};
use super::{AutoscalingContext, CANDIDATE};
use actuation::Actuator;
use candidate::Candidate;
use candidates::Ranking;
use crop::{AtomicSize, Batch, Budget};
use groups::{Groups, registered};
use planner::Planner;

pub(crate) use taints::clean_up;

/// What is known of nodes that might go, and of those on their way out.
#[derive(Debug)]
pub(crate) struct Down {
    planner: Planner,
    ranking: Ranking,
    actuator: Actuator,
    /// What was unneeded when nodes were last looked at, whatever was forgotten since.
    previous: BTreeSet<Arc<str>>,
    /// When the autoscaler began; until nodes are first looked at, marks of an earlier one count.
    begun: Option<Moment>,
}

/// Nodes on their way out.
#[derive(Clone, Debug, Default)]
pub(crate) struct InProgress {
    pub empty: BTreeSet<Arc<str>>,
    pub drained: BTreeSet<Arc<str>>,
    pub by_group: BTreeMap<GroupId, i64>,
}

// === impl Down ===

impl Down {
    pub(crate) fn new(settings: &Settings, start: Moment) -> Down {
        Down {
            planner: Planner::new(settings),
            ranking: Ranking::default(),
            actuator: Actuator::default(),
            previous: BTreeSet::new(),
            begun: Some(start),
        }
    }

    /// Loops tell nothing of nodes that stay.
    pub(crate) fn be_brief(&mut self) {
        self.planner.brief = true;
    }

    /// Nodes on their way out now.
    pub(crate) fn status(&self) -> InProgress {
        self.actuator.in_progress()
    }

    /// Nothing is unneeded any more.
    pub(crate) fn forget_unneeded(&mut self, clock: &Clock) {
        if self.planner.unneeded.len() > 0 || self.begun.is_some() {
            clock.disturb();
        }
        self.planner.unneeded.clear();
        self.begun = None;
    }

    /// Looks which nodes could go, and lets go those that may. `nodes` are those that are registered and not still
    /// to come.
    pub(crate) fn scale_down(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        nodes: &[NodeId],
        in_progress: &InProgress,
        in_cooldown: bool,
    ) -> (ScaleDownResult, Vec<RemovedNode>) {
        if let Some(begun) = self.begun.take() {
            context.clock.disturb();
            self.remember_marks(context, nodes, begun);
        }
        let groups = Groups::of(context);
        let summaries = &mut self.planner.summaries;
        let candidates = self.ranking.candidates(context, &groups, summaries, nodes, &self.previous);
        self.planner.look(context, &groups, &candidates, in_progress);
        if !self.planner.unneeded.iter().map(|(name, _)| name).eq(&self.previous) {
            context.clock.disturb();
            self.previous = self.planner.unneeded.iter().map(|(name, _)| name.clone()).collect();
        }
        let outcome = if in_cooldown {
            (ScaleDownResult::InCooldown, Vec::new())
        } else if candidates.all.is_empty() {
            (ScaleDownResult::NoCandidates, Vec::new())
        } else {
            let (empty, drained) = self.planner.choose(context, &groups, in_progress);
            self.start(context, &groups, &empty, &drained)
        };
        taints::mark_candidates(context, nodes, &self.planner.unneeded);
        outcome
    }

    /// Nodes that an earlier autoscaler marked as unneeded not too long ago are so since then.
    fn remember_marks(&mut self, context: &mut AutoscalingContext<'_>, nodes: &[NodeId], begun: Moment) {
        let ttl = context.settings.node_deletion_candidate_ttl;
        if ttl.is_zero() {
            return;
        }
        for id in nodes {
            let node = context.cluster.snapshot.node(*id).clone();
            let Some(marked) = marks::marked_at(&node, CANDIDATE) else { continue };
            if let Some(group) = context.cluster.group_of(*id, &*context.cloud)
                && after(marked, ttl) >= begun
            {
                self.planner.unneeded.remember(node.name.clone(), Candidate { node: *id, group }, marked);
            }
        }
    }

    /// Lets nodes go, as many as may at once.
    fn start(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        empty: &[Candidate],
        drained: &[Candidate],
    ) -> (ScaleDownResult, Vec<RemovedNode>) {
        self.actuator.forget_failures();
        let settings = context.settings;
        let now_going = self.actuator.in_progress();
        let draining = now_going.drained.len() as i64;
        let budget = Budget {
            all: settings.max_scale_down_parallelism.saturating_sub(now_going.empty.len() as i64 + draining),
            drained: settings.max_drain_parallelism.saturating_sub(draining),
            empty: if settings.version <= Version::V1_32 { settings.max_empty_bulk_delete } else { i64::MAX },
        };
        let atomic = |group: GroupId| {
            groups.get(group).atomic.then(|| AtomicSize {
                target: groups.get(group).target,
                registered: registered(&context.cluster.snapshot, &*context.cloud, group),
            })
        };
        let (empty, drained) = crop::crop(budget, empty, drained, atomic);
        if empty.is_empty() && drained.is_empty() {
            return (ScaleDownResult::NoNodeDeleted, Vec::new());
        }
        let mut removed = Vec::new();
        for (batches, drain) in [(empty, false), (drained, true)] {
            for id in batches.iter().flat_map(|batch| &batch.nodes) {
                taints::mark(context, *id);
            }
            removed.extend(self.report_start(context, groups, &batches, drain));
            self.actuator.start(context, groups, &batches, drain);
        }
        context.registry.recalculate(&*context.cloud);
        (ScaleDownResult::NodeDeleteStarted, removed)
    }

    /// Tells users which nodes go.
    fn report_start(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        batches: &[Batch],
        drain: bool,
    ) -> Vec<RemovedNode> {
        let mut removed = Vec::new();
        for (group, id) in batches.iter().flat_map(|batch| batch.nodes.iter().map(|id| (batch.group, *id))) {
            let ignored = groups.get(group).ignored;
            let utilization = self.planner.summaries.get(context, id, ignored).utilization;
            let snapshot = &context.cluster.snapshot;
            let node = snapshot.node(id).name.clone();
            let pods = snapshot.pods_on(id).into_iter().map(|pod| snapshot.pod(pod));
            let leaving = pods.filter(|pod| drain && !pod.is_mirror() && !pod.is_of_daemon_set());
            let leaving: Vec<_> = leaving.map(|pod| pod.name.clone()).collect();
            let (reason, message) = match (drain, utilization) {
                (true, Some(utilization)) => {
                    let names: Vec<&str> = leaving.iter().map(|pod| &*pod.name).collect();
                    let names = names.join(",");
                    (
                        "ScaleDown",
                        format!(
                            "Scale-down: removing node {node}, utilization: {utilization}, pods to reschedule: {names}"
                        ),
                    )
                }
                (true, None) => continue,
                (false, _) => ("ScaleDownEmpty", format!("Scale-down: removing empty node \"{node}\"")),
            };
            context.events.push(Event { about: About::Status, warning: false, reason, message });
            if let Some(utilization) = utilization {
                removed.push(RemovedNode { node, drain: leaving, utilization: utilization.highest });
            }
        }
        removed
    }

    /// What the search came to. Removals that ended are told once.
    pub(crate) fn report(&mut self, result: ScaleDownResult, nodes: Vec<RemovedNode>) -> ScaleDown {
        ScaleDown {
            result,
            nodes,
            unneeded: self.planner.unneeded.iter().map(|(name, since)| (name.clone(), since)).collect(),
            unremovable: self.planner.unremovable.values().cloned().collect(),
            utilization: self.planner.utilization.iter().cloned().collect(),
            delete_results: self.actuator.take_results(),
        }
    }

    /// Goes on with nodes on their way out. To be called again at the same moment until it wants nothing done.
    pub(crate) fn background(&mut self, context: &mut AutoscalingContext<'_>) {
        let actions = self.actuator.background(context);
        context.actions.extend(actions);
    }

    /// These nodes stay after all, as if nobody had begun to remove them.
    pub(crate) fn let_stay<'a>(&mut self, nodes: impl Iterator<Item = &'a Arc<str>>) {
        nodes.for_each(|node| self.actuator.forget(node));
    }

    /// How many nodes of each group could go.
    pub(crate) fn unneeded_by_group(&self) -> BTreeMap<GroupId, i64> {
        let mut counts = BTreeMap::new();
        for group in self.planner.unneeded.groups() {
            *counts.entry(group).or_default() += 1;
        }
        counts
    }

    /// Whether a loop at that moment, when nothing else is new, would look at nodes as the last one did: none is on its way
    /// out, and as many are looked at.
    pub(crate) fn is_at_rest(&self, now: Moment) -> bool {
        self.actuator.is_idle() && self.planner.keeps_pace(now)
    }

    /// A loop at that moment would have come to what the last one came to.
    pub(crate) fn looked_again(&mut self, last: Moment, now: Moment) {
        self.planner.looked_again(last, now);
    }

    /// When there is something to do in the background.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        self.actuator.next_wake()
    }
}

// === impl InProgress ===

impl InProgress {
    pub(crate) fn contains(&self, node: &str) -> bool {
        self.empty.contains(node) || self.drained.contains(node)
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.empty.iter().chain(&self.drained)
    }

    /// How many nodes of a group.
    pub(crate) fn count(&self, group: GroupId) -> i64 {
        self.by_group.get(&group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
