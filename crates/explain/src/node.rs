//! Explanations of why an autoscaler would or would not have removed a node.

pub mod descriptions;
mod json;
mod lifetime;

use std::sync::Arc;

use anyhow::bail;
use autoscaler::{
    Autoscaler, BlockingPodReason, GroupState, LoopResult, NodeExplanation, ObservedCloud, ScaleDownResult,
    ScaleUpResult, UnremovableNode, UnremovableReason, Version,
};
use model::{Key, Kind, Moment, NamespacedName};
use query::autoscaler_choice::{self, AutoscalerChoice, NodeGroupsSource};
use query::{AsOf, OpenHistory, ProgressListener};
use serde_json::Value;

use self::lifetime::NodeLifetime;
pub use self::lifetime::{NodeChange, ObservedNodeOutcome};
use crate::autoscaler_replay::{AutoscalerReplay, end_reason, replay_autoscaler};

/// The explanation of a node.
pub struct ExplainedNode {
    /// The node.
    pub name: String,
    /// The moment that is explained.
    pub as_of: AsOf,
    /// Why that moment, as text that follows it.
    pub why: &'static str,
    /// The autoscaler's settings and node groups.
    pub autoscaler: AutoscalerChoice,
    /// The time that was replayed into it.
    pub replay: AutoscalerReplay,
    /// Its decisions about the node.
    pub results: NodeLoopResults,
    /// The recorded outcome.
    pub outcome: ObservedNodeOutcome,
}

/// The results of the autoscaler's loops for the node.
#[derive(Default)]
pub struct NodeLoopResults {
    /// The node after the last loop; `None` if it does not exist.
    pub view: Option<NodeExplanation>,
    /// Its group in the last loop.
    pub group: Option<GroupState>,
    /// The verdict of the last loop.
    pub verdict: Option<ScaleDownVerdict>,
    /// When it was last checked and found unremovable, and why.
    pub last_unremovable: Option<(Moment, UnremovableNode)>,
    /// When its removal would have begun, if every loop since would remove it, and whether it has to be drained.
    pub removal_began: Option<(Moment, bool)>,
}

/// The verdict of a loop on the node.
pub enum ScaleDownVerdict {
    /// It belongs to no node group.
    NotAutoscaled,
    /// Scale-down is disabled.
    Disabled,
    /// The loop ended before scale-down, with the reason.
    NotTried(String),
    /// Its removal begins, or would have begun in an earlier loop; whether it has to be drained.
    RemovalStarted(Moment, bool),
    /// It is unneeded, and not removed yet.
    Unneeded {
        /// Since when it is unneeded.
        since: Moment,
        /// Why it is not removed yet.
        delay: Option<RemovalDelay>,
    },
    /// It is unremovable.
    Unremovable(UnremovableReason),
    /// Its group is in cooldown: its nodes are not checked.
    GroupInCooldown,
    /// Not checked: enough removable nodes were found before.
    NotChecked,
}

/// Why an unneeded node is not removed yet.
#[derive(Clone, Copy)]
pub enum RemovalDelay {
    /// A reason of this node.
    Unremovable(UnremovableReason),
    /// Scale-down is in cooldown.
    Cooldown,
    /// The loop scaled up.
    ScaleUp,
    /// There are pending pods that are too young for a scale-up.
    YoungPods,
    /// The maximum number of nodes is being deleted.
    DeletionLimit,
}

/// Explains a node of that name, at a moment or at the end of its lifetime.
pub fn explain_node(
    open_history: &OpenHistory,
    source: Arc<str>,
    name: &str,
    at: Option<Moment>,
    options: &autoscaler_choice::AutoscalerOptions<'_>,
    listener: &mut dyn ProgressListener,
) -> anyhow::Result<ExplainedNode> {
    if !super::has_nodes(open_history)? {
        bail!("{} has no nodes", open_history.history.path().display());
    }
    let key = Key { source, kind: Kind::new("", "Node"), namespace: "".into(), name: name.into() };
    let lifetime = NodeLifetime::find(open_history, &key, at)?;
    let (as_of, why) = lifetime.as_of(open_history, at);
    let choice = AutoscalerChoice::resolve(open_history, &key.source, as_of, options)?;
    if let NodeGroupsSource::NoGroups = choice.groups_source {
        bail!("{}", choice.no_groups_message(open_history, as_of));
    }
    super::warn_of_gaps(open_history, &key.source, as_of.moment(), listener)?;
    for sentence in choice.warnings() {
        listener.warn(&sentence.to_string());
    }
    let mut results = NodeLoopResults::default();
    let replay = replay_autoscaler(
        listener,
        open_history,
        &key.source,
        &choice,
        as_of,
        &[],
        |loop_result, autoscaler, cloud| {
            results.observe(name, &choice, loop_result, autoscaler, cloud);
        },
    )?;
    let observed = ObservedNodeOutcome::read(open_history, &key, lifetime, as_of.moment())?;
    Ok(ExplainedNode {
        name: name.to_owned(),
        as_of,
        why,
        autoscaler: choice,
        replay,
        results,
        outcome: observed,
    })
}

// === impl ExplainedNode ===

impl ExplainedNode {
    /// The explanation as JSON.
    pub fn to_json(&self) -> Value {
        json::node_document(self)
    }

    /// Whether a state that began at `since` may have begun earlier: the time before the first loop is unknown.
    pub fn may_have_begun_earlier(&self, since: Moment) -> bool {
        since <= self.replay.first_loop
    }
}

// === impl NodeLoopResults ===

impl NodeLoopResults {
    /// Takes the result of a loop.
    fn observe(
        &mut self,
        name: &str,
        choice: &AutoscalerChoice,
        loop_result: LoopResult,
        autoscaler: &mut Autoscaler,
        cloud: &ObservedCloud,
    ) {
        let scale_down = &loop_result.scale_down;
        if let Some(removed) = scale_down.removed_nodes.iter().find(|removed| *removed.node == *name) {
            self.removal_began.get_or_insert((loop_result.at, !removed.evicted_pods.is_empty()));
        } else if !scale_down.unneeded.iter().any(|(other, _)| **other == *name) {
            self.removal_began = None;
        }
        let unremovable = scale_down.unremovable.iter().find(|other| *other.node == *name);
        let is_new_result = |unremovable: &&UnremovableNode| {
            unremovable.reason != UnremovableReason::RecentlyUnremovable
                && checks_scale_down(choice, &loop_result)
        };
        if let Some(unremovable) = unremovable.filter(is_new_result) {
            self.last_unremovable = Some((loop_result.at, unremovable.clone()));
        }
        self.view = autoscaler.explain_node(loop_result.at, name, cloud);
        let group = self.view.as_ref().and_then(|explanation| explanation.group.as_ref());
        self.group = loop_result
            .groups
            .iter()
            .find(|state| Some(&state.name) == group)
            .map(|state| without_increases(&loop_result, state));
        self.verdict = self.view.as_ref().map(|explanation| {
            self.verdict(
                name,
                choice,
                &loop_result,
                explanation,
                unremovable.map(|unremovable| unremovable.reason),
            )
        });
    }

    fn verdict(
        &self,
        name: &str,
        choice: &AutoscalerChoice,
        loop_result: &LoopResult,
        explanation: &NodeExplanation,
        unremovable_reason: Option<UnremovableReason>,
    ) -> ScaleDownVerdict {
        let scale_down = &loop_result.scale_down;
        let Some(group) = &self.group else { return ScaleDownVerdict::NotAutoscaled };
        if !choice.settings.scale_down_enabled {
            return ScaleDownVerdict::Disabled;
        }
        // Such a loop repeats the results of an earlier one.
        if !checks_scale_down(choice, loop_result) {
            return ScaleDownVerdict::NotTried(match scale_down.result {
                ScaleDownResult::NotTried => end_reason(loop_result),
                _ => "scale-up in the same loop".to_owned(),
            });
        }
        if let Some((at, drains)) = self.removal_began
            && scale_down.removed_nodes.iter().any(|removed| *removed.node == *name)
        {
            return ScaleDownVerdict::RemovalStarted(at, drains);
        }
        if let Some((_, since)) = scale_down.unneeded.iter().find(|(other, _)| **other == *name) {
            let delay = match (unremovable_reason, scale_down.result) {
                (Some(reason), _) => Some(RemovalDelay::Unremovable(reason)),
                (None, ScaleDownResult::InCooldown) if explanation.cooldown.is_some() => {
                    Some(RemovalDelay::Cooldown)
                }
                (None, ScaleDownResult::InCooldown) if scaled_up(loop_result) => Some(RemovalDelay::ScaleUp),
                (None, ScaleDownResult::InCooldown) if has_young_pods(loop_result) => {
                    Some(RemovalDelay::YoungPods)
                }
                (None, ScaleDownResult::NodeDeleteStarted | ScaleDownResult::NoNodeDeleted) => {
                    Some(RemovalDelay::DeletionLimit)
                }
                (None, _) => None,
            };
            return ScaleDownVerdict::Unneeded { since: *since, delay };
        }
        if let Some(reason) = unremovable_reason {
            return ScaleDownVerdict::Unremovable(reason);
        }
        let min_size = choice.group(&group.name).map_or(0, |group| group.min);
        if group.target <= min_size {
            return ScaleDownVerdict::Unremovable(UnremovableReason::NodeGroupMinSizeReached);
        }
        if choice.settings.scale_down_delay_type_local && explanation.cooldown.is_some() {
            return ScaleDownVerdict::GroupInCooldown;
        }
        ScaleDownVerdict::NotChecked
    }

    /// The pod that blocks the removal, if that is the reason.
    pub fn blocking(&self) -> Option<&(NamespacedName, BlockingPodReason)> {
        use UnremovableReason::{BlockedByPod, RecentlyUnremovable};
        let is_unremovable =
            matches!(self.verdict, Some(ScaleDownVerdict::Unremovable(BlockedByPod | RecentlyUnremovable)));
        let (_, unremovable) = self.last_unremovable.as_ref().filter(|_| is_unremovable)?;
        unremovable.blocking_pod.as_ref().filter(|_| unremovable.reason == BlockedByPod)
    }
}

/// Whether a loop got as far as checking for unneeded nodes. Until 1.33 a loop ended after a scale-up.
fn checks_scale_down(choice: &AutoscalerChoice, loop_result: &LoopResult) -> bool {
    let ended = scaled_up(loop_result) && choice.settings.version < Version::V1_34;
    loop_result.scale_down.result != ScaleDownResult::NotTried && !ended
}

fn scaled_up(loop_result: &LoopResult) -> bool {
    loop_result.scale_ups.iter().any(|search| search.result == ScaleUpResult::Successful)
}

/// Whether all pending pods are too young for a scale-up.
fn has_young_pods(loop_result: &LoopResult) -> bool {
    loop_result.scale_ups.first().is_some_and(|search| search.result == ScaleUpResult::InCooldown)
}

/// Returns a group's state without the loop's increases, which have no effect.
fn without_increases(loop_result: &LoopResult, state: &GroupState) -> GroupState {
    let searches = loop_result.scale_ups.iter().chain(&loop_result.min_size_scale_up);
    let increases =
        searches.flat_map(|search| &search.increases).filter(|increase| increase.group == state.name);
    let requested: i64 = increases.map(|increase| increase.to - increase.from).sum();
    GroupState {
        target: state.target - requested,
        upcoming: (state.upcoming - requested).max(0),
        ..state.clone()
    }
}
