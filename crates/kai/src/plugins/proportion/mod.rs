//! Plugin proportion: the shares of queues, and what follows from them: their order, limits, and who may reclaim.

mod capacity;
mod queue_order;
mod reclaim;

pub(crate) use queue_order::ComparedQueue;
pub(crate) use reclaim::Reclaimer;

use super::arguments::Arguments;
use crate::cluster::Cluster;
use crate::cluster::ids::{PodId, PodInfoId, QueueId};
use crate::cluster::node::Node;
use crate::cluster::queue::path_to_root;
use crate::cluster::resources::GPU;
use crate::cluster::status::PodStatus;
use crate::fair_share::{DividedQueue, Quantities, QueueShare, divide, quantify};
use crate::settings::SchedulerParams;

/// The shares of queues.
#[derive(Clone, Debug)]
pub(crate) struct Proportion {
    /// What the top queues share.
    pub total: Quantities,
    /// By queue.
    pub shares: Vec<QueueShare>,
    /// The shares before victims for the present job were searched.
    simulation: Vec<QueueShare>,
    saturation_multiplier: f64,
}

impl Proportion {
    pub(crate) fn new(
        cluster: &Cluster,
        params: &SchedulerParams,
        arguments: &mut Arguments<'_>,
    ) -> Proportion {
        // The original spells it so.
        let name = "relcaimerSaturationMultiplier";
        let mut saturation_multiplier = arguments.number(name, 1.0);
        if saturation_multiplier < 1.0 {
            arguments.warn(name, &saturation_multiplier.to_string(), "1");
            saturation_multiplier = 1.0;
        }
        let over_use_factor = arguments.number("kValue", 1.0).max(0.0);
        let mut total = Quantities::default();
        for node in &cluster.nodes {
            total.add(&node_total(node, cluster, params));
        }
        let mut shares: Vec<QueueShare> =
            cluster.queues.iter().map(|queue| QueueShare::new(&queue.resources)).collect();
        add_usage(&mut shares, cluster);
        divide_among_queues(&mut shares, &total, over_use_factor, cluster);
        Proportion { total, simulation: shares.clone(), shares, saturation_multiplier }
    }

    pub(crate) fn share(&self, queue: QueueId) -> &QueueShare {
        &self.shares[queue.index()]
    }

    /// Charges the queues of a job for what a pod received.
    pub(crate) fn allocate(&mut self, cluster: &Cluster, info: PodInfoId) {
        self.change(cluster, info, QueueShare::allocate);
    }

    /// Takes the charge for a pod back.
    pub(crate) fn deallocate(&mut self, cluster: &Cluster, info: PodInfoId) {
        self.change(cluster, info, QueueShare::deallocate);
    }

    /// Remembers the shares, before victims for a job are searched.
    pub(crate) fn start_simulations(&mut self) {
        self.simulation.clone_from(&self.shares);
    }

    fn change(&mut self, cluster: &Cluster, info: PodInfoId, change: fn(&mut QueueShare, &Quantities, bool)) {
        let Some(job) = cluster.pod_of(info).job else { return };
        let group = &cluster.job(job).group;
        let Some(queue) = group.queue else { return };
        let amounts = quantify(&cluster.info(info).accepted, &cluster.names);
        for queue in path_to_root(&cluster.queues, queue) {
            change(&mut self.shares[queue.index()], &amounts, group.is_preemptible);
        }
    }
}

/// What a node adds to what queues share: its resources without the pods of other schedulers.
fn node_total(node: &Node, cluster: &Cluster, params: &SchedulerParams) -> Quantities {
    if !node.is_ready() {
        return Quantities::default();
    }
    let mut total = quantify(&node.allocatable, &cluster.names);
    if params.restrict_scheduling_nodes && !node.is_gpu_worker {
        total.0[GPU] = 0.0;
    }
    for (pod, on_node) in node.pods() {
        let pod = cluster.pod(pod);
        if pod.view.spec.scheduler_name() != params.scheduler_name
            && on_node.status.is_active_used()
            && !pod.is_utility
        {
            total.subtract(&quantify(&pod.request, &cluster.names));
        }
    }
    total
}

/// Adds what the pods of jobs have and request, to their queues and those above.
fn add_usage(shares: &mut [QueueShare], cluster: &Cluster) {
    for job in cluster.job_ids().map(|job| cluster.job(job)) {
        let Some(queue) = job.group.queue else { continue };
        for info in job.infos().map(|info| cluster.info(info)) {
            let is_allocated = info.status.is_allocated();
            let amounts = if is_allocated {
                quantify(&info.accepted, &cluster.names)
            } else if info.status == PodStatus::Pending {
                requested(cluster, info.pod)
            } else {
                continue;
            };
            for queue in path_to_root(&cluster.queues, queue) {
                let share = &mut shares[queue.index()];
                for (resource, amount) in share.resources.iter_mut().zip(&amounts.0) {
                    resource.request += amount;
                }
                if is_allocated {
                    share.allocate(&amounts, job.group.is_preemptible);
                }
            }
        }
    }
}

/// What a pending pod requests. Memory counts as the part of the smallest GPU.
fn requested(cluster: &Cluster, pod: PodId) -> Quantities {
    let pod = cluster.pod(pod);
    let mut amounts = quantify(&pod.request, &cluster.names);
    if pod.is_gpu_memory_request()
        && let Some(memory) = cluster.min_gpu_memory
    {
        amounts.0[GPU] += pod.gpu.memory_as_gpus(memory);
    }
    amounts
}

/// Divides the total among top queues, and what each gets among its children.
fn divide_among_queues(
    shares: &mut [QueueShare],
    total: &Quantities,
    over_use_factor: f64,
    cluster: &Cluster,
) {
    let tops = cluster.queue_ids().filter(|queue| cluster.queue(*queue).parent.is_none());
    let mut rest = vec![(*total, tops.collect::<Vec<QueueId>>())];
    while let Some((total, siblings)) = rest.pop() {
        let mut own: Vec<QueueShare> =
            siblings.iter().map(|queue| std::mem::take(&mut shares[queue.index()])).collect();
        let mut divided: Vec<DividedQueue<'_>> = siblings
            .iter()
            .zip(&mut own)
            .map(|(queue, share)| {
                let queue = cluster.queue(*queue);
                DividedQueue { name: &queue.name, priority: queue.priority, created: queue.created, share }
            })
            .collect();
        divide(&total, over_use_factor, &mut divided);
        for (queue, share) in siblings.into_iter().zip(own) {
            let children = &cluster.queue(queue).children;
            if !children.is_empty() {
                rest.push((share.fair_share(), children.clone()));
            }
            shares[queue.index()] = share;
        }
    }
}
