//! Reclaiming: which jobs may take resources, from which queues, and how much.

use std::collections::{BTreeMap, BTreeSet};

use super::Proportion;
use crate::cluster::Cluster;
use crate::cluster::ids::QueueId;
use crate::cluster::queue::{UNLIMITED, path_from_root, path_to_root};
use crate::cluster::resources::{CPU, GPU, MEMORY, ResourceVector};
use crate::fair_share::{Quantities, QueueShare, quantify};

/// A job that reclaims.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reclaimer<'a> {
    pub queue: QueueId,
    pub required: &'a ResourceVector,
    pub is_preemptible: bool,
}

/// Which of the resources are involved, by queue.
type InvolvedResources = BTreeMap<QueueId, [bool; 3]>;

impl Proportion {
    /// Whether the job's queue stays within its fair share, and within its quota with a job that cannot be preempted.
    pub(crate) fn can_reclaim(&self, cluster: &Cluster, reclaimer: Reclaimer<'_>) -> bool {
        let share = self.share(reclaimer.queue);
        let required = quantify(reclaimer.required, &cluster.names);
        let with_required = |mut amounts: Quantities| {
            amounts.add(&required);
            amounts
        };
        with_required(share.allocated()).is_at_most(&share.fair_share())
            && (reclaimer.is_preemptible
                || with_required(share.allocated_non_preemptible()).is_at_most(&share.quota()))
    }

    /// Whether anything may be reclaimed from a queue at all.
    pub(crate) fn is_victim_queue(
        &self,
        cluster: &Cluster,
        reclaimer: Reclaimer<'_>,
        victim: QueueId,
    ) -> bool {
        let required = quantify(reclaimer.required, &cluster.names);
        let (reclaimer, victim) = leveled_queues(cluster, reclaimer.queue, victim);
        let victim = self.share(victim);
        if !self.share(reclaimer).is_within_quota_with(&required) {
            return !victim.are_allocatable(&victim.allocated());
        }
        let mut is_any_under_quota = false;
        for (share, required) in victim.resources.iter().zip(&required.0) {
            if *required <= 0.0 || share.quota == UNLIMITED {
                continue;
            }
            if share.allocated > share.quota {
                return true;
            }
            is_any_under_quota |= share.allocated < share.quota;
        }
        !is_any_under_quota
    }

    /// Whether these resources may be reclaimed, given in the pieces in which they are taken, by queue.
    pub(crate) fn allows_reclaim(
        &self,
        cluster: &Cluster,
        reclaimer: Reclaimer<'_>,
        victims: &BTreeMap<QueueId, Vec<ResourceVector>>,
    ) -> bool {
        let mut remaining: BTreeMap<QueueId, Quantities> = BTreeMap::new();
        let mut involved = InvolvedResources::new();
        let required = quantify(reclaimer.required, &cluster.names);
        for (&queue, pieces) in victims {
            let (reclaimer, victim) = leveled_queues(cluster, reclaimer.queue, queue);
            involved.insert(queue, involved_resources(pieces.iter()));
            let (reclaimer_share, victim_share) = (self.simulated(reclaimer), self.simulated(victim));
            remaining.entry(victim).or_insert_with(|| victim_share.allocated());
            for piece in pieces {
                let has_now = remaining[&victim];
                let may_be_taken = !victim_share.are_allocatable(&has_now)
                    || (reclaimer_share.is_within_quota_with(&required)
                        && !has_now.is_at_most(&victim_share.quota()));
                if !may_be_taken {
                    return false;
                }
                self.subtract(cluster, queue, piece, &mut remaining, &mut involved);
            }
        }
        self.stays_within_boundaries(cluster, reclaimer, remaining, &involved)
    }

    /// Subtracts what is taken from a queue from it and those above.
    fn subtract(
        &self,
        cluster: &Cluster,
        queue: QueueId,
        piece: &ResourceVector,
        remaining: &mut BTreeMap<QueueId, Quantities>,
        involved: &mut InvolvedResources,
    ) {
        let of_queue = involved[&queue];
        for above in path_to_root(&cluster.queues, queue) {
            let amounts = remaining.entry(above).or_insert_with(|| self.simulated(above).allocated());
            amounts.subtract(&quantify(piece, &cluster.names));
            let resources = involved.entry(above).or_default();
            for (is_involved, of_queue) in resources.iter_mut().zip(of_queue) {
                *is_involved |= of_queue;
            }
        }
    }

    /// Whether the reclaiming queues have relatively less than those next to them from which something is taken.
    fn stays_within_boundaries(
        &self,
        cluster: &Cluster,
        reclaimer: Reclaimer<'_>,
        mut remaining: BTreeMap<QueueId, Quantities>,
        involved: &InvolvedResources,
    ) -> bool {
        let required = quantify(reclaimer.required, &cluster.names);
        let of_reclaimer = involved_resources(std::iter::once(reclaimer.required));
        for queue in path_to_root(&cluster.queues, reclaimer.queue) {
            let share = self.simulated(queue);
            let amounts = match remaining.get_mut(&queue) {
                Some(amounts) => {
                    amounts.add(&required);
                    *amounts
                }
                None => {
                    let mut amounts = share.allocated();
                    amounts.add(&required);
                    amounts
                }
            };
            let siblings: BTreeSet<QueueId> = remaining.keys().copied().collect();
            for sibling in siblings {
                if sibling == queue || cluster.queue(sibling).parent != cluster.queue(queue).parent {
                    continue;
                }
                let mut resources = involved.get(&sibling).copied().unwrap_or_default();
                for (is_involved, of_reclaimer) in resources.iter_mut().zip(of_reclaimer) {
                    *is_involved |= of_reclaimer;
                }
                let fair_share = self.simulated(sibling).fair_share();
                let is_lower = self.is_saturation_lower(
                    resources,
                    (&amounts, &share.fair_share()),
                    (&remaining[&sibling], &fair_share),
                );
                if !is_lower {
                    return false;
                }
            }
            if reclaimer.is_preemptible {
                continue;
            }
            let mut non_preemptible = share.allocated_non_preemptible();
            non_preemptible.add(&required);
            if !non_preemptible.is_at_most(&share.quota()) {
                return false;
            }
        }
        true
    }

    /// Whether the first queue has a smaller part of its fair share of each resource than the second one, if it has
    /// more than all of it.
    fn is_saturation_lower(
        &self,
        involved: [bool; 3],
        (reclaimer, reclaimer_fair_share): (&Quantities, &Quantities),
        (sibling, sibling_fair_share): (&Quantities, &Quantities),
    ) -> bool {
        (0..3).filter(|resource| involved[*resource]).all(|resource| {
            let fair_shares = (reclaimer_fair_share.0[resource], sibling_fair_share.0[resource]);
            if fair_shares == (UNLIMITED, UNLIMITED) {
                return true;
            }
            let reclaimer = saturation(reclaimer.0[resource], fair_shares.0);
            let sibling = saturation(sibling.0[resource], fair_shares.1);
            reclaimer <= 1.0 || fair_shares.1 <= 0.0 || reclaimer * self.saturation_multiplier < sibling
        })
    }

    /// The share before victims were searched.
    fn simulated(&self, queue: QueueId) -> &QueueShare {
        &self.simulation[queue.index()]
    }
}

/// The first queues from the root down that differ; the last ones if one queue is above the other.
fn leveled_queues(cluster: &Cluster, reclaimer: QueueId, victim: QueueId) -> (QueueId, QueueId) {
    let (reclaimers, victims) =
        (path_from_root(&cluster.queues, reclaimer), path_from_root(&cluster.queues, victim));
    let mut pairs = reclaimers.into_iter().zip(victims);
    let last = pairs.clone().next_back();
    pairs.find(|(reclaimer, victim)| reclaimer != victim).or(last).expect("a path has at least its own queue")
}

fn involved_resources<'v>(vectors: impl Iterator<Item = &'v ResourceVector>) -> [bool; 3] {
    let mut involved = [false; 3];
    for vector in vectors {
        for (is_involved, index) in involved.iter_mut().zip([CPU, MEMORY, GPU]) {
            *is_involved |= vector.get(index) > 0.0;
        }
    }
    involved
}

/// The part of its fair share that a queue has.
fn saturation(allocated: f64, fair_share: f64) -> f64 {
    match fair_share {
        0.0 if allocated > 0.0 => f64::INFINITY,
        0.0 | UNLIMITED => 0.0,
        _ => allocated / fair_share,
    }
}
