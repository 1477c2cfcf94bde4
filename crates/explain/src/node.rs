//! Why an autoscaler would or would not have removed a node.

mod json;
mod life;
pub mod words;

use std::sync::Arc;

use anyhow::bail;
use autoscaler::{
    Autoscaler, BlockingReason, GroupState, Loop, NodeView, ObservedCloud, ScaleDownResult, ScaleUpResult,
    Unremovable, UnremovableReason, Version,
};
use model::{Key, Kind, Moment, NamespacedName};
use query::autoscaler_setup::{self, GroupsBy, Setup};
use query::{AsOf, Chosen, Listener};
use serde_json::Value;

pub use self::life::Happened;
use self::life::Life;
use crate::played::{Played, play, why_ended};

/// All there is to show.
pub struct NodeExplanation {
    /// The node.
    pub name: String,
    /// The moment.
    pub as_of: AsOf,
    /// Why that moment, in words that follow it.
    pub why: &'static str,
    /// The autoscaler that was asked, and its groups.
    pub setup: Setup,
    /// What it watched.
    pub played: Played,
    /// What it found of the node.
    pub seen: Seen,
    /// What really happened.
    pub happened: Happened,
}

/// What loops found of the node.
#[derive(Default)]
pub struct Seen {
    /// After the last loop; `None` if the node is not there.
    pub view: Option<NodeView>,
    /// Its group as the last loop found it.
    pub group: Option<GroupState>,
    /// What the last loop makes of it.
    pub verdict: Option<Verdict>,
    /// Why it could not go when that was last looked at, and when.
    pub looked: Option<(Moment, Unremovable)>,
    /// When its removal would have begun, if every loop since would have it go, and whether pods had to move.
    pub began: Option<(Moment, bool)>,
}

/// What the last loop makes of the node.
pub enum Verdict {
    /// It belongs to no group.
    NotAutoscaled,
    /// Nodes are not removed at all.
    Disabled,
    /// The loop ended before.
    NotTried(String),
    /// Its removal begins, or would have begun in an earlier loop; whether pods have to move.
    Goes(Moment, bool),
    /// It could go, and what still holds it back.
    MayGo {
        /// Since when.
        since: Moment,
        /// What holds it back.
        held: Option<Held>,
    },
    /// It may not go.
    Stays(UnremovableReason),
    /// Its group has had some change lately: its nodes are not looked at.
    Rests,
    /// Nodes enough were found that could go.
    NotLookedAt,
}

/// What holds back a node that could go.
#[derive(Clone, Copy)]
pub enum Held {
    /// The reason for this node.
    By(UnremovableReason),
    /// No node goes so soon after a change.
    Cooldown,
    /// No node goes when nodes were asked for.
    Growth,
    /// No node goes while pods wait that are so young.
    YoungPods,
    /// As many as may be are on their way out.
    Others,
}

/// Explains a node of that name, at a moment or at the end of its life.
pub fn explain(
    chosen: &Chosen,
    source: Arc<str>,
    name: &str,
    at: Option<Moment>,
    asked: &autoscaler_setup::Asked<'_>,
    listener: &mut dyn Listener,
) -> anyhow::Result<NodeExplanation> {
    if !super::has_nodes(chosen)? {
        bail!("{} holds no nodes: there is none to explain", chosen.history.path().display());
    }
    let key = Key { source, kind: Kind::new("", "Node"), namespace: "".into(), name: name.into() };
    let life = Life::find(chosen, &key, at)?;
    let (as_of, why) = life.as_of(chosen, at);
    let setup = Setup::choose(chosen, &key.source, as_of, asked)?;
    if let GroupsBy::Nobody = setup.groups_by {
        bail!("{}", setup.groupless(chosen, as_of));
    }
    super::tell_gaps(chosen, &key.source, as_of.moment(), listener)?;
    for sentence in setup.warnings() {
        listener.warn(&sentence.to_string());
    }
    let mut seen = Seen::default();
    let played = play(listener, chosen, &key.source, &setup, as_of, &[], |done, autoscaler, cloud| {
        seen.see(name, &setup, done, autoscaler, cloud);
    })?;
    let happened = Happened::read(chosen, &key, life, as_of.moment())?;
    Ok(NodeExplanation { name: name.to_owned(), as_of, why, setup, played, seen, happened })
}

// === impl NodeExplanation ===

impl NodeExplanation {
    /// The same for programs.
    pub fn to_json(&self) -> Value {
        json::of_node(self)
    }

    /// Whether it may have been so for longer: what was before the first loop is not known.
    pub fn is_at_least(&self, since: Moment) -> bool {
        since <= self.played.first
    }
}

// === impl Seen ===

impl Seen {
    /// A loop ran.
    fn see(
        &mut self,
        name: &str,
        setup: &Setup,
        done: Loop,
        autoscaler: &mut Autoscaler,
        cloud: &ObservedCloud,
    ) {
        let down = &done.scale_down;
        if let Some(removed) = down.nodes.iter().find(|removed| *removed.node == *name) {
            self.began.get_or_insert((done.at, !removed.drain.is_empty()));
        } else if !down.unneeded.iter().any(|(other, _)| **other == *name) {
            self.began = None;
        }
        let stays = down.unremovable.iter().find(|other| *other.node == *name);
        let is_news = |stays: &&Unremovable| {
            stays.reason != UnremovableReason::RecentlyUnremovable && looks(setup, &done)
        };
        if let Some(stays) = stays.filter(is_news) {
            self.looked = Some((done.at, stays.clone()));
        }
        self.view = autoscaler.view_node(done.at, name, cloud);
        let group = self.view.as_ref().and_then(|view| view.group.as_ref());
        self.group =
            done.groups.iter().find(|state| Some(&state.name) == group).map(|state| before(&done, state));
        self.verdict = self
            .view
            .as_ref()
            .map(|view| self.verdict(name, setup, &done, view, stays.map(|stays| stays.reason)));
    }

    fn verdict(
        &self,
        name: &str,
        setup: &Setup,
        done: &Loop,
        view: &NodeView,
        stays: Option<UnremovableReason>,
    ) -> Verdict {
        let down = &done.scale_down;
        let Some(group) = &self.group else { return Verdict::NotAutoscaled };
        if !setup.settings.scale_down_enabled {
            return Verdict::Disabled;
        }
        // What such a loop reports is what an earlier one found.
        if !looks(setup, done) {
            return Verdict::NotTried(match down.result {
                ScaleDownResult::NotTried => why_ended(done),
                _ => "the loop ends when it has asked for nodes".to_owned(),
            });
        }
        if let Some((at, drains)) = self.began
            && down.nodes.iter().any(|removed| *removed.node == *name)
        {
            return Verdict::Goes(at, drains);
        }
        if let Some((_, since)) = down.unneeded.iter().find(|(other, _)| **other == *name) {
            let held = match (stays, down.result) {
                (Some(reason), _) => Some(Held::By(reason)),
                (None, ScaleDownResult::InCooldown) if view.cooldown.is_some() => Some(Held::Cooldown),
                (None, ScaleDownResult::InCooldown) if grows(done) => Some(Held::Growth),
                (None, ScaleDownResult::InCooldown) if has_young_pods(done) => Some(Held::YoungPods),
                (None, ScaleDownResult::NodeDeleteStarted | ScaleDownResult::NoNodeDeleted) => {
                    Some(Held::Others)
                }
                (None, _) => None,
            };
            return Verdict::MayGo { since: *since, held };
        }
        if let Some(reason) = stays {
            return Verdict::Stays(reason);
        }
        let least = setup.group(&group.name).map_or(0, |group| group.min);
        if group.target <= least {
            return Verdict::Stays(UnremovableReason::NodeGroupMinSizeReached);
        }
        if setup.settings.scale_down_delay_type_local && view.cooldown.is_some() {
            return Verdict::Rests;
        }
        Verdict::NotLookedAt
    }

    /// The pod that keeps it, if that is why it stays.
    pub fn blocking(&self) -> Option<&(NamespacedName, BlockingReason)> {
        use UnremovableReason::{BlockedByPod, RecentlyUnremovable};
        let is_it = matches!(self.verdict, Some(Verdict::Stays(BlockedByPod | RecentlyUnremovable)));
        let (_, found) = self.looked.as_ref().filter(|_| is_it)?;
        found.blocking.as_ref().filter(|_| found.reason == BlockedByPod)
    }
}

/// Whether a loop got so far as to look for nodes that could go. Up to 1.33 one that asked for nodes ended there.
fn looks(setup: &Setup, done: &Loop) -> bool {
    let ended = grows(done) && setup.settings.version < Version::V1_34;
    done.scale_down.result != ScaleDownResult::NotTried && !ended
}

fn grows(done: &Loop) -> bool {
    done.scale_ups.iter().any(|search| search.result == ScaleUpResult::Successful)
}

/// Whether pods wait that are all so young that others may yet find room for them.
fn has_young_pods(done: &Loop) -> bool {
    done.scale_ups.first().is_some_and(|search| search.result == ScaleUpResult::InCooldown)
}

/// A group without what the loop asked for, which has no effect.
fn before(done: &Loop, state: &GroupState) -> GroupState {
    let searches = done.scale_ups.iter().chain(&done.min_size);
    let increases = searches.flat_map(|search| &search.increases).filter(|one| one.group == state.name);
    let asked: i64 = increases.map(|one| one.to - one.from).sum();
    GroupState { target: state.target - asked, upcoming: (state.upcoming - asked).max(0), ..state.clone() }
}
