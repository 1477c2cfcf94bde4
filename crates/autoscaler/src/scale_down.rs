//! Scale-down: planning of unneeded nodes, and their drain and deletion.

mod actuation;
mod budgets;
mod candidate;
mod candidate_ranking;
mod candidate_report;
mod counted_removals;
mod drain_cache;
mod drainability;
mod eligibility;
mod explanation;
mod groups;
mod min_quotas;
mod node_cache;
mod node_details;
mod node_drain;
mod node_markers;
mod node_summary;
mod pdb_tracker;
mod planner;
mod removal;
mod taints;
mod unneeded;
mod utilization;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::time::after;
use kubernetes::well_known::DELETION_CANDIDATE;
use model::Moment;
use scheduler::ids::NodeId;

use super::AutoscalingContext;
use super::clock::LoopClock;
use super::cloud::GroupId;
use super::decision::{Event, InvolvedObject, RemovedNode, ScaleDownResult, ScaleDownStatus};
use super::settings::{Settings, Version};
use actuation::Actuator;
use budgets::{AtomicGroupSize, DeletionBudget, NodeBatch};
use candidate::ScaleDownCandidate;
use candidate_ranking::CandidateRanking;
use groups::{ScaleDownGroups, registered_count};
use planner::Planner;

pub(crate) use taints::clean_up;

/// The state of scale-down: unneeded nodes and deletions in progress.
#[derive(Debug)]
pub(crate) struct ScaleDownState {
    planner: Planner,
    candidate_ranking: CandidateRanking,
    actuator: Actuator,
    /// The nodes that were unneeded at the planner's last update, also if they were cleared since.
    previously_unneeded: BTreeSet<Arc<str>>,
    /// The autoscaler's start, until the planner's first update: until then taints of an earlier autoscaler count.
    started: Option<Moment>,
}

/// Deletions in progress.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeletionsInProgress {
    pub empty: BTreeSet<Arc<str>>,
    pub drained: BTreeSet<Arc<str>>,
    pub count_by_group: BTreeMap<GroupId, i64>,
}

// === impl ScaleDownState ===

impl ScaleDownState {
    pub(crate) fn new(settings: &Settings, start: Moment) -> ScaleDownState {
        ScaleDownState {
            planner: Planner::new(settings),
            candidate_ranking: CandidateRanking::default(),
            actuator: Actuator::default(),
            previously_unneeded: BTreeSet::new(),
            started: Some(start),
        }
    }

    /// Makes loops skip the report of unremovable nodes.
    pub(crate) fn skip_unremovable_report(&mut self) {
        self.planner.skips_unremovable_report = true;
    }

    /// The deletions in progress now.
    pub(crate) fn deletions_in_progress(&self) -> DeletionsInProgress {
        self.actuator.in_progress()
    }

    /// Clears the unneeded nodes.
    pub(crate) fn clear_unneeded(&mut self, clock: &LoopClock) {
        if self.planner.unneeded.len() > 0 || self.started.is_some() {
            clock.prevent_repeat();
        }
        self.planner.unneeded.clear();
        self.started = None;
    }

    /// Updates the unneeded nodes and, outside of cooldown, starts the deletion of those that may be removed. `nodes`
    /// are the registered nodes that have started.
    pub(crate) fn scale_down(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        nodes: &[NodeId],
        in_progress: &DeletionsInProgress,
        in_cooldown: bool,
    ) -> (ScaleDownResult, Vec<RemovedNode>) {
        if let Some(started_at) = self.started.take() {
            context.clock.prevent_repeat();
            self.load_from_existing_taints(context, nodes, started_at);
        }
        let groups = ScaleDownGroups::of(context);
        let summaries = &mut self.planner.node_details;
        let candidates =
            self.candidate_ranking.candidates(context, &groups, summaries, nodes, &self.previously_unneeded);
        self.planner.report.begin(nodes);
        self.planner.update_cluster_state(context, &groups, &candidates, in_progress);
        if !self.planner.unneeded.iter().map(|(name, _)| name).eq(&self.previously_unneeded) {
            context.clock.prevent_repeat();
            self.previously_unneeded = self.planner.unneeded.iter().map(|(name, _)| name.clone()).collect();
        }
        let outcome = if in_cooldown {
            (ScaleDownResult::InCooldown, Vec::new())
        } else if candidates.all.is_empty() {
            (ScaleDownResult::NoCandidates, Vec::new())
        } else {
            let (empty, drained) = self.planner.nodes_to_delete(context, &groups, in_progress);
            self.start_deletion(context, &groups, &empty, &drained)
        };
        taints::update_soft_deletion_taints(context, nodes, &self.planner.unneeded);
        outcome
    }

    /// Takes over unneeded nodes of an earlier autoscaler from their `DeletionCandidate` taints, if these are recent
    /// enough.
    fn load_from_existing_taints(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        nodes: &[NodeId],
        started_at: Moment,
    ) {
        let ttl = context.settings.node_deletion_candidate_ttl;
        if ttl.is_zero() {
            return;
        }
        for id in nodes {
            let node = context.cluster.snapshot.node(*id).clone();
            let Some(tainted_at) = node_markers::taint_time(&node, DELETION_CANDIDATE) else {
                continue;
            };
            if let Some(group) = context.cluster.group_for_node(*id, &*context.cloud)
                && after(tainted_at, ttl) >= started_at
            {
                self.planner.unneeded.insert_existing(
                    node.name.clone(),
                    ScaleDownCandidate { node: *id, group },
                    tainted_at,
                );
            }
        }
    }

    /// Starts deletions, as many as the budgets allow.
    fn start_deletion(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        empty: &[ScaleDownCandidate],
        drained: &[ScaleDownCandidate],
    ) -> (ScaleDownResult, Vec<RemovedNode>) {
        self.actuator.clear_failures();
        let settings = context.settings;
        let in_progress = self.actuator.in_progress();
        let draining = in_progress.drained.len() as i64;
        let budget = DeletionBudget {
            all: settings
                .max_scale_down_parallelism
                .saturating_sub(in_progress.empty.len() as i64 + draining),
            drained: settings.max_drain_parallelism.saturating_sub(draining),
            empty: if settings.version <= Version::V1_32 { settings.max_empty_bulk_delete } else { i64::MAX },
        };
        let atomic = |group: GroupId| {
            groups.get(group).atomic.then(|| AtomicGroupSize {
                target: groups.get(group).target,
                registered: registered_count(&context.cluster.snapshot, &*context.cloud, group),
            })
        };
        let (empty, drained) = budgets::crop_nodes(budget, empty, drained, atomic);
        if empty.is_empty() && drained.is_empty() {
            return (ScaleDownResult::NoNodeDeleted, Vec::new());
        }
        let mut removed = Vec::new();
        for (batches, drain) in [(empty, false), (drained, true)] {
            for id in batches.iter().flat_map(|batch| &batch.nodes) {
                taints::add_to_be_deleted_taint(context, *id);
            }
            removed.extend(self.report_deletion_start(context, groups, &batches, drain));
            self.actuator.start(context, groups, &batches, drain);
        }
        context.registry.recalculate(&*context.cloud);
        (ScaleDownResult::NodeDeleteStarted, removed)
    }

    /// Emits events for nodes whose deletion starts.
    fn report_deletion_start(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        batches: &[NodeBatch],
        drain: bool,
    ) -> Vec<RemovedNode> {
        let mut removed = Vec::new();
        for (group, id) in batches.iter().flat_map(|batch| batch.nodes.iter().map(|id| (batch.group, *id))) {
            let ignored = groups.get(group).ignored_pods;
            let utilization = self.planner.node_details.get(context, id, ignored).utilization;
            let snapshot = &context.cluster.snapshot;
            let node = snapshot.node(id).name.clone();
            let pods = snapshot.pods_on(id).into_iter().map(|pod| snapshot.pod(pod));
            let evicted = pods.filter(|pod| drain && !pod.is_mirror() && !pod.is_daemon_set_pod());
            let evicted: Vec<_> = evicted.map(|pod| pod.name.clone()).collect();
            let (reason, message) = match (drain, utilization) {
                (true, Some(utilization)) => {
                    let names: Vec<&str> = evicted.iter().map(|pod| &*pod.name).collect();
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
            context.events.push(Event {
                involved_object: InvolvedObject::StatusConfigMap,
                is_warning: false,
                reason,
                message,
            });
            if let Some(utilization) = utilization {
                removed.push(RemovedNode { node, evicted_pods: evicted, utilization: utilization.highest });
            }
        }
        removed
    }

    /// The status of the scale-down. Results of finished deletions are reported once.
    pub(crate) fn report(&mut self, result: ScaleDownResult, nodes: Vec<RemovedNode>) -> ScaleDownStatus {
        ScaleDownStatus {
            result,
            removed_nodes: nodes,
            unneeded: self.planner.unneeded.iter().map(|(name, since)| (name.clone(), since)).collect(),
            unremovable: self.planner.report.unremovable(),
            utilization: self.planner.report.utilization(),
            delete_results: self.actuator.take_results(),
        }
    }

    /// Continues deletions in progress. To be called again at the same moment until it returns no action.
    pub(crate) fn background(&mut self, context: &mut AutoscalingContext<'_>) {
        let actions = self.actuator.background(context);
        context.actions.extend(actions);
    }

    /// Cancels the deletion of these nodes, as if it had not started.
    pub(crate) fn cancel_deletions<'a>(&mut self, nodes: impl Iterator<Item = &'a Arc<str>>) {
        nodes.for_each(|node| self.actuator.cancel(node));
    }

    /// The number of unneeded nodes by group.
    pub(crate) fn unneeded_by_group(&self) -> BTreeMap<GroupId, i64> {
        let mut counts = BTreeMap::new();
        for group in self.planner.unneeded.groups() {
            *counts.entry(group).or_default() += 1;
        }
        counts
    }

    /// Whether a loop at that moment has the same result if nothing else changed: no deletion is in progress, and the
    /// limit of unneeded nodes stays the same.
    pub(crate) fn is_repeatable(&self, now: Moment) -> bool {
        self.actuator.is_idle() && self.planner.keeps_min_update_interval(now)
    }

    /// Records a repeated loop.
    pub(crate) fn repeat_update(&mut self, last: Moment, now: Moment) {
        self.planner.repeat_update(last, now);
    }

    /// When background work is due next.
    pub(crate) fn next_wake(&self) -> Option<Moment> {
        self.actuator.next_wake()
    }
}

#[cfg(test)]
impl ScaleDownState {
    /// Drops everything that is only kept to save work.
    fn clear_caches(&mut self) {
        self.candidate_ranking = CandidateRanking::default();
        self.planner.clear_caches();
    }

    /// Makes loops carry out every simulated removal in the snapshot.
    fn carry_out_all_removals(&mut self) {
        self.planner.removal_simulator.carries_out_all = true;
    }
}

// === impl DeletionsInProgress ===

impl DeletionsInProgress {
    pub(crate) fn contains(&self, node: &str) -> bool {
        self.empty.contains(node) || self.drained.contains(node)
    }

    fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.empty.iter().chain(&self.drained)
    }

    /// The number of deletions in a group.
    pub(crate) fn count(&self, group: GroupId) -> i64 {
        self.count_by_group.get(&group).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
