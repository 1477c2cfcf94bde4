//! The scale-down planner: unneeded nodes, unremovable nodes with reasons, and the nodes to delete.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::UnremovableReason;
use super::super::hinting_simulator::HintingSimulator;
use super::super::settings::Settings;
use super::DeletionsInProgress;
use super::candidate::ScaleDownCandidate;
use super::candidate_ranking::ScaleDownCandidates;
use super::candidate_report::CandidateReport;
use super::eligibility::unremovable_reason_and_utilization;
use super::groups::{ScaleDownGroups, registered_count};
use super::min_quotas::MinQuotaTracker;
use super::node_details::NodeDetailsCache;
use super::removal::{RemovalFailure, RemovalSimulator};
use super::unneeded::{NodeToBeRemoved, RemovableNodes, UnneededNodes};

/// The planner's state.
#[derive(Debug)]
pub(super) struct Planner {
    pub unneeded: UnneededNodes,
    /// The report of the last update.
    pub report: CandidateReport,
    /// Recently unremovable nodes by name, with the moment until which they are skipped.
    pub recently_unremovable: BTreeMap<Arc<str>, Moment>,
    pub node_details: NodeDetailsCache,
    /// Whether the report of unremovable nodes is skipped.
    pub skips_unremovable_report: bool,
    hinting_simulator: HintingSimulator,
    pub removal_simulator: RemovalSimulator,
    /// The minimum quotas of the cluster without simulated nodes, as of a node revision.
    min_quotas: Option<(u64, MinQuotaTracker)>,
    last_update: Option<Moment>,
    /// The shortest interval between two updates so far, in nanoseconds.
    min_update_interval: i64,
}

impl Planner {
    pub(super) fn new(settings: &Settings) -> Planner {
        Planner {
            unneeded: UnneededNodes::default(),
            report: CandidateReport::default(),
            recently_unremovable: BTreeMap::new(),
            node_details: NodeDetailsCache::default(),
            skips_unremovable_report: false,
            hinting_simulator: HintingSimulator::default(),
            removal_simulator: RemovalSimulator::default(),
            min_quotas: None,
            last_update: None,
            min_update_interval: unneeded_nanos(settings),
        }
    }

    /// Updates the unneeded nodes by simulating the removal of eligible candidates. Nodes that are being deleted are
    /// neither candidates nor destinations.
    pub(super) fn update_cluster_state(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        candidates: &ScaleDownCandidates,
        in_progress: &DeletionsInProgress,
    ) {
        let now = context.clock.now();
        if let Some(last) = self.last_update {
            self.min_update_interval = self.min_update_interval.min(now.nanos_since(last)).max(1);
        }
        self.last_update = Some(now);
        self.removal_simulator.begin(context, &candidates.destinations);
        for id in in_progress.names().filter_map(|name| context.cluster.snapshot.find_node(name)) {
            self.removal_simulator.exclude_destination(id);
        }
        let recently_unremovable = self.recently_unremovable_nodes(context, candidates.destinations.len());
        // Nodes being deleted are not destinations any more, and no candidates either.
        let is_destination =
            |candidate: &&ScaleDownCandidate| self.removal_simulator.is_destination(candidate.node);
        let eligible: Vec<ScaleDownCandidate> = if self.skips_unremovable_report {
            let eligible_candidates = candidates.eligible.iter().filter(is_destination);
            eligible_candidates
                .filter(|candidate| !recently_unremovable[candidate.node.index()])
                .copied()
                .collect()
        } else {
            let candidates: Vec<ScaleDownCandidate> =
                candidates.all.iter().filter(is_destination).copied().collect();
            self.filter_out_unremovable(context, groups, &candidates, &recently_unremovable)
        };
        let fork = context.cluster.snapshot.fork();
        let nodes_to_remove = self.simulate_removals(context, groups, &eligible);
        self.removal_simulator.end();
        context.cluster.snapshot.revert(fork);
        let hints_changed = self.hinting_simulator.drop_old_hints(|node| context.cluster.has_node(node));
        if self.unneeded.update(nodes_to_remove, now) || hints_changed {
            context.clock.prevent_repeat();
        }
    }

    /// Whether an update at that moment leaves the shortest interval, and so the limit of unneeded nodes, unchanged.
    pub(super) fn keeps_min_update_interval(&self, now: Moment) -> bool {
        self.last_update.is_none_or(|last| now.nanos_since(last) >= self.min_update_interval)
    }

    /// Records a repeated loop, whose update would have had the same result.
    pub(super) fn repeat_update(&mut self, last: Moment, now: Moment) {
        if self.last_update == Some(last) {
            self.last_update = Some(now);
        }
    }

    /// By node ID, whether a node is recently unremovable. Expired entries are removed.
    fn recently_unremovable_nodes(&mut self, context: &AutoscalingContext<'_>, end: usize) -> Vec<bool> {
        let (clock, snapshot, previous_count) =
            (context.clock, &context.cluster.snapshot, self.recently_unremovable.len());
        let mut recently_unremovable = vec![false; end];
        self.recently_unremovable.retain(|name, until| {
            let node = snapshot.find_node(name).filter(|_| !clock.has_reached(*until));
            if let Some(recently_unremovable) =
                node.and_then(|node| recently_unremovable.get_mut(node.index()))
            {
                *recently_unremovable = true;
            }
            node.is_some()
        });
        if self.recently_unremovable.len() != previous_count {
            clock.prevent_repeat();
        }
        recently_unremovable
    }

    /// The eligible candidates; reasons and utilization of the others are recorded.
    fn filter_out_unremovable(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        candidates: &[ScaleDownCandidate],
        recently_unremovable: &[bool],
    ) -> Vec<ScaleDownCandidate> {
        let mut eligible = Vec::new();
        for candidate in candidates {
            if recently_unremovable[candidate.node.index()] {
                self.add_unremovable(context, candidate.node, UnremovableReason::RecentlyUnremovable);
                continue;
            }
            let (reason, used) =
                unremovable_reason_and_utilization(context, groups, &mut self.node_details, *candidate);
            if let Some(utilization) = used {
                self.report.set_utilization(&context.cluster.snapshot, candidate.node, utilization);
            }
            match reason {
                Some(reason) => self.add_unremovable(context, candidate.node, reason),
                None => eligible.push(*candidate),
            }
        }
        eligible
    }

    /// Simulates the removal of one candidate after the other, up to the limit of unneeded nodes.
    fn simulate_removals(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        eligible: &[ScaleDownCandidate],
    ) -> Vec<(Arc<str>, NodeToBeRemoved)> {
        let recheck_at = after(context.clock.now(), context.settings.unremovable_node_recheck_timeout);
        let limit = self.unneeded_nodes_limit(context.settings);
        let (mut nodes_to_remove, mut individual_count) = (Vec::new(), 0_i64);
        for candidate in eligible {
            if individual_count >= limit {
                break;
            }
            let name = context.cluster.snapshot.node(candidate.node).name.clone();
            match self.removal_simulator.simulate_node_removal(
                context,
                &mut self.hinting_simulator,
                *candidate,
            ) {
                Ok(node_to_be_removed) => {
                    nodes_to_remove.push((name, node_to_be_removed));
                    individual_count += i64::from(!groups.get(candidate.group).atomic);
                }
                Err(failure) => {
                    context.clock.prevent_repeat();
                    self.recently_unremovable.insert(name, recheck_at);
                    self.add_unremovable_with_pod(context, candidate.node, failure);
                }
            }
        }
        nodes_to_remove
    }

    /// The limit of unneeded nodes: more could not be deleted in time.
    fn unneeded_nodes_limit(&self, settings: &Settings) -> i64 {
        let max_parallelism = settings.max_scale_down_parallelism;
        let loops = unneeded_nanos(settings).max(self.min_update_interval) / self.min_update_interval;
        let upper_limit = (self.unneeded.len() as i64).saturating_add(max_parallelism.saturating_mul(2));
        max_parallelism.saturating_mul(loops).saturating_add(max_parallelism).min(upper_limit)
    }

    /// The nodes to delete now: empty ones, and ones to drain.
    pub(super) fn nodes_to_delete(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        in_progress: &DeletionsInProgress,
    ) -> (Vec<ScaleDownCandidate>, Vec<ScaleDownCandidate>) {
        let Some(quotas) = self.min_quotas(context) else { return (Vec::new(), Vec::new()) };
        let RemovableNodes { empty, need_drain: drained, unremovable } =
            self.unneeded.removable_now(context, groups, in_progress, quotas);
        for (node, reason) in unremovable {
            self.add_unremovable(context, node, reason);
        }
        let (risky, safe): (Vec<_>, Vec<_>) = drained.into_iter().partition(|removable| removable.is_risky);
        let all: Vec<NodeToBeRemoved> = [empty, safe, risky].concat();
        let (mut empty, mut drained) = (Vec::new(), Vec::new());
        for removable in self.filter_zero_or_max_groups(context, groups, all) {
            let candidate = removable.candidate;
            if removable.has_on_completion_pods {
                self.add_unremovable(context, candidate.node, UnremovableReason::BlockedByOnCompletionPod);
            } else if removable.needs_drain {
                drained.push(candidate);
            } else {
                empty.push(candidate);
            }
        }
        (empty, drained)
    }

    /// The minimum quotas, cached as long as the nodes are the same.
    fn min_quotas(&mut self, context: &mut AutoscalingContext<'_>) -> Option<MinQuotaTracker> {
        if context.cluster.snapshot.has_node_changes() {
            return MinQuotaTracker::of(context);
        }
        if self
            .min_quotas
            .as_ref()
            .is_none_or(|(revision, _)| *revision != context.node_eligibilities.revision)
        {
            self.min_quotas = Some((context.node_eligibilities.revision, MinQuotaTracker::of(context)?));
        }
        self.min_quotas.as_ref().map(|(_, quotas)| quotas.clone())
    }

    /// Drops zero-or-max groups unless all of their nodes are removable. Nodes of other groups come first.
    fn filter_zero_or_max_groups(
        &mut self,
        context: &AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        removable: Vec<NodeToBeRemoved>,
    ) -> Vec<NodeToBeRemoved> {
        let (atomic, mut removals): (Vec<_>, Vec<_>) =
            removable.into_iter().partition(|removable| groups.get(removable.candidate.group).atomic);
        let mut by_group: BTreeMap<GroupId, Vec<NodeToBeRemoved>> = BTreeMap::new();
        for removable in atomic {
            by_group.entry(removable.candidate.group).or_default().push(removable);
        }
        let snapshot = &context.cluster.snapshot;
        for (group, group_nodes) in by_group {
            let is_whole_group = groups.get(group).target == group_nodes.len() as i64
                || registered_count(snapshot, &*context.cloud, group) == group_nodes.len();
            if is_whole_group {
                removals.extend(group_nodes);
                continue;
            }
            for removable in group_nodes {
                self.add_unremovable(
                    context,
                    removable.candidate.node,
                    UnremovableReason::AtomicScaleDownFailed,
                );
            }
        }
        removals
    }

    fn add_unremovable(&mut self, context: &AutoscalingContext<'_>, node: NodeId, reason: UnremovableReason) {
        self.add_unremovable_with_pod(context, node, (reason, None));
    }

    fn add_unremovable_with_pod(
        &mut self,
        context: &AutoscalingContext<'_>,
        node: NodeId,
        (reason, blocking): RemovalFailure,
    ) {
        if self.skips_unremovable_report {
            return;
        }
        let snapshot = &context.cluster.snapshot;
        let blocking = blocking.map(|(pod, pod_reason)| (snapshot.pod(pod).name.clone(), pod_reason));
        self.report.set_unremovable(snapshot, node, reason, blocking);
    }
}

#[cfg(test)]
impl Planner {
    /// Drops everything that is only kept to save work.
    pub(super) fn clear_caches(&mut self) {
        self.node_details = NodeDetailsCache::default();
        self.removal_simulator.clear_cache();
        self.min_quotas = None;
    }
}

/// The default scale-down-unneeded-time in nanoseconds, at least one.
fn unneeded_nanos(settings: &Settings) -> i64 {
    let nanos = settings.group_defaults.scale_down_unneeded_time.as_nanos();
    i64::try_from(nanos).unwrap_or(i64::MAX).max(1)
}
