//! A queue: its place in the tree, its quotas, and its settings.

use std::sync::Arc;

use model::Moment;
use smallvec::SmallVec;

use super::ids::QueueId;

/// A queue.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    pub name: Arc<str>,
    /// The name in messages.
    pub display_name: Arc<str>,
    pub parent: Option<QueueId>,
    /// In the order of their names.
    pub children: Vec<QueueId>,
    pub priority: i64,
    pub created: Option<Moment>,
    /// Of cpu, memory and GPUs, memory in bytes.
    pub resources: [QueueResource; 3],
    /// In nanoseconds.
    pub preempt_min_runtime: Option<i64>,
    /// In nanoseconds.
    pub reclaim_min_runtime: Option<i64>,
}

/// The quota of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueResource {
    /// What the queue deserves; -1 for any amount.
    pub quota: f64,
    /// What the queue may have at most; -1 for any amount.
    pub limit: f64,
    /// Its weight in the division of what is left of quotas.
    pub over_quota_weight: f64,
}

/// The amount that stands for any amount.
pub(crate) const UNLIMITED: f64 = -1.0;

impl Queue {
    /// Whether it has no children.
    pub(crate) fn is_leaf(&self) -> bool {
        self.children.is_empty()
    }
}

/// A queue and its ancestors, from the queue to the root.
pub(crate) fn path_to_root(queues: &[Queue], queue: QueueId) -> impl Iterator<Item = QueueId> {
    std::iter::successors(Some(queue), |queue| queues[queue.index()].parent)
}

/// A queue and its ancestors, from the root to the queue.
pub(crate) fn path_from_root(queues: &[Queue], queue: QueueId) -> SmallVec<[QueueId; 8]> {
    let mut path: SmallVec<[QueueId; 8]> = path_to_root(queues, queue).collect();
    path.reverse();
    path
}
