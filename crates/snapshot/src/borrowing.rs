//! Borrowing among queues: which have more than their quota, and whose quota is unused.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::queue_report::{QuantityReport, QueueReport, ResourceShare};

/// A resource that queues share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Resource {
    /// GPUs, in devices.
    Gpu,
    /// Cpu, in millicores.
    Cpu,
    /// Memory, in bytes.
    Memory,
}

/// The borrowing of a resource among the queues of one parent.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Borrowing {
    /// The resource.
    pub resource: Resource,
    /// The parent of the queues; `None` for the top queues.
    pub parent: Option<String>,
    /// The queues above their quota.
    pub borrowers: Vec<Borrower>,
    /// The queues with unused quota.
    pub lenders: Vec<Lender>,
    /// What the parent has beyond the quotas of these queues.
    pub beyond_quotas: f64,
}

/// A queue above its quota.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Borrower {
    /// Its name.
    pub queue: String,
    /// What its pods have above its quota.
    pub amount: f64,
}

/// A queue with unused quota.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lender {
    /// Its name.
    pub queue: String,
    /// The unused part of its quota.
    pub unused: f64,
    /// Whether its pods wait for some of it.
    pub is_waiting: bool,
}

/// Amounts below this are rounding errors.
const TOLERANCE: f64 = 1e-6;
const UNLIMITED: f64 = -1.0;

impl Resource {
    /// All resources, the scarcest first.
    pub const ALL: [Resource; 3] = [Resource::Gpu, Resource::Cpu, Resource::Memory];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Gpu => "gpu",
            Resource::Cpu => "cpu",
            Resource::Memory => "memory",
        }
    }

    /// The share of a queue.
    pub fn of(self, queue: &QueueReport) -> &ResourceShare {
        match self {
            Resource::Gpu => &queue.resources.gpu,
            Resource::Cpu => &queue.resources.cpu,
            Resource::Memory => &queue.resources.memory,
        }
    }

    /// The amount in a sum.
    pub fn total(self, total: &QuantityReport) -> f64 {
        match self {
            Resource::Gpu => total.gpu,
            Resource::Cpu => total.cpu,
            Resource::Memory => total.memory,
        }
    }
}

/// The borrowing after a cycle, by parent and resource.
pub(crate) fn find_borrowing(queues: &[QueueReport], total: &QuantityReport) -> Vec<Borrowing> {
    let mut siblings: BTreeMap<Option<&str>, Vec<&QueueReport>> = BTreeMap::new();
    for queue in queues {
        siblings.entry(queue.parent.as_deref()).or_default().push(queue);
    }
    let mut found = Vec::new();
    for resource in Resource::ALL {
        for (parent, group) in &siblings {
            let share_of_parent = queues.iter().find(|queue| Some(&*queue.name) == *parent);
            let available = match share_of_parent.map(|queue| resource.of(queue).quota) {
                Some(quota) if quota != UNLIMITED => quota,
                _ => resource.total(total),
            };
            found.extend(borrowing_among(resource, *parent, group, available));
        }
    }
    found
}

fn borrowing_among(
    resource: Resource,
    parent: Option<&str>,
    group: &[&QueueReport],
    available: f64,
) -> Option<Borrowing> {
    let limited = || group.iter().filter(|queue| resource.of(queue).quota != UNLIMITED);
    let borrowers: Vec<Borrower> = limited()
        .map(|queue| {
            let share = resource.of(queue);
            Borrower { queue: queue.name.clone(), amount: share.allocated_after - share.quota }
        })
        .filter(|borrower| borrower.amount > TOLERANCE)
        .collect();
    if borrowers.is_empty() {
        return None;
    }
    let lenders = limited()
        .map(|queue| {
            let share = resource.of(queue);
            Lender {
                queue: queue.name.clone(),
                unused: share.quota - share.allocated_after,
                is_waiting: share.requested > share.allocated_after + TOLERANCE,
            }
        })
        .filter(|lender| lender.unused > TOLERANCE)
        .collect();
    let quotas: f64 = limited().map(|queue| resource.of(queue).quota).sum();
    let beyond_quotas = (available - quotas).max(0.0);
    Some(Borrowing { resource, parent: parent.map(str::to_owned), borrowers, lenders, beyond_quotas })
}
