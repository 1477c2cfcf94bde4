//! Taints and tolerations.

use kubernetes::taints::{PREFER_NO_SCHEDULE, first_untolerated};

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::node::NodeSpec;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Shape;
use crate::settings::Version;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "TaintToleration",
    points: |_| &[ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score],
    filter: Some(Filter::OF_NODE),
    weight: 3,
    events: &[Sort::NodeAdded, Sort::NodeTaints, Sort::PodTolerations],
    queueing_hint,
    ..Registration::EMPTY
};

/// A taint that refuses must be tolerated.
pub(crate) fn filter(shape: &Shape, node: &NodeSpec, version: Version) -> Result<(), Refusal> {
    let Some(taint) = first_untolerated(&node.taints, &shape.tolerations) else { return Ok(()) };
    if version >= Version::V1_35 {
        return Err(Refusal::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)"));
    }
    let reason = format!("node(s) had untolerated taint {{{}: {}}}", taint.key, taint.value);
    Err(Refusal::unresolvable(Plugin::TaintToleration, reason))
}

/// How many taints that only discourage are not tolerated.
pub(crate) fn score(shape: &Shape, node: &NodeSpec) -> i64 {
    let discouraging = node.taints.iter().filter(|taint| &*taint.effect == PREFER_NO_SCHEDULE);
    discouraging.filter(|taint| !kubernetes::taints::tolerated(&shape.tolerations, taint)).count() as i64
}

/// A node whose taints the pod tolerates, and did not before; or the pod itself changed.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    match hint.event.about {
        About::Node { old, new: Some(new) } => {
            let tolerations = &hint.pod.shape.tolerations;
            let tolerates = |node: &NodeSpec| first_untolerated(&node.taints, tolerations).is_none();
            tolerates(new) && old.is_none_or(|old| !tolerates(old))
        }
        About::Pod { .. } => hint.is_about_itself(),
        _ => true,
    }
}
