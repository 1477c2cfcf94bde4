//! Events on pods about the result of a scale-up.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::AutoscalingContext;
use super::super::decision::{Event, Increase, InvolvedObject, NoScaleUpInfo, ScaleUpResult, ScaleUpStatus};

/// Emits `TriggeredScaleUp` and `NotTriggerScaleUp` events.
pub(crate) fn emit_pod_events(context: &mut AutoscalingContext<'_>, scale_up: &ScaleUpStatus) {
    let pod_event = |pod, reason, message| Event {
        involved_object: InvolvedObject::Pod(pod),
        is_warning: false,
        reason,
        message,
    };
    if !matches!(scale_up.result, ScaleUpResult::Successful | ScaleUpResult::Error) {
        // Pods of an equivalence group share their reasons, and so their message.
        let mut last: Option<(&NoScaleUpInfo, String)> = None;
        for remaining in &scale_up.pods_remain_unschedulable {
            let is_same = |other: &NoScaleUpInfo| {
                Arc::ptr_eq(&other.rejected_groups, &remaining.rejected_groups)
                    && Arc::ptr_eq(&other.skipped_groups, &remaining.skipped_groups)
            };
            let message = match last {
                Some((other, message)) if is_same(other) => message,
                _ => format!("pod didn't trigger scale-up: {}", reasons_message(scale_up.result, remaining)),
            };
            context.events.push(pod_event(remaining.pod.clone(), "NotTriggerScaleUp", message.clone()));
            last = Some((remaining, message));
        }
    }
    if !scale_up.increases.is_empty() {
        let increases: Vec<String> = scale_up.increases.iter().map(format_increase).collect();
        let message = format!("pod triggered scale-up: [{}]", increases.join(" "));
        for pod in &scale_up.pods_triggered_scale_up {
            context.events.push(pod_event(pod.clone(), "TriggeredScaleUp", message.clone()));
        }
    }
}

fn format_increase(increase: &Increase) -> String {
    let Increase { group, from, to, max } = increase;
    format!("{{{group} {from}->{to} (max: {max})}}")
}

/// Each reason with its number of groups. Their order is random in cluster-autoscaler, and alphabetical here.
fn reasons_message(result: ScaleUpResult, remaining: &NoScaleUpInfo) -> String {
    if result == ScaleUpResult::LimitedByMaxNodesTotal {
        return "max total nodes in cluster reached".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in remaining.rejected_groups.values().chain(remaining.skipped_groups.values()).flatten() {
        *counts.entry(reason).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counts.join(", ")
}
