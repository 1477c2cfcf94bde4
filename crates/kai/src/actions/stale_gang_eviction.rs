//! Action stalegangeviction: evicts the pods of jobs that have run with fewer pods than they need for too long.

use crate::cluster::Cluster;
use crate::cluster::ids::{JobId, PodInfoId};
use crate::cluster::job::Job;
use crate::cluster::pod::Pod;
use crate::cluster::sub_group::DEFAULT_SUB_GROUP;
use crate::session::Session;

pub(super) fn run(session: &mut Session) {
    for job in session.cluster.job_ids() {
        if session.cluster.job(job).is_stale(&session.cluster.infos) {
            handle_stale(session, job);
        } else {
            session.cluster.job_mut(job).stale_since = None;
        }
    }
}

fn handle_stale(session: &mut Session, id: JobId) {
    let now = session.cluster.now;
    let default_grace_period = session.settings.params.staleness_grace_period;
    let job = session.cluster.job_mut(id);
    let since = *job.stale_since.get_or_insert(now);
    let grace_period = job.group.staleness_grace_period.unwrap_or(default_grace_period);
    if grace_period < 0 || now.nanos_since(since) < grace_period {
        return;
    }
    let cluster = &session.cluster;
    let is_active = |info: &PodInfoId| cluster.info(*info).status.is_active_allocated();
    let evicted: Vec<PodInfoId> = cluster.job(id).infos().filter(is_active).collect();
    for &info in &evicted {
        let message = message(&session.cluster, id, info);
        session.evict(info, evicted.len(), message);
    }
}

fn message(cluster: &Cluster, job: JobId, info: PodInfoId) -> String {
    let (job, pod): (&Job, &Pod) = (cluster.job(job), cluster.pod_of(info));
    let pod_sets = &job.tree.pod_sets;
    let minimum = match pod.pod_set.map(|index| &pod_sets[index as usize]) {
        Some(only) if pod_sets.len() == 1 && *only.name == *DEFAULT_SUB_GROUP => {
            format!("({})", only.min_available)
        }
        Some(pod_set) => format!("({}) in sub-group {}", pod_set.min_available, pod_set.name),
        None => format!("in sub-group {}", pod.sub_group().unwrap_or_default()),
    };
    format!(
        "Workload doesn't meet the minimum required number of pods {minimum}, evicting remaining pod: {}",
        pod.full_name()
    )
}
