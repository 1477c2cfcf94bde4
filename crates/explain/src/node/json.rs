//! The JSON document of a node's explanation.

use autoscaler::{NodeExplanation, UnremovableReason};
use model::NamespacedName;
use query::AsOf;
use serde_json::{Value, json};

use super::{ExplainedNode, RemovalDelay, ScaleDownVerdict, descriptions};
use crate::json::{autoscaler, event};

/// Returns one JSON document. Absent values are omitted.
pub(crate) fn node_document(explained: &ExplainedNode) -> Value {
    let happened = &explained.outcome;
    let mut all = json!({
        "node": explained.name,
        "at": explained.as_of.moment().to_string(),
        "before": matches!(explained.as_of, AsOf::Before(..)),
        "why": explained.why,
        "autoscaler": autoscaler(&explained.autoscaler, &explained.replay),
        "happened": {
            "firstSeenAt": happened.first_seen.to_string(),
            "changes": happened.changes.iter()
                .map(|(at, what)| json!({"at": at.to_string(), "what": what}))
                .collect::<Vec<_>>(),
            "events": happened.events.iter().map(event).collect::<Vec<_>>(),
        },
    });
    if let Some(gone) = happened.deleted_at {
        all["happened"]["goneAt"] = gone.to_string().into();
    }
    if let Some(state) = &explained.results.group {
        let group = explained.autoscaler.group(&state.name);
        all["group"] = json!({
            "name": &*state.name,
            "min": group.map(|group| group.min),
            "max": group.map(|group| group.max),
            "target": state.target,
            "upcoming": state.upcoming,
            "backedOff": state.backed_off,
            "healthy": state.healthy,
        });
    }
    if let Some(seen) = &explained.results.view {
        view(&mut all, seen);
    }
    if let Some((at, _)) = explained.results.removal_began {
        all["removalBeganAt"] = at.to_string().into();
    }
    if let Some(verdict) = &explained.results.verdict {
        self::verdict(&mut all, explained, verdict);
    }
    all
}

fn view(all: &mut Value, view: &NodeExplanation) {
    all["ready"] = view.ready.into();
    all["threshold"] = view.utilization_threshold.into();
    all["unneededSeconds"] = view.required_unneeded_time.as_secs_f64().into();
    if let Some(used) = &view.utilization {
        all["utilization"] = json!({
            "cpu": used.cpu, "memory": used.memory, "gpu": used.gpu,
            "resource": used.resource, "highest": used.highest,
        });
    }
    match &view.pods_to_move {
        Ok(pods) => all["pods"] = pods.iter().map(pod).collect(),
        Err((name, why)) => {
            all["blocking"] = json!({"pod": pod(name), "reason": why.to_string(), "means": descriptions::blocking_pod(*why)})
        }
    }
    if let Some(until) = view.unremovable_until {
        all["notAgainBefore"] = until.to_string().into();
    }
    if let Some(cooldown) = &view.cooldown {
        all["cooldown"] = json!({
            "after": descriptions::cooldown_cause(cooldown.cause),
            "since": cooldown.since.map(|since| since.to_string()),
            "until": cooldown.until.to_string(),
        });
    }
}

fn verdict(all: &mut Value, explained: &ExplainedNode, verdict: &ScaleDownVerdict) {
    let reason = match verdict {
        ScaleDownVerdict::NotAutoscaled => Some(UnremovableReason::NotAutoscaled),
        ScaleDownVerdict::Unremovable(reason)
        | ScaleDownVerdict::Unneeded { delay: Some(RemovalDelay::Unremovable(reason)), .. } => Some(*reason),
        _ => None,
    };
    if let Some(reason) = reason {
        all["reason"] = reason.to_string().into();
    }
    let word = match verdict {
        ScaleDownVerdict::NotAutoscaled | ScaleDownVerdict::Disabled => "stays",
        ScaleDownVerdict::NotTried(_) => "notTried",
        ScaleDownVerdict::RemovalStarted(since, drains) => {
            all["since"] = since.to_string().into();
            all["drains"] = (*drains).into();
            "goes"
        }
        ScaleDownVerdict::Unneeded { since, .. } => {
            all["since"] = since.to_string().into();
            all["sinceAtLeast"] = explained.may_have_begun_earlier(*since).into();
            "mayGo"
        }
        ScaleDownVerdict::Unremovable(_) => {
            if let Some((at, found)) = &explained.results.last_unremovable {
                all["lookedAt"] = json!({"at": at.to_string(), "reason": found.reason.to_string()});
            }
            "stays"
        }
        ScaleDownVerdict::GroupInCooldown | ScaleDownVerdict::NotChecked => "notLookedAt",
    };
    all["verdict"] = word.into();
    all["means"] = descriptions::verdict(verdict, &explained.autoscaler).into();
}

fn pod(pod: &NamespacedName) -> Value {
    json!({"namespace": &*pod.namespace, "name": &*pod.name})
}
