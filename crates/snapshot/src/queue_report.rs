//! The queues of a cycle: their quotas, their fair shares and what their pods have.

use std::collections::BTreeMap;

use kai::{Amounts, Report, ResourceReport};
use serde::Serialize;

/// Amounts of three resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuantityReport {
    /// In devices.
    pub gpu: f64,
    /// In millicores.
    pub cpu: f64,
    /// In bytes.
    pub memory: f64,
}

/// A queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueReport {
    /// Its name.
    pub name: String,
    /// Its parent.
    pub parent: Option<String>,
    /// The number of its ancestors.
    pub depth: usize,
    /// Its priority.
    pub priority: i64,
    /// Its resources.
    #[serde(flatten)]
    pub resources: QueueResources,
}

/// The resources of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueueResources {
    /// In devices.
    pub gpu: ResourceShare,
    /// In millicores.
    pub cpu: ResourceShare,
    /// In bytes.
    pub memory: ResourceShare,
}

/// The share of a queue of one resource.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceShare {
    /// What it deserves.
    pub quota: f64,
    /// What it may have at most.
    pub limit: f64,
    /// Its weight above its quota.
    pub over_quota_weight: f64,
    /// Its fair share in this cycle.
    pub fair_share: f64,
    /// What its pods have or wait for at the start.
    pub requested: f64,
    /// What its pods have at the start.
    pub allocated: f64,
    /// The part of it of pods that cannot be preempted.
    pub allocated_non_preemptible: f64,
    /// What its pods have after the cycle, those that wait for resources included.
    pub allocated_after: f64,
}

// === impl QuantityReport ===

impl QuantityReport {
    pub(crate) fn of(amounts: &Amounts) -> QuantityReport {
        QuantityReport { gpu: amounts.gpu, cpu: amounts.cpu, memory: amounts.memory }
    }
}

// === impl ResourceShare ===

impl ResourceShare {
    fn of(report: &ResourceReport) -> ResourceShare {
        ResourceShare {
            quota: report.quota,
            limit: report.limit,
            over_quota_weight: report.weight,
            fair_share: report.fair_share,
            requested: report.request,
            allocated: report.allocated,
            allocated_non_preemptible: report.allocated_non_preemptible,
            allocated_after: report.allocated_after,
        }
    }
}

/// The queues, each before those below it; siblings by name.
pub(crate) fn queues_of(report: &Report) -> Vec<QueueReport> {
    let mut children: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    for (index, queue) in report.queues.iter().enumerate() {
        children.entry(queue.parent.as_deref()).or_default().push(index);
    }
    let mut queues = Vec::with_capacity(report.queues.len());
    let roots = children.get(&None).into_iter().flatten();
    let mut waiting: Vec<(usize, usize)> = roots.rev().map(|index| (*index, 0)).collect();
    while let Some((index, depth)) = waiting.pop() {
        let queue = &report.queues[index];
        queues.push(QueueReport {
            name: queue.name.to_string(),
            parent: queue.parent.as_ref().map(ToString::to_string),
            depth,
            priority: queue.priority,
            resources: QueueResources {
                gpu: ResourceShare::of(&queue.gpu),
                cpu: ResourceShare::of(&queue.cpu),
                memory: ResourceShare::of(&queue.memory),
            },
        });
        let below = children.get(&Some(&*queue.name)).into_iter().flatten();
        waiting.extend(below.rev().map(|index| (*index, depth + 1)));
    }
    queues
}
