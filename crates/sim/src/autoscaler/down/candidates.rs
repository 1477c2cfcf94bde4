//! Which nodes are looked at, and in which order.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use model::Moment;

use super::super::Context;
use super::super::cloud::GroupId;
use super::super::time::after;
use super::groups::Groups;
use super::summaries::Summaries;
use crate::scheduler::go;
use crate::scheduler::ids::NodeId;

/// A node that might go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub node: NodeId,
    pub group: GroupId,
}

/// The order of candidates, kept from loop to loop: mostly it is the same again.
#[derive(Debug, Default)]
pub(super) struct Ranking {
    ranked: Vec<(u8, Candidate)>,
    sorted: Vec<Candidate>,
}

impl Ranking {
    /// Nodes of groups that may shrink: empty ones first, then those that were unneeded already.
    pub(super) fn candidates(
        &mut self,
        context: &mut Context<'_>,
        groups: &Groups,
        summaries: &mut Summaries,
        nodes: &[NodeId],
        previous: &BTreeSet<Arc<str>>,
    ) -> Vec<Candidate> {
        let end = nodes.iter().map(|node| node.index() + 1).max().unwrap_or(0);
        let mut is_known = vec![false; end];
        for node in previous.iter().filter_map(|name| context.cluster.snapshot.find(name)) {
            if let Some(known) = is_known.get_mut(node.index()) {
                *known = true;
            }
        }
        let shrinks: Vec<bool> =
            groups.ids().map(|group| groups.get(group).target > groups.get(group).min).collect();
        let mut ranked = Vec::with_capacity(nodes.len());
        for node in nodes {
            let glance = summaries.glance(context, groups, *node);
            let Some(group) = glance.group.filter(|group| shrinks[group.index()]) else { continue };
            let is_new = !is_known[node.index()];
            let rank = u8::from(!glance.empty) << 2 | u8::from(glance.waits) << 1 | u8::from(is_new);
            ranked.push((rank, Candidate { node: *node, group }));
        }
        if ranked != self.ranked {
            self.ranked.clone_from(&ranked);
            // Go's sort decides among equals when there are many.
            go::sort(&mut ranked, |(a, _), (b, _)| a < b);
            self.sorted = ranked.into_iter().map(|(_, candidate)| candidate).collect();
        }
        let local = context.settings.scale_down_delay_type_local;
        let resting: Vec<bool> = groups.ids().map(|group| local && is_resting(context, group)).collect();
        let sorted = self.sorted.iter().copied();
        sorted.filter(|candidate| !resting[candidate.group.index()]).collect()
    }
}

/// Whether a group grew, shrank or failed to a short while ago.
fn is_resting(context: &Context<'_>, group: GroupId) -> bool {
    let (settings, registry) = (context.settings, &*context.registry);
    let recent = |last: Option<&Moment>, delay: Duration| {
        last.is_some_and(|last| !context.clock.has_come(after(*last, delay)))
    };
    recent(registry.scale_ups.get(&group), settings.scale_down_delay_after_add)
        || recent(registry.scale_downs.get(&group), settings.scale_down_delay_after_delete)
        || recent(registry.failed_scale_downs.get(&group), settings.scale_down_delay_after_failure)
}
