//! Unreadable, not one of kube-scheduler's plugins: rejects unreadable pods and nodes of a recording before any other
//! plugin runs.

use super::registration::Registration;
use crate::events::{ClusterEvent, EventObjects, HintContext};

pub(crate) const REGISTRATION: Registration = Registration::new("Unreadable", |_| &[])
    .events(&[
        ClusterEvent::NodeAdd,
        ClusterEvent::NodeDelete,
        ClusterEvent::UpdateNodeAllocatable,
        ClusterEvent::UpdateNodeLabel,
        ClusterEvent::UpdateNodeCondition,
        ClusterEvent::UpdateNodeAnnotation,
        ClusterEvent::UpdateNodeDeclaredFeature,
        ClusterEvent::AssignedPodDelete,
        ClusterEvent::UpdatePodLabel,
        ClusterEvent::UpdatePodScaleDown,
        ClusterEvent::UpdatePodSchedulingGatesEliminated,
        ClusterEvent::UpdatePodToleration,
        ClusterEvent::UpdatePodGeneratedResourceClaim,
        ClusterEvent::UpdatePod,
    ])
    .queueing_hint(queueing_hint);

/// An unreadable object may become readable by an update, and a deleted pod may have made its node unreadable.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Pod { new, .. } => hint.is_own_pod_event() || new.is_none(),
        EventObjects::Node { .. } | EventObjects::Tracked { .. } => true,
    }
}
