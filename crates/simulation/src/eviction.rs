//! Causes of evictions.

use std::sync::Arc;

use model::NamespacedName;

/// The cause of an eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionCause {
    /// A pod of higher priority.
    Preemption(NamespacedName),
    /// The autoscaler drains its node.
    ScaleDown,
    /// A taint of its node.
    Taint(Arc<str>),
    /// Its node is gone.
    NodeDeleted,
}

impl EvictionCause {
    /// The `reason` that Kubernetes gives in the pod's condition `DisruptionTarget`.
    pub fn reason(&self) -> &'static str {
        match self {
            EvictionCause::Preemption(_) => "PreemptionByScheduler",
            EvictionCause::ScaleDown => "EvictionByEvictionAPI",
            EvictionCause::Taint(_) => "DeletionByTaintManager",
            EvictionCause::NodeDeleted => "DeletionByPodGC",
        }
    }

    /// The `message` of that condition.
    pub(crate) fn message(&self) -> &'static str {
        match self {
            EvictionCause::Preemption(_) => {
                "default-scheduler: preempting to accommodate a higher priority pod"
            }
            EvictionCause::ScaleDown => "Eviction API: evicting",
            EvictionCause::Taint(_) => "Taint manager: deleting due to NoExecute taint",
            EvictionCause::NodeDeleted => "PodGC: node no longer exists",
        }
    }
}
