//! The autoscaler's part of the JSON documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::{ExpanderChoice, Increase, PodExplanation, ScaleUpStatus};
use model::{Key, NamespacedName};
use query::autoscaler_choice::{AutoscalerChoice, AutoscalerSettingsSource, NodeGroupsSource};
use serde_json::{Value, json};

use crate::PodScaling;
use crate::autoscaler_replay::{AutoscalerReplay, ScaleUpOutcome, ScaleUpSearch, TriggeredScaleUp};

/// The autoscaler's settings, and the time that was replayed into it.
pub(crate) fn autoscaler(choice: &AutoscalerChoice, replay: &AutoscalerReplay) -> Value {
    let mut document = json!({
        "version": choice.settings.version.to_string(),
        "verified": choice.is_verified(),
        "settings": {"from": match choice.settings_source {
            AutoscalerSettingsSource::Defaults => "defaults",
            AutoscalerSettingsSource::File => "file",
            AutoscalerSettingsSource::History => "history",
            AutoscalerSettingsSource::Replay => "replay",
        }},
        "groupsFrom": match &choice.groups_source {
            NodeGroupsSource::NoGroups => json!({"from": "nothing"}),
            NodeGroupsSource::File(name) => json!({"from": "file", "name": name}),
            NodeGroupsSource::History(origin) => json!({"from": "history", "name": origin.to_string()}),
            NodeGroupsSource::Replay => json!({"from": "replay"}),
        },
        "groups": choice.groups.iter()
            .map(|group| json!({"name": &*group.name, "min": group.min, "max": group.max}))
            .collect::<Vec<_>>(),
        "assumed": choice.assumptions,
        "leftOut": choice.settings.unsupported,
        "played": {
            "from": replay.from.to_string(),
            "loops": replay.loops,
            "asRecorded": replay.as_recorded,
        },
    });
    if !choice.flags.is_empty() {
        document["settings"]["flags"] = choice.flags.join(" ").into();
    }
    document
}

/// Its decisions about a pod.
pub(crate) fn pod_scaling(scaling: &PodScaling, key: &Key) -> Value {
    let PodScaling { autoscaler: choice, replay, results } = scaling;
    let pod = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
    let mut document = autoscaler(choice, replay);
    if let Some(outcome) = &results.outcome {
        document["outcome"] = outcome_name(outcome).into();
        match outcome {
            ScaleUpOutcome::Triggers(increases) => document["increases"] = self::increases(increases),
            ScaleUpOutcome::Failed(reason) | ScaleUpOutcome::NotTried(reason) => {
                document["why"] = reason.as_str().into()
            }
            ScaleUpOutcome::NotConsidered(PodExplanation::Schedulable { node, upcoming }) => {
                document["room"] = json!({"node": &**node, "upcoming": upcoming});
            }
            ScaleUpOutcome::NotConsidered(PodExplanation::Young { until }) => {
                document["until"] = until.to_string().into()
            }
            _ => {}
        }
    }
    if let Some(search) = &results.search {
        document["search"] = self::search(search, &pod);
    }
    document["triggered"] = results.triggered.iter().map(triggered).collect();
    if let Some(event) = results.last_event() {
        document["event"] = json!({"reason": event.reason, "message": event.message});
    }
    document
}

fn triggered(triggered: &TriggeredScaleUp) -> Value {
    let TriggeredScaleUp { first, last, times, increases } = triggered;
    json!({
        "at": first.to_string(),
        "lastAt": last.to_string(),
        "times": times,
        "increases": self::increases(increases),
    })
}

fn outcome_name(outcome: &ScaleUpOutcome) -> &'static str {
    match outcome {
        ScaleUpOutcome::Unknown => "unknown",
        ScaleUpOutcome::Scheduled => "scheduled",
        ScaleUpOutcome::AllPodsYoung => "allYoung",
        ScaleUpOutcome::MaxNodesTotal => "maxNodesTotal",
        ScaleUpOutcome::NotTried(_) => "notTried",
        ScaleUpOutcome::Triggers(_) => "triggers",
        ScaleUpOutcome::Failed(_) => "failed",
        ScaleUpOutcome::OtherGroupChosen => "awaits",
        ScaleUpOutcome::NoGroupHelps => "refused",
        ScaleUpOutcome::NotConsidered(explanation) => match explanation {
            PodExplanation::Scheduled => "placed",
            PodExplanation::BeingDeleted => "deleted",
            PodExplanation::NotUnschedulable => "notRefused",
            PodExplanation::Expendable => "expendable",
            PodExplanation::Schedulable { .. } => "findsRoom",
            PodExplanation::DaemonSetPod => "ofDaemonSet",
            PodExplanation::Young { .. } => "young",
            PodExplanation::AwaitsScaleUp => "waits",
        },
    }
}

fn search(search: &ScaleUpSearch, pod: &NamespacedName) -> Value {
    let ScaleUpStatus {
        result,
        equivalence_groups,
        options,
        best_group,
        expander_choices,
        skipped_groups,
        increases,
        ..
    } = &search.result;
    let equivalence_group = equivalence_groups
        .iter()
        .find(|equivalence_group| equivalence_group.pods.iter().any(|other| other == pod));
    let options = options.iter().map(|option| {
        json!({
            "group": &*option.group,
            "nodes": option.nodes,
            "pods": option.pods.len(),
            "helps": option.pods.iter().any(|other| other == pod),
            "similar": option.similar_groups.iter().map(|group| &**group).collect::<Vec<_>>(),
        })
    });
    json!({
        "at": search.at.to_string(),
        "result": result.to_string(),
        "best": best_group.as_deref(),
        "expanders": expander_choices.iter().map(expander).collect::<Vec<_>>(),
        "options": options.collect::<Vec<_>>(),
        "increases": self::increases(increases),
        "rejected": equivalence_group.map(|equivalence_group| reasons(&equivalence_group.rejected_groups)),
        "skipped": reasons(skipped_groups),
    })
}

fn expander(choice: &ExpanderChoice) -> Value {
    let score = |(group, score): &(Arc<str>, f64)| (group.to_string(), Value::from(*score));
    json!({
        "name": choice.expander.to_string(),
        "scores": choice.scores.iter().map(score).collect::<serde_json::Map<_, _>>(),
        "left": choice.remaining_groups.iter().map(|group| &**group).collect::<Vec<_>>(),
        "tie": choice.is_tie,
    })
}

fn increases(increases: &[Increase]) -> Value {
    let increase_json = |increase: &Increase| {
        let Increase { group, from, to, max } = increase;
        json!({"group": &**group, "from": from, "to": to, "max": max})
    };
    increases.iter().map(increase_json).collect()
}

fn reasons(reasons: &BTreeMap<Arc<str>, Vec<String>>) -> Value {
    let entry = |(group, group_reasons): (&Arc<str>, &Vec<String>)| {
        (group.to_string(), Value::from(group_reasons.clone()))
    };
    Value::Object(reasons.iter().map(entry).collect())
}
