//! NodePorts: host ports.

use super::registration::{FilterTraits, Registration};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::{HostPort, SchedulingSpec};
use crate::status::Status;

pub(crate) const REGISTRATION: Registration =
    Registration::new("NodePorts", |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter])
        .filter(
            FilterTraits::NODE_WITH_PODS
                .with_missing_state_error(r#"reading "PreFilterNodePorts" from cycleState: not found"#),
        )
        .events(&[ClusterEvent::NodeAdd, ClusterEvent::AssignedPodDelete])
        .queueing_hint(queueing_hint);

/// Rejects a node on which a host port is in use.
pub(crate) fn filter(spec: &SchedulingSpec, used_ports: &[HostPort]) -> Result<(), Status> {
    if spec.host_ports.iter().any(|requested| used_ports.iter().any(|used| requested.conflicts(used))) {
        let reason = "node(s) didn't have free ports for the requested pod ports";
        return Err(Status::unschedulable(Plugin::NodePorts, reason));
    }
    Ok(())
}

/// A pod with a conflicting host port was deleted.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let EventObjects::Pod { old: Some(deleted_pod), new: None, .. } = hint.event.objects else { return true };
    let conflicts = |port| hint.pod.spec.host_ports.iter().any(|own| own.conflicts(port));
    deleted_pod.is_assigned_or_nominated() && deleted_pod.spec.host_ports.iter().any(conflicts)
}
