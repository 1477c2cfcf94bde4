//! Plugin minruntime: jobs that started recently are not evicted, or only as far as they have more pods than they need.

use std::collections::BTreeMap;

use super::arguments::Arguments;
use crate::cluster::Cluster;
use crate::cluster::ids::{JobId, PodInfoId, QueueId};
use crate::cluster::job::Job;
use crate::cluster::queue::{path_from_root, path_to_root};

/// The minimum runtimes of queues without their own, in nanoseconds, and how those for reclaim are found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MinRuntime {
    default_reclaim: i64,
    default_preempt: i64,
    resolve_method: ResolveMethod,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResolveMethod {
    /// From the child of the lowest common ancestor on the victim's side up.
    LowestCommonAncestor,
    /// From the victim's queue up.
    Queue,
}

impl MinRuntime {
    pub(crate) fn new(arguments: &mut Arguments<'_>) -> MinRuntime {
        let name = "reclaimResolveMethod";
        let resolve_method = match arguments.text(name).map(str::to_owned).as_deref() {
            None | Some("" | "lca") => ResolveMethod::LowestCommonAncestor,
            Some("queue") => ResolveMethod::Queue,
            Some(other) => {
                arguments.warn(name, other, "lca");
                ResolveMethod::LowestCommonAncestor
            }
        };
        MinRuntime {
            default_reclaim: arguments.duration("defaultReclaimMinRuntime"),
            default_preempt: arguments.duration("defaultPreemptMinRuntime"),
            resolve_method,
        }
    }

    /// Whether a job may be a victim of reclaim at all. Elastic jobs are checked later.
    pub(crate) fn is_reclaim_victim(&self, cluster: &Cluster, reclaimer: &Job, victim: &Job) -> bool {
        victim.is_elastic() || !self.is_protected_from_reclaim(cluster, reclaimer, victim)
    }

    /// Whether a job may be a victim of preemption at all. Elastic jobs are checked later.
    pub(crate) fn is_preempt_victim(&self, cluster: &Cluster, victim: &Job) -> bool {
        victim.is_elastic() || !self.is_protected_from_preempt(cluster, victim)
    }

    /// Whether protected victims of reclaim keep the pods that they need.
    pub(crate) fn allows_reclaim(
        &self,
        cluster: &Cluster,
        reclaimer: &Job,
        victims: &BTreeMap<JobId, Vec<PodInfoId>>,
    ) -> bool {
        victims.iter().all(|(victim, pods)| {
            let victim = cluster.job(*victim);
            !victim.is_elastic()
                || !self.is_protected_from_reclaim(cluster, reclaimer, victim)
                || keeps_needed_pods(cluster, victim, pods)
        })
    }

    /// Whether protected victims of preemption keep the pods that they need.
    pub(crate) fn allows_preempt(
        &self,
        cluster: &Cluster,
        victims: &BTreeMap<JobId, Vec<PodInfoId>>,
    ) -> bool {
        victims.iter().all(|(victim, pods)| {
            let victim = cluster.job(*victim);
            !victim.is_elastic()
                || !self.is_protected_from_preempt(cluster, victim)
                || keeps_needed_pods(cluster, victim, pods)
        })
    }

    fn is_protected_from_reclaim(&self, cluster: &Cluster, reclaimer: &Job, victim: &Job) -> bool {
        if victim.last_start.is_none() {
            return false;
        }
        let runtime = match (reclaimer.group.queue, victim.group.queue) {
            (Some(reclaimer), Some(victim)) => self.reclaim_runtime(cluster, reclaimer, victim),
            _ => self.default_reclaim,
        };
        is_within(cluster, victim, runtime)
    }

    fn is_protected_from_preempt(&self, cluster: &Cluster, victim: &Job) -> bool {
        let queues = victim.group.queue.into_iter().flat_map(|queue| path_to_root(&cluster.queues, queue));
        let own = queues.into_iter().find_map(|queue| cluster.queue(queue).preempt_min_runtime);
        is_within(cluster, victim, own.unwrap_or(self.default_preempt))
    }

    fn reclaim_runtime(&self, cluster: &Cluster, reclaimer: QueueId, victim: QueueId) -> i64 {
        let runtime = |queue: &QueueId| cluster.queue(*queue).reclaim_min_runtime;
        let own = match self.resolve_method {
            ResolveMethod::Queue => path_to_root(&cluster.queues, victim).find_map(|queue| runtime(&queue)),
            ResolveMethod::LowestCommonAncestor => {
                let (reclaimer, victim) =
                    (path_from_root(&cluster.queues, reclaimer), path_from_root(&cluster.queues, victim));
                let common = reclaimer.iter().zip(&victim).take_while(|(a, b)| a == b).count();
                if common == 0 {
                    runtime(&victim[0])
                } else {
                    // The child of the lowest common ancestor, if there is one.
                    let lowest = common.min(victim.len() - 1);
                    victim[..=lowest].iter().rev().find_map(runtime)
                }
            }
        };
        own.unwrap_or(self.default_reclaim)
    }
}

fn is_within(cluster: &Cluster, victim: &Job, runtime: i64) -> bool {
    victim.last_start.is_some_and(|start| cluster.now < start.plus_nanos(runtime))
}

/// Whether every pod set has the pods that it needs without these.
fn keeps_needed_pods(cluster: &Cluster, victim: &Job, pods: &[PodInfoId]) -> bool {
    let mut counts: BTreeMap<u32, i64> = BTreeMap::new();
    for info in pods {
        if let Some(pod_set) = cluster.pod_of(*info).pod_set {
            *counts.entry(pod_set).or_default() += 1;
        }
    }
    counts.into_iter().all(|(pod_set, count)| {
        let pod_set = &victim.tree.pod_sets[pod_set as usize];
        i64::from(pod_set.min_available) <= pod_set.active_used() as i64 - count
    })
}
