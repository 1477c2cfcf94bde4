//! Devices by claims. They are not simulated: a pod that wants some is refused, so that none is placed as if it wanted
//! nothing. For all other pods it does what the original does.

use kubernetes::amounts::ScalarNames;

use super::registration::{Filter, Registration};
use crate::events::{About, Details, Hint, Sort, ThingKind};
use crate::node::NodeSpec;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Shape;
use crate::settings::Version;
use crate::verdict::Refusal;
use crate::world::Relations;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "DynamicResources",
    points: |version| match version >= Version::V1_35 {
        true => &[
            ExtensionPoint::PreEnqueue,
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PostFilter,
            ExtensionPoint::Score,
            ExtensionPoint::Reserve,
            ExtensionPoint::PreBind,
        ],
        false => &[
            ExtensionPoint::PreEnqueue,
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PostFilter,
            ExtensionPoint::Reserve,
            ExtensionPoint::PreBind,
        ],
    },
    filter: Some(Filter::BEYOND.unprepared("not found")),
    weight: 2,
    default_since: Version::V1_34,
    events: &[
        Sort::NodeAdded,
        Sort::NodeAllocatable,
        Sort::NodeLabels,
        Sort::PodClaims,
        Sort::Added(ThingKind::DeviceClass),
        Sort::Added(ThingKind::ResourceClaim),
        Sort::Added(ThingKind::ResourceSlice),
        Sort::Changed(ThingKind::DeviceClass),
        Sort::Changed(ThingKind::ResourceClaim),
        Sort::Changed(ThingKind::ResourceSlice),
    ],
    queueing_hint,
    ..Registration::EMPTY
};

const NOT_SIMULATED: &str = "dynamic resource allocation is not simulated yet";

/// What making room says of a pod without claims.
pub(crate) const NOTHING_TO_DEALLOCATE: &str = "no new claims to deallocate";
/// What making room says if the pod was refused before this plugin had a look at it; an error, after which nobody
/// else is asked.
pub(crate) const NO_STATE: &str = "not found";

pub(crate) fn pre_filter(shape: &Shape) -> Result<(), Refusal> {
    if shape.has_claims {
        return Err(Refusal::unresolvable(Plugin::DynamicResources, NOT_SIMULATED));
    }
    Ok(())
}

/// An extended resource that stands for a class of devices is allocated where the node does not have it itself.
pub(crate) fn filter(
    shape: &Shape,
    node: &NodeSpec,
    scalars: &ScalarNames,
    relations: &Relations,
) -> Result<(), Refusal> {
    let by_devices = |&(id, wanted): &(_, i64)| {
        wanted != 0 && node.allocatable.scalar(id) == 0 && relations.is_device(scalars.name(id))
    };
    if shape.requests.scalars.iter().any(by_devices) {
        return Err(Refusal::unresolvable(Plugin::DynamicResources, NOT_SIMULATED));
    }
    Ok(())
}

/// The pod itself changed, or a claim is free or of its namespace. Which claims a pod has is not known here.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let (old, thing) = match hint.event.about {
        About::Node { .. } => return true,
        About::Pod { .. } => return hint.is_about_itself(),
        About::Thing { old, new } => (old, new.or(old)),
    };
    let Some(thing) = thing else { return true };
    let Details::ResourceClaim { is_allocated } = thing.details else { return true };
    let was = old.is_some_and(|old| matches!(old.details, Details::ResourceClaim { is_allocated: true }));
    (was && !is_allocated) || thing.namespace == hint.pod.name.namespace
}
