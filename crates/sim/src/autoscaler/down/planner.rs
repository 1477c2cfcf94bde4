//! Which nodes are unneeded, which may not go and why, and which go now.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Moment;

use super::super::Context;
use super::super::cloud::GroupId;
use super::super::decision::{Unremovable, UnremovableReason};
use super::super::packing::Packing;
use super::super::settings::Settings;
use super::super::time::after;
use super::InProgress;
use super::candidates::Candidate;
use super::disruptions::Disruptions;
use super::eligibility::eligibility;
use super::groups::{Groups, registered};
use super::quotas::Quotas;
use super::removal::{Refusal, remove};
use super::summaries::Summaries;
use super::unneeded::{MayGo, Removable, Unneeded};
use crate::scheduler::ids::NodeId;

/// What is known of nodes that might go.
#[derive(Debug)]
pub(super) struct Planner {
    pub unneeded: Unneeded,
    /// Why nodes may not go, by name, as the last look found.
    pub unremovable: BTreeMap<Arc<str>, Unremovable>,
    /// Until when nodes whose removal was tried in vain are not tried again.
    pub recent: BTreeMap<Arc<str>, Moment>,
    /// How much of each node is used, where that was looked at.
    pub utilization: Vec<(Arc<str>, f64)>,
    pub summaries: Summaries,
    packing: Packing,
    last_look: Option<Moment>,
    /// The shortest time between two looks so far, in nanoseconds.
    shortest: i64,
}

impl Planner {
    pub(super) fn new(settings: &Settings) -> Planner {
        Planner {
            unneeded: Unneeded::default(),
            unremovable: BTreeMap::new(),
            recent: BTreeMap::new(),
            utilization: Vec::new(),
            summaries: Summaries::default(),
            packing: Packing::default(),
            last_look: None,
            shortest: unneeded_nanos(settings),
        }
    }

    /// Looks at all candidates. Their pods may move to `nodes`; those that are being deleted do not count.
    pub(super) fn look(
        &mut self,
        context: &mut Context<'_>,
        groups: &Groups,
        nodes: &[NodeId],
        candidates: &[Candidate],
        in_progress: &InProgress,
    ) {
        let now = context.now;
        if let Some(last) = self.last_look {
            self.shortest = self.shortest.min(now.nanos_since(last)).max(1);
        }
        self.last_look = Some(now);
        let going = |id: NodeId| in_progress.contains(&context.cluster.snapshot.node(id).name);
        let mut destinations = Vec::new();
        for id in nodes.iter().filter(|id| !going(**id)) {
            if destinations.len() <= id.index() {
                destinations.resize(id.index() + 1, false);
            }
            destinations[id.index()] = true;
        }
        let candidates: Vec<Candidate> =
            candidates.iter().filter(|candidate| !going(candidate.node)).copied().collect();
        self.unremovable.clear();
        let snapshot = &context.cluster.snapshot;
        self.recent.retain(|name, until| *until > now && snapshot.find(name).is_some());
        let eligible = self.eligible(context, groups, &candidates);
        let fork = context.cluster.snapshot.fork();
        let found = self.try_removals(context, groups, destinations, &eligible);
        context.cluster.snapshot.revert(fork);
        let looked_at: Vec<NodeId> = candidates.iter().map(|candidate| candidate.node).collect();
        self.summaries.still_hold(context, &looked_at);
        self.unneeded.update(found, now);
        self.packing.drop_old_hints();
    }

    /// Those that are worth a closer look.
    fn eligible(
        &mut self,
        context: &mut Context<'_>,
        groups: &Groups,
        candidates: &[Candidate],
    ) -> Vec<Candidate> {
        self.utilization.clear();
        let mut eligible = Vec::new();
        for candidate in candidates {
            let name = context.cluster.snapshot.node(candidate.node).name.clone();
            if self.recent.contains_key(&name) {
                self.stays(name, UnremovableReason::RecentlyUnremovable);
                continue;
            }
            let (reason, used) = eligibility(context, groups, &mut self.summaries, *candidate);
            self.utilization.extend(used.map(|used| (name.clone(), used)));
            match reason {
                Some(reason) => self.stays(name, reason),
                None => eligible.push(*candidate),
            }
        }
        eligible
    }

    /// Removes one after the other in the snapshot, as long as it is worth while.
    fn try_removals(
        &mut self,
        context: &mut Context<'_>,
        groups: &Groups,
        mut destinations: Vec<bool>,
        eligible: &[Candidate],
    ) -> Vec<(Arc<str>, Removable)> {
        let again = after(context.now, context.settings.unremovable_node_recheck_timeout);
        let limit = self.limit(context.settings);
        let mut disruptions = Disruptions::of(context.cluster);
        let (mut found, mut single) = (Vec::new(), 0_i64);
        for candidate in eligible {
            if single >= limit {
                break;
            }
            let name = context.cluster.snapshot.node(candidate.node).name.clone();
            match remove(context, &mut self.packing, &disruptions, &destinations, candidate.node) {
                Ok(drain) => {
                    let pods = drain.pods.iter().map(|id| &**context.cluster.snapshot.pod(*id));
                    let risky = !disruptions.spend(pods);
                    destinations[candidate.node.index()] = false;
                    let drains = !drain.pods.is_empty();
                    found
                        .push((name, Removable { candidate: *candidate, drains, waits: drain.waits, risky }));
                    single += i64::from(!groups.get(candidate.group).atomic);
                }
                Err(refusal) => {
                    self.recent.insert(name.clone(), again);
                    self.refuse(context, name, refusal);
                }
            }
        }
        found
    }

    /// More unneeded nodes than can go in time are not worth looking for.
    fn limit(&self, settings: &Settings) -> i64 {
        let at_once = settings.max_scale_down_parallelism;
        let loops = unneeded_nanos(settings).max(self.shortest) / self.shortest;
        let soon = (self.unneeded.len() as i64).saturating_add(at_once.saturating_mul(2));
        at_once.saturating_mul(loops).saturating_add(at_once).min(soon)
    }

    /// Those that go now, empty and not.
    pub(super) fn choose(
        &mut self,
        context: &mut Context<'_>,
        groups: &Groups,
        in_progress: &InProgress,
    ) -> (Vec<Candidate>, Vec<Candidate>) {
        let Some(quotas) = Quotas::of(context) else { return (Vec::new(), Vec::new()) };
        let MayGo { empty, drained, not } = self.unneeded.may_go(context, groups, in_progress, quotas);
        for (name, reason) in not {
            self.stays(name, reason);
        }
        let (risky, safe): (Vec<_>, Vec<_>) = drained.into_iter().partition(|removable| removable.risky);
        let all: Vec<Removable> = [empty, safe, risky].concat();
        let (mut empty, mut drained) = (Vec::new(), Vec::new());
        for removable in self.whole_groups(context, groups, all) {
            let candidate = removable.candidate;
            if removable.waits {
                let name = context.cluster.snapshot.node(candidate.node).name.clone();
                self.stays(name, UnremovableReason::BlockedByOnCompletionPod);
            } else if removable.drains {
                drained.push(candidate);
            } else {
                empty.push(candidate);
            }
        }
        (empty, drained)
    }

    /// Leaves out groups of which all nodes go or none, unless all go; the others come first.
    fn whole_groups(
        &mut self,
        context: &Context<'_>,
        groups: &Groups,
        removable: Vec<Removable>,
    ) -> Vec<Removable> {
        let (atomic, mut going): (Vec<_>, Vec<_>) =
            removable.into_iter().partition(|removable| groups.get(removable.candidate.group).atomic);
        let mut by_group: BTreeMap<GroupId, Vec<Removable>> = BTreeMap::new();
        for removable in atomic {
            by_group.entry(removable.candidate.group).or_default().push(removable);
        }
        let snapshot = &context.cluster.snapshot;
        for (group, all) in by_group {
            let is_whole = groups.get(group).target == all.len() as i64
                || registered(snapshot, &*context.cloud, group) == all.len();
            if is_whole {
                going.extend(all);
                continue;
            }
            for removable in all {
                let name = snapshot.node(removable.candidate.node).name.clone();
                self.stays(name, UnremovableReason::AtomicScaleDownFailed);
            }
        }
        going
    }

    fn stays(&mut self, node: Arc<str>, reason: UnremovableReason) {
        self.unremovable.insert(node.clone(), Unremovable { node, reason, blocking: None });
    }

    fn refuse(&mut self, context: &Context<'_>, node: Arc<str>, (reason, blocking): Refusal) {
        let blocking = blocking.map(|(pod, why)| (context.cluster.snapshot.pod(pod).name.clone(), why));
        self.unremovable.insert(node.clone(), Unremovable { node, reason, blocking });
    }
}

/// How long nodes must be unneeded, in nanoseconds; never nothing.
fn unneeded_nanos(settings: &Settings) -> i64 {
    let nanos = settings.group_defaults.scale_down_unneeded_time.as_nanos();
    i64::try_from(nanos).unwrap_or(i64::MAX).max(1)
}
