//! The pod demands behind a recording: the part of it that a replay takes as input.
//!
//! Behind each recorded pod stands a demand: its owner wanted a pod. A pod that was evicted and recreated is one demand
//! with two incarnations; how often that happens in a replay is decided by the replay. Deletions by owners and users,
//! and container run times, are input.
//!
//! The recording is read twice. First [`DemandExtractor`] finds out which pods belong to one demand and how each
//! incarnation ended; then [`InputStream`](crate::input_stream::InputStream) returns the inputs of the replay, in
//! order.

mod awaited_pods;
pub(crate) mod controller_pods;
mod encoding;
mod extract;
mod extractor;
mod file_map;
pub(crate) mod objects;
mod owners;
mod pods_by_node;
mod positioned_file;
mod preempted_pods;
mod recorded_owners;
mod store;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use simulation::{ContainerExit, DemandId, PodIncarnation, RecreatePolicy};

use self::store::StoredDemands;

pub use self::controller_pods::ControllerPods;

pub use extract::extract_demands;
pub use extractor::DemandExtractor;
pub(crate) use store::IncarnationReader;

/// The demands behind the recorded pods. They are stored on disk; only the totals are in memory.
#[derive(Debug)]
pub struct RecordedDemands {
    stored: StoredDemands,
    /// Counts over the whole recording.
    pub totals: DemandTotals,
    /// The pods that controllers of the replay create.
    pub controller_pods: ControllerPods,
    /// Observations that could not be explained, as text, with their counts.
    pub unexplained: BTreeMap<&'static str, u64>,
}

/// Counts over all demands of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemandTotals {
    /// The number of demands.
    pub demands: u64,
    /// Pods that were bound within the window.
    pub bound: u64,
    /// Evicted pods, by kind of eviction, those included that are input.
    pub evictions: BTreeMap<EvictionKind, u64>,
}

/// A demand as the recording shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedDemand {
    /// Its pods, in order of creation.
    pub incarnations: Vec<PodIncarnation>,
    /// What else was observed of each incarnation.
    pub observed: Vec<ObservedIncarnation>,
    /// How long the owner had not recreated the pod when the recording ended, if the last incarnation was evicted.
    pub not_recreated_for: Option<Duration>,
    /// The run time of its containers, if they end by themselves.
    pub exit: Option<ContainerExit>,
    /// The demand whose pod had to end before this one was created, as in a Job.
    pub after: Option<DemandId>,
    /// If and when its owner recreates an evicted pod.
    pub recreate: RecreatePolicy,
    /// Actions of its owner or of users on it, by time.
    pub actions: Vec<(Moment, DemandAction)>,
}

/// An action on a demand that a replay takes as input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DemandAction {
    /// The owner no longer wants it.
    Withdrawn,
    /// Its pod is deleted or evicted by something that the replay does not simulate; its owner may recreate
    /// it.
    Deleted,
    /// Its pod, which had ended, is deleted.
    CleanedUp,
}

/// What was observed of one incarnation of a demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedIncarnation {
    /// When it was created.
    pub created: Moment,
    /// When it was bound.
    pub bound_at: Option<Moment>,
    /// The class of the node that it was bound to.
    pub node_class: Option<Arc<str>>,
    /// When its deletion began.
    pub deletion_began: Option<Moment>,
    /// How it was evicted, if it was.
    pub eviction: Option<EvictionKind>,
}

/// How a recorded pod was evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EvictionKind {
    /// By the scheduler, for a pod of higher priority.
    Preempted,
    /// By the autoscaler, which drained its node.
    ScaledDown,
    /// By a NoExecute taint.
    TaintEvicted,
    /// By pod garbage collection: its node was deleted.
    NodeDeleted,
    /// By a component that the replay does not simulate: a user, who drained its node or deleted the pod, the kubelet, or
    /// the recorded autoscaler if the replay has none.
    External,
}

// === impl EvictionKind ===

impl EvictionKind {
    /// Whether a replay takes it as input, instead of deciding about it.
    pub fn is_input(self) -> bool {
        self == EvictionKind::External
    }

    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            EvictionKind::Preempted => "preempted",
            EvictionKind::ScaledDown => "scaledDown",
            EvictionKind::TaintEvicted => "tainted",
            EvictionKind::NodeDeleted => "nodeGone",
            EvictionKind::External => "people",
        }
    }
}

// === impl RecordedDemands ===

impl RecordedDemands {
    /// Reads a demand.
    pub fn get(&self, demand: DemandId) -> io::Result<RecordedDemand> {
        self.stored.get(demand)
    }

    /// The recorded pods in the order in which they were first observed.
    pub(crate) fn incarnations(&self) -> IncarnationReader<'_> {
        self.stored.incarnations()
    }
}

// === impl ObservedIncarnation ===

impl ObservedIncarnation {
    /// When it was bound, if that was after the window had begun. Pods that were created with a node, such as static
    /// pods, do not count as bound.
    pub fn bound_after(&self, from: Moment) -> Option<Moment> {
        self.bound_at.filter(|bound| *bound > from && *bound > self.created)
    }
}
