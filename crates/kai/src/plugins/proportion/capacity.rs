//! Limits of queues, and quotas of those pods that cannot be preempted.

use super::Proportion;
use crate::cluster::Cluster;
use crate::cluster::ids::PodInfoId;
use crate::cluster::job::{Job, JobGroup};
use crate::cluster::node::Node;
use crate::cluster::pod::Pod;
use crate::cluster::queue::{UNLIMITED, path_to_root};
use crate::cluster::resources::GPU;
use crate::cluster::text::{GIGA, MILLI, humanize};
use crate::fair_share::{Quantities, quantify};

/// The reason why a queue has no room for a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OverCapacity {
    pub reason: &'static str,
    pub message: String,
}

impl Proportion {
    /// Whether limits or quotas are exceeded with these pods of a job.
    pub(crate) fn check_job_capacity(
        &self,
        cluster: &Cluster,
        job: &Job,
        pods: &[PodInfoId],
    ) -> Result<(), OverCapacity> {
        let request = least_request(cluster, pods);
        self.check_limits(cluster, &job.group, &request)?;
        self.check_quotas(cluster, &job.group, &request)
    }

    /// Whether quotas are exceeded with these pods of a job that cannot be preempted.
    pub(crate) fn check_non_preemptible_quota(
        &self,
        cluster: &Cluster,
        job: &Job,
        pods: &[PodInfoId],
    ) -> Result<(), OverCapacity> {
        self.check_quotas(cluster, &job.group, &least_request(cluster, pods))
    }

    /// Whether limits or quotas are exceeded with a pod on a node, whose GPU memory is known.
    pub(crate) fn check_pod_capacity(
        &self,
        cluster: &Cluster,
        job: &Job,
        pod: &Pod,
        node: &Node,
    ) -> Result<(), OverCapacity> {
        let request = Quantities(node.required_quota(pod));
        self.check_limits(cluster, &job.group, &request)?;
        self.check_quotas(cluster, &job.group, &request)
    }

    fn check_limits(
        &self,
        cluster: &Cluster,
        group: &JobGroup,
        request: &Quantities,
    ) -> Result<(), OverCapacity> {
        let queues = group.queue.into_iter().flat_map(|queue| path_to_root(&cluster.queues, queue));
        for queue in queues {
            for (resource, share) in self.share(queue).resources.iter().enumerate() {
                let requested = request.0[resource];
                if share.limit != UNLIMITED && requested != 0.0 && share.limit < share.allocated + requested {
                    let name = &cluster.queue(queue).display_name;
                    let message = limit_message(name, resource, share.limit, share.allocated, requested);
                    return Err(OverCapacity { reason: "OverLimit", message });
                }
            }
        }
        Ok(())
    }

    fn check_quotas(
        &self,
        cluster: &Cluster,
        group: &JobGroup,
        request: &Quantities,
    ) -> Result<(), OverCapacity> {
        if group.is_preemptible {
            return Ok(());
        }
        let queues = group.queue.into_iter().flat_map(|queue| path_to_root(&cluster.queues, queue));
        for queue in queues {
            for (resource, share) in self.share(queue).resources.iter().enumerate() {
                let (requested, used) = (request.0[resource], share.allocated_non_preemptible);
                if share.quota != UNLIMITED && requested != 0.0 && share.quota < used + requested {
                    let name = &cluster.queue(queue).display_name;
                    let message = quota_message(name, resource, share.quota, used, requested);
                    return Err(OverCapacity { reason: "NonPreemptibleOverQuota", message });
                }
            }
        }
        Ok(())
    }
}

/// The request of pods; memory counts as the part of the largest GPU, so that it is the least that may be charged.
fn least_request(cluster: &Cluster, pods: &[PodInfoId]) -> Quantities {
    let mut request = Quantities::default();
    for info in pods {
        let pod = cluster.pod_of(*info);
        let mut amounts = quantify(&pod.request, &cluster.names);
        if pod.is_gpu_memory_request() {
            amounts.0[GPU] = cluster.max_gpu_memory.map_or(0.0, |memory| pod.gpu.memory_as_gpus(memory));
        }
        request.add(&amounts);
    }
    request
}

fn limit_message(queue: &str, resource: usize, limit: f64, used: f64, requested: f64) -> String {
    let (name, unit, divisor) =
        [("CPU cores", " cores", MILLI), ("memory", " GB", GIGA), ("GPUs", " GPUs", 1.0)][resource];
    let text = |amount: f64| humanize(amount, divisor);
    format!(
        "{queue} quota has reached the allowable limit of {name}. Limit is {}{unit}, currently {}{unit} allocated and workload requested {}{unit}",
        text(limit),
        text(used),
        text(requested),
    )
}

fn quota_message(queue: &str, resource: usize, quota: f64, used: f64, requested: f64) -> String {
    let (requested_unit, unit, divisor) =
        [("CPU cores", "cores", MILLI), ("GB memory", "GB", GIGA), ("GPUs", "GPUs", 1.0)][resource];
    // Only requested GPUs are printed in full.
    let requested = if resource == GPU { requested.to_string() } else { humanize(requested, divisor) };
    format!(
        "Non-preemptible workload is over quota. Workload requested {requested} {requested_unit}, but {queue} quota is {} {unit}, while {} {unit} are already allocated for non-preemptible pods. Use a preemptible workload to go over quota.",
        humanize(quota, divisor),
        humanize(used, divisor),
    )
}
