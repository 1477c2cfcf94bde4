//! DynamicResources: resource claims. They are not simulated: a pod with claims is rejected, so that none is scheduled
//! as if it had no claims. For all other pods the plugin behaves as in kube-scheduler.

use kubernetes::amounts::ScalarResourceNames;

use super::registration::{FilterTraits, Registration};
use crate::cache::RelatedObjects;
use crate::events::{ClusterEvent, EventObjects, HintContext, TrackedDetails, TrackedObjectKind};
use crate::node::Node;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::SchedulingSpec;
use crate::settings::Version;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration =
    Registration::new("DynamicResources", |version| match version >= Version::V1_35 {
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
    })
    .filter(FilterTraits::CLUSTER.with_missing_state_error("not found"))
    .weight(2)
    .default_since(Version::V1_34)
    .events(&[
        ClusterEvent::NodeAdd,
        ClusterEvent::UpdateNodeAllocatable,
        ClusterEvent::UpdateNodeLabel,
        ClusterEvent::UpdatePodGeneratedResourceClaim,
        ClusterEvent::Add(TrackedObjectKind::DeviceClass),
        ClusterEvent::Add(TrackedObjectKind::ResourceClaim),
        ClusterEvent::Add(TrackedObjectKind::ResourceSlice),
        ClusterEvent::Update(TrackedObjectKind::DeviceClass),
        ClusterEvent::Update(TrackedObjectKind::ResourceClaim),
        ClusterEvent::Update(TrackedObjectKind::ResourceSlice),
    ])
    .queueing_hint(queueing_hint);

const NOT_SIMULATED: &str = "dynamic resource allocation is not simulated";

/// The PostFilter message for a pod without claims.
pub(crate) const NOTHING_TO_DEALLOCATE: &str = "no new claims to deallocate";
/// The PostFilter error if another PreFilter plugin rejected the pod before this one stored its state; no further
/// plugin runs after it.
pub(crate) const NO_STATE: &str = "not found";

pub(crate) fn pre_filter(spec: &SchedulingSpec) -> Result<(), Status> {
    if spec.has_resource_claims {
        return Err(Status::unresolvable(Plugin::DynamicResources, NOT_SIMULATED));
    }
    Ok(())
}

/// An extended resource backed by a device class is allocated dynamically on nodes that do not have it in
/// `allocatable`.
pub(crate) fn filter(
    spec: &SchedulingSpec,
    node: &Node,
    scalars: &ScalarResourceNames,
    related_objects: &RelatedObjects,
) -> Result<(), Status> {
    let is_device_backed = |&(id, requested): &(_, i64)| {
        requested != 0
            && node.allocatable.scalar(id) == 0
            && related_objects.is_device_class_resource(scalars.name(id))
    };
    if spec.requests.scalars.iter().any(is_device_backed) {
        return Err(Status::unresolvable(Plugin::DynamicResources, NOT_SIMULATED));
    }
    Ok(())
}

/// The pod itself changed, or a claim was deallocated or is of the pod's namespace. The pod's own claims are not known
/// here.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let (old, object) = match hint.event.objects {
        EventObjects::Node { .. } => return true,
        EventObjects::Pod { .. } => return hint.is_own_pod_event(),
        EventObjects::Tracked { old, new } => (old, new.or(old)),
    };
    let Some(object) = object else { return true };
    let TrackedDetails::ResourceClaim { is_allocated } = object.details else { return true };
    let was_allocated =
        old.is_some_and(|old| matches!(old.details, TrackedDetails::ResourceClaim { is_allocated: true }));
    (was_allocated && !is_allocated) || object.namespace == hint.pod.name.namespace
}
