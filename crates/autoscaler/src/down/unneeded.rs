//! Nodes that could go, and since when.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::UnremovableReason;
use super::super::settings::Version;
use super::InProgress;
use super::candidate::Candidate;
use super::groups::Groups;
use super::marks::is_disabled;
use super::quotas::Quotas;

/// Nodes that could go, by name.
#[derive(Debug, Default)]
pub(super) struct Unneeded {
    nodes: BTreeMap<Arc<str>, Since>,
}

/// A node that could go, as the last loop found it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Removable {
    pub candidate: Candidate,
    /// Pods have to move.
    pub drains: bool,
    /// There are pods it has to wait for.
    pub waits: bool,
    /// Its pods cannot all go at once.
    pub risky: bool,
}

#[derive(Debug, PartialEq)]
struct Since {
    moment: Moment,
    removable: Removable,
}

/// Nodes that may go now.
#[derive(Debug, Default)]
pub(super) struct MayGo {
    pub empty: Vec<Removable>,
    pub drained: Vec<Removable>,
    pub not: Vec<(NodeId, UnremovableReason)>,
}

impl Unneeded {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// By name, with the moment since when.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Moment)> {
        self.nodes.iter().map(|(name, since)| (name, since.moment))
    }

    /// The group of each.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.nodes.values().map(|since| since.removable.candidate.group)
    }

    /// A node that was found unneeded by somebody before.
    pub(super) fn remember(&mut self, name: Arc<str>, candidate: Candidate, moment: Moment) {
        let removable = Removable { candidate, drains: false, waits: false, risky: false };
        self.nodes.insert(name, Since { moment, removable });
    }

    /// These are unneeded and no others; those that were so already keep their moment. Says whether anything is other than
    /// it was.
    pub(super) fn update(&mut self, found: Vec<(Arc<str>, Removable)>, now: Moment) -> bool {
        let old = std::mem::take(&mut self.nodes);
        let since = |name: &Arc<str>| old.get(name).map_or(now, |since| since.moment);
        self.nodes = found
            .into_iter()
            .map(|(name, removable)| (name.clone(), Since { moment: since(&name), removable }))
            .collect();
        self.nodes != old
    }

    /// Those that were unneeded long enough and whose groups and cluster stay large enough without them.
    pub(super) fn may_go(
        &self,
        context: &AutoscalingContext<'_>,
        groups: &Groups,
        in_progress: &InProgress,
        mut quotas: Quotas,
    ) -> MayGo {
        let mut sizes: Vec<i64> = groups
            .ids()
            .map(|group| groups.get(group).target.saturating_sub(in_progress.count(group)))
            .collect();
        let mut may_go = MayGo::default();
        for drains in [false, true] {
            for since in self.nodes.values().filter(|since| since.removable.drains == drains) {
                match reason_to_stay(context, groups, since, &mut sizes, &mut quotas) {
                    Some(reason) => may_go.not.push((since.removable.candidate.node, reason)),
                    None if drains => may_go.drained.push(since.removable),
                    None => may_go.empty.push(since.removable),
                }
            }
        }
        may_go
    }
}

fn reason_to_stay(
    context: &AutoscalingContext<'_>,
    groups: &Groups,
    since: &Since,
    sizes: &mut [i64],
    quotas: &mut Quotas,
) -> Option<UnremovableReason> {
    let Candidate { node: id, group } = since.removable.candidate;
    if is_disabled(context.cluster.snapshot.node(id)) {
        return Some(UnremovableReason::ScaleDownDisabledAnnotation);
    }
    let options = &groups.get(group).options;
    let ready = context.is_ready(id);
    let wait = if ready { options.scale_down_unneeded_time } else { options.scale_down_unready_time };
    // No wait at all is not even a nanosecond; up to 1.34 it was one loop.
    let waits = wait > Duration::ZERO || context.settings.version < Version::V1_35;
    if waits && !context.clock.is_past(after(since.moment, wait)) {
        return Some(if ready {
            UnremovableReason::NotUnneededLongEnough
        } else {
            UnremovableReason::NotUnreadyLongEnough
        });
    }
    if sizes[group.index()] <= groups.get(group).min {
        return Some(UnremovableReason::NodeGroupMinSizeReached);
    }
    if !quotas.take(context, id, group) {
        return Some(UnremovableReason::MinimalResourceLimitExceeded);
    }
    sizes[group.index()] = sizes[group.index()].saturating_sub(1);
    None
}

#[cfg(test)]
mod tests;
