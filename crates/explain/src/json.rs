//! JSON documents of explanations.

mod autoscaler;

use model::{Key, Moment, NamespacedName};
use query::AsOf;
use query::scheduler_choice::SettingsSource;
use scheduler::{Decision, EvaluatedNode, NodeVerdict, Status};
use serde_json::{Map, Value, json};

use super::ExplainedPod;
use super::pod_outcome::{ObservedPodOutcome, RecordedEvent};

pub(crate) use self::autoscaler::autoscaler;

/// Returns one JSON document. Absent values are omitted.
pub(crate) fn pod_document(explained: &ExplainedPod) -> Value {
    let ExplainedPod { snapshot: case, scheduler: which, explanation, .. } = explained;
    let mut all = json!({
        "pod": {"namespace": &*case.key.namespace, "name": &*case.key.name},
        "at": case.as_of.moment().to_string(),
        "before": matches!(case.as_of, AsOf::Before(..)),
        "why": case.why,
        "scheduler": {
            "version": which.settings.version.to_string(),
            "verified": which.is_verified(),
            "configuration": match &which.settings_source {
                SettingsSource::Defaults => json!({"from": "defaults"}),
                SettingsSource::File(name) => json!({"from": "file", "name": name}),
                SettingsSource::History(name) => json!({"from": "history", "name": name}),
            },
            "leftOut": which.settings.left_out,
        },
        "nodes": explanation.nodes.iter().map(node).collect::<Vec<_>>(),
    });
    let mut put = |name: &str, value: Value| all[name] = value;
    put("decision", decision_name(&explanation.decision).into());
    if let Some(message) = explained.message() {
        put("message", message.into());
    }
    if let Some(reason) = explained.reason() {
        put("reason", reason.into());
    }
    if let Some(pre_filter) = &explanation.pre_filter_status {
        put("preFilter", refusal(pre_filter));
    }
    if let Some(only) = &explanation.only_nodes {
        put("preFilterNodes", only.iter().map(|name| Value::from(&**name)).collect());
    }
    match &explanation.decision {
        Decision::Placed(placement) => {
            put("node", (*placement.node).into());
            put("lookedAt", placement.evaluated_nodes.into());
            put("fitting", placement.feasible_nodes.into());
        }
        Decision::Refused(rejection) => {
            put(
                "plugins",
                rejection.unschedulable_plugins.iter().map(|plugin| Value::from(plugin.name())).collect(),
            );
            if let Some(node) = &rejection.nominated_node {
                put("nominatedNode", (**node).into());
            }
            put("victims", rejection.victims.iter().map(|victim| pod(explained, victim)).collect());
            put(
                "clearedNominations",
                rejection.cleared_nominations.iter().map(|other| pod(explained, other)).collect(),
            );
        }
        Decision::Gated(gated) => put("gated", refusal(gated)),
        Decision::Skipped(_) | Decision::Failed(_) => {}
    }
    if let Some(known) = &explained.outcome {
        let mut shown = outcome(known);
        if explained.scaling.is_some() {
            shown["scaleUp"] = known.autoscaler_events.iter().map(event).collect();
        }
        put("happened", shown);
    }
    if let Some(scaling) = &explained.scaling {
        put("autoscaler", autoscaler::pod_scaling(scaling, &explained.snapshot.key));
    }
    all
}

fn decision_name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Skipped(_) => "skipped",
        Decision::Gated(_) => "gated",
        Decision::Placed(_) => "placed",
        Decision::Refused(_) => "refused",
        Decision::Failed(_) => "failed",
    }
}

fn node(answer: &EvaluatedNode) -> Value {
    let mut shown = match &answer.verdict {
        NodeVerdict::Rejected(refused) => refusal(refused),
        NodeVerdict::Feasible { scores, total } => {
            let scores: Map<String, Value> = scores
                .iter()
                .map(|score| {
                    let own = json!({
                        "raw": score.raw, "normalised": score.normalised, "weighted": score.weighted,
                    });
                    (score.plugin.name().to_owned(), own)
                })
                .collect();
            json!({"scores": scores, "total": total})
        }
    };
    shown["name"] = (*answer.node).into();
    shown
}

fn refusal(refusal: &Status) -> Value {
    json!({
        "plugin": refusal.plugin.name(),
        "code": refusal.code.to_string(),
        "reasons": refusal.reasons.as_slice(),
    })
}

fn pod(explained: &ExplainedPod, name: &NamespacedName) -> Value {
    let key =
        Key { namespace: name.namespace.clone(), name: name.name.clone(), ..explained.snapshot.key.clone() };
    json!({"namespace": &*name.namespace, "name": &*name.name, "priority": explained.cluster.priority(&key)})
}

/// An Event with its reason.
pub(crate) fn event(said: &RecordedEvent) -> Value {
    json!({
        "at": said.first.to_string(), "last": said.last.to_string(), "times": said.times,
        "reason": said.reason, "message": said.message,
    })
}

fn outcome(happened: &ObservedPodOutcome) -> Value {
    let mut shown = Map::new();
    let time = |moment: Moment| Value::from(moment.to_string());
    let told = |said: &RecordedEvent| {
        json!({
            "at": time(said.first), "last": time(said.last), "times": said.times, "message": said.message,
            "pod": said.object,
        })
    };
    if let Some((node, at)) = &happened.bound {
        shown.insert("node".to_owned(), node.as_str().into());
        if let Some(at) = at {
            shown.insert("boundAt".to_owned(), time(*at));
        }
    }
    let nominated = happened.nominated.iter().map(|(at, node)| json!({"at": time(*at), "node": node}));
    shown.insert("nominated".to_owned(), nominated.collect());
    shown.insert("failedScheduling".to_owned(), happened.failed_scheduling.iter().map(told).collect());
    shown.insert("victims".to_owned(), happened.victims.iter().map(told).collect());
    let preempted = happened.preempted.as_ref().map(|preempted| {
        let mut shown = told(preempted);
        if let Some(by) = &happened.preempted_by {
            shown["by"] = by.as_str().into();
        }
        shown
    });
    for (name, value) in [
        ("preempted", preempted),
        ("deletionAt", happened.deletion_began.map(time)),
        ("goneAt", happened.deleted_at.map(time)),
    ] {
        if let Some(value) = value {
            shown.insert(name.to_owned(), value);
        }
    }
    Value::Object(shown)
}
