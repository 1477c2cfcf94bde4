//! Cordons.

use kubernetes::taints::{NO_SCHEDULE, Taint, tolerated};

use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::verdict::Refusal;

/// A cordoned node takes only pods that tolerate the taint that goes with a cordon, whether the node has it or not.
pub(crate) fn filter(shape: &Shape, node: &NodeSpec) -> Result<(), Refusal> {
    if !node.unschedulable {
        return Ok(());
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".into(),
        value: "".into(),
        effect: NO_SCHEDULE.into(),
    };
    if tolerated(&shape.tolerations, &taint) {
        return Ok(());
    }
    Err(Refusal::unresolvable(Plugin::NodeUnschedulable, "node(s) were unschedulable"))
}
