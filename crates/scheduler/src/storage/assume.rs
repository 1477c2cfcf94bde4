//! The assume cache: changes of claims and volumes that the scheduler assumes until they are observed.

use std::sync::Arc;

use model::NamespacedName;

use super::StorageCache;
use super::objects::{ClaimRef, PersistentVolume, PersistentVolumeClaim};
use super::read::ReadResult;
use crate::decision::VolumeChange;

/// An object as last applied, and with assumed changes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AssumeSlot<T> {
    pub(super) applied: ReadResult<T>,
    /// Always of the applied resource version: another version ends the assumption.
    assumed: Option<Arc<T>>,
}

/// The reserved bindings and provisionings of a pod's claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct VolumeReservation {
    /// Claims and their volumes, the latter with the assumed `claimRef`.
    binds: Vec<(NamespacedName, Arc<PersistentVolume>)>,
    /// Claims to be provisioned, with the assumed selected node.
    provisions: Vec<Arc<PersistentVolumeClaim>>,
}

/// An object with a resource version.
pub(super) trait Versioned {
    fn resource_version(&self) -> &str;
}

// === impl AssumeSlot ===

impl<T: Versioned> AssumeSlot<T> {
    /// Applies a new version of an object, or its deletion.
    pub(super) fn apply(slot: &mut Option<AssumeSlot<T>>, applied: Option<ReadResult<T>>) {
        let assumed = slot.take().and_then(|slot| slot.assumed);
        *slot = applied.map(|applied| {
            // Objects of manifests have no resource version: each counts as a new one.
            let is_same = |assumed: &Arc<T>| {
                let is_version = |new: &Arc<T>| {
                    let version = new.resource_version();
                    !version.is_empty() && version == assumed.resource_version()
                };
                applied.as_ref().is_ok_and(is_version)
            };
            AssumeSlot { assumed: assumed.filter(is_same), applied }
        });
    }

    /// The assumed version, or else the applied one.
    pub(super) fn latest(&self) -> Result<&Arc<T>, &Arc<super::UnreadableObject>> {
        self.assumed.as_ref().map_or(self.applied.as_ref(), Ok)
    }

    fn assume(&mut self, object: &Arc<T>) {
        if self.applied.as_ref().is_ok_and(|current| current.resource_version() == object.resource_version())
        {
            self.assumed = Some(object.clone());
        }
    }

    fn forget(&mut self, object: &T) {
        self.assumed.take_if(|assumed| assumed.resource_version() == object.resource_version());
    }
}

// === impl VolumeReservation ===

impl VolumeReservation {
    /// Binds the claim to this volume.
    pub(crate) fn bind(&mut self, claim: &PersistentVolumeClaim, volume: &Arc<PersistentVolume>) {
        let claim_ref = Some(ClaimRef { key: claim.key.clone(), uid: claim.uid.clone() });
        let volume = match volume.claim == claim_ref {
            true => volume.clone(),
            false => Arc::new(PersistentVolume { claim: claim_ref, ..(**volume).clone() }),
        };
        self.binds.push((claim.key.clone(), volume));
    }

    /// Provisions a volume for the claim, reachable from the node.
    pub(crate) fn provision(&mut self, claim: &PersistentVolumeClaim, node: &Arc<str>) {
        self.provisions
            .push(Arc::new(PersistentVolumeClaim { selected_node: Some(node.clone()), ..claim.clone() }));
    }

    /// The changes that the caller applies.
    pub(crate) fn changes(&self) -> Vec<VolumeChange> {
        let binds = self.binds.iter().map(|(claim, volume)| VolumeChange::Bind {
            claim: claim.name.clone(),
            volume: volume.name.clone(),
        });
        let provisions = self.provisions.iter().map(|claim| VolumeChange::Provision {
            claim: claim.key.name.clone(),
            node: claim.selected_node.clone().unwrap_or_default(),
        });
        binds.chain(provisions).collect()
    }
}

// === impl StorageCache ===

impl StorageCache {
    /// Assumes the reserved changes, which later pods see.
    pub(crate) fn assume(&mut self, reservation: &VolumeReservation) {
        for (_, volume) in &reservation.binds {
            if let Some(slot) = self.volumes.get_mut(&volume.name).and_then(|entry| entry.slot.as_mut()) {
                slot.assume(volume);
            }
        }
        for claim in &reservation.provisions {
            if let Some(slot) = self.claims.get_mut(&claim.key).and_then(|entry| entry.slot.as_mut()) {
                slot.assume(claim);
            }
        }
    }

    /// Undoes [`assume`](StorageCache::assume), unless a newer version was applied since.
    pub(crate) fn forget(&mut self, reservation: &VolumeReservation) {
        for (_, volume) in &reservation.binds {
            if let Some(slot) = self.volumes.get_mut(&volume.name).and_then(|entry| entry.slot.as_mut()) {
                slot.forget(volume);
            }
        }
        for claim in &reservation.provisions {
            if let Some(slot) = self.claims.get_mut(&claim.key).and_then(|entry| entry.slot.as_mut()) {
                slot.forget(claim);
            }
        }
    }
}

impl Versioned for PersistentVolumeClaim {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl Versioned for PersistentVolume {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}
