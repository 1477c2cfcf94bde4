//! The order of queues.

use std::cmp::Ordering;

use super::Proportion;
use crate::cluster::Cluster;
use crate::cluster::ids::QueueId;
use crate::cluster::resources::ResourceVector;
use crate::fair_share::{Quantities, QueueShare, quantify};

/// A queue that is compared, with what would change next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ComparedQueue<'a> {
    pub queue: QueueId,
    /// The request of its next job; `None` where victims are ordered.
    pub job: Option<&'a ResourceVector>,
    /// What it has without its victims; `None` where jobs are ordered.
    pub without_victims: Option<Quantities>,
}

impl Proportion {
    /// Which queue is served first. Queues that are equal in everything else are in the order of their creation; of two
    /// created at the same time each comes after the other.
    pub(crate) fn compare_queues(
        &self,
        cluster: &Cluster,
        left: ComparedQueue<'_>,
        right: ComparedQueue<'_>,
    ) -> Ordering {
        let (left_share, right_share) = (self.share(left.queue), self.share(right.queue));
        let (left_queue, right_queue) = (cluster.queue(left.queue), cluster.queue(right.queue));
        let request = |queue: ComparedQueue<'_>| {
            queue.job.map_or(Quantities::default(), |job| quantify(job, &cluster.names))
        };
        let (left_job, right_job) = (request(left), request(right));
        false_first(left_share.is_over_utilized(), right_share.is_over_utilized())
            .then_with(|| {
                // A queue that stays within its quota with the job comes first.
                let is_above = |share: &QueueShare, job| !share.is_within_quota_with(job);
                false_first(is_above(left_share, &left_job), is_above(right_share, &right_job))
            })
            .then_with(|| right_queue.priority.cmp(&left_queue.priority))
            .then_with(|| {
                let has_without_share = |share: &QueueShare, job: &Quantities| {
                    let resources = share.resources.iter().zip(&job.0);
                    resources
                        .filter(|(share, _)| share.allocatable() == 0.0)
                        .any(|(share, job)| share.allocated + job > 0.0)
                };
                false_first(
                    has_without_share(left_share, &left_job),
                    has_without_share(right_share, &right_job),
                )
            })
            .then_with(|| {
                let dominant = |share: &QueueShare, job: &Quantities, without_victims: Option<Quantities>| {
                    let allocated = without_victims.unwrap_or_else(|| {
                        let mut with_job = share.allocated();
                        with_job.add(job);
                        with_job
                    });
                    share.dominant_share(&allocated, &self.total)
                };
                let left = dominant(left_share, &left_job, left.without_victims);
                compare(left, dominant(right_share, &right_job, right.without_victims))
            })
            .then_with(|| {
                let dominant = |share: &QueueShare| share.dominant_share(&share.allocated(), &self.total);
                compare(dominant(left_share), dominant(right_share))
            })
            .then_with(|| {
                let (left, right) = (left_share.allocatable(), right_share.allocatable());
                match (left.is_at_most(&right), right.is_at_most(&left)) {
                    (true, false) => Ordering::Less,
                    (false, true) => Ordering::Greater,
                    (true, true) | (false, false) => Ordering::Equal,
                }
            })
            .then_with(|| {
                if left_queue.created < right_queue.created { Ordering::Less } else { Ordering::Greater }
            })
    }
}

fn false_first(left: bool, right: bool) -> Ordering {
    left.cmp(&right)
}

fn compare(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}
