//! Whether a node is worth a closer look.

use super::super::AutoscalingContext;
use super::super::decision::UnremovableReason;
use super::candidate::Candidate;
use super::groups::Groups;
use super::marks::is_taken_for_going;
use super::summaries::Summaries;

/// Why a node needs no closer look, if so; and how much of it is used, if that was looked at.
pub(super) fn eligibility(
    context: &mut AutoscalingContext<'_>,
    groups: &Groups,
    summaries: &mut Summaries,
    candidate: Candidate,
) -> (Option<UnremovableReason>, Option<f64>) {
    let Candidate { node: id, group } = candidate;
    let group = groups.get(group);
    let summary = summaries.get(context, id, group.ignored);
    if summary.marked.is_some_and(|marked| is_taken_for_going(marked, context.clock).is_some()) {
        return (Some(UnremovableReason::CurrentlyBeingDeleted), None);
    }
    if summary.disabled {
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
    let busy = utilization.highest > threshold;
    (busy.then_some(UnremovableReason::NotUnderutilized), Some(utilization.highest))
}

#[cfg(test)]
mod tests;
