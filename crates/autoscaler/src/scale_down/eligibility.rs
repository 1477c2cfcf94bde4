//! Eligibility of nodes for the removal simulation.

use super::super::AutoscalingContext;
use super::super::decision::UnremovableReason;
use super::candidate::ScaleDownCandidate;
use super::groups::ScaleDownGroups;
use super::node_details::NodeDetailsCache;
use super::node_markers::being_deleted_until;

/// Why a node is not eligible (`None` if it is), and its utilization if that was computed.
pub(super) fn unremovable_reason_and_utilization(
    context: &mut AutoscalingContext<'_>,
    groups: &ScaleDownGroups,
    summaries: &mut NodeDetailsCache,
    candidate: ScaleDownCandidate,
) -> (Option<UnremovableReason>, Option<f64>) {
    let ScaleDownCandidate { node: id, group } = candidate;
    let group = groups.get(group);
    let summary = summaries.get(context, id, group.ignored_pods);
    if summary.to_be_deleted_since.is_some_and(|marked| being_deleted_until(marked, context.clock).is_some())
    {
        return (Some(UnremovableReason::CurrentlyBeingDeleted), None);
    }
    if summary.scale_down_disabled {
        return (Some(UnremovableReason::ScaleDownDisabledAnnotation), None);
    }
    let Some(utilization) = summary.utilization else {
        return (Some(UnremovableReason::UnexpectedError), None);
    };
    if !context.settings.scale_down_unready_enabled && !context.is_ready(id) {
        return (Some(UnremovableReason::ScaleDownUnreadyDisabled), None);
    }
    let threshold = match summary.has_gpu {
        true => group.options.scale_down_gpu_utilization_threshold,
        false => group.options.scale_down_utilization_threshold,
    };
    let is_used = utilization.highest > threshold;
    (is_used.then_some(UnremovableReason::NotUnderutilized), Some(utilization.highest))
}

#[cfg(test)]
mod tests;
