//! PostFilter: runs the plugins of an unschedulable pod in order, preemption among them.

use model::NamespacedName;

use super::cycle::Diagnosis;
use super::cycle_state::CycleState;
use super::decision::Rejection;
use super::filter_cache::FilterCache;
use super::ids::{NodeId, PodId};
use super::plugin::Plugin;
use super::plugins::dynamic_resources;
use super::preemption::{DryRunCache, PreemptionResult, preempt};

/// The effect on nominations.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NominationChange {
    /// The pod's nomination is unchanged.
    Unchanged,
    /// The pod is nominated to this node, and the nominations of these pods are cleared.
    Nominated(NodeId, Vec<PodId>),
    /// The pod's nomination is cleared.
    Cleared,
}

/// Inputs of PostFilter that are random or read from the clock in kube-scheduler.
pub(super) struct PostFilterOptions<'a> {
    /// The start time of pods that have none, in nanoseconds.
    pub now: i64,
    /// `node_offset(n)` returns the index, below `n`, of the first node to dry-run.
    pub node_offset: &'a mut dyn FnMut(usize) -> usize,
    /// Whether the nominations of lower-priority pods to the same node are cleared.
    pub clears_nominations: bool,
}

/// Runs PostFilter and completes the rejection with its message and result.
pub(super) fn post_filter(
    cycle_state: &CycleState<'_>,
    diagnosis: &Diagnosis,
    filter_cache: &mut FilterCache,
    dry_run_cache: &mut DryRunCache,
    options: PostFilterOptions<'_>,
    rejection: &mut Rejection,
) -> NominationChange {
    let profile = &cycle_state.framework.profile;
    let is_unreadable =
        diagnosis.pre_filter_status.as_ref().is_some_and(|status| status.plugin == Plugin::Unreadable);
    if profile.post_filter.is_empty() || is_unreadable {
        return NominationChange::Cleared;
    }
    let mut nomination = NominationChange::Unchanged;
    let mut messages: Vec<String> = Vec::new();
    for plugin in &profile.post_filter {
        match plugin {
            Plugin::DynamicResources if has_no_state(cycle_state, diagnosis) => {
                // An error: earlier messages are dropped, and no further plugin runs.
                rejection.post_filter_message = dynamic_resources::NO_STATE.to_owned();
                return NominationChange::Unchanged;
            }
            Plugin::DynamicResources => messages.push(dynamic_resources::NOTHING_TO_DEALLOCATE.to_owned()),
            Plugin::DefaultPreemption => {
                let result = preempt(
                    cycle_state,
                    diagnosis,
                    filter_cache,
                    dry_run_cache,
                    options.now,
                    options.node_offset,
                );
                match result {
                    PreemptionResult::NotEligible(reason) => messages.push(reason),
                    PreemptionResult::Failed(error) => {
                        rejection.post_filter_message = error;
                        return NominationChange::Unchanged;
                    }
                    PreemptionResult::NoCandidates(reason) => {
                        messages.push(reason);
                        nomination = NominationChange::Cleared;
                    }
                    PreemptionResult::Nominated(node, victims) => {
                        return nominate(cycle_state, node, &victims, options.clears_nominations, rejection);
                    }
                }
            }
            // These have no PostFilter.
            Plugin::SchedulingGates
            | Plugin::PrioritySort
            | Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::VolumeBinding
            | Plugin::VolumeZone
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity
            | Plugin::NodeResourcesBalancedAllocation
            | Plugin::ImageLocality
            | Plugin::DefaultBinder
            | Plugin::NodeDeclaredFeatures
            | Plugin::Unreadable => {}
        }
    }
    rejection.post_filter_message = messages.join(", ");
    nomination
}

/// Whether an earlier PreFilter plugin rejected the pod, so that DynamicResources stored no state.
fn has_no_state(cycle_state: &CycleState<'_>, diagnosis: &Diagnosis) -> bool {
    let order = &cycle_state.framework.profile.pre_filter;
    let Some(own_position) = order.iter().position(|plugin| *plugin == Plugin::DynamicResources) else {
        return true;
    };
    let rejecting_plugin = diagnosis.pre_filter_status.as_ref().map(|status| status.plugin);
    rejecting_plugin.is_some_and(|plugin| {
        order.iter().position(|other| *other == plugin).is_none_or(|position| position < own_position)
    })
}

/// Nominates the pod to a node and records the victims.
fn nominate(
    cycle_state: &CycleState<'_>,
    node: NodeId,
    victims: &[PodId],
    clears: bool,
    rejection: &mut Rejection,
) -> NominationChange {
    let cache = cycle_state.cache;
    let name = |pod: &PodId| cache.pod(*pod).name.clone();
    let victim_names: Vec<NamespacedName> =
        victims.iter().filter(|pod| !cache.pod(**pod).terminating).map(name).collect();
    rejection.victims = victim_names;
    rejection.victims.sort_unstable();
    let lower_priority =
        cycle_state.nominator.nominated_pods_for_node(cache.nodes.name(node)).iter().copied();
    let lower_priority = lower_priority.filter(|pod| {
        clears && *pod != cycle_state.pod_id && cache.pod(*pod).priority() < cycle_state.pod.priority()
    });
    let lower_priority: Vec<PodId> = lower_priority.collect();
    rejection.cleared_nominations = lower_priority.iter().map(name).collect();
    rejection.cleared_nominations.sort_unstable();
    rejection.nominated_node = Some(cache.nodes.name(node).clone());
    NominationChange::Nominated(node, lower_priority)
}
