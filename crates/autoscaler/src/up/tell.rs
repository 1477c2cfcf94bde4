//! Pods are told what came of a search for new nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::AutoscalingContext;
use super::super::decision::{About, Event, Increase, Remaining, ScaleUp, ScaleUpResult};

/// Tells pods whether nodes are coming for them, and if not why not.
pub(crate) fn tell(context: &mut AutoscalingContext<'_>, scale_up: &ScaleUp) {
    let tell = |pod, reason, message| Event { about: About::Pod(pod), warning: false, reason, message };
    if !matches!(scale_up.result, ScaleUpResult::Successful | ScaleUpResult::Error) {
        // Pods of a group share what is said of them.
        let mut last: Option<(&Remaining, String)> = None;
        for remaining in &scale_up.remaining {
            let is_same = |other: &Remaining| {
                Arc::ptr_eq(&other.rejected, &remaining.rejected)
                    && Arc::ptr_eq(&other.skipped, &remaining.skipped)
            };
            let message = match last {
                Some((other, message)) if is_same(other) => message,
                _ => format!("pod didn't trigger scale-up: {}", why(scale_up.result, remaining)),
            };
            context.events.push(tell(remaining.pod.clone(), "NotTriggerScaleUp", message.clone()));
            last = Some((remaining, message));
        }
    }
    if !scale_up.increases.is_empty() {
        let increases: Vec<String> = scale_up.increases.iter().map(in_words).collect();
        let message = format!("pod triggered scale-up: [{}]", increases.join(" "));
        for pod in &scale_up.triggered {
            context.events.push(tell(pod.clone(), "TriggeredScaleUp", message.clone()));
        }
    }
}

fn in_words(increase: &Increase) -> String {
    let Increase { group, from, to, max } = increase;
    format!("{{{group} {from}->{to} (max: {max})}}")
}

/// Each reason with how many groups say so. Their order is chance in cluster-autoscaler, and the alphabet's here.
fn why(result: ScaleUpResult, remaining: &Remaining) -> String {
    if result == ScaleUpResult::LimitedByMaxNodesTotal {
        return "max total nodes in cluster reached".to_owned();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in remaining.rejected.values().chain(remaining.skipped.values()).flatten() {
        *counts.entry(reason).or_default() += 1;
    }
    let counts: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    counts.join(", ")
}
