//! What one node has attached, and how much it can.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Trouble;
use super::attachable::Attachable;
use super::objects::CsiNode;
use super::pod_volumes::PodVolumes;
use super::read::{Known, Unreadable};
use crate::ids::PodId;

/// What one node has attached, and how much it can.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeVolumes {
    pub(crate) csi_node: Option<Known<CsiNode>>,
    uses: FxHashMap<Attachable, Uses>,
    /// How many different volumes of a driver are in use, sorted by driver.
    attached: SmallVec<[(Arc<str>, usize); 2]>,
    /// The pods that have disks of their own.
    pub(crate) disks: BTreeMap<PodId, Arc<PodVolumes>>,
    /// The pods whose volumes cannot be told.
    pub(crate) troubles: BTreeMap<PodId, Trouble>,
    /// The attachments, by name, whose volumes cannot be told.
    pub(crate) unreadable: BTreeMap<Arc<str>, Arc<Unreadable>>,
}

/// How often a volume is in use on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) by_pods: usize,
    pub(crate) by_attachments: usize,
}

/// What a pod has attached, each volume once, sorted.
pub(crate) type Attached = Result<Vec<Attachable>, Trouble>;

// === impl NodeVolumes ===

impl NodeVolumes {
    pub(super) fn add_pod(&mut self, pod: PodId, volumes: &Arc<PodVolumes>, attached: &Attached) {
        if volumes.has_disks() {
            self.disks.insert(pod, volumes.clone());
        }
        match attached {
            Ok(attached) => attached.iter().for_each(|volume| self.change(volume, |uses| uses.by_pods += 1)),
            Err(trouble) => drop(self.troubles.insert(pod, trouble.clone())),
        }
    }

    /// Undoes [`add_pod`](NodeVolumes::add_pod) with the same arguments.
    pub(super) fn remove_pod(&mut self, pod: PodId, attached: &Attached) {
        self.disks.remove(&pod);
        self.troubles.remove(&pod);
        for volume in attached.iter().flatten() {
            self.change(volume, |uses| uses.by_pods -= 1);
        }
    }

    pub(super) fn add_attachment(
        &mut self,
        name: &Arc<str>,
        volume: &Result<Option<Attachable>, Arc<Unreadable>>,
    ) {
        match volume {
            Ok(Some(volume)) => self.change(volume, |uses| uses.by_attachments += 1),
            Ok(None) => {}
            Err(why) => drop(self.unreadable.insert(name.clone(), why.clone())),
        }
    }

    /// Undoes [`add_attachment`](NodeVolumes::add_attachment) with the same arguments.
    pub(super) fn remove_attachment(
        &mut self,
        name: &str,
        volume: &Result<Option<Attachable>, Arc<Unreadable>>,
    ) {
        self.unreadable.remove(name);
        if let Ok(Some(volume)) = volume {
            self.change(volume, |uses| uses.by_attachments -= 1);
        }
    }

    /// How many volumes of a driver are in use.
    pub(crate) fn attached(&self, driver: &str) -> usize {
        self.attached.iter().find(|(name, _)| &**name == driver).map_or(0, |(_, count)| *count)
    }

    pub(crate) fn uses(&self, volume: &Attachable) -> Uses {
        self.uses.get(volume).copied().unwrap_or_default()
    }

    /// Whether there is nothing to remember.
    pub(super) fn is_empty(&self) -> bool {
        self.csi_node.is_none()
            && self.uses.is_empty()
            && self.disks.is_empty()
            && self.troubles.is_empty()
            && self.unreadable.is_empty()
    }

    fn change(&mut self, volume: &Attachable, change: impl Fn(&mut Uses)) {
        let uses = self.uses.entry(volume.clone()).or_default();
        let was_used = uses.are_any();
        change(uses);
        let is_used = uses.are_any();
        if !is_used {
            self.uses.remove(volume);
        }
        if was_used == is_used {
            return;
        }
        let place = self.attached.binary_search_by(|(driver, _)| driver.cmp(&volume.driver));
        match (place, is_used) {
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

// === impl Uses ===

impl Uses {
    pub(crate) fn are_any(self) -> bool {
        self.by_pods > 0 || self.by_attachments > 0
    }
}
