//! The report of a replay, for the library.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Gap, Moment};

use crate::decisions::Decision;
use crate::report::Report;
use crate::snapshot::{ClusterSnapshot, NodeInfo, PodInfo};

/// The report of a replay. It holds every pod of the window and every decision: its size follows the window.
#[derive(Clone, Debug, PartialEq)]
pub struct ReplayReport {
    /// The initial cluster: objects and autoscaler as recorded, groups as in the replay.
    pub start: ClusterSnapshot,
    /// The cluster at the end of the replay.
    pub end: ClusterSnapshot,
    /// The length of a batch.
    pub batch_interval: Duration,
    /// The number of nodes added to each group.
    pub scaled_up_groups: BTreeMap<String, u64>,
    /// Those nodes in the order in which they were added, each in its last version.
    pub scaled_up_nodes: Vec<NodeInfo>,
    /// The deployed pods, by batch in ascending order. Batches without pods are omitted.
    pub deployed_pods: Vec<Batch>,
    /// All decisions, in order.
    pub decisions: Vec<Decision>,
    /// The gaps of the recording within the window, in which pods may have been missed.
    pub gaps: Vec<Gap>,
    /// The report of the command: settings, metrics of recording and replay, fidelity, and caveats.
    pub report: Report,
}

/// The pods of one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// When the batch began in the recording.
    pub recorded: Moment,
    /// When they were deployed in the replay: later, if earlier batches took longer.
    pub began: Moment,
    /// When the cluster had settled, or the wait for it ended.
    pub settled: Moment,
    /// Whether the cluster settled; otherwise the wait timed out.
    pub stable: bool,
    /// The pods in the order of creation, each in its last version, with node and deletion timestamp. Pods that owners
    /// created since, as replacements or successors, follow.
    pub pods: Vec<PodInfo>,
}

// === impl ReplayReport ===

impl ReplayReport {
    /// Whether the cluster settled after every batch.
    pub fn is_stable(&self) -> bool {
        self.deployed_pods.iter().all(|batch| batch.stable)
    }
}
