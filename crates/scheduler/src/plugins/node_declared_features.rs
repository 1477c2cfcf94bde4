//! NodeDeclaredFeatures: node features that a pod requires.

use super::registration::{FilterTraits, Registration};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::node::Node;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::SchedulingSpec;
use crate::settings::Version;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration =
    Registration::new("NodeDeclaredFeatures", |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter])
        .filter(FilterTraits::NODE_ONLY.with_missing_state_error(
            r#"error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found"#,
        ))
        .since(Version::V1_35)
        .default_since(Version::V1_36)
        .events(&[
            ClusterEvent::NodeAdd,
            ClusterEvent::UpdateNodeDeclaredFeature,
            ClusterEvent::UpdatePodLabel,
            ClusterEvent::UpdatePodScaleDown,
            ClusterEvent::UpdatePodSchedulingGatesEliminated,
            ClusterEvent::UpdatePodToleration,
            ClusterEvent::UpdatePodGeneratedResourceClaim,
            ClusterEvent::UpdatePod,
        ])
        .queueing_hint(queueing_hint);

pub(crate) fn filter(spec: &SchedulingSpec, node: &Node) -> Result<(), Status> {
    let declared = |feature: &str| node.declared_features.iter().any(|other| **other == *feature);
    if spec.required_features.iter().all(|feature| declared(feature)) {
        return Ok(());
    }
    Err(Status::unresolvable(Plugin::NodeDeclaredFeatures, "node(s) didn't match Pod's required features"))
}

/// The declared features of a node or the requirements of the pod changed.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Node { old, new: Some(new) } => {
            old.is_none_or(|old| old.declared_features != new.declared_features)
        }
        EventObjects::Pod { old: Some(old), new: Some(new), .. } => {
            hint.is_own_pod_event() && old.spec.required_features != new.spec.required_features
        }
        _ => true,
    }
}
