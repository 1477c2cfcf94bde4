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
pub(crate) fn autoscaler(setup: &AutoscalerChoice, played: &AutoscalerReplay) -> Value {
    let mut shown = json!({
        "version": setup.settings.version.to_string(),
        "verified": setup.is_verified(),
        "settings": {"from": match setup.settings_source {
            AutoscalerSettingsSource::Defaults => "defaults",
            AutoscalerSettingsSource::File => "file",
            AutoscalerSettingsSource::History => "history",
            AutoscalerSettingsSource::Replay => "replay",
        }},
        "groupsFrom": match &setup.groups_source {
            NodeGroupsSource::NoGroups => json!({"from": "nothing"}),
            NodeGroupsSource::File(name) => json!({"from": "file", "name": name}),
            NodeGroupsSource::History(told_by) => json!({"from": "history", "name": told_by.to_string()}),
            NodeGroupsSource::Replay => json!({"from": "replay"}),
        },
        "groups": setup.groups.iter()
            .map(|group| json!({"name": &*group.name, "min": group.min, "max": group.max}))
            .collect::<Vec<_>>(),
        "assumed": setup.assumptions,
        "leftOut": setup.settings.unsupported,
        "played": {
            "from": played.from.to_string(),
            "loops": played.loops,
            "asRecorded": played.as_recorded,
        },
    });
    if !setup.flags.is_empty() {
        shown["settings"]["flags"] = setup.flags.join(" ").into();
    }
    shown
}

/// Its decisions about a pod.
pub(crate) fn pod_scaling(scaling: &PodScaling, key: &Key) -> Value {
    let PodScaling { autoscaler: setup, replay: played, results: seen } = scaling;
    let pod = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
    let mut shown = autoscaler(setup, played);
    if let Some(outcome) = &seen.outcome {
        shown["outcome"] = outcome_name(outcome).into();
        match outcome {
            ScaleUpOutcome::Triggers(increases) => shown["increases"] = self::increases(increases),
            ScaleUpOutcome::Failed(why) | ScaleUpOutcome::NotTried(why) => shown["why"] = why.as_str().into(),
            ScaleUpOutcome::NotConsidered(PodExplanation::Schedulable { node, upcoming }) => {
                shown["room"] = json!({"node": &**node, "upcoming": upcoming});
            }
            ScaleUpOutcome::NotConsidered(PodExplanation::Young { until }) => {
                shown["until"] = until.to_string().into()
            }
            _ => {}
        }
    }
    if let Some(search) = &seen.search {
        shown["search"] = self::search(search, &pod);
    }
    shown["triggered"] = seen.triggered.iter().map(triggered).collect();
    if let Some(said) = seen.last_event() {
        shown["event"] = json!({"reason": said.reason, "message": said.message});
    }
    shown
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
        ScaleUpOutcome::NotConsidered(view) => match view {
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
        equivalence_groups: looked_at,
        options,
        best_group: best,
        expander_choices: choice,
        skipped_groups: skipped,
        increases,
        ..
    } = &search.result;
    let same = looked_at.iter().find(|same| same.pods.iter().any(|other| other == pod));
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
        "best": best.as_deref(),
        "expanders": choice.iter().map(expander).collect::<Vec<_>>(),
        "options": options.collect::<Vec<_>>(),
        "increases": self::increases(increases),
        "rejected": same.map(|same| reasons(&same.rejected_groups)),
        "skipped": reasons(skipped),
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
    let one = |increase: &Increase| {
        let Increase { group, from, to, max } = increase;
        json!({"group": &**group, "from": from, "to": to, "max": max})
    };
    increases.iter().map(one).collect()
}

fn reasons(reasons: &BTreeMap<Arc<str>, Vec<String>>) -> Value {
    let one = |(group, why): (&Arc<str>, &Vec<String>)| (group.to_string(), Value::from(why.clone()));
    Value::Object(reasons.iter().map(one).collect())
}
