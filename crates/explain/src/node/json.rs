//! The JSON document of a node's explanation.

use autoscaler::{CooldownCause, NodeExplanation, UnremovableReason};
use model::NamespacedName;
use query::AsOf;
use serde_json::{Value, json};

use super::{ExplainedNode, NodeChange, RemovalDelay, ScaleDownVerdict, descriptions};
use crate::json::{autoscaler, event};

/// Returns one JSON document. Absent values are omitted.
pub(crate) fn node_document(explained: &ExplainedNode) -> Value {
    let observed = &explained.outcome;
    let mut document = json!({
        "node": explained.name,
        "at": explained.as_of.moment().to_string(),
        "before": matches!(explained.as_of, AsOf::Before(..)),
        "why": explained.why,
        "autoscaler": autoscaler(&explained.autoscaler, &explained.replay),
        "happened": {
            "firstSeenAt": observed.first_seen.to_string(),
            "changes": observed.changes.iter()
                .map(|(at, change)| json!({"at": at.to_string(), "what": change_name(*change)}))
                .collect::<Vec<_>>(),
            "events": observed.events.iter().map(event).collect::<Vec<_>>(),
        },
    });
    if let Some(deleted_at) = observed.deleted_at {
        document["happened"]["goneAt"] = deleted_at.to_string().into();
    }
    if let Some(state) = &explained.results.group {
        let group = explained.autoscaler.group(&state.name);
        document["group"] = json!({
            "name": &*state.name,
            "min": group.map(|group| group.min),
            "max": group.map(|group| group.max),
            "target": state.target,
            "upcoming": state.upcoming,
            "backedOff": state.backed_off,
            "healthy": state.healthy,
        });
    }
    if let Some(explanation) = &explained.results.view {
        view(&mut document, explanation);
    }
    if let Some((at, _)) = explained.results.removal_began {
        document["removalBeganAt"] = at.to_string().into();
    }
    if let Some(verdict) = &explained.results.verdict {
        self::verdict(&mut document, explained, verdict);
    }
    document
}

fn view(document: &mut Value, view: &NodeExplanation) {
    document["ready"] = view.ready.into();
    document["threshold"] = view.utilization_threshold.into();
    document["unneededSeconds"] = view.required_unneeded_time.as_secs_f64().into();
    if let Some(utilization) = &view.utilization {
        document["utilization"] = json!({
            "cpu": utilization.cpu, "memory": utilization.memory, "gpu": utilization.gpu,
            "resource": utilization.resource, "highest": utilization.highest,
        });
    }
    match &view.pods_to_move {
        Ok(pods) => document["pods"] = pods.iter().map(pod).collect(),
        Err((name, blocking_reason)) => {
            document["blocking"] = json!({"pod": pod(name), "reason": blocking_reason.to_string(), "means": descriptions::blocking_pod(*blocking_reason)})
        }
    }
    if let Some(until) = view.unremovable_until {
        document["notAgainBefore"] = until.to_string().into();
    }
    if let Some(cooldown) = &view.cooldown {
        document["cooldown"] = json!({
            "after": cooldown_cause_name(cooldown.cause),
            "since": cooldown.since.map(|since| since.to_string()),
            "until": cooldown.until.to_string(),
        });
    }
}

/// The value of `cooldown.after`. Part of the format: the words on screens differ.
fn cooldown_cause_name(cause: CooldownCause) -> &'static str {
    match cause {
        CooldownCause::ScaleUp => "a scale-up",
        CooldownCause::ScaleDown => "a removal",
        CooldownCause::FailedScaleDown => "a removal that failed",
    }
}

/// The value of `happened.changes[].what`. Part of the format: the words on screens differ.
fn change_name(change: NodeChange) -> &'static str {
    match change {
        NodeChange::DeletionCandidate(true) => "marked as one that could go",
        NodeChange::DeletionCandidate(false) => "that mark was taken off",
        NodeChange::ToBeDeleted(true) => "marked to be deleted",
        NodeChange::ToBeDeleted(false) => "no more to be deleted",
        NodeChange::Cordoned(true) => "cordoned",
        NodeChange::Cordoned(false) => "uncordoned",
        NodeChange::Deletion(true) => "its deletion began",
        NodeChange::Deletion(false) => "its deletion was taken back",
    }
}

fn verdict(document: &mut Value, explained: &ExplainedNode, verdict: &ScaleDownVerdict) {
    let reason = match verdict {
        ScaleDownVerdict::NotAutoscaled => Some(UnremovableReason::NotAutoscaled),
        ScaleDownVerdict::Unremovable(reason)
        | ScaleDownVerdict::Unneeded { delay: Some(RemovalDelay::Unremovable(reason)), .. } => Some(*reason),
        _ => None,
    };
    if let Some(reason) = reason {
        document["reason"] = reason.to_string().into();
    }
    let verdict_name = match verdict {
        ScaleDownVerdict::NotAutoscaled | ScaleDownVerdict::Disabled => "stays",
        ScaleDownVerdict::NotTried(_) => "notTried",
        ScaleDownVerdict::RemovalStarted(since, drains) => {
            document["since"] = since.to_string().into();
            document["drains"] = (*drains).into();
            "goes"
        }
        ScaleDownVerdict::Unneeded { since, .. } => {
            document["since"] = since.to_string().into();
            document["sinceAtLeast"] = explained.may_have_begun_earlier(*since).into();
            "mayGo"
        }
        ScaleDownVerdict::Unremovable(_) => {
            if let Some((at, unremovable)) = &explained.results.last_unremovable {
                document["lookedAt"] =
                    json!({"at": at.to_string(), "reason": unremovable.reason.to_string()});
            }
            "stays"
        }
        ScaleDownVerdict::GroupInCooldown | ScaleDownVerdict::NotChecked => "notLookedAt",
    };
    document["verdict"] = verdict_name.into();
    document["means"] = descriptions::verdict(verdict, &explained.autoscaler).into();
}

fn pod(pod: &NamespacedName) -> Value {
    json!({"namespace": &*pod.namespace, "name": &*pod.name})
}
