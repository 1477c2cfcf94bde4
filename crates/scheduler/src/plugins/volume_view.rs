//! What the plugins for volumes are asked about: a pod, a node, and how the pods there are thought to differ.

use std::sync::Arc;

use kubernetes::labels::Labels;

use crate::ids::PodId;
use crate::plugin::Plugin;
use crate::storage::{PodVolumes, Unreadable};
use crate::verdict::Refusal;

/// A pod that has volumes that matter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumePod<'a> {
    pub(crate) namespace: &'a Arc<str>,
    pub(crate) volumes: &'a Arc<PodVolumes>,
}

/// A node as plugins for volumes see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct VolumeNode<'a> {
    pub(crate) name: &'a Arc<str>,
    pub(crate) labels: &'a Labels,
}

/// How the pods on a node are thought to differ from those that are there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct VolumeHypothesis<'a> {
    /// Pods on the node that are thought away.
    pub(crate) without: &'a [PodId],
    /// Pods that are thought to be there as well.
    pub(crate) with: &'a [VolumePod<'a>],
}

// === impl VolumeHypothesis ===

impl VolumeHypothesis<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.without.is_empty() && self.with.is_empty()
    }
}

/// What is needed to decide is recorded, but makes no sense.
pub(super) fn unreadable(plugin: Plugin, why: &Unreadable) -> Refusal {
    Refusal::unresolvable(plugin, why.to_string())
}

/// A refusal in one line.
#[cfg(test)]
pub(super) fn said(refusal: &Refusal) -> String {
    format!("{} {}: {}", refusal.plugin, refusal.code, refusal.message())
}
