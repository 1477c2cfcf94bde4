//! Why pods are evicted.

use std::sync::Arc;

use model::NamespacedName;

/// Why a pod loses its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostTo {
    /// A pod of higher priority.
    Preemption(NamespacedName),
    /// The autoscaler drains its node.
    ScaleDown,
    /// A taint of its node.
    Taint(Arc<str>),
    /// Its node is gone.
    NodeGone,
}

impl LostTo {
    /// The `reason` that Kubernetes gives in the pod's condition `DisruptionTarget`.
    pub fn reason(&self) -> &'static str {
        match self {
            LostTo::Preemption(_) => "PreemptionByScheduler",
            LostTo::ScaleDown => "EvictionByEvictionAPI",
            LostTo::Taint(_) => "DeletionByTaintManager",
            LostTo::NodeGone => "DeletionByPodGC",
        }
    }

    /// What Kubernetes writes beside the reason.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            LostTo::Preemption(_) => "default-scheduler: preempting to accommodate a higher priority pod",
            LostTo::ScaleDown => "Eviction API: evicting",
            LostTo::Taint(_) => "Taint manager: deleting due to NoExecute taint",
            LostTo::NodeGone => "PodGC: node no longer exists",
        }
    }
}
