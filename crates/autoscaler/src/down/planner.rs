//! Which nodes are unneeded, which may not go and why, and which go now.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::time::after;
use model::Moment;
use scheduler::ids::NodeId;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::{Unremovable, UnremovableReason};
use super::super::packing::Packing;
use super::super::settings::Settings;
use super::InProgress;
use super::candidate::Candidate;
use super::candidates::Candidates;
use super::disruptions::Disruptions;
use super::eligibility::eligibility;
use super::groups::{Groups, registered};
use super::quotas::Quotas;
use super::removal::{Refusal, remove};
use super::summaries::Summaries;
use super::unneeded::{MayGo, Removable, Unneeded};

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
    /// Nobody wants to know of nodes that stay.
    pub brief: bool,
    packing: Packing,
    /// What may go of the cluster as it is, as of a revision of nodes.
    quotas: Option<(u64, Quotas)>,
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
            brief: false,
            packing: Packing::default(),
            quotas: None,
            last_look: None,
            shortest: unneeded_nanos(settings),
        }
    }

    /// Looks at all candidates. Their pods may move to the destinations; those that are being deleted are none.
    pub(super) fn look(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        candidates: &Candidates,
        in_progress: &InProgress,
    ) {
        let now = context.clock.now();
        if let Some(last) = self.last_look {
            self.shortest = self.shortest.min(now.nanos_since(last)).max(1);
        }
        self.last_look = Some(now);
        let snapshot = &context.cluster.snapshot;
        let mut destinations = candidates.destinations.clone();
        let end = destinations.len();
        for id in in_progress.names().filter_map(|name| snapshot.find(name)).filter(|id| id.index() < end) {
            destinations[id.index()] = false;
        }
        self.unremovable.clear();
        let tried = self.tried_in_vain(context, end);
        // Those that are on their way out are none.
        let stays = |candidate: &&Candidate| destinations[candidate.node.index()];
        let eligible: Vec<Candidate> = if self.brief {
            let promising = candidates.promising.iter().filter(stays);
            promising.filter(|candidate| !tried[candidate.node.index()]).copied().collect()
        } else {
            let candidates: Vec<Candidate> = candidates.all.iter().filter(stays).copied().collect();
            self.eligible(context, groups, &candidates, &tried)
        };
        let fork = context.cluster.snapshot.fork();
        let found = self.try_removals(context, groups, destinations, &eligible);
        context.cluster.snapshot.revert(fork);
        let leads_elsewhere = self.packing.drop_old_hints(|node| context.cluster.has_node(node));
        if self.unneeded.update(found, now) || leads_elsewhere {
            context.clock.disturb();
        }
    }

    /// Whether a look at that moment changes nothing in how many nodes are worth looking for.
    pub(super) fn keeps_pace(&self, now: Moment) -> bool {
        self.last_look.is_none_or(|last| now.nanos_since(last) >= self.shortest)
    }

    /// A loop at that moment would have looked, and found the same.
    pub(super) fn looked_again(&mut self, last: Moment, now: Moment) {
        if self.last_look == Some(last) {
            self.last_look = Some(now);
        }
    }

    /// Nodes whose removal was tried in vain a short while ago, by number.
    fn tried_in_vain(&mut self, context: &AutoscalingContext<'_>, end: usize) -> Vec<bool> {
        let (clock, snapshot, known) = (context.clock, &context.cluster.snapshot, self.recent.len());
        let mut tried = vec![false; end];
        self.recent.retain(|name, until| {
            let node = snapshot.find(name).filter(|_| !clock.has_come(*until));
            if let Some(tried) = node.and_then(|node| tried.get_mut(node.index())) {
                *tried = true;
            }
            node.is_some()
        });
        if self.recent.len() != known {
            clock.disturb();
        }
        tried
    }

    /// Those that are worth a closer look, where it is wanted to know why others are not.
    fn eligible(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        candidates: &[Candidate],
        tried: &[bool],
    ) -> Vec<Candidate> {
        self.utilization.clear();
        let mut eligible = Vec::new();
        for candidate in candidates {
            if tried[candidate.node.index()] {
                self.stays(context, candidate.node, UnremovableReason::RecentlyUnremovable);
                continue;
            }
            let (reason, used) = eligibility(context, groups, &mut self.summaries, *candidate);
            if let Some(used) = used {
                self.utilization.push((context.cluster.snapshot.node(candidate.node).name.clone(), used));
            }
            match reason {
                Some(reason) => self.stays(context, candidate.node, reason),
                None => eligible.push(*candidate),
            }
        }
        eligible
    }

    /// Removes one after the other in the snapshot, as long as it is worth while.
    fn try_removals(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        mut destinations: Vec<bool>,
        eligible: &[Candidate],
    ) -> Vec<(Arc<str>, Removable)> {
        let again = after(context.clock.now(), context.settings.unremovable_node_recheck_timeout);
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
                    context.clock.disturb();
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
        context: &mut AutoscalingContext<'_>,
        groups: &Groups,
        in_progress: &InProgress,
    ) -> (Vec<Candidate>, Vec<Candidate>) {
        let Some(quotas) = self.quotas(context) else { return (Vec::new(), Vec::new()) };
        let MayGo { empty, drained, not } = self.unneeded.may_go(context, groups, in_progress, quotas);
        for (node, reason) in not {
            self.stays(context, node, reason);
        }
        let (risky, safe): (Vec<_>, Vec<_>) = drained.into_iter().partition(|removable| removable.risky);
        let all: Vec<Removable> = [empty, safe, risky].concat();
        let (mut empty, mut drained) = (Vec::new(), Vec::new());
        for removable in self.whole_groups(context, groups, all) {
            let candidate = removable.candidate;
            if removable.waits {
                self.stays(context, candidate.node, UnremovableReason::BlockedByOnCompletionPod);
            } else if removable.drains {
                drained.push(candidate);
            } else {
                empty.push(candidate);
            }
        }
        (empty, drained)
    }

    /// What may go: worked out once for all loops in which the nodes are the same.
    fn quotas(&mut self, context: &mut AutoscalingContext<'_>) -> Option<Quotas> {
        if context.cluster.snapshot.has_other_nodes() {
            return Quotas::of(context);
        }
        if self.quotas.as_ref().is_none_or(|(revision, _)| *revision != context.standings.revision) {
            self.quotas = Some((context.standings.revision, Quotas::of(context)?));
        }
        self.quotas.as_ref().map(|(_, quotas)| quotas.clone())
    }

    /// Leaves out groups of which all nodes go or none, unless all go; the others come first.
    fn whole_groups(
        &mut self,
        context: &AutoscalingContext<'_>,
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
                self.stays(context, removable.candidate.node, UnremovableReason::AtomicScaleDownFailed);
            }
        }
        going
    }

    fn stays(&mut self, context: &AutoscalingContext<'_>, node: NodeId, reason: UnremovableReason) {
        if self.brief {
            return;
        }
        let node = context.cluster.snapshot.node(node).name.clone();
        self.unremovable.insert(node.clone(), Unremovable { node, reason, blocking: None });
    }

    fn refuse(&mut self, context: &AutoscalingContext<'_>, node: Arc<str>, (reason, blocking): Refusal) {
        if self.brief {
            return;
        }
        let blocking = blocking.map(|(pod, why)| (context.cluster.snapshot.pod(pod).name.clone(), why));
        self.unremovable.insert(node.clone(), Unremovable { node, reason, blocking });
    }
}

/// How long nodes must be unneeded, in nanoseconds; never nothing.
fn unneeded_nanos(settings: &Settings) -> i64 {
    let nanos = settings.group_defaults.scale_down_unneeded_time.as_nanos();
    i64::try_from(nanos).unwrap_or(i64::MAX).max(1)
}
