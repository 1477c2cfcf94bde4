//! The volumes in use on each node, and its CSINode with the attach limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;

use super::VolumeError;
use super::attachable::AttachableVolume;
use super::objects::{CsiNode, MigratedPlugins};
use super::pod_volumes::PodVolumes;
use super::read::{ReadResult, UnreadableObject};
use crate::ids::{NodeId, PodId};

/// The volumes of all nodes. An existing node is found by its identifier, so that filtering a node needs no hash of its
/// name. A CSINode and a VolumeAttachment may name a node that does not exist.
#[derive(Debug, Default, PartialEq)]
pub(super) struct NodeVolumesTable {
    entries: IndexMap<Arc<str>, NodeVolumes, FxBuildHasher>,
    /// The index of each existing node in `entries`, by identifier.
    indexes_by_id: Vec<Option<u32>>,
    /// The drivers with an attach limit, each with the number of nodes that have one. All limits of a driver share the
    /// name in this table, so that drivers are compared by address.
    limited_drivers: FxHashMap<Arc<str>, usize>,
}

/// The volumes of one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct NodeVolumes {
    /// Set if the node exists.
    id: Option<NodeId>,
    /// The plugins migrated according to its CSINode, if it has one.
    csi_node: Option<Result<MigratedPlugins, Arc<UnreadableObject>>>,
    /// The attach limits of the CSINode.
    limits: SmallVec<[DriverLimit; 1]>,
    uses: FxHashMap<AttachableVolume, VolumeUses>,
    /// The pods with inline disks.
    pub(crate) disks: BTreeMap<PodId, Arc<PodVolumes>>,
    /// The pods whose volumes cannot be determined.
    pub(crate) errors: BTreeMap<PodId, VolumeError>,
    /// The attachments, by name, whose volumes are unreadable.
    pub(crate) unreadable: BTreeMap<Arc<str>, Arc<UnreadableObject>>,
}

/// The attach limit of a driver on a node.
#[derive(Clone, Debug, PartialEq)]
struct DriverLimit {
    driver: LimitedDriver,
    limit: i64,
    /// The number of distinct volumes of the driver in use.
    attached: usize,
}

/// A driver that has an attach limit on some node. Equal names are one string in memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LimitedDriver(Arc<str>);

/// The number of uses of a volume on a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VolumeUses {
    pub(crate) by_pods: usize,
    pub(crate) by_attachments: usize,
}

/// The attached volumes of a pod, each once, sorted.
pub(crate) type AttachedVolumes = Result<Vec<AttachableVolume>, VolumeError>;

// === impl NodeVolumesTable ===

impl NodeVolumesTable {
    /// The volumes of an existing node.
    pub(super) fn by_id(&self, id: NodeId) -> Option<&NodeVolumes> {
        let index = self.indexes_by_id.get(id.index()).copied().flatten()?;
        Some(&self.entries[index as usize])
    }

    /// The volumes of a node; `None` if there are none.
    pub(super) fn by_name(&self, name: &str) -> Option<&NodeVolumes> {
        self.entries.get(name)
    }

    /// A node was added.
    pub(super) fn add_node(&mut self, id: NodeId, name: &Arc<str>) {
        let entry = self.entries.entry(name.clone());
        let index = entry.index() as u32;
        entry.or_default().id = Some(id);
        if self.indexes_by_id.len() <= id.index() {
            self.indexes_by_id.resize(id.index() + 1, None);
        }
        self.indexes_by_id[id.index()] = Some(index);
    }

    /// A node was removed.
    pub(super) fn remove_node(&mut self, id: NodeId, name: &Arc<str>) {
        self.indexes_by_id[id.index()] = None;
        self.update(name, |node| node.id = None);
    }

    /// Updates the volumes of a node, and removes the entry if it is empty.
    pub(super) fn update(&mut self, name: &Arc<str>, change: impl FnOnce(&mut NodeVolumes)) {
        let entry = self.entries.entry(name.clone());
        let index = entry.index();
        let node = entry.or_default();
        change(node);
        if !node.is_empty() {
            return;
        }
        self.entries.swap_remove_index(index);
        // The last entry has taken its place.
        if let Some((_, NodeVolumes { id: Some(id), .. })) = self.entries.get_index(index) {
            self.indexes_by_id[id.index()] = Some(index as u32);
        }
    }

    /// Sets or removes the CSINode of a node.
    pub(super) fn set_csi_node(&mut self, name: &Arc<str>, csi_node: Option<ReadResult<CsiNode>>) {
        let readable = csi_node.as_ref().and_then(|csi_node| csi_node.as_ref().ok());
        let limits = readable.into_iter().flat_map(|csi_node| &csi_node.limits);
        let limits: SmallVec<[DriverLimit; 1]> = limits
            .map(|(driver, limit)| DriverLimit {
                driver: acquire_driver(&mut self.limited_drivers, driver),
                limit: *limit,
                attached: 0,
            })
            .collect();
        let mut old_limits = SmallVec::new();
        self.update(name, |node| {
            node.csi_node = csi_node.map(|csi_node| csi_node.map(|csi_node| csi_node.migrated_plugins));
            old_limits = std::mem::replace(&mut node.limits, limits);
            node.count_attached();
        });
        for old in &old_limits {
            release_driver(&mut self.limited_drivers, &old.driver);
        }
    }

    /// The driver of that name; `None` if no node has a limit for it.
    pub(super) fn limited_driver(&self, name: &str) -> Option<LimitedDriver> {
        self.limited_drivers.get_key_value(name).map(|(shared_name, _)| LimitedDriver(shared_name.clone()))
    }
}

fn acquire_driver(drivers: &mut FxHashMap<Arc<str>, usize>, name: &Arc<str>) -> LimitedDriver {
    let shared_name = drivers.get_key_value(name).map_or(name, |(shared_name, _)| shared_name).clone();
    *drivers.entry(shared_name.clone()).or_default() += 1;
    LimitedDriver(shared_name)
}

fn release_driver(drivers: &mut FxHashMap<Arc<str>, usize>, driver: &LimitedDriver) {
    if let Some(nodes) = drivers.get_mut(&driver.0) {
        *nodes -= 1;
        if *nodes == 0 {
            drivers.remove(&driver.0);
        }
    }
}

// === impl LimitedDriver ===

impl LimitedDriver {
    fn is_same_driver(&self, other: &LimitedDriver) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether it attaches the volume.
    pub(crate) fn attaches(&self, volume: &AttachableVolume) -> bool {
        self.0 == volume.driver
    }
}

// === impl NodeVolumes ===

impl NodeVolumes {
    /// The in-tree plugins that are migrated on the node; `None` if it has no CSINode.
    pub(crate) fn migrated_plugins(&self) -> Option<Result<MigratedPlugins, &Arc<UnreadableObject>>> {
        self.csi_node.as_ref().map(|migrated_plugins| migrated_plugins.as_ref().copied())
    }

    /// Whether it has a CSINode, and that, its attachments and the volumes of its pods are all readable.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.csi_node, Some(Ok(_))) && self.errors.is_empty() && self.unreadable.is_empty()
    }

    /// Whether any driver has an attach limit.
    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    /// The attach limit of a driver, and the number of its volumes in use.
    pub(crate) fn limit(&self, driver: &LimitedDriver) -> Option<(i64, usize)> {
        let limit = self.limits.iter().find(|limit| limit.driver.is_same_driver(driver))?;
        Some((limit.limit, limit.attached))
    }

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

    pub(crate) fn uses(&self, volume: &AttachableVolume) -> VolumeUses {
        self.uses.get(volume).copied().unwrap_or_default()
    }

    /// Counts the volumes in use by driver, after limits have changed.
    fn count_attached(&mut self) {
        for limit in &mut self.limits {
            limit.attached = self.uses.keys().filter(|volume| limit.driver.attaches(volume)).count();
        }
    }

    /// Whether the entry can be dropped.
    fn is_empty(&self) -> bool {
        self.id.is_none()
            && self.csi_node.is_none()
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
        if let Some(limit) = self.limits.iter_mut().find(|limit| limit.driver.attaches(volume)) {
            if is_used {
                limit.attached += 1;
            } else {
                limit.attached -= 1;
            }
        }
    }
}

// === impl VolumeUses ===

impl VolumeUses {
    pub(crate) fn is_used(self) -> bool {
        self.by_pods > 0 || self.by_attachments > 0
    }
}
