//! The orders of jobs, pods, subgroups and queues.

use std::cmp::Ordering;

use super::Session;
use crate::cluster::ids::{JobId, PodInfoId, QueueId};
use crate::cluster::pod::Pod;
use crate::cluster::sub_group::Member;
use crate::fair_share::Quantities;
use crate::plugins::proportion::ComparedQueue;
use crate::plugins::registry::Plugin;
use crate::plugins::task_order::TaskPriority;
use crate::plugins::{elastic, kubeflow, priority, ray, sub_group_order};

/// A queue with what would change next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueCandidate {
    pub queue: QueueId,
    /// Its next job; `None` where victims are ordered.
    pub job: Option<JobId>,
    /// What it has without its victims, the next one included; `None` where jobs are ordered.
    pub without_victims: Option<Quantities>,
}

/// What plugins order the pods of a job by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PodOrderKey {
    is_kubeflow_master: bool,
    is_ray_head: bool,
    priority: TaskPriority,
}

impl PodOrderKey {
    pub(super) fn of(pod: &Pod) -> PodOrderKey {
        PodOrderKey {
            is_kubeflow_master: kubeflow::is_master(pod),
            is_ray_head: ray::is_head(pod),
            priority: TaskPriority::of(pod),
        }
    }
}

impl Session {
    /// Whether a job comes before another.
    pub(crate) fn is_job_before(&self, left: JobId, right: JobId) -> bool {
        let (left, right) = (self.cluster.job(left), self.cluster.job(right));
        let by_plugins = self.job_order_plugins.iter().map(|plugin| match plugin {
            Plugin::Priority => priority::compare_jobs(left, right),
            Plugin::Elastic => elastic::compare_jobs(left, right),
            _ => Ordering::Equal,
        });
        first_difference(by_plugins)
            .then_with(|| left.group.created.cmp(&right.group.created))
            .then_with(|| left.group.name.cmp(&right.group.name))
            .is_lt()
    }

    /// Whether a pod comes before another of its job.
    pub(crate) fn is_pod_before(&self, left: PodInfoId, right: PodInfoId) -> bool {
        let (left, right) = (self.cluster.info(left).pod, self.cluster.info(right).pod);
        let (left_key, right_key) = (self.pod_order[left.index()], self.pod_order[right.index()]);
        let by_plugins = if left_key == right_key && left_key.priority != TaskPriority::Invalid {
            Ordering::Equal
        } else {
            let by_plugins = self.plugins.iter().map(|plugin| match plugin {
                Plugin::Kubeflow => right_key.is_kubeflow_master.cmp(&left_key.is_kubeflow_master),
                Plugin::Ray => right_key.is_ray_head.cmp(&left_key.is_ray_head),
                Plugin::TaskOrder => left_key.priority.compare(right_key.priority),
                _ => Ordering::Equal,
            });
            first_difference(by_plugins)
        };
        let (left, right) = (self.cluster.pod(left), self.cluster.pod(right));
        by_plugins
            .then_with(|| left.view.creation_timestamp.cmp(&right.view.creation_timestamp))
            .then_with(|| left.view.uid.cmp(&right.view.uid))
            .is_lt()
    }

    /// The members of a set, in order.
    pub(crate) fn ordered_members(&self, job: JobId, set: usize) -> Vec<Member> {
        let mut members = self.cluster.job(job).tree.members(set);
        sort(&mut members, |left, right| self.is_member_before(job, *left, *right));
        members
    }

    /// The members of a set, in reverse order.
    pub(crate) fn reverse_ordered_members(&self, job: JobId, set: usize) -> Vec<Member> {
        let mut members = self.cluster.job(job).tree.members(set);
        sort(&mut members, |left, right| self.is_member_before(job, *right, *left));
        members
    }

    /// Whether a queue comes before another.
    pub(crate) fn is_queue_before(&mut self, left: &QueueCandidate, right: &QueueCandidate) -> bool {
        for job in [left.job, right.job].into_iter().flatten() {
            self.compute_tasks_to_allocate_resources(job, false);
        }
        let cluster = &self.cluster;
        let Some(proportion) = &self.proportion else {
            let (left, right) = (cluster.queue(left.queue), cluster.queue(right.queue));
            return (left.created, &left.name) < (right.created, &right.name);
        };
        let compared = |candidate: &QueueCandidate| ComparedQueue {
            queue: candidate.queue,
            job: candidate.job.and_then(|job| cluster.job(job).tasks_to_allocate_resources.as_ref()),
            without_victims: candidate.without_victims,
        };
        proportion.compare_queues(cluster, compared(left), compared(right)).is_lt()
    }

    fn is_member_before(&self, job: JobId, left: Member, right: Member) -> bool {
        let tree = &self.cluster.job(job).tree;
        let by_plugin = if self.plugins.contains(&Plugin::SubGroupOrder) {
            sub_group_order::compare_members(tree, left, right)
        } else {
            Ordering::Equal
        };
        by_plugin.then_with(|| tree.name(left).cmp(tree.name(right))).is_lt()
    }
}

fn first_difference(mut orders: impl Iterator<Item = Ordering>) -> Ordering {
    orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// Sorts a few elements, whatever the comparison says.
fn sort<T: Copy>(elements: &mut [T], is_before: impl Fn(&T, &T) -> bool) {
    for end in 1..elements.len() {
        let mut index = end;
        while index > 0 && is_before(&elements[index], &elements[index - 1]) {
            elements.swap(index, index - 1);
            index -= 1;
        }
    }
}
