//! Cordons.

use kubernetes::taints::{NO_SCHEDULE, Taint, tolerated};

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::node::NodeSpec;
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Shape;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodeUnschedulable",
    points: |_| &[ExtensionPoint::Filter],
    filter: Some(Filter::OF_NODE),
    events: &[Sort::NodeAdded, Sort::NodeTaints, Sort::PodTolerations],
    queueing_hint,
    ..Registration::EMPTY
};

/// A cordoned node takes only pods that tolerate the taint that goes with a cordon, whether the node has it or not.
pub(crate) fn filter(shape: &Shape, node: &NodeSpec) -> Result<(), Refusal> {
    if !node.unschedulable {
        return Ok(());
    }
    if tolerates_cordon(shape) {
        return Ok(());
    }
    Err(Refusal::unresolvable(Plugin::NodeUnschedulable, "node(s) were unschedulable"))
}

/// A node that is not cordoned, and was or is new; or the pod tolerates cordons now.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    match hint.event.about {
        About::Node { old, new: Some(new) } => !new.unschedulable && old.is_none_or(|old| old.unschedulable),
        About::Pod { new: Some(new), .. } => hint.is_about_itself() && tolerates_cordon(&new.shape),
        _ => true,
    }
}

fn tolerates_cordon(shape: &Shape) -> bool {
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: NO_SCHEDULE.into(),
    };
    tolerated(&shape.tolerations, &taint)
}
