//! What a replay came to.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Gap, Moment};

use crate::decisions::Decision;
use crate::report::Report;
use crate::snapshot::{ClusterSnapshot, NodeInfo, PodInfo};

/// What a replay came to. It holds every pod of the window and every decision: its size follows the window.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// The cluster when it began: objects and autoscaler as they were recorded, groups as they are in the replay.
    pub start: ClusterSnapshot,
    /// The cluster when it ended, as the replay left it.
    pub end: ClusterSnapshot,
    /// How long a step was.
    pub batch_interval: Duration,
    /// How many nodes each group got.
    pub scaled_up_groups: BTreeMap<String, u64>,
    /// Those nodes in the order in which they came, as the replay last showed them.
    pub scaled_up_nodes: Vec<NodeInfo>,
    /// The pods that were deployed, step by step in ascending order. Steps without pods are not there.
    pub deployed_pods: Vec<Batch>,
    /// What was decided, in order.
    pub decisions: Vec<Decision>,
    /// What the recording missed within the window: pods may have come and gone there.
    pub gaps: Vec<Gap>,
    /// What the command's report says: how everything was set, figures of what happened and of what would have happened, how
    /// much came out as recorded, and what makes it uncertain.
    pub report: Report,
}

/// The pods of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// When the step began in the record.
    pub recorded: Moment,
    /// When they were deployed in the replay: later, if the steps before took longer.
    pub began: Moment,
    /// When the cluster had come to rest.
    pub settled: Moment,
    /// It had indeed; or else it was not waited for any longer.
    pub stable: bool,
    /// The pods in the order in which they came, as the replay last showed them: with their nodes, and the time of their
    /// deletion. Those that owners made since, in place of others or after them, follow.
    pub pods: Vec<PodInfo>,
}

// === impl ReplayReport ===

impl ReplayReport {
    /// Whether the cluster came to rest after every step.
    pub fn is_stable(&self) -> bool {
        self.deployed_pods.iter().all(|batch| batch.stable)
    }
}
