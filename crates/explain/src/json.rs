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
    let ExplainedPod { snapshot, scheduler: choice, explanation, .. } = explained;
    let mut document = json!({
        "pod": {"namespace": &*snapshot.key.namespace, "name": &*snapshot.key.name},
        "at": snapshot.as_of.moment().to_string(),
        "before": matches!(snapshot.as_of, AsOf::Before(..)),
        "why": snapshot.why,
        "scheduler": {
            "version": choice.settings.version.to_string(),
            "verified": choice.is_verified(),
            "configuration": match &choice.settings_source {
                SettingsSource::Defaults => json!({"from": "defaults"}),
                SettingsSource::File(name) => json!({"from": "file", "name": name}),
                SettingsSource::History(name) => json!({"from": "history", "name": name}),
            },
            "leftOut": choice.settings.unsupported_features,
        },
        "nodes": explanation.nodes.iter().map(node).collect::<Vec<_>>(),
    });
    let mut set = |name: &str, value: Value| document[name] = value;
    set("decision", decision_name(&explanation.decision).into());
    if let Some(message) = explained.message() {
        set("message", message.into());
    }
    if let Some(reason) = explained.reason() {
        set("reason", reason.into());
    }
    if let Some(pre_filter) = &explanation.pre_filter_status {
        set("preFilter", refusal(pre_filter));
    }
    if let Some(only) = &explanation.pre_filter_node_names {
        set("preFilterNodes", only.iter().map(|name| Value::from(&**name)).collect());
    }
    match &explanation.decision {
        Decision::Scheduled(placement) => {
            set("node", (*placement.node).into());
            set("lookedAt", placement.evaluated_nodes.into());
            set("fitting", placement.feasible_nodes.into());
        }
        Decision::Unschedulable(rejection) => {
            set(
                "plugins",
                rejection.unschedulable_plugins.iter().map(|plugin| Value::from(plugin.name())).collect(),
            );
            if let Some(node) = &rejection.nominated_node {
                set("nominatedNode", (**node).into());
            }
            set("victims", rejection.victims.iter().map(|victim| pod(explained, victim)).collect());
            set(
                "clearedNominations",
                rejection.cleared_nominations.iter().map(|other| pod(explained, other)).collect(),
            );
        }
        Decision::Gated(gated) => set("gated", refusal(gated)),
        Decision::Skipped(_) | Decision::Failed(_) => {}
    }
    if let Some(observed) = &explained.outcome {
        let mut outcome_document = outcome(observed);
        if explained.scaling.is_some() {
            outcome_document["scaleUp"] = observed.autoscaler_events.iter().map(event).collect();
        }
        set("happened", outcome_document);
    }
    if let Some(scaling) = &explained.scaling {
        set("autoscaler", autoscaler::pod_scaling(scaling, &explained.snapshot.key));
    }
    document
}

fn decision_name(decision: &Decision) -> &'static str {
    match decision {
        Decision::Skipped(_) => "skipped",
        Decision::Gated(_) => "gated",
        Decision::Scheduled(_) => "placed",
        Decision::Unschedulable(_) => "refused",
        Decision::Failed(_) => "failed",
    }
}

fn node(evaluated: &EvaluatedNode) -> Value {
    let mut document = match &evaluated.verdict {
        NodeVerdict::Rejected(status) => refusal(status),
        NodeVerdict::Feasible { scores, total } => {
            let scores: Map<String, Value> = scores
                .iter()
                .map(|score| {
                    let score_json = json!({
                        "raw": score.raw, "normalised": score.normalized, "weighted": score.weighted,
                    });
                    (score.plugin.name().to_owned(), score_json)
                })
                .collect();
            json!({"scores": scores, "total": total})
        }
    };
    document["name"] = (*evaluated.node).into();
    document
}

fn refusal(status: &Status) -> Value {
    json!({
        "plugin": status.plugin.name(),
        "code": status.code.to_string(),
        "reasons": status.reasons.as_slice(),
    })
}

fn pod(explained: &ExplainedPod, name: &NamespacedName) -> Value {
    let key =
        Key { namespace: name.namespace.clone(), name: name.name.clone(), ..explained.snapshot.key.clone() };
    json!({"namespace": &*name.namespace, "name": &*name.name, "priority": explained.cluster.priority(&key)})
}

/// An Event with its reason.
pub(crate) fn event(recorded_event: &RecordedEvent) -> Value {
    json!({
        "at": recorded_event.first.to_string(), "last": recorded_event.last.to_string(), "times": recorded_event.times,
        "reason": recorded_event.reason, "message": recorded_event.message,
    })
}

fn outcome(observed: &ObservedPodOutcome) -> Value {
    let mut document = Map::new();
    let time = |moment: Moment| Value::from(moment.to_string());
    let event_json = |recorded_event: &RecordedEvent| {
        json!({
            "at": time(recorded_event.first), "last": time(recorded_event.last), "times": recorded_event.times, "message": recorded_event.message,
            "pod": recorded_event.object,
        })
    };
    if let Some((node, at)) = &observed.bound {
        document.insert("node".to_owned(), node.as_str().into());
        if let Some(at) = at {
            document.insert("boundAt".to_owned(), time(*at));
        }
    }
    let nominated = observed.nominated.iter().map(|(at, node)| json!({"at": time(*at), "node": node}));
    document.insert("nominated".to_owned(), nominated.collect());
    document
        .insert("failedScheduling".to_owned(), observed.failed_scheduling.iter().map(event_json).collect());
    document.insert("victims".to_owned(), observed.victims.iter().map(event_json).collect());
    let preempted = observed.preempted.as_ref().map(|preempted| {
        let mut document = event_json(preempted);
        if let Some(preemptor) = &observed.preempted_by {
            document["by"] = preemptor.as_str().into();
        }
        document
    });
    for (name, value) in [
        ("preempted", preempted),
        ("deletionAt", observed.deletion_began.map(time)),
        ("goneAt", observed.deleted_at.map(time)),
    ] {
        if let Some(value) = value {
            document.insert(name.to_owned(), value);
        }
    }
    Value::Object(document)
}
