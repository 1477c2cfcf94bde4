//! TaintToleration: taints of nodes and tolerations of pods.

use kubernetes::taints::{PREFER_NO_SCHEDULE, first_untolerated};

use super::registration::{FilterTraits, Registration};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::node::Node;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::SchedulingSpec;
use crate::settings::Version;
use crate::status::Status;

pub(crate) const REGISTRATION: Registration = Registration::new("TaintToleration", |_| {
    &[ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
})
.filter(FilterTraits::NODE_ONLY)
.weight(3)
.events(&[ClusterEvent::NodeAdd, ClusterEvent::UpdateNodeTaint, ClusterEvent::UpdatePodToleration])
.queueing_hint(queueing_hint);

/// Rejects a node with an untolerated `NoSchedule` or `NoExecute` taint.
pub(crate) fn filter(spec: &SchedulingSpec, node: &Node, version: Version) -> Result<(), Status> {
    let Some(taint) = first_untolerated(&node.taints, &spec.tolerations) else { return Ok(()) };
    if version >= Version::V1_35 {
        return Err(Status::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)"));
    }
    let reason = format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value);
    Err(Status::unresolvable(Plugin::TaintToleration, reason))
}

/// The number of untolerated `PreferNoSchedule` taints.
pub(crate) fn score(spec: &SchedulingSpec, node: &Node) -> i64 {
    let discouraging = node.taints.iter().filter(|taint| &*taint.effect == PREFER_NO_SCHEDULE);
    discouraging.filter(|taint| !kubernetes::taints::is_tolerated(&spec.tolerations, taint)).count() as i64
}

/// The pod tolerates the taints of a node and did not before, or the pod itself changed.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Node { old, new: Some(new) } => {
            let tolerations = &hint.pod.spec.tolerations;
            let tolerates = |node: &Node| first_untolerated(&node.taints, tolerations).is_none();
            tolerates(new) && old.is_none_or(|old| !tolerates(old))
        }
        EventObjects::Pod { .. } => hint.is_own_pod_event(),
        _ => true,
    }
}
