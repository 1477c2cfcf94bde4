//! NodeUnschedulable: cordoned nodes.

use kubernetes::taints::{NO_SCHEDULE, Taint, is_tolerated};
use kubernetes::well_known::NODE_UNSCHEDULABLE;

use super::registration::{FilterTraits, Registration};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::node::Node;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::SchedulingSpec;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration =
    Registration::new("NodeUnschedulable", |_| &[ExtensionPoint::Filter])
        .filter(FilterTraits::NODE_ONLY)
        .events(&[ClusterEvent::NodeAdd, ClusterEvent::UpdateNodeTaint, ClusterEvent::UpdatePodToleration])
        .queueing_hint(queueing_hint);

/// Rejects a cordoned node unless the pod tolerates the unschedulable taint, whether the node has that taint or not.
pub(crate) fn filter(spec: &SchedulingSpec, node: &Node) -> Result<(), Status> {
    if !node.unschedulable {
        return Ok(());
    }
    if tolerates_cordon(spec) {
        return Ok(());
    }
    Err(Status::unresolvable(Plugin::NodeUnschedulable, "node(s) were unschedulable"))
}

/// A node was added or became schedulable, or the pod tolerates cordons now.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Node { old, new: Some(new) } => {
            !new.unschedulable && old.is_none_or(|old| old.unschedulable)
        }
        EventObjects::Pod { new: Some(new), .. } => hint.is_own_pod_event() && tolerates_cordon(&new.spec),
        _ => true,
    }
}

fn tolerates_cordon(spec: &SchedulingSpec) -> bool {
    let taint = Taint { key: NODE_UNSCHEDULABLE.into(), effect: NO_SCHEDULE.into(), ..Taint::default() };
    is_tolerated(&spec.tolerations, &taint)
}
