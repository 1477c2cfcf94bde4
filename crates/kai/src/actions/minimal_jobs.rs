//! Jobs for which a search failed: others with the same constraints are tried only if they may be easier to place.

use std::collections::BTreeMap;

use crate::cluster::Cluster;
use crate::cluster::ids::JobId;
use crate::cluster::resources::ResourceVector;
use crate::cluster::status::PodStatus;

/// The smallest failed job of each signature.
#[derive(Clone, Debug, Default)]
pub(super) struct MinimalJobs {
    smallest: BTreeMap<u32, JobId>,
}

impl MinimalJobs {
    /// Whether a job may be easier to place than the one that failed.
    pub(super) fn is_easier(&self, cluster: &Cluster, job: JobId) -> bool {
        match self.smallest.get(&cluster.job(job).group.signature) {
            Some(failed) => is_easier(&pending_requests(cluster, job), &pending_requests(cluster, *failed)),
            None => true,
        }
    }

    /// Remembers a job that failed.
    pub(super) fn add(&mut self, cluster: &Cluster, job: JobId) {
        let signature = cluster.job(job).group.signature;
        let is_smallest = self.smallest.get(&signature).is_none_or(|smallest| {
            is_smaller(&pending_requests(cluster, job), &pending_requests(cluster, *smallest))
        });
        if is_smallest {
            self.smallest.insert(signature, job);
        }
    }
}

/// Whether one of the first pods requests less than its counterpart, or there are fewer of them.
fn is_easier(job: &[&ResourceVector], failed: &[&ResourceVector]) -> bool {
    if job.is_empty() || failed.is_empty() {
        return false;
    }
    if failed.len() > job.len() {
        return true;
    }
    job.iter().zip(failed).any(|(own, other)| own.is_at_most(other) && !other.is_at_most(own))
}

/// Whether every pod requests at most as much as its counterpart.
fn is_smaller(job: &[&ResourceVector], other: &[&ResourceVector]) -> bool {
    !job.is_empty()
        && !other.is_empty()
        && job.len() <= other.len()
        && job.iter().zip(other).all(|(own, other)| own.is_at_most(other))
}

/// What the pending pods request, the least first.
fn pending_requests(cluster: &Cluster, job: JobId) -> Vec<&ResourceVector> {
    let infos = cluster.job(job).infos().map(|info| cluster.info(info));
    let pending = infos.filter(|info| info.status == PodStatus::Pending);
    let mut requests: Vec<&ResourceVector> = pending.map(|info| &cluster.pod(info.pod).request).collect();
    // Requests that cannot be compared are in the order of their amounts.
    requests.sort_by(|left, right| {
        let amounts = left.amounts().iter().zip(right.amounts());
        let mut orders = amounts.map(|(left, right)| left.total_cmp(right));
        orders.find(|order| order.is_ne()).unwrap_or(std::cmp::Ordering::Equal)
    });
    requests
}
