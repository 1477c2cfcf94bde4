//! Unneeded nodes, and since when they are unneeded.

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
use super::DeletionsInProgress;
use super::candidate::ScaleDownCandidate;
use super::groups::ScaleDownGroups;
use super::min_quotas::MinQuotaTracker;
use super::node_markers::is_scale_down_disabled;

/// Unneeded nodes by name.
#[derive(Debug, Default)]
pub(super) struct UnneededNodes {
    nodes: BTreeMap<Arc<str>, UnneededNode>,
}

/// A removable node as of the last loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct NodeToBeRemoved {
    pub candidate: ScaleDownCandidate,
    /// Whether pods have to be moved.
    pub needs_drain: bool,
    /// Whether there are on-completion pods.
    pub has_on_completion_pods: bool,
    /// Whether evicting all of its pods at once would exceed a PodDisruptionBudget.
    pub is_risky: bool,
}

#[derive(Debug, PartialEq)]
struct UnneededNode {
    since: Moment,
    to_be_removed: NodeToBeRemoved,
}

/// Unneeded nodes, by whether they can be removed now.
#[derive(Debug, Default)]
pub(super) struct RemovableNodes {
    pub empty: Vec<NodeToBeRemoved>,
    pub need_drain: Vec<NodeToBeRemoved>,
    pub unremovable: Vec<(NodeId, UnremovableReason)>,
}

impl UnneededNodes {
    pub(super) fn clear(&mut self) {
        self.nodes.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// By name, with the moment since when they are unneeded.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, Moment)> {
        self.nodes.iter().map(|(name, since)| (name, since.since))
    }

    /// The group of each node.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + '_ {
        self.nodes.values().map(|since| since.to_be_removed.candidate.group)
    }

    /// Adds a node that an earlier autoscaler found unneeded.
    pub(super) fn insert_existing(&mut self, name: Arc<str>, candidate: ScaleDownCandidate, moment: Moment) {
        let removable =
            NodeToBeRemoved { candidate, needs_drain: false, has_on_completion_pods: false, is_risky: false };
        self.nodes.insert(name, UnneededNode { since: moment, to_be_removed: removable });
    }

    /// Replaces the unneeded nodes; those that were unneeded before keep their moment. Returns whether anything
    /// changed.
    pub(super) fn update(&mut self, found: Vec<(Arc<str>, NodeToBeRemoved)>, now: Moment) -> bool {
        let old = std::mem::take(&mut self.nodes);
        let since = |name: &Arc<str>| old.get(name).map_or(now, |since| since.since);
        self.nodes = found
            .into_iter()
            .map(|(name, removable)| {
                (name.clone(), UnneededNode { since: since(&name), to_be_removed: removable })
            })
            .collect();
        self.nodes != old
    }

    /// The nodes that were unneeded for long enough and whose removal keeps the minimum sizes and quotas.
    pub(super) fn removable_now(
        &self,
        context: &AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        in_progress: &DeletionsInProgress,
        mut quotas: MinQuotaTracker,
    ) -> RemovableNodes {
        let mut sizes: Vec<i64> = groups
            .ids()
            .map(|group| groups.get(group).target.saturating_sub(in_progress.count(group)))
            .collect();
        let mut removable = RemovableNodes::default();
        for drains in [false, true] {
            for unneeded in
                self.nodes.values().filter(|unneeded| unneeded.to_be_removed.needs_drain == drains)
            {
                match unremovable_reason(context, groups, unneeded, &mut sizes, &mut quotas) {
                    Some(reason) => {
                        removable.unremovable.push((unneeded.to_be_removed.candidate.node, reason))
                    }
                    None if drains => removable.need_drain.push(unneeded.to_be_removed),
                    None => removable.empty.push(unneeded.to_be_removed),
                }
            }
        }
        removable
    }
}

fn unremovable_reason(
    context: &AutoscalingContext<'_>,
    groups: &ScaleDownGroups,
    unneeded: &UnneededNode,
    sizes: &mut [i64],
    quotas: &mut MinQuotaTracker,
) -> Option<UnremovableReason> {
    let ScaleDownCandidate { node: id, group } = unneeded.to_be_removed.candidate;
    if is_scale_down_disabled(context.cluster.snapshot.node(id)) {
        return Some(UnremovableReason::ScaleDownDisabledAnnotation);
    }
    let options = &groups.get(group).options;
    let ready = context.is_ready(id);
    let unneeded_time =
        if ready { options.scale_down_unneeded_time } else { options.scale_down_unready_time };
    // A threshold of zero skips the wait altogether; up to 1.34 the node had to wait for the next loop.
    let must_wait = unneeded_time > Duration::ZERO || context.settings.version < Version::V1_35;
    if must_wait && !context.clock.is_past(after(unneeded.since, unneeded_time)) {
        return Some(if ready {
            UnremovableReason::NotUnneededLongEnough
        } else {
            UnremovableReason::NotUnreadyLongEnough
        });
    }
    if sizes[group.index()] <= groups.get(group).min {
        return Some(UnremovableReason::NodeGroupMinSizeReached);
    }
    if !quotas.try_remove_node(context, id, group) {
        return Some(UnremovableReason::MinimalResourceLimitExceeded);
    }
    sizes[group.index()] = sizes[group.index()].saturating_sub(1);
    None
}

#[cfg(test)]
mod tests;
