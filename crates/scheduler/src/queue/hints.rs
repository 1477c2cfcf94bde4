//! Which events each plugin asks to be told of, and whether one may help a pod that the plugin refused.

mod nodes;
mod pods;
mod volumes;

use std::sync::Arc;

use model::Object;
use serde::Deserialize;
use serde_json::Value;

use super::super::ids::PodId;
use super::super::plugin::Plugin;
use super::super::pod::Pod;
use super::events::{About, Event, Sort};
use super::things::{Details, Thing, ThingKind};
use super::{Entry, Known};
use volumes::VolumeJson;

pub(super) use volumes::Volumes;

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

/// Whether a plugin asks to be told of such events.
pub(super) fn asks(plugin: Plugin, sort: Sort) -> bool {
    use Plugin as P;
    use ThingKind as T;
    match sort {
        Sort::NodeAdded => matches!(
            plugin,
            P::NodeUnschedulable
                | P::NodeName
                | P::TaintToleration
                | P::NodeAffinity
                | P::NodePorts
                | P::NodeResourcesFit
                | P::VolumeRestrictions
                | P::VolumeBinding
                | P::VolumeZone
                | P::PodTopologySpread
                | P::InterPodAffinity
                | P::DynamicResources
                | P::NodeDeclaredFeatures
                | P::Unreadable
        ),
        Sort::NodeDeleted => matches!(plugin, P::PodTopologySpread | P::Unreadable),
        Sort::NodeAllocatable => {
            matches!(plugin, P::NodeResourcesFit | P::DynamicResources | P::Unreadable)
        }
        Sort::NodeLabels => matches!(
            plugin,
            P::NodeAffinity
                | P::VolumeBinding
                | P::VolumeZone
                | P::PodTopologySpread
                | P::InterPodAffinity
                | P::DynamicResources
                | P::Unreadable
        ),
        // Who asks for new nodes is told of taints as well.
        Sort::NodeTaints => asks(plugin, Sort::NodeAdded),
        Sort::NodeConditions | Sort::NodeAnnotations => plugin == P::Unreadable,
        Sort::NodeFeatures => matches!(plugin, P::NodeDeclaredFeatures | P::Unreadable),
        Sort::PodAdded => matches!(plugin, P::PodTopologySpread | P::InterPodAffinity),
        Sort::PodDeleted => matches!(
            plugin,
            P::NodePorts
                | P::NodeResourcesFit
                | P::VolumeRestrictions
                | P::NodeVolumeLimits
                | P::PodTopologySpread
                | P::InterPodAffinity
                | P::Unreadable
        ),
        Sort::PodLabels => {
            matches!(
                plugin,
                P::PodTopologySpread | P::InterPodAffinity | P::NodeDeclaredFeatures | P::Unreadable
            )
        }
        Sort::PodScaledDown => {
            matches!(plugin, P::NodeResourcesFit | P::NodeDeclaredFeatures | P::Unreadable)
        }
        Sort::PodGatesGone => {
            matches!(plugin, P::SchedulingGates | P::NodeDeclaredFeatures | P::Unreadable)
        }
        Sort::PodTolerations => matches!(
            plugin,
            P::NodeUnschedulable
                | P::TaintToleration
                | P::PodTopologySpread
                | P::NodeDeclaredFeatures
                | P::Unreadable
        ),
        Sort::PodClaims => {
            matches!(plugin, P::DynamicResources | P::NodeDeclaredFeatures | P::Unreadable)
        }
        Sort::PodOther => matches!(plugin, P::NodeDeclaredFeatures | P::Unreadable),
        Sort::Added(kind) => match kind {
            T::Claim => matches!(
                plugin,
                P::VolumeRestrictions | P::NodeVolumeLimits | P::VolumeBinding | P::VolumeZone
            ),
            T::Volume | T::StorageClass => matches!(plugin, P::VolumeBinding | P::VolumeZone),
            T::CsiNode => matches!(plugin, P::NodeVolumeLimits | P::VolumeBinding),
            T::CsiStorageCapacity => plugin == P::VolumeBinding,
            T::DeviceClass => matches!(plugin, P::NodeResourcesFit | P::DynamicResources),
            T::ResourceClaim | T::ResourceSlice => plugin == P::DynamicResources,
            T::CsiDriver | T::VolumeAttachment => false,
        },
        Sort::Changed(kind) => match kind {
            T::Claim | T::Volume => matches!(plugin, P::VolumeBinding | P::VolumeZone),
            T::StorageClass | T::CsiDriver | T::CsiStorageCapacity => plugin == P::VolumeBinding,
            T::CsiNode => matches!(plugin, P::NodeVolumeLimits | P::VolumeBinding),
            T::DeviceClass => matches!(plugin, P::NodeResourcesFit | P::DynamicResources),
            T::ResourceClaim | T::ResourceSlice => plugin == P::DynamicResources,
            T::VolumeAttachment => false,
        },
        Sort::Deleted(kind) => kind == T::VolumeAttachment && plugin == P::NodeVolumeLimits,
    }
}

/// Whether an event may help a pod against any of those that refused it.
pub(super) fn worth(known: Known<'_>, id: PodId, entry: &Entry, event: &Event<'_>) -> bool {
    let helps = |plugin: &Plugin| asks(*plugin, event.sort) && helps(*plugin, known, id, entry, event);
    entry.rejectors.iter().any(helps)
}

/// Whether an event that a plugin asks for may help a pod that it refused.
pub(super) fn helps(plugin: Plugin, known: Known<'_>, id: PodId, entry: &Entry, event: &Event<'_>) -> bool {
    let pod = known.world.pod(id);
    let Some(rules) = known.rules(pod) else { return true };
    match event.about {
        About::Node { old, new } => match (plugin, new) {
            (Plugin::NodeUnschedulable, Some(new)) => nodes::uncordoned(old, new),
            (Plugin::TaintToleration, Some(new)) => nodes::tolerated_now(pod, old, new),
            (Plugin::PodTopologySpread, _) => {
                let constraints = pods::hard_constraints(known.world, rules, pod);
                nodes::spread(&constraints, old, new)
            }
            // Told of taints though it did not ask: any may help.
            _ if event.sort == Sort::NodeTaints => true,
            (Plugin::NodeAffinity, Some(new)) => {
                nodes::selected_now(pod, &rules.profile.added_affinity, old, new)
            }
            (Plugin::NodeResourcesFit, Some(new)) => nodes::fits_now(known.world, pod, old, new),
            (Plugin::InterPodAffinity, Some(new)) => nodes::domain_changed(pod, old, new),
            (Plugin::NodeDeclaredFeatures, Some(new)) => {
                old.is_none_or(|old| old.declared_features != new.declared_features)
            }
            _ => true,
        },
        About::Pod { old, new, volumes } => {
            let change = pods::Change { old, new };
            match plugin {
                Plugin::VolumeRestrictions => volumes::released(pod, entry, old, volumes),
                Plugin::NodeVolumeLimits => volumes::detached(old, volumes),
                Plugin::PodTopologySpread => {
                    pods::spread(&pods::hard_constraints(known.world, rules, pod), pod, change)
                }
                _ => pods::helps(plugin, pod, change),
            }
        }
        About::Thing { old, new } => match (plugin, new.or(old)) {
            (_, None) => true,
            (Plugin::NodeResourcesFit, Some(class)) => {
                is_device_wanted(known, pod, old.map(|old| &old.details), class)
            }
            (Plugin::DynamicResources, Some(thing)) => match (&thing.details, old.map(|old| &old.details)) {
                // Which claims a pod has is not known here: it may be any of its namespace.
                (Details::ResourceClaim { is_allocated }, before) => {
                    let was = matches!(before, Some(Details::ResourceClaim { is_allocated: true }));
                    (was && !is_allocated) || thing.namespace == pod.name.namespace
                }
                _ => true,
            },
            (plugin, Some(thing)) => volumes::thing_helps(plugin, pod, entry, old, thing),
        },
    }
}

/// Whether a class of devices stands for a resource that the pod asks for, and did not before.
fn is_device_wanted(known: Known<'_>, pod: &Pod, old: Option<&Details>, class: &Thing) -> bool {
    let asked = |name: &str| {
        let mut scalars = pod.shape.requests.scalars.iter();
        scalars.any(|(id, _)| **known.world.scalars.name(*id) == *name)
    };
    let name_of = |details: &Details| match details {
        Details::DeviceClass { resource } => resource.clone(),
        _ => None,
    };
    let resource = name_of(&class.details);
    match old {
        Some(old) if name_of(old).unwrap_or_default() == resource.clone().unwrap_or_default() => false,
        None if asked(&format!("deviceclass.resource.kubernetes.io/{}", class.name)) => true,
        _ => resource.is_some_and(|resource| asked(&resource)),
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
