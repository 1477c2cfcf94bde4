//! Taints and tolerations.

use kubernetes::taints::{PREFER_NO_SCHEDULE, first_untolerated};

use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::settings::Version;
use super::super::verdict::Refusal;

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
