//! What a plugin is asked when something happened that may help a pod it refused.

use super::things::Thing;
use super::volumes::Volumes;
use super::{About, Event};
use crate::pod::Pod;
use crate::settings::Profile;
use crate::world::World;

/// A pod that a plugin refused, and what happened since: what the plugin is asked about.
pub(crate) struct Hint<'a> {
    pub world: &'a World,
    pub profile: &'a Profile,
    pub pod: &'a Pod,
    /// Its volumes; `None` if they cannot be told.
    pub volumes: Option<&'a Volumes>,
    pub event: &'a Event<'a>,
}

impl Hint<'_> {
    /// Whether the pod itself changed.
    pub(crate) fn is_about_itself(&self) -> bool {
        let About::Pod { old, new, .. } = self.event.about else { return false };
        new.or(old).is_some_and(|other| other.name == self.pod.name)
    }

    /// Whether one of these volumes of the pod is that claim, be it made for the pod.
    pub(crate) fn has_claim(&self, volumes: &Volumes, claim: &Thing) -> bool {
        claim.namespace == self.pod.name.namespace && volumes.claims().any(|own| *own == claim.name)
    }

    /// Whether the pod names that claim.
    pub(crate) fn names_claim(&self, volumes: &Volumes, claim: &Thing) -> bool {
        claim.namespace == self.pod.name.namespace && volumes.named_claims().any(|own| *own == claim.name)
    }
}
