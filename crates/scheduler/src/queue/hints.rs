//! Whether an event may help a pod that was refused: what the plugins that refused it are asked.

use std::sync::Arc;

use model::Object;
use serde::Deserialize;
use serde_json::Value;

use super::events::{About, Event};
use super::things::Thing;
use super::volumes::{VolumeJson, Volumes};
use super::{Entry, Known};
use crate::ids::PodId;
use crate::plugin::Plugin;
use crate::pod::Pod;
use crate::rules::Rules;
use crate::world::World;

/// What the queue keeps of a pod besides the pod itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Extras {
    /// `None` if they cannot be told.
    pub volumes: Option<Arc<Volumes>>,
    /// The resource claims that were made for the pod, as its status names them.
    pub claims: [Option<Value>; 2],
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodJson {
    spec: Option<SpecJson>,
    status: Option<StatusJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecJson {
    volumes: Option<Vec<VolumeJson>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    resource_claim_statuses: Option<Value>,
    extended_resource_claim_status: Option<Value>,
}

/// A pod that a plugin refused, and what happened since: what the plugin is asked about.
pub(crate) struct Hint<'a> {
    pub world: &'a World,
    pub rules: &'a Rules,
    pub pod: &'a Pod,
    /// Its volumes; `None` if they cannot be told.
    pub volumes: Option<&'a Volumes>,
    pub event: &'a Event<'a>,
}

/// Whether an event may help a pod against any of those that refused it.
pub(super) fn is_helped_at_all(known: Known<'_>, id: PodId, entry: &Entry, event: &Event<'_>) -> bool {
    let is_helped = |plugin: &Plugin| plugin.asks(event.sort) && is_helped(*plugin, known, id, entry, event);
    entry.rejectors.iter().any(is_helped)
}

/// Whether an event that a plugin asks for may help a pod that it refused.
pub(super) fn is_helped(
    plugin: Plugin,
    known: Known<'_>,
    id: PodId,
    entry: &Entry,
    event: &Event<'_>,
) -> bool {
    let (world, pod) = (known.world, known.world.pod(id));
    let Some(rules) = known.rules(pod) else { return true };
    plugin.is_helped(&Hint { world, rules, pod, volumes: entry.extras.volumes.as_deref(), event })
}

// === impl Hint ===

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

// === impl Extras ===

impl Extras {
    pub(super) fn read(object: &Object) -> Extras {
        let Ok(json) = object.view::<PodJson>() else { return Extras::default() };
        let status = json.status.unwrap_or_default();
        Extras {
            volumes: json.spec.map(|spec| Arc::new(Volumes::of(object, spec.volumes.unwrap_or_default()))),
            claims: [status.resource_claim_statuses, status.extended_resource_claim_status],
        }
    }
}

impl Volumes {
    /// The volumes of a pod; `None` if the object does not tell.
    pub(super) fn read(object: &Object) -> Option<Volumes> {
        let spec = object.view::<PodJson>().ok()?.spec?;
        Some(Volumes::of(object, spec.volumes.unwrap_or_default()))
    }
}
