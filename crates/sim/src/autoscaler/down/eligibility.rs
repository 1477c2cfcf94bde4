//! Whether a node is worth a closer look.

use model::Moment;

use super::super::Context;
use super::super::TO_BE_DELETED;
use super::super::decision::UnremovableReason;
use super::super::node::Node;
use super::super::time::seconds;
use super::candidates::Candidate;
use super::groups::Groups;
use super::summaries::Summaries;
use super::taints::marked_at;
use super::utilization::gpu_of;

const DISABLED: &str = "cluster-autoscaler.kubernetes.io/scale-down-disabled";
/// A node that was marked longer ago is taken for one that could not be deleted, in seconds.
const DELETION: i64 = 5 * 60;

/// Why a node needs no closer look, if so; and how much of it is used, if that was looked at.
pub(super) fn eligibility(
    context: &mut Context<'_>,
    groups: &Groups,
    summaries: &mut Summaries,
    candidate: Candidate,
) -> (Option<UnremovableReason>, Option<f64>) {
    let Candidate { node: id, group } = candidate;
    let node = context.cluster.snapshot.node(id).clone();
    if is_being_deleted(&node, context.now) {
        return (Some(UnremovableReason::CurrentlyBeingDeleted), None);
    }
    if is_disabled(&node) {
        return (Some(UnremovableReason::ScaleDownDisabledAnnotation), None);
    }
    let group = groups.get(group);
    let Some(utilization) = summaries.get(context, id, group.ignored).utilization else {
        return (Some(UnremovableReason::UnexpectedError), None);
    };
    let ready = context.readiness.get(id.index()).copied().flatten().is_some_and(|readiness| readiness.ready);
    if !context.settings.scale_down_unready_enabled && !ready {
        return (Some(UnremovableReason::ScaleDownUnreadyDisabled), None);
    }
    let threshold = match gpu_of(&node, context.cloud.gpu_label()) {
        Some(_) => group.options.scale_down_gpu_utilization_threshold,
        None => group.options.scale_down_utilization_threshold,
    };
    let busy = utilization.highest > threshold;
    (busy.then_some(UnremovableReason::NotUnderutilized), Some(utilization.highest))
}

/// Whether a node asks to be left alone.
pub(super) fn is_disabled(node: &Node) -> bool {
    node.annotations.get(DISABLED) == Some("true")
}

fn is_being_deleted(node: &Node, now: Moment) -> bool {
    marked_at(node, TO_BE_DELETED).is_some_and(|marked| now.nanos_since(marked) < seconds(DELETION))
}

#[cfg(test)]
mod tests;
