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
pub use self::lifetime::ObservedNodeOutcome;
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
        bail!("{} holds no nodes: there is none to explain", open_history.history.path().display());
    }
    let key = Key { source, kind: Kind::new("", "Node"), namespace: "".into(), name: name.into() };
    let life = NodeLifetime::find(open_history, &key, at)?;
    let (as_of, why) = life.as_of(open_history, at);
    let setup = AutoscalerChoice::resolve(open_history, &key.source, as_of, options)?;
    if let NodeGroupsSource::NoGroups = setup.groups_source {
        bail!("{}", setup.no_groups_message(open_history, as_of));
    }
    super::warn_of_gaps(open_history, &key.source, as_of.moment(), listener)?;
    for sentence in setup.warnings() {
        listener.warn(&sentence.to_string());
    }
    let mut seen = NodeLoopResults::default();
    let played = replay_autoscaler(
        listener,
        open_history,
        &key.source,
        &setup,
        as_of,
        &[],
        |done, autoscaler, cloud| {
            seen.observe(name, &setup, done, autoscaler, cloud);
        },
    )?;
    let happened = ObservedNodeOutcome::read(open_history, &key, life, as_of.moment())?;
    Ok(ExplainedNode {
        name: name.to_owned(),
        as_of,
        why,
        autoscaler: setup,
        replay: played,
        results: seen,
        outcome: happened,
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
        setup: &AutoscalerChoice,
        done: LoopResult,
        autoscaler: &mut Autoscaler,
        cloud: &ObservedCloud,
    ) {
        let down = &done.scale_down;
        if let Some(removed) = down.removed_nodes.iter().find(|removed| *removed.node == *name) {
            self.removal_began.get_or_insert((done.at, !removed.evicted_pods.is_empty()));
        } else if !down.unneeded.iter().any(|(other, _)| **other == *name) {
            self.removal_began = None;
        }
        let stays = down.unremovable.iter().find(|other| *other.node == *name);
        let is_news = |stays: &&UnremovableNode| {
            stays.reason != UnremovableReason::RecentlyUnremovable && checks_scale_down(setup, &done)
        };
        if let Some(stays) = stays.filter(is_news) {
            self.last_unremovable = Some((done.at, stays.clone()));
        }
        self.view = autoscaler.explain_node(done.at, name, cloud);
        let group = self.view.as_ref().and_then(|view| view.group.as_ref());
        self.group = done
            .groups
            .iter()
            .find(|state| Some(&state.name) == group)
            .map(|state| without_increases(&done, state));
        self.verdict = self
            .view
            .as_ref()
            .map(|view| self.verdict(name, setup, &done, view, stays.map(|stays| stays.reason)));
    }

    fn verdict(
        &self,
        name: &str,
        setup: &AutoscalerChoice,
        done: &LoopResult,
        view: &NodeExplanation,
        stays: Option<UnremovableReason>,
    ) -> ScaleDownVerdict {
        let down = &done.scale_down;
        let Some(group) = &self.group else { return ScaleDownVerdict::NotAutoscaled };
        if !setup.settings.scale_down_enabled {
            return ScaleDownVerdict::Disabled;
        }
        // Such a loop repeats the results of an earlier one.
        if !checks_scale_down(setup, done) {
            return ScaleDownVerdict::NotTried(match down.result {
                ScaleDownResult::NotTried => end_reason(done),
                _ => "the loop ends when it has asked for nodes".to_owned(),
            });
        }
        if let Some((at, drains)) = self.removal_began
            && down.removed_nodes.iter().any(|removed| *removed.node == *name)
        {
            return ScaleDownVerdict::RemovalStarted(at, drains);
        }
        if let Some((_, since)) = down.unneeded.iter().find(|(other, _)| **other == *name) {
            let held = match (stays, down.result) {
                (Some(reason), _) => Some(RemovalDelay::Unremovable(reason)),
                (None, ScaleDownResult::InCooldown) if view.cooldown.is_some() => {
                    Some(RemovalDelay::Cooldown)
                }
                (None, ScaleDownResult::InCooldown) if scaled_up(done) => Some(RemovalDelay::ScaleUp),
                (None, ScaleDownResult::InCooldown) if has_young_pods(done) => Some(RemovalDelay::YoungPods),
                (None, ScaleDownResult::NodeDeleteStarted | ScaleDownResult::NoNodeDeleted) => {
                    Some(RemovalDelay::DeletionLimit)
                }
                (None, _) => None,
            };
            return ScaleDownVerdict::Unneeded { since: *since, delay: held };
        }
        if let Some(reason) = stays {
            return ScaleDownVerdict::Unremovable(reason);
        }
        let least = setup.group(&group.name).map_or(0, |group| group.min);
        if group.target <= least {
            return ScaleDownVerdict::Unremovable(UnremovableReason::NodeGroupMinSizeReached);
        }
        if setup.settings.scale_down_delay_type_local && view.cooldown.is_some() {
            return ScaleDownVerdict::GroupInCooldown;
        }
        ScaleDownVerdict::NotChecked
    }

    /// The pod that blocks the removal, if that is the reason.
    pub fn blocking(&self) -> Option<&(NamespacedName, BlockingPodReason)> {
        use UnremovableReason::{BlockedByPod, RecentlyUnremovable};
        let is_it =
            matches!(self.verdict, Some(ScaleDownVerdict::Unremovable(BlockedByPod | RecentlyUnremovable)));
        let (_, found) = self.last_unremovable.as_ref().filter(|_| is_it)?;
        found.blocking_pod.as_ref().filter(|_| found.reason == BlockedByPod)
    }
}

/// Whether a loop got as far as checking for unneeded nodes. Until 1.33 a loop ended after a scale-up.
fn checks_scale_down(setup: &AutoscalerChoice, done: &LoopResult) -> bool {
    let ended = scaled_up(done) && setup.settings.version < Version::V1_34;
    done.scale_down.result != ScaleDownResult::NotTried && !ended
}

fn scaled_up(done: &LoopResult) -> bool {
    done.scale_ups.iter().any(|search| search.result == ScaleUpResult::Successful)
}

/// Whether all pending pods are too young for a scale-up.
fn has_young_pods(done: &LoopResult) -> bool {
    done.scale_ups.first().is_some_and(|search| search.result == ScaleUpResult::InCooldown)
}

/// Returns a group's state without the loop's increases, which have no effect.
fn without_increases(done: &LoopResult, state: &GroupState) -> GroupState {
    let searches = done.scale_ups.iter().chain(&done.min_size_scale_up);
    let increases = searches.flat_map(|search| &search.increases).filter(|one| one.group == state.name);
    let asked: i64 = increases.map(|one| one.to - one.from).sum();
    GroupState { target: state.target - asked, upcoming: (state.upcoming - asked).max(0), ..state.clone() }
}
