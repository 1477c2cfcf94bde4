//! What a node attaches, as its limits count it.

use std::sync::Arc;

/// A volume as the limits of a node count it: pods that use the same one together use it once.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attachable {
    /// The CSI driver that attaches it.
    pub(crate) driver: Arc<str>,
    pub(crate) handle: Handle,
}

/// What tells volumes of one driver apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Handle {
    /// What the driver calls it.
    Volume(Arc<str>),
    /// There is no volume yet; the claim stands for the one that will be.
    Claim(ClaimKey),
}

/// What names a claim.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ClaimKey {
    pub(crate) namespace: Arc<str>,
    pub(crate) name: Arc<str>,
}

// === impl Attachable ===

impl Attachable {
    /// A volume that exists.
    pub(crate) fn volume(driver: &Arc<str>, handle: &Arc<str>) -> Attachable {
        Attachable { driver: driver.clone(), handle: Handle::Volume(handle.clone()) }
    }

    /// Whether it counts: without a driver or a handle there is nothing to attach.
    pub(crate) fn counts(&self) -> bool {
        let has_handle = match &self.handle {
            Handle::Volume(handle) => !handle.is_empty(),
            Handle::Claim(_) => true,
        };
        has_handle && !self.driver.is_empty()
    }
}

// === impl ClaimKey ===

impl ClaimKey {
    pub(crate) fn new(namespace: &Arc<str>, name: &Arc<str>) -> ClaimKey {
        ClaimKey { namespace: namespace.clone(), name: name.clone() }
    }
}
