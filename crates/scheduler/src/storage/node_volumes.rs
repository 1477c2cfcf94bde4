//! The volumes in use on one node, and its CSINode with the attach limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::VolumeError;
use super::attachable::AttachableVolume;
use super::objects::CsiNode;
use super::pod_volumes::PodVolumes;
use super::read::{ReadResult, UnreadableObject};
use crate::ids::PodId;

/// The volumes of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeVolumes {
    pub(crate) csi_node: Option<ReadResult<CsiNode>>,
    uses: FxHashMap<AttachableVolume, VolumeUses>,
    /// The number of distinct volumes in use by driver, sorted.
    attached: SmallVec<[(Arc<str>, usize); 2]>,
    /// The pods with inline disks.
    pub(crate) disks: BTreeMap<PodId, Arc<PodVolumes>>,
    /// The pods whose volumes cannot be determined.
    pub(crate) errors: BTreeMap<PodId, VolumeError>,
    /// The attachments, by name, whose volumes are unreadable.
    pub(crate) unreadable: BTreeMap<Arc<str>, Arc<UnreadableObject>>,
}

/// The number of uses of a volume on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeUses {
    pub(crate) by_pods: usize,
    pub(crate) by_attachments: usize,
}

/// The attached volumes of a pod, each once, sorted.
pub(crate) type AttachedVolumes = Result<Vec<AttachableVolume>, VolumeError>;

// === impl NodeVolumes ===

impl NodeVolumes {
    pub(super) fn add_pod(&mut self, pod: PodId, volumes: &Arc<PodVolumes>, attached: &AttachedVolumes) {
        if volumes.has_disks() {
            self.disks.insert(pod, volumes.clone());
        }
        match attached {
            Ok(attached) => attached.iter().for_each(|volume| self.change(volume, |uses| uses.by_pods += 1)),
            Err(error) => drop(self.errors.insert(pod, error.clone())),
        }
    }

    /// Undoes [`add_pod`](NodeVolumes::add_pod) with the same arguments.
    pub(super) fn remove_pod(&mut self, pod: PodId, attached: &AttachedVolumes) {
        self.disks.remove(&pod);
        self.errors.remove(&pod);
        for volume in attached.iter().flatten() {
            self.change(volume, |uses| uses.by_pods -= 1);
        }
    }

    pub(super) fn add_attachment(
        &mut self,
        name: &Arc<str>,
        volume: &Result<Option<AttachableVolume>, Arc<UnreadableObject>>,
    ) {
        match volume {
            Ok(Some(volume)) => self.change(volume, |uses| uses.by_attachments += 1),
            Ok(None) => {}
            Err(error) => drop(self.unreadable.insert(name.clone(), error.clone())),
        }
    }

    /// Undoes [`add_attachment`](NodeVolumes::add_attachment) with the same arguments.
    pub(super) fn remove_attachment(
        &mut self,
        name: &str,
        volume: &Result<Option<AttachableVolume>, Arc<UnreadableObject>>,
    ) {
        self.unreadable.remove(name);
        if let Ok(Some(volume)) = volume {
            self.change(volume, |uses| uses.by_attachments -= 1);
        }
    }

    /// The number of volumes of a driver that are in use.
    pub(crate) fn attached_count(&self, driver: &str) -> usize {
        self.attached.iter().find(|(name, _)| &**name == driver).map_or(0, |(_, count)| *count)
    }

    pub(crate) fn uses(&self, volume: &AttachableVolume) -> VolumeUses {
        self.uses.get(volume).copied().unwrap_or_default()
    }

    /// Whether the entry can be dropped.
    pub(super) fn is_empty(&self) -> bool {
        self.csi_node.is_none()
            && self.uses.is_empty()
            && self.disks.is_empty()
            && self.errors.is_empty()
            && self.unreadable.is_empty()
    }

    fn change(&mut self, volume: &AttachableVolume, change: impl Fn(&mut VolumeUses)) {
        let uses = self.uses.entry(volume.clone()).or_default();
        let was_used = uses.is_used();
        change(uses);
        let is_used = uses.is_used();
        if !is_used {
            self.uses.remove(volume);
        }
        if was_used == is_used {
            return;
        }
        let search_result = self.attached.binary_search_by(|(driver, _)| driver.cmp(&volume.driver));
        match (search_result, is_used) {
            (Ok(index), true) => self.attached[index].1 += 1,
            (Err(index), true) => self.attached.insert(index, (volume.driver.clone(), 1)),
            (Ok(index), false) => {
                self.attached[index].1 -= 1;
                if self.attached[index].1 == 0 {
                    self.attached.remove(index);
                }
            }
            (Err(_), false) => {}
        }
    }
}

// === impl VolumeUses ===

impl VolumeUses {
    pub(crate) fn is_used(self) -> bool {
        self.by_pods > 0 || self.by_attachments > 0
    }
}
