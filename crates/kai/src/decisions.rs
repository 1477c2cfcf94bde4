//! The decisions of actions.

use std::sync::Arc;

use model::NamespacedName;

use crate::settings::Action;

pub use crate::cluster::gpu::ReceivedType;

/// The decisions of an action, in the order in which they were committed.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionDecisions {
    /// The action.
    pub action: Action,
    /// Pods for which a bind request is created.
    pub bound: Vec<Placement>,
    /// Pods that wait for resources that are being released.
    pub pipelined: Vec<Placement>,
    /// Pods that are deleted. A pod may be evicted twice, for different jobs.
    pub evicted: Vec<Eviction>,
    /// The order of the placements.
    pub order: Vec<Commitment>,
}

/// A pod that is given a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The pod.
    pub pod: NamespacedName,
    /// The node.
    pub node: Arc<str>,
    /// What it receives.
    pub received: ReceivedType,
    /// The number of GPUs.
    pub gpu_count: i64,
    /// The share of each GPU.
    pub gpu_portion: f64,
    /// The groups of shared GPUs, sorted.
    pub gpu_groups: Vec<GpuGroup>,
}

/// A group of pods that share a GPU.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GpuGroup {
    /// One that the snapshot names.
    Known(Arc<str>),
    /// A new one; two with the same number are the same.
    New(usize),
}

/// A pod that is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub pod: NamespacedName,
    /// The node that it is bound to.
    pub node: Option<Arc<str>>,
    /// The action.
    pub action: Action,
    /// The pod group that it makes room for.
    pub preemptor: Option<NamespacedName>,
    /// How many pods are evicted together.
    pub gang_size: usize,
    /// The reason, as events have it.
    pub message: String,
}

/// A placement of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Commitment {
    /// It is bound.
    Bind(NamespacedName),
    /// It waits.
    Pipeline(NamespacedName),
}

/// How much was searched for victims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCounts {
    /// The jobs for which victims were searched.
    pub jobs: u64,
    /// The scenarios that were simulated.
    pub scenarios: u64,
    /// The evictions in them.
    pub evictions: u64,
}

impl ActionDecisions {
    /// No decisions.
    pub(crate) fn new(action: Action) -> ActionDecisions {
        ActionDecisions {
            action,
            bound: Vec::new(),
            pipelined: Vec::new(),
            evicted: Vec::new(),
            order: Vec::new(),
        }
    }
}
