//! What the scheduler assumes of claims and volumes between deciding and hearing of it from the API server.

use std::sync::Arc;

use super::Storage;
use super::attachable::ClaimKey;
use super::objects::{Claim, ClaimRef, Volume};
use super::read::Known;
use crate::answer::VolumeChange;

/// What is known of one object: as it was last applied, and as it is assumed to become.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slot<T> {
    pub(super) applied: Known<T>,
    /// Always of the version that was applied: another version is news, and ends what was assumed.
    assumed: Option<Arc<T>>,
}

/// What placing a pod means for its claims.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Reservation {
    /// Claims, and the volumes they get, as they will be.
    binds: Vec<(ClaimKey, Arc<Volume>)>,
    /// Claims for which a volume will be made, as they will be.
    provisions: Vec<Arc<Claim>>,
}

/// An object of which there are versions.
pub(super) trait Versioned {
    fn resource_version(&self) -> &str;
}

// === impl Slot ===

impl<T: Versioned> Slot<T> {
    /// Takes what was applied, or that the object is gone.
    pub(super) fn apply(slot: &mut Option<Slot<T>>, applied: Option<Known<T>>) {
        let assumed = slot.take().and_then(|slot| slot.assumed);
        *slot = applied.map(|applied| {
            // Objects of manifests have no versions: each is news.
            let is_same = |assumed: &Arc<T>| {
                let is_version = |new: &Arc<T>| {
                    let version = new.resource_version();
                    !version.is_empty() && version == assumed.resource_version()
                };
                applied.as_ref().is_ok_and(is_version)
            };
            Slot { assumed: assumed.filter(is_same), applied }
        });
    }

    /// As it is assumed to be, or else as it was applied.
    pub(super) fn latest(&self) -> Result<&Arc<T>, &Arc<super::Unreadable>> {
        self.assumed.as_ref().map_or(self.applied.as_ref(), Ok)
    }

    fn assume(&mut self, object: &Arc<T>) {
        if self.applied.as_ref().is_ok_and(|known| known.resource_version() == object.resource_version()) {
            self.assumed = Some(object.clone());
        }
    }

    fn forget(&mut self, object: &T) {
        self.assumed.take_if(|assumed| assumed.resource_version() == object.resource_version());
    }
}

// === impl Reservation ===

impl Reservation {
    /// The claim gets this volume.
    pub(crate) fn bind(&mut self, claim: &Claim, volume: &Arc<Volume>) {
        let mine = Some(ClaimRef { key: claim.key.clone(), uid: claim.uid.clone() });
        let volume = match volume.claim == mine {
            true => volume.clone(),
            false => Arc::new(Volume { claim: mine, ..(**volume).clone() }),
        };
        self.binds.push((claim.key.clone(), volume));
    }

    /// A volume is to be made for the claim, reachable from the node.
    pub(crate) fn provision(&mut self, claim: &Claim, node: &Arc<str>) {
        self.provisions.push(Arc::new(Claim { selected_node: Some(node.clone()), ..claim.clone() }));
    }

    /// What the caller is to do.
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

// === impl Storage ===

impl Storage {
    /// From now on, to the pods that come next, claims and volumes are as reserved.
    pub(crate) fn assume(&mut self, reservation: &Reservation) {
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

    /// Undoes [`assume`](Storage::assume), as far as nothing newer was applied since.
    pub(crate) fn forget(&mut self, reservation: &Reservation) {
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

impl Versioned for Claim {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}

impl Versioned for Volume {
    fn resource_version(&self) -> &str {
        &self.resource_version
    }
}
