//! The queue, in small scripts and against the real one.

mod real_hints;
mod real_queue;
mod scripts;

use super::super::{Decision, Scheduler};
use super::{Place, Queued};

/// Where each pod waits, in one line.
fn places(scheduler: &Scheduler) -> String {
    let place = |queued: Queued| {
        let place = match queued.place {
            Place::Active => "active".to_owned(),
            Place::Backoff { until } => format!("backoff until {}", until.nanos().div_euclid(1_000_000_000)),
            Place::Unschedulable { plugins } => {
                let mut plugins: Vec<&str> = plugins.iter().map(|plugin| plugin.name()).collect();
                plugins.sort_unstable();
                format!("refused by {}", plugins.join(" "))
            }
            Place::Gated { by } => format!("gated by {by}"),
        };
        format!("{} {place}", queued.pod.name)
    };
    let mut places: Vec<String> = scheduler.queued().map(place).collect();
    places.sort_unstable();
    places.join(", ")
}

/// The node a pod goes to, if any.
fn node(decision: &Decision) -> Option<String> {
    match decision {
        Decision::Placed(placement) => Some(placement.node.to_string()),
        Decision::Refused(_) | Decision::Failed(_) | Decision::Skipped(_) | Decision::Gated(_) => None,
    }
}
