//! An explanation of a node for programs.

use autoscaler::{NodeView, UnremovableReason};
use model::NamespacedName;
use query::AsOf;
use serde_json::{Value, json};

use super::{Held, NodeExplanation, Verdict, words};
use crate::json::{autoscaler, said};

/// One JSON document. What there is not is left out.
pub(crate) fn of_node(told: &NodeExplanation) -> Value {
    let happened = &told.happened;
    let mut all = json!({
        "node": told.name,
        "at": told.as_of.moment().to_string(),
        "before": matches!(told.as_of, AsOf::Before(..)),
        "why": told.why,
        "autoscaler": autoscaler(&told.setup, &told.played),
        "happened": {
            "firstSeenAt": happened.first.to_string(),
            "changes": happened.changes.iter()
                .map(|(at, what)| json!({"at": at.to_string(), "what": what}))
                .collect::<Vec<_>>(),
            "events": happened.said.iter().map(said).collect::<Vec<_>>(),
        },
    });
    if let Some(gone) = happened.gone {
        all["happened"]["goneAt"] = gone.to_string().into();
    }
    if let Some(state) = &told.seen.group {
        let group = told.setup.group(&state.name);
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
    if let Some(seen) = &told.seen.view {
        view(&mut all, seen);
    }
    if let Some((at, _)) = told.seen.began {
        all["removalBeganAt"] = at.to_string().into();
    }
    if let Some(verdict) = &told.seen.verdict {
        self::verdict(&mut all, told, verdict);
    }
    all
}

fn view(all: &mut Value, view: &NodeView) {
    all["ready"] = view.ready.into();
    all["threshold"] = view.threshold.into();
    all["unneededSeconds"] = view.wait.as_secs_f64().into();
    if let Some(used) = &view.used {
        all["utilization"] = json!({
            "cpu": used.cpu, "memory": used.memory, "gpu": used.gpu,
            "resource": used.resource, "highest": used.highest,
        });
    }
    match &view.pods {
        Ok(pods) => all["pods"] = pods.iter().map(pod).collect(),
        Err((name, why)) => {
            all["blocking"] =
                json!({"pod": pod(name), "reason": why.to_string(), "means": words::blocks(*why)})
        }
    }
    if let Some(until) = view.not_again_before {
        all["notAgainBefore"] = until.to_string().into();
    }
    if let Some(cooldown) = &view.cooldown {
        all["cooldown"] = json!({
            "after": words::cooldown(cooldown.after),
            "since": cooldown.since.map(|since| since.to_string()),
            "until": cooldown.until.to_string(),
        });
    }
}

fn verdict(all: &mut Value, told: &NodeExplanation, verdict: &Verdict) {
    let reason = match verdict {
        Verdict::NotAutoscaled => Some(UnremovableReason::NotAutoscaled),
        Verdict::Stays(reason) | Verdict::MayGo { held: Some(Held::By(reason)), .. } => Some(*reason),
        _ => None,
    };
    if let Some(reason) = reason {
        all["reason"] = reason.to_string().into();
    }
    let word = match verdict {
        Verdict::NotAutoscaled | Verdict::Disabled => "stays",
        Verdict::NotTried(_) => "notTried",
        Verdict::Goes(since, drains) => {
            all["since"] = since.to_string().into();
            all["drains"] = (*drains).into();
            "goes"
        }
        Verdict::MayGo { since, .. } => {
            all["since"] = since.to_string().into();
            all["sinceAtLeast"] = told.is_at_least(*since).into();
            "mayGo"
        }
        Verdict::Stays(_) => {
            if let Some((at, found)) = &told.seen.looked {
                all["lookedAt"] = json!({"at": at.to_string(), "reason": found.reason.to_string()});
            }
            "stays"
        }
        Verdict::Rests | Verdict::NotLookedAt => "notLookedAt",
    };
    all["verdict"] = word.into();
    all["means"] = words::verdict(verdict, &told.setup).into();
}

fn pod(pod: &NamespacedName) -> Value {
    json!({"namespace": &*pod.namespace, "name": &*pod.name})
}
