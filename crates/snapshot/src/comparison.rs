//! The comparison of two runs: pods and queues that end up differently.

use std::collections::BTreeSet;

use kai::{PodState, PodStatus};
use model::NamespacedName;
use serde::Serialize;

use crate::borrowing::Resource;
use crate::queue_report::{QueueReport, ResourceShare};
use crate::report::{InputReport, full_name};
use crate::run::{SnapshotRun, status_name};

/// The comparison of two runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// The first run.
    pub left: InputReport,
    /// The second run.
    pub right: InputReport,
    /// How many pods end up the same.
    pub same_pods: usize,
    /// The pods that do not, sorted by namespace and name.
    pub pods: Vec<PodDifference>,
    /// The shares of queues that differ.
    pub queues: Vec<QueueDifference>,
}

/// A pod that ends up differently.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodDifference {
    /// The pod, as namespace/name.
    pub pod: String,
    /// Its pod group.
    pub pod_group: String,
    /// Its end in the first run; `None` if it is not there.
    pub left: Option<PodEnd>,
    /// Its end in the second run.
    pub right: Option<PodEnd>,
}

/// The state of a pod after a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodEnd {
    /// Its status, in the scheduler's words.
    pub status: &'static str,
    /// Its node.
    pub node: Option<String>,
}

/// A share of a queue that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueDifference {
    /// The queue.
    pub queue: String,
    /// The resource.
    pub resource: Resource,
    /// Its share in the first run; `None` if the queue is not there.
    pub left: Option<ResourceShare>,
    /// Its share in the second run.
    pub right: Option<ResourceShare>,
}

/// Amounts that differ by less are equal.
const TOLERANCE: f64 = 1e-6;

/// Compares the ends of two runs.
pub fn compare(left: &SnapshotRun, right: &SnapshotRun) -> Comparison {
    let names: BTreeSet<&NamespacedName> = left.pods.keys().chain(right.pods.keys()).collect();
    let mut pods = Vec::new();
    let mut same_pods = 0;
    for name in names {
        let (before, after) = (left.pods.get(name), right.pods.get(name));
        let ends = (before.map(PodEnd::of), after.map(PodEnd::of));
        if ends.0 == ends.1 {
            same_pods += 1;
            continue;
        }
        let job = before.or(after).map(|state| state.job.to_string()).unwrap_or_default();
        pods.push(PodDifference { pod: full_name(name), pod_group: job, left: ends.0, right: ends.1 });
    }
    Comparison {
        left: left.report.snapshot.clone(),
        right: right.report.snapshot.clone(),
        same_pods,
        pods,
        queues: queue_differences(&left.last_cycle().queues, &right.last_cycle().queues),
    }
}

// === impl Comparison ===

impl Comparison {
    /// Whether nothing differs.
    pub fn is_equal(&self) -> bool {
        self.pods.is_empty() && self.queues.is_empty()
    }
}

// === impl PodEnd ===

impl PodEnd {
    fn of(state: &PodState) -> PodEnd {
        let has_node = !matches!(state.status, PodStatus::Pending | PodStatus::Gated);
        PodEnd {
            status: status_name(state.status),
            node: state.node.as_ref().filter(|_| has_node).map(ToString::to_string),
        }
    }
}

fn queue_differences(left: &[QueueReport], right: &[QueueReport]) -> Vec<QueueDifference> {
    let names: BTreeSet<&str> = left.iter().chain(right).map(|queue| &*queue.name).collect();
    let mut differences = Vec::new();
    for name in names {
        let find = |queues: &[QueueReport], resource: Resource| {
            queues.iter().find(|queue| queue.name == name).map(|queue| *resource.of(queue))
        };
        for resource in Resource::ALL {
            let (left, right) = (find(left, resource), find(right, resource));
            if !is_near(left.as_ref(), right.as_ref()) {
                differences.push(QueueDifference { queue: name.to_owned(), resource, left, right });
            }
        }
    }
    differences
}

fn is_near(left: Option<&ResourceShare>, right: Option<&ResourceShare>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return left.is_none() && right.is_none() };
    let amounts = |share: &ResourceShare| {
        let ResourceShare { quota, limit, over_quota_weight, fair_share, requested, .. } = *share;
        [quota, limit, over_quota_weight, fair_share, requested, share.allocated_after]
    };
    amounts(left).iter().zip(amounts(right)).all(|(left, right)| (left - right).abs() <= TOLERANCE)
}
