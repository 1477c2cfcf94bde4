//! The input of the volume plugins: a pod, a node, and pods assumed to be added to or removed from the node.

use std::sync::Arc;

use kubernetes::labels::Labels;

use crate::ids::PodId;
use crate::plugin::Plugin;
use crate::status::Status;
#[cfg(test)]
use crate::storage::StorageCache;
use crate::storage::{NodeVolumes, PodVolumes, UnreadableObject};

/// A pod with relevant volumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumePod<'a> {
    pub(crate) namespace: &'a Arc<str>,
    pub(crate) volumes: &'a Arc<PodVolumes>,
}

/// A node's name, labels and volumes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeNode<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) labels: &'a Labels,
    /// `None` if the node does not exist.
    pub(crate) volumes: Option<&'a NodeVolumes>,
}

/// Pods added to or removed from a node, for nominated pods and preemption.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PodChanges<'a> {
    /// Pods of the node to disregard.
    pub(crate) removed: &'a [PodId],
    /// Pods to consider in addition.
    pub(crate) added: &'a [VolumePod<'a>],
}

// === impl VolumeNode ===

#[cfg(test)]
impl<'a> VolumeNode<'a> {
    /// A node by name, whether it was added to the storage cache or not.
    pub(crate) fn named(name: &'a Arc<str>, labels: &'a Labels, storage: &'a StorageCache) -> VolumeNode<'a> {
        VolumeNode { name, labels, volumes: storage.node_by_name(name) }
    }
}

// === impl PodChanges ===

impl PodChanges<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

/// The status for an unreadable object.
pub(super) fn unreadable_status(plugin: Plugin, error: &UnreadableObject) -> Status {
    Status::unresolvable(plugin, error.to_string())
}

/// A status in one line.
#[cfg(test)]
pub(super) fn describe(status: &Status) -> String {
    format!("{} {}: {}", status.plugin, status.code, status.message())
}
