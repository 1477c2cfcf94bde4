//! The share of a queue.

use super::quantities::{Quantities, is_less_or_equal};
use crate::cluster::queue::{QueueResource, UNLIMITED};

/// The share of a queue, for each resource.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct QueueShare {
    pub resources: [ResourceShare; 3],
}

/// The share of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ResourceShare {
    pub quota: f64,
    pub limit: f64,
    pub over_quota_weight: f64,
    /// What the queue's pods have or wait for.
    pub request: f64,
    pub allocated: f64,
    pub allocated_non_preemptible: f64,
    pub fair_share: f64,
    /// Past use, as a part of the cluster. Snapshots do not contain it.
    pub usage: f64,
}

/// The dominant share of a queue that has something of a resource of which it may have nothing.
const WITHOUT_SHARE_FACTOR: f64 = 1000.0;

// === impl QueueShare ===

impl QueueShare {
    /// The share of a queue without pods.
    pub(crate) fn new(resources: &[QueueResource; 3]) -> QueueShare {
        let share = |resource: &QueueResource| ResourceShare {
            quota: resource.quota,
            limit: resource.limit,
            over_quota_weight: resource.over_quota_weight,
            ..ResourceShare::default()
        };
        QueueShare { resources: resources.each_ref().map(share) }
    }

    pub(crate) fn allocated(&self) -> Quantities {
        Quantities(self.resources.map(|share| share.allocated))
    }

    pub(crate) fn allocated_non_preemptible(&self) -> Quantities {
        Quantities(self.resources.map(|share| share.allocated_non_preemptible))
    }

    pub(crate) fn fair_share(&self) -> Quantities {
        Quantities(self.resources.map(|share| share.fair_share))
    }

    pub(crate) fn quota(&self) -> Quantities {
        Quantities(self.resources.map(|share| share.quota))
    }

    pub(crate) fn allocatable(&self) -> Quantities {
        Quantities(self.resources.map(|share| share.allocatable()))
    }

    /// Charges the queue for a pod.
    pub(crate) fn allocate(&mut self, amounts: &Quantities, is_preemptible: bool) {
        for (share, amount) in self.resources.iter_mut().zip(&amounts.0) {
            share.allocated += amount;
            if !is_preemptible {
                share.allocated_non_preemptible += amount;
            }
        }
    }

    /// Takes a charge back.
    pub(crate) fn deallocate(&mut self, amounts: &Quantities, is_preemptible: bool) {
        for (share, amount) in self.resources.iter_mut().zip(&amounts.0) {
            share.allocated -= amount;
            if !is_preemptible {
                share.allocated_non_preemptible -= amount;
            }
        }
    }

    /// Whether it has more than its fair share of every resource.
    pub(crate) fn is_over_utilized(&self) -> bool {
        self.resources.iter().all(|share| share.fair_share < share.allocated)
    }

    /// Whether it stays within its quota with more pods.
    pub(crate) fn is_within_quota_with(&self, more: &Quantities) -> bool {
        let mut shares = self.resources.iter().zip(&more.0);
        shares.all(|(share, more)| is_less_or_equal(share.allocated + more, share.quota))
    }

    /// Whether amounts are within what it may have.
    pub(crate) fn are_allocatable(&self, amounts: &Quantities) -> bool {
        amounts.is_at_most(&self.allocatable())
    }

    /// The largest part of what it may have of a resource, with these amounts allocated.
    pub(crate) fn dominant_share(&self, allocated: &Quantities, total: &Quantities) -> f64 {
        let mut dominant = 0.0_f64;
        for (index, share) in self.resources.iter().enumerate() {
            let mut allocatable = share.allocatable();
            if allocatable == UNLIMITED {
                allocatable = total.0[index];
            }
            let allocated = allocated.0[index];
            let part =
                if allocatable == 0.0 { allocated * WITHOUT_SHARE_FACTOR } else { allocated / allocatable };
            dominant = dominant.max(part);
        }
        dominant
    }
}

// === impl ResourceShare ===

impl ResourceShare {
    /// What it may be given of its request.
    pub(crate) fn requestable(&self) -> f64 {
        if self.limit == UNLIMITED { self.request } else { self.limit.min(self.request) }
    }

    /// What it may have.
    pub(crate) fn allocatable(&self) -> f64 {
        if self.quota == UNLIMITED {
            return self.limit;
        }
        let allocatable = self.quota.max(self.fair_share);
        if self.limit == UNLIMITED { allocatable } else { allocatable.min(self.limit) }
    }

    /// What is left of its request.
    pub(crate) fn remaining_request(&self) -> f64 {
        let requestable = self.requestable();
        if requestable < self.fair_share { 0.0 } else { requestable - self.fair_share }
    }

    /// Whether it has all that it requests or may have.
    pub(crate) fn is_satisfied(&self) -> bool {
        self.request <= self.fair_share || (self.limit != UNLIMITED && self.limit <= self.fair_share)
    }
}
