//! Scale-up: equivalence groups of pods, expansion options, the expander's choice, and its execution.

mod balance;
mod equivalence_groups;
mod estimator;
mod events;
mod execute;
mod expander;
mod quota_tracker;
mod similar_groups;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use scheduler::ids::{NodeId, PodId};

use super::AutoscalingContext;
use super::cloud::GroupId;
use super::cluster_state::NodeGroupScalingSafety;
use super::decision::{
    EquivalenceGroupResult, Event, Increase, InvolvedObject, NoScaleUpInfo, PodList, ScaleUpOption,
    ScaleUpResult, ScaleUpStatus,
};
use super::settings::Version;
use super::templates::TemplateNodeInfo;
use balance::{PlannedIncrease, balance};
use equivalence_groups::{PodEquivalenceGroup, ReasonsByGroup};
use estimator::{EstimationLimiter, EstimatorOptions, estimate};
use execute::execute_scale_ups;
use expander::{ExpansionOption, best_option};
use quota_tracker::QuotaTracker;
use similar_groups::are_similar;

pub(crate) use events::emit_pod_events;

/// The state of one scale-up.
struct ScaleUpOrchestrator {
    pod_groups: Vec<PodEquivalenceGroup>,
    /// The number of nodes, including upcoming ones.
    node_count: i64,
    skipped_groups: Arc<ReasonsByGroup>,
    quotas: QuotaTracker,
    /// By node group, the indices of the equivalence groups that fit on a new node; `None` for skipped node groups.
    schedulable_pod_groups: Vec<Option<Vec<usize>>>,
}

const NOT_READY: &str = "not ready for scale-up";
const BACKED_OFF: &str = "in backoff after failed scale-up";
const AT_MAX: &str = "max node group size reached";
const TOO_MANY_NODES: &str = "atomic scale-up exceeds cluster node count limit";
const FILTERED_OUT: &str = "expansion options filtered out and no longer considered";
const NOT_EXECUTED: &str = "scale-up execution failed";

/// Finds the best expansion option for the pods and increases its group. `nodes` are all nodes, including upcoming
/// ones.
pub(crate) fn scale_up(
    context: &mut AutoscalingContext<'_>,
    pods: &[PodId],
    nodes: &[NodeId],
) -> ScaleUpStatus {
    let groups = PodEquivalenceGroup::build_groups(&context.cluster.snapshot, pods);
    let failed_early = |error: String| ScaleUpStatus {
        error: Some(error),
        pods_remain_unschedulable: groups
            .iter()
            .flat_map(|group| group.no_scale_up_infos(Arc::default()))
            .collect(),
        ..ScaleUpStatus::with_result(ScaleUpResult::Error)
    };
    let upcoming = context.registry.upcoming_nodes(context.clock);
    let upcoming_groups = upcoming.iter().filter(|upcoming| upcoming.count > 0);
    if let Some(group) =
        upcoming_groups.map(|upcoming| upcoming.group).find(|id| context.templates.get(*id).is_none())
    {
        let name = group_name(context, group);
        return failed_early(format!(
            "could not get upcoming nodes: failed to find template node for node group {name}"
        ));
    }
    let quotas = match QuotaTracker::new(context, nodes) {
        Ok(quotas) => quotas,
        Err(error) => return failed_early(format!("could not create quotas tracker: {error}")),
    };
    let mut orchestrator = ScaleUpOrchestrator {
        pod_groups: groups,
        node_count: nodes.len() as i64,
        skipped_groups: Arc::default(),
        quotas,
        schedulable_pod_groups: vec![None; context.cloud.groups().len()],
    };
    orchestrator.compute_schedulable_pod_groups(context);
    let candidates = orchestrator.compute_expansion_options(context);
    let mut status = ScaleUpStatus::with_result(ScaleUpResult::NoOptionsAvailable);
    status.equivalence_groups = orchestrator.equivalence_group_results();
    status.options =
        candidates.iter().map(|candidate| orchestrator.scale_up_option(context, candidate)).collect();
    status.skipped_groups = (*orchestrator.skipped_groups).clone();
    if candidates.is_empty() {
        status.pods_remain_unschedulable = orchestrator.remaining_pods(context);
        return status;
    }
    let (best, choices) = best_option(context, &orchestrator.pod_groups, &candidates);
    status.expander_choices = choices;
    let Some(best) = best.map(|index| &candidates[index]).filter(|best| best.nodes > 0) else {
        orchestrator.mark_groups_unschedulable(context, |_| true, FILTERED_OUT);
        status.pods_remain_unschedulable = orchestrator.remaining_pods(context);
        return status;
    };
    status.best_group = Some(best.name.clone());
    status.pods_triggered_scale_up = orchestrator.helped_pods(best).iter().cloned().collect();
    let planned_increases = match orchestrator.plan_increases(context, best) {
        Ok(planned_increases) => planned_increases,
        Err(error) => {
            orchestrator.mark_groups_unschedulable(context, |_| true, NOT_EXECUTED);
            status.pods_remain_unschedulable = orchestrator.remaining_pods(context);
            return ScaleUpStatus { result: ScaleUpResult::Error, error: Some(error), ..status };
        }
    };
    if let Err(failure) = execute_scale_ups(context, &planned_increases) {
        let failed_groups = failure.groups_not_increased(context, &planned_increases);
        orchestrator.mark_groups_unschedulable(context, |group| failed_groups.contains(&group), NOT_EXECUTED);
        status.pods_remain_unschedulable = orchestrator.remaining_pods(context);
        status.failed_groups = failure.groups.iter().map(|group| group_name(context, *group)).collect();
        return ScaleUpStatus { result: ScaleUpResult::Error, error: Some(failure.error), ..status };
    }
    context.registry.recalculate(&*context.cloud);
    status.increases = increases(context, &planned_increases);
    status.pods_remain_unschedulable = orchestrator.remaining_pods(context);
    let is_awaiting_evaluation = |group: &&PodEquivalenceGroup| {
        group.is_schedulable && group.scheduling_errors.contains_key(&best.name)
    };
    status.pods_await_evaluation = orchestrator
        .pod_groups
        .iter()
        .filter(is_awaiting_evaluation)
        .flat_map(|group| group.names.iter().cloned())
        .collect();
    ScaleUpStatus { result: ScaleUpResult::Successful, ..status }
}

/// Increases groups that are below their minimum size.
pub(crate) fn scale_up_to_min_size(context: &mut AutoscalingContext<'_>, nodes: &[NodeId]) -> ScaleUpStatus {
    let mut quotas = match QuotaTracker::new(context, nodes) {
        Ok(quotas) => quotas,
        Err(error) => {
            let error = Some(format!("could not create quotas tracker: {error}"));
            return ScaleUpStatus { error, ..ScaleUpStatus::with_result(ScaleUpResult::Error) };
        }
    };
    let mut planned_increases = Vec::new();
    for group in all_groups(context) {
        let (min, max) =
            (context.cloud.groups()[group.index()].min, context.cloud.groups()[group.index()].max);
        let from = context.cloud.target_size(group);
        if from >= min
            || context.registry.node_group_scale_up_safety(group, context.clock, context.settings)
                != NodeGroupScalingSafety::Safe
        {
            continue;
        }
        let Some(template) = context.templates.get(group) else { continue };
        let allowed =
            |quotas: &mut QuotaTracker, nodes: i64| quotas.check_delta(context, group, &template.node, nodes);
        if !allowed(&mut quotas, 1).is_ok_and(|allowed| allowed.exceeded_resources.is_empty()) {
            continue;
        }
        let Ok(allowed) = allowed(&mut quotas, min.saturating_sub(from)) else { continue };
        // cluster-autoscaler also compares with the size of the group, not of the cluster.
        let Ok(delta) = capped_new_node_count(context, allowed.allowed_nodes, from) else { continue };
        planned_increases.push(PlannedIncrease { group, from, to: from + delta, max });
    }
    if planned_increases.is_empty() {
        return ScaleUpStatus::with_result(ScaleUpResult::NotNeeded);
    }
    if let Err(failure) = execute_scale_ups(context, &planned_increases) {
        return ScaleUpStatus {
            error: Some(failure.error),
            failed_groups: failure.groups.iter().map(|group| group_name(context, *group)).collect(),
            ..ScaleUpStatus::with_result(ScaleUpResult::Error)
        };
    }
    context.registry.recalculate(&*context.cloud);
    ScaleUpStatus {
        increases: increases(context, &planned_increases),
        ..ScaleUpStatus::with_result(ScaleUpResult::Successful)
    }
}

// === impl ScaleUpOrchestrator ===

impl ScaleUpOrchestrator {
    /// Finds the node groups that may be scaled up, and the equivalence groups that fit on their new nodes.
    fn compute_schedulable_pod_groups(&mut self, context: &mut AutoscalingContext<'_>) {
        let mut skipped = ReasonsByGroup::new();
        for group in all_groups(context) {
            if let Err(reason) = self.check_can_scale_up(context, group) {
                skipped.insert(group_name(context, group), vec![reason]);
                continue;
            }
            self.schedulable_pod_groups[group.index()] = Some(Vec::new());
        }
        self.skipped_groups = Arc::new(skipped);
        for group in all_groups(context) {
            if self.schedulable_pod_groups[group.index()].is_some() {
                let all_pod_groups: Vec<usize> = (0..self.pod_groups.len()).collect();
                self.schedulable_pod_groups[group.index()] =
                    Some(self.pod_groups_schedulable_on(context, group, &all_pod_groups));
            }
        }
    }

    /// Checks whether a group may be scaled up by one node, a zero-or-max group to its maximum. The error is the reason
    /// to skip it.
    fn check_can_scale_up(&mut self, context: &AutoscalingContext<'_>, group: GroupId) -> Result<(), String> {
        match context.registry.node_group_scale_up_safety(group, context.clock, context.settings) {
            NodeGroupScalingSafety::Safe => {}
            NodeGroupScalingSafety::Unhealthy => return Err(NOT_READY.to_owned()),
            NodeGroupScalingSafety::BackedOff => return Err(BACKED_OFF.to_owned()),
        }
        let (target, max) = (context.cloud.target_size(group), context.cloud.groups()[group.index()].max);
        if target >= max {
            return Err(AT_MAX.to_owned());
        }
        let mut nodes = 1;
        if is_zero_or_max(context, group) {
            nodes = max.saturating_sub(target);
            let max_nodes_total = context.settings.max_nodes_total;
            if max_nodes_total != 0 && self.node_count.saturating_add(nodes) > max_nodes_total {
                return Err(TOO_MANY_NODES.to_owned());
            }
        }
        let template = context.templates.get(group).ok_or(NOT_READY)?;
        let allowed =
            self.quotas.check_delta(context, group, &template.node, nodes).map_err(|_| NOT_READY)?;
        if !allowed.exceeded_resources.is_empty() {
            let resources = allowed.exceeded_resources.join(", ");
            return Err(format!("exceeded quota: \"cluster-wide\", resources: {resources}"));
        }
        Ok(())
    }

    /// Those of the equivalence groups that fit on a new node of a node group, by their first pod.
    fn pod_groups_schedulable_on(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        group: GroupId,
        pod_groups: &[usize],
    ) -> Vec<usize> {
        let Some(template) = context.templates.get(group) else { return Vec::new() };
        let name = group_name(context, group);
        let snapshot = &mut context.cluster.snapshot;
        let fork = snapshot.fork();
        let node = snapshot.add_node(template.node.clone(), &template.pods);
        let mut schedulable = Vec::new();
        for &index in pod_groups {
            let pods = &mut self.pod_groups[index];
            match snapshot.check_predicates(pods.pods[0], node) {
                Ok(()) => {
                    schedulable.push(index);
                    pods.is_schedulable = true;
                    pods.schedulable_groups.push(group);
                }
                Err(refused) => pods.add_scheduling_errors(&name, refused.reasons),
            }
        }
        snapshot.revert(fork);
        schedulable
    }

    /// The expansion options, in the cloud provider's order.
    fn compute_expansion_options(&self, context: &mut AutoscalingContext<'_>) -> Vec<ExpansionOption> {
        all_groups(context)
            .into_iter()
            .filter_map(|group| self.compute_expansion_option(context, group))
            .collect()
    }

    fn compute_expansion_option(
        &self,
        context: &mut AutoscalingContext<'_>,
        group: GroupId,
    ) -> Option<ExpansionOption> {
        let schedulable = self.schedulable_pod_groups[group.index()]
            .as_ref()
            .filter(|schedulable| !schedulable.is_empty())?;
        let similar = self.compute_similar_groups(context, group);
        let settings = context.settings;
        let headroom = |group: GroupId| {
            let max = context.cloud.groups()[group.index()].max;
            max.saturating_sub(context.cloud.target_size(group)).max(0)
        };
        let total_headroom =
            similar.iter().map(|group| headroom(*group)).fold(headroom(group), i64::saturating_add);
        let limit = EstimationLimiter::from_thresholds(&[
            settings.max_nodes_per_scaleup,
            if total_headroom > 0 { total_headroom } else { -1 },
            match settings.max_nodes_total {
                0 => 0,
                most if most > self.node_count => most - self.node_count,
                _ => -1,
            },
        ]);
        let options =
            EstimatorOptions { version: settings.version, fastpath: settings.fastpath_binpacking_enabled };
        let template = context.templates.get(group)?;
        let snapshot = &mut context.cluster.snapshot;
        let estimate = estimate(snapshot, template, &self.pod_groups, schedulable, limit, options);
        if estimate.nodes == 0 || estimate.helped.is_empty() {
            return None;
        }
        let atomic = is_zero_or_max(context, group);
        let nodes = if atomic { context.cloud.groups()[group.index()].max } else { estimate.nodes };
        Some(ExpansionOption {
            group,
            name: group_name(context, group),
            nodes,
            helped_pods: estimate.helped,
            similar_groups: similar,
        })
    }

    /// Similar groups on which at least the same equivalence groups are schedulable.
    fn compute_similar_groups(&self, context: &AutoscalingContext<'_>, group: GroupId) -> Vec<GroupId> {
        let settings = context.settings;
        if !settings.balance_similar_node_groups || is_zero_or_max(context, group) {
            return Vec::new();
        }
        let schedulable_on = |group: GroupId| self.schedulable_pod_groups[group.index()].as_ref();
        let Some(schedulable_groups) =
            schedulable_on(group).filter(|schedulable_groups| !schedulable_groups.is_empty())
        else {
            return Vec::new();
        };
        let Some(template) = context.templates.get(group) else { return Vec::new() };
        let is_similar = |other: &GroupId| {
            let has_similar_template = |other: &Arc<TemplateNodeInfo>| are_similar(template, other, settings);
            *other != group
                && schedulable_on(*other).is_some_and(|others| {
                    schedulable_groups.iter().all(|pods| others.binary_search(pods).is_ok())
                })
                && context.registry.node_group_scale_up_safety(*other, context.clock, context.settings)
                    == NodeGroupScalingSafety::Safe
                && context.templates.get(*other).is_some_and(has_similar_template)
        };
        all_groups(context).into_iter().filter(is_similar).collect()
    }

    /// The increases for the best option, balanced between similar groups.
    fn plan_increases(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        best: &ExpansionOption,
    ) -> Result<Vec<PlannedIncrease>, String> {
        let nodes = capped_new_node_count(context, best.nodes, self.node_count)?;
        let template = context.templates.get(best.group).ok_or("No node info for best expansion option!")?;
        let allowed = self.quotas.check_delta(context, best.group, &template.node, nodes);
        let nodes =
            allowed.map_err(|error| format!("failed to check resource quotas: {error}"))?.allowed_nodes;
        // Before 1.36 quotas were checked for the best group alone.
        let by_group = context.settings.version >= Version::V1_36;
        let mut groups = vec![best.group];
        for group in self.compute_similar_groups(context, best.group) {
            let Some(template) = context.templates.get(group) else { continue };
            let allowed = self.quotas.check_delta(context, group, &template.node, 1);
            if !by_group || allowed.is_ok_and(|allowed| allowed.exceeded_resources.is_empty()) {
                groups.push(group);
            }
        }
        let mut planned_increases = balance(&*context.cloud, &groups, nodes);
        // Nodes that the quota denies to one group are not given to another.
        for planned_increase in planned_increases.iter_mut().filter(|_| by_group) {
            let Some(template) = context.templates.get(planned_increase.group) else { continue };
            let delta = planned_increase.to - planned_increase.from;
            let Ok(allowed) = self.quotas.check_delta(context, planned_increase.group, &template.node, delta)
            else {
                continue;
            };
            planned_increase.to = planned_increase.from + allowed.allowed_nodes;
            if allowed.allowed_nodes > 0 {
                // This cannot fail, as the check did not.
                let _ = self.quotas.apply_delta(
                    context,
                    planned_increase.group,
                    &template.node,
                    allowed.allowed_nodes,
                );
            }
        }
        planned_increases.retain(|planned_increase| planned_increase.to != planned_increase.from);
        Ok(planned_increases)
    }

    /// Marks the equivalence groups of failed node groups as unschedulable, with the reason.
    fn mark_groups_unschedulable(
        &mut self,
        context: &AutoscalingContext<'_>,
        is_failed: impl Fn(GroupId) -> bool,
        reason: &str,
    ) {
        if context.settings.version < Version::V1_36 {
            return;
        }
        self.pod_groups
            .iter_mut()
            .for_each(|pods| pods.mark_unschedulable(&is_failed, |group| group_name(context, group), reason));
    }

    /// The pods that remain unschedulable.
    fn remaining_pods(&mut self, context: &mut AutoscalingContext<'_>) -> Vec<NoScaleUpInfo> {
        let remaining_groups: Vec<usize> =
            (0..self.pod_groups.len()).filter(|index| !self.pod_groups[*index].is_schedulable).collect();
        let simulate_skipped = context.settings.scaleup_simulation_for_skipped_node_groups_enabled;
        if simulate_skipped {
            for group in all_groups(context) {
                if self.skipped_groups.contains_key(&group_name(context, group)) {
                    self.pod_groups_schedulable_on(context, group, &remaining_groups);
                }
            }
        }
        let infos = |index: usize| {
            let pods = &self.pod_groups[index];
            let mut skipped = self.skipped_groups.clone();
            if simulate_skipped {
                Arc::make_mut(&mut skipped).retain(|group, _| !pods.scheduling_errors.contains_key(group));
            }
            pods.no_scale_up_infos(skipped).collect::<Vec<_>>()
        };
        remaining_groups.into_iter().flat_map(infos).collect()
    }

    fn equivalence_group_results(&self) -> Vec<EquivalenceGroupResult> {
        let result = |pods: &PodEquivalenceGroup| EquivalenceGroupResult {
            pods: PodList(vec![(pods.names.clone(), pods.names.len())]),
            rejected_groups: pods.scheduling_errors.clone(),
        };
        self.pod_groups.iter().map(result).collect()
    }

    fn scale_up_option(
        &self,
        context: &AutoscalingContext<'_>,
        candidate: &ExpansionOption,
    ) -> ScaleUpOption {
        ScaleUpOption {
            group: candidate.name.clone(),
            nodes: candidate.nodes,
            pods: self.helped_pods(candidate),
            similar_groups: candidate
                .similar_groups
                .iter()
                .map(|group| group_name(context, *group))
                .collect(),
        }
    }

    fn helped_pods(&self, candidate: &ExpansionOption) -> PodList {
        let lists =
            candidate.helped_pods.iter().map(|&(group, count)| (self.pod_groups[group].names.clone(), count));
        PodList(lists.collect())
    }
}

fn all_groups(context: &AutoscalingContext<'_>) -> Vec<GroupId> {
    (0..context.cloud.groups().len() as u32).map(GroupId).collect()
}

fn group_name(context: &AutoscalingContext<'_>, group: GroupId) -> Arc<str> {
    context.cloud.groups()[group.index()].name.clone()
}

fn is_zero_or_max(context: &AutoscalingContext<'_>, group: GroupId) -> bool {
    let options = &context.cloud.groups()[group.index()].options;
    options.as_ref().is_some_and(|options| options.zero_or_max_node_scaling)
}

/// The number of new nodes, capped by `--max-nodes-total` less the existing ones.
fn capped_new_node_count(
    context: &mut AutoscalingContext<'_>,
    nodes: i64,
    existing: i64,
) -> Result<i64, String> {
    let max_nodes_total = context.settings.max_nodes_total;
    if max_nodes_total <= 0 || nodes.saturating_add(existing) <= max_nodes_total {
        return Ok(nodes);
    }
    context.events.push(Event {
        involved_object: InvolvedObject::StatusConfigMap,
        is_warning: true,
        reason: "MaxNodesTotalReached",
        message: format!("Max total nodes in cluster reached: {max_nodes_total}"),
    });
    let nodes = max_nodes_total.saturating_sub(existing);
    if nodes < 1 { Err("max node total count already reached".to_owned()) } else { Ok(nodes) }
}

fn increases(context: &AutoscalingContext<'_>, planned_increases: &[PlannedIncrease]) -> Vec<Increase> {
    let increase = |planned_increase: &PlannedIncrease| Increase {
        group: group_name(context, planned_increase.group),
        from: planned_increase.from,
        to: planned_increase.to,
        max: planned_increase.max,
    };
    planned_increases.iter().map(increase).collect()
}
