//! The input of a queueing hint.

use super::hint_volumes::HintVolumes;
use super::tracked_objects::TrackedObject;
use super::{EventObjects, ObservedEvent};
use crate::cache::ClusterCache;
use crate::pod::Pod;
use crate::settings::Profile;

/// A pod that a plugin rejected, and an event that may help it.
pub(crate) struct HintContext<'a> {
    pub cache: &'a ClusterCache,
    pub profile: &'a Profile,
    pub pod: &'a Pod,
    /// Its volumes; `None` if they are unreadable.
    pub volumes: Option<&'a HintVolumes>,
    pub event: &'a ObservedEvent<'a>,
}

impl HintContext<'_> {
    /// Whether the event is about the pod itself.
    pub(crate) fn is_own_pod_event(&self) -> bool {
        let EventObjects::Pod { old, new, .. } = self.event.objects else { return false };
        new.or(old).is_some_and(|other| other.name == self.pod.name)
    }

    /// Whether the pod uses the claim, by name or as an ephemeral volume.
    pub(crate) fn uses_claim(&self, volumes: &HintVolumes, claim: &TrackedObject) -> bool {
        claim.namespace == self.pod.name.namespace && volumes.claims().any(|own| *own == claim.name)
    }

    /// Whether the pod uses the claim by name.
    pub(crate) fn names_claim(&self, volumes: &HintVolumes, claim: &TrackedObject) -> bool {
        claim.namespace == self.pod.name.namespace && volumes.named_claims().any(|own| *own == claim.name)
    }
}
