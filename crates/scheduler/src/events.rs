//! Cluster events that may make an unschedulable pod schedulable, and the input of queueing hints.

mod hint_context;
mod hint_inputs;
mod hint_volumes;
mod tracked_objects;

use std::collections::BTreeMap;

use crate::node::Node;
use crate::pod::Pod;

pub(crate) use hint_context::HintContext;
pub(crate) use hint_inputs::HintInputs;
pub(crate) use hint_volumes::HintVolumes;
pub(crate) use tracked_objects::{TrackedDetails, TrackedObject, TrackedObjectKind, TrackedObjects};

/// A cluster event with the objects it is about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ObservedEvent<'a> {
    pub cluster_event: ClusterEvent,
    pub objects: EventObjects<'a>,
}

/// The resource and action of an event, as plugins register for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClusterEvent {
    NodeAdd,
    NodeDelete,
    UpdateNodeAllocatable,
    UpdateNodeLabel,
    UpdateNodeTaint,
    UpdateNodeCondition,
    UpdateNodeAnnotation,
    UpdateNodeDeclaredFeature,
    /// A pod was assigned.
    AssignedPodAdd,
    /// An assigned pod was deleted, or a nomination was cleared.
    AssignedPodDelete,
    UpdatePodLabel,
    UpdatePodScaleDown,
    UpdatePodSchedulingGatesEliminated,
    UpdatePodToleration,
    UpdatePodGeneratedResourceClaim,
    /// A pod update other than the above.
    UpdatePod,
    Add(TrackedObjectKind),
    Update(TrackedObjectKind),
    Delete(TrackedObjectKind),
}

/// The old and the new object of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EventObjects<'a> {
    Node {
        old: Option<&'a Node>,
        new: Option<&'a Node>,
    },
    /// The volumes are those of a deleted pod, if known.
    Pod {
        old: Option<&'a Pod>,
        new: Option<&'a Pod>,
        volumes: Option<&'a HintVolumes>,
    },
    Tracked {
        old: Option<&'a TrackedObject>,
        new: Option<&'a TrackedObject>,
    },
}

/// The update events of a node, in kube-scheduler's order.
pub(crate) fn node_scheduling_properties_change(old: &Node, new: &Node) -> Vec<ClusterEvent> {
    let conditions = |node: &Node| {
        let statuses = node.conditions.iter().map(|it| (it.kind.clone(), it.status.clone()));
        statuses.collect::<BTreeMap<_, _>>()
    };
    let changes = [
        (old.unschedulable && !new.unschedulable, ClusterEvent::UpdateNodeTaint),
        (
            old.allocatable != new.allocatable || old.allowed_pods != new.allowed_pods,
            ClusterEvent::UpdateNodeAllocatable,
        ),
        (old.labels != new.labels, ClusterEvent::UpdateNodeLabel),
        (old.taints != new.taints, ClusterEvent::UpdateNodeTaint),
        (conditions(old) != conditions(new), ClusterEvent::UpdateNodeCondition),
        (old.annotations != new.annotations, ClusterEvent::UpdateNodeAnnotation),
        (old.declared_features != new.declared_features, ClusterEvent::UpdateNodeDeclaredFeature),
        // For an unreadable node it is unknown what changed.
        (old.read_error != new.read_error, ClusterEvent::UpdateNodeAllocatable),
    ];
    changes.into_iter().filter(|(changed, _)| *changed).map(|(_, event)| event).collect()
}

/// The update events of a pod, in kube-scheduler's order. `hint_inputs` is `None` for assigned pods, whose resource
/// claims no plugin watches.
pub(crate) fn pod_scheduling_properties_change(
    old: &Pod,
    new: &Pod,
    hint_inputs: Option<(&HintInputs, &HintInputs)>,
) -> Vec<ClusterEvent> {
    let changes = [
        (old.labels != new.labels, ClusterEvent::UpdatePodLabel),
        (is_scaled_down(old, new), ClusterEvent::UpdatePodScaleDown),
        (
            !old.scheduling_gates.is_empty() && new.scheduling_gates.is_empty(),
            ClusterEvent::UpdatePodSchedulingGatesEliminated,
        ),
        (old.spec.tolerations.len() != new.spec.tolerations.len(), ClusterEvent::UpdatePodToleration),
        (
            hint_inputs.is_some_and(|(old, new)| old.resource_claims != new.resource_claims),
            ClusterEvent::UpdatePodGeneratedResourceClaim,
        ),
    ];
    let mut found: Vec<ClusterEvent> =
        changes.into_iter().filter(|(changed, _)| *changed).map(|(_, event)| event).collect();
    if found.is_empty() {
        found.push(ClusterEvent::UpdatePod);
    }
    found
}

/// Whether any request of a pod was reduced.
fn is_scaled_down(old: &Pod, new: &Pod) -> bool {
    let (old, new) = (&old.usage.requested, &new.usage.requested);
    old.cpu > new.cpu
        || old.memory > new.memory
        || old.ephemeral_storage > new.ephemeral_storage
        || old.scalars.iter().any(|(id, amount)| {
            // A removed request counts even if it was zero.
            !new.scalars.iter().any(|(other, _)| other == id) || *amount > new.scalar(*id)
        })
}
