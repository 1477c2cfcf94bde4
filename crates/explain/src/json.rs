//! An explanation for programs.

mod autoscaler;

use model::{Key, Moment, NamespacedName};
use query::AsOf;
use query::scheduler_settings::ToldBy;
use scheduler::{Decision, NodeAnswer, NodeVerdict, Refusal};
use serde_json::{Map, Value, json};

use super::PodExplanation;
use super::happened::{Happened, Said};

pub(crate) use self::autoscaler::autoscaler;

/// One JSON document. What there is not is left out.
pub(crate) fn of_pod(told: &PodExplanation) -> Value {
    let PodExplanation { case, which, explanation, .. } = told;
    let mut all = json!({
        "pod": {"namespace": &*case.key.namespace, "name": &*case.key.name},
        "at": case.as_of.moment().to_string(),
        "before": matches!(case.as_of, AsOf::Before(..)),
        "why": case.why,
        "scheduler": {
            "version": which.settings.version.to_string(),
            "verified": which.is_verified(),
            "configuration": match &which.told_by {
                ToldBy::Nobody => json!({"from": "defaults"}),
                ToldBy::File(name) => json!({"from": "file", "name": name}),
                ToldBy::History(name) => json!({"from": "history", "name": name}),
            },
            "leftOut": which.settings.left_out,
        },
        "nodes": explanation.nodes.iter().map(node).collect::<Vec<_>>(),
    });
    let mut put = |name: &str, value: Value| all[name] = value;
    put("decision", decision_word(&explanation.decision).into());
    if let Some(message) = told.message() {
        put("message", message.into());
    }
    if let Some(reason) = told.reason() {
        put("reason", reason.into());
    }
    if let Some(pre_filter) = &explanation.pre_filter {
        put("preFilter", refusal(pre_filter));
    }
    if let Some(only) = &explanation.only_nodes {
        put("preFilterNodes", only.iter().map(|name| Value::from(&**name)).collect());
    }
    match &explanation.decision {
        Decision::Placed(placement) => {
            put("node", (*placement.node).into());
            put("lookedAt", placement.looked_at.into());
            put("fitting", placement.fitting.into());
        }
        Decision::Refused(rejection) => {
            put("plugins", rejection.plugins.iter().map(|plugin| Value::from(plugin.name())).collect());
            if let Some(node) = &rejection.nominated_node {
                put("nominatedNode", (**node).into());
            }
            put("victims", rejection.victims.iter().map(|victim| pod(told, victim)).collect());
            put("clearedNominations", rejection.cleared.iter().map(|other| pod(told, other)).collect());
        }
        Decision::Gated(gated) => put("gated", refusal(gated)),
        Decision::Skipped(_) | Decision::Failed(_) => {}
    }
    if let Some(known) = &told.happened {
        let mut shown = happened(known);
        if told.scaling.is_some() {
            shown["scaleUp"] = known.scaling.iter().map(said).collect();
        }
        put("happened", shown);
    }
    if let Some(scaling) = &told.scaling {
        put("autoscaler", autoscaler::of_pod(scaling, &told.case.key));
    }
    all
}

fn decision_word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Skipped(_) => "skipped",
        Decision::Gated(_) => "gated",
        Decision::Placed(_) => "placed",
        Decision::Refused(_) => "refused",
        Decision::Failed(_) => "failed",
    }
}

fn node(answer: &NodeAnswer) -> Value {
    let mut shown = match &answer.verdict {
        NodeVerdict::Refused(refused) => refusal(refused),
        NodeVerdict::Fits { scores, total } => {
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

fn refusal(refusal: &Refusal) -> Value {
    json!({
        "plugin": refusal.plugin.name(),
        "code": refusal.code.to_string(),
        "reasons": refusal.reasons.as_slice(),
    })
}

fn pod(told: &PodExplanation, name: &NamespacedName) -> Value {
    let key = Key { namespace: name.namespace.clone(), name: name.name.clone(), ..told.case.key.clone() };
    json!({"namespace": &*name.namespace, "name": &*name.name, "priority": told.state.priority(&key)})
}

/// An event, with its reason.
pub(crate) fn said(said: &Said) -> Value {
    json!({
        "at": said.first.to_string(), "last": said.last.to_string(), "times": said.times,
        "reason": said.reason, "message": said.text,
    })
}

fn happened(happened: &Happened) -> Value {
    let mut shown = Map::new();
    let time = |moment: Moment| Value::from(moment.to_string());
    let told = |said: &Said| {
        json!({
            "at": time(said.first), "last": time(said.last), "times": said.times, "message": said.text,
            "pod": said.about,
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
    shown.insert("failedScheduling".to_owned(), happened.failed.iter().map(told).collect());
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
        ("deletionAt", happened.deletion.map(time)),
        ("goneAt", happened.gone.map(time)),
    ] {
        if let Some(value) = value {
            shown.insert(name.to_owned(), value);
        }
    }
    Value::Object(shown)
}
