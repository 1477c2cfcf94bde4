//! SchedulingGates: keeps pods out of the queue until their gates are removed.

use super::registration::Registration;
use crate::events::{ClusterEvent, HintContext};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Pod;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration =
    Registration::new("SchedulingGates", |_| &[ExtensionPoint::PreEnqueue])
        .events(&[ClusterEvent::UpdatePodSchedulingGatesEliminated])
        .queueing_hint(queueing_hint);

pub(crate) fn pre_enqueue(pod: &Pod) -> Result<(), Status> {
    if pod.scheduling_gates.is_empty() {
        return Ok(());
    }
    let reason = format!("waiting for scheduling gates: [{}]", pod.scheduling_gates.join(" "));
    Err(Status::unresolvable(Plugin::SchedulingGates, reason))
}

/// The pod's own gates were removed.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    hint.is_own_pod_event()
}
