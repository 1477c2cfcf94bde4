//! Tests of the queue, by small scripts and against kube-scheduler's own.

mod real_hints;
mod real_queue;
mod scripts;

use model::Moment;

use super::super::{Decision, Scheduler};
use super::{QueueState, QueuedPodInfo};

/// The queue state of each pod, in one line.
fn queue_states(scheduler: &Scheduler) -> String {
    let describe = |queued: QueuedPodInfo| {
        let state = match queued.state {
            QueueState::Active => "active".to_owned(),
            QueueState::Backoff { until } => {
                format!("backoff until {}", until.nanos().div_euclid(1_000_000_000))
            }
            QueueState::Unschedulable { plugins } => {
                let mut plugins: Vec<&str> = plugins.iter().map(|plugin| plugin.name()).collect();
                plugins.sort_unstable();
                format!("refused by {}", plugins.join(" "))
            }
            QueueState::Gated { plugin: by } => format!("gated by {by}"),
        };
        format!("{} {state}", queued.pod.name)
    };
    let mut states: Vec<String> = scheduler.queued_pods().map(describe).collect();
    states.sort_unstable();
    states.join(", ")
}

/// The binding of a pod in the namespace `d` is observed, if one is under way.
fn observe_binding(scheduler: &mut Scheduler, now: Moment, name: &str) {
    scheduler.advance(now);
    let in_flight = scheduler.cache.find_pod("d", name).filter(|id| scheduler.queue.is_in_flight(*id));
    let Some((id, node)) = in_flight.and_then(|id| Some((id, scheduler.cache.node_of(id)?))) else { return };
    let mut pod = scheduler.cache.pod(id).clone();
    (pod.node_name, pod.nominated_node) = (Some(scheduler.cache.nodes.name(node).clone()), None);
    scheduler.confirm_bound_pod(now, id, pod);
}

/// The node of a decision, if the pod is scheduled.
fn scheduled_node(decision: &Decision) -> Option<String> {
    match decision {
        Decision::Scheduled(placement) => Some(placement.node.to_string()),
        Decision::Unschedulable(_) | Decision::Failed(_) | Decision::Skipped(_) | Decision::Gated(_) => None,
    }
}
