//! A node as a DaemonSet sees it.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::daemons::Wants;
use model::{Moment, NamespacedName};

use super::{Plan, Set};
use crate::pod::{Phase, Pod};
use crate::world::World;
use crate::{Context, Controller};

const SECOND: i64 = 1_000_000_000;
/// The longest that a failed pod is kept.
const LONGEST_BACKOFF: i64 = 15 * 60 * SECOND;

/// A node.
#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) wants: Wants,
    pub(super) pods: BTreeSet<NamespacedName>,
    pub(super) counts: Counts,
    pub(super) backoff: Option<Backoff>,
}

/// How long a pod that failed is kept, so that a node that refuses pods is not flooded with them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    /// The generation of the DaemonSet that it is for.
    generation: i64,
    nanos: i64,
    since: Moment,
}

/// What a node adds to the status of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) desired: i64,
    pub(super) current: i64,
    pub(super) misscheduled: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) updated: i64,
    /// Whether there are pods of an older template, as a number.
    pub(super) outdated: i64,
    /// When its pod will have been ready for long enough, if it is not yet.
    pub(super) available_at: Option<Moment>,
}

// === impl Place ===

impl Place {
    /// The pods meant for the node, the oldest first and those that are there before those that wait. Those that ended and
    /// are being deleted do not count.
    pub(super) fn pods(&self, world: &World) -> Vec<Arc<Pod>> {
        let pods = self.pods.iter().filter_map(|name| world.pods.get(name));
        let mut pods: Vec<_> = pods.filter(|pod| !(pod.is_finished() && pod.is_deleted())).cloned().collect();
        pods.sort_by(|a, b| older(a, b));
        pods
    }

    /// What is to be done about the pods of a node. True if it is to be looked at again when the DaemonSet's time comes.
    pub(super) fn manage(
        &mut self,
        context: &mut Context<'_>,
        set: &Set<'_>,
        node: &Arc<str>,
        pods: &[Arc<Pod>],
        plan: &mut Plan,
    ) -> bool {
        if self.wants.run && pods.is_empty() {
            plan.create.push(node.clone());
            return false;
        }
        let live = pods.iter().filter(|pod| !pod.is_deleted());
        if !self.wants.keep {
            plan.delete.extend(live.cloned());
            return false;
        }
        let (mut running, mut waits) = (Vec::new(), false);
        for pod in live {
            match pod.phase {
                Phase::Failed if self.is_too_soon(context, set) => waits = true,
                Phase::Failed | Phase::Succeeded => plan.delete.push(pod.clone()),
                Phase::Pending | Phase::Unknown | Phase::Running => running.push(pod),
            }
        }
        if set.held.spec.surge(1) == 0 {
            plan.delete.extend(running.into_iter().skip(1).cloned());
            return waits;
        }
        if running.is_empty() && self.wants.run {
            plan.create.push(node.clone());
        }
        // While a new pod takes over, there may be two.
        let (new, old): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) =
            running.into_iter().cloned().partition(|pod| pod.label(super::REVISION_HASH) == Some(set.hash));
        let surplus = new.iter().skip(1).chain(old.iter().skip(1));
        plan.delete.extend(surplus.cloned());
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.ready || new.is_available(set.held.spec.min_ready_seconds, context.now))
        {
            plan.delete.push(old.clone());
        }
        waits
    }

    /// Whether a pod that failed is kept for a while, because another failed shortly before.
    fn is_too_soon(&mut self, context: &mut Context<'_>, set: &Set<'_>) -> bool {
        let (now, generation) = (context.now, set.held.status.observed_generation);
        let known = self.backoff.filter(|known| {
            known.generation == generation && now.nanos_since(known.since) <= 2 * LONGEST_BACKOFF
        });
        if let Some(known) = known
            && now.nanos_since(known.since) < known.nanos
        {
            context.look_again(now.plus_nanos(known.nanos), Controller::DaemonSet, set.held.name.clone());
            return true;
        }
        let nanos = known.map_or(SECOND, |known| (known.nanos * 2).min(LONGEST_BACKOFF));
        self.backoff = Some(Backoff { generation, nanos, since: now });
        false
    }

    /// What the node adds to the status.
    pub(super) fn count(&self, set: &Set<'_>, pods: &[Arc<Pod>], now: Moment) -> Counts {
        let is_old = |pod: &Arc<Pod>| !pod.is_deleted() && !set.is_updated(pod);
        let mut counts = Counts { outdated: pods.iter().any(is_old).into(), ..Counts::default() };
        if !self.wants.run {
            counts.misscheduled = i64::from(!pods.is_empty());
            return counts;
        }
        counts.desired = 1;
        let Some(first) = pods.first() else { return counts };
        counts.current = 1;
        counts.ready = first.ready.into();
        let available_at = first.available_at(set.held.spec.min_ready_seconds);
        counts.available = available_at.is_some_and(|at| at <= now).into();
        counts.available_at = available_at.filter(|at| *at > now);
        counts.updated = set.is_updated(first).into();
        counts
    }
}

/// Which of two pods of a node is the one to keep.
fn older(a: &Pod, b: &Pod) -> Ordering {
    let created = |pod: &Pod| pod.meta.creation_timestamp.unwrap_or(Moment::MIN);
    (a.node.is_none(), created(a), &a.name.name).cmp(&(b.node.is_none(), created(b), &b.name.name))
}

// === impl Counts ===

impl Counts {
    /// Takes one node's part out of a total and puts another in its place.
    pub(super) fn replace(&mut self, old: &Counts, new: &Counts) {
        self.desired += new.desired - old.desired;
        self.current += new.current - old.current;
        self.misscheduled += new.misscheduled - old.misscheduled;
        self.ready += new.ready - old.ready;
        self.available += new.available - old.available;
        self.updated += new.updated - old.updated;
        self.outdated += new.outdated - old.outdated;
    }
}
