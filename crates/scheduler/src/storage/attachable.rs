//! Volumes as attach limits count them.

use std::sync::Arc;

use model::NamespacedName;

/// A volume as attach limits count it: once per node, however many pods use it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AttachableVolume {
    /// The CSI driver that attaches it.
    pub(crate) driver: Arc<str>,
    pub(crate) handle: VolumeHandle,
}

/// The identity of a volume of a driver.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum VolumeHandle {
    /// The volume handle.
    Volume(Arc<str>),
    /// A claim that is not bound yet stands for its future volume.
    Claim(NamespacedName),
}

// === impl AttachableVolume ===

impl AttachableVolume {
    /// A volume that exists.
    pub(crate) fn volume(driver: &Arc<str>, handle: &Arc<str>) -> AttachableVolume {
        AttachableVolume { driver: driver.clone(), handle: VolumeHandle::Volume(handle.clone()) }
    }

    /// Whether it counts: a volume without driver or handle does not.
    pub(crate) fn is_counted(&self) -> bool {
        let has_handle = match &self.handle {
            VolumeHandle::Volume(handle) => !handle.is_empty(),
            VolumeHandle::Claim(_) => true,
        };
        has_handle && !self.driver.is_empty()
    }
}
