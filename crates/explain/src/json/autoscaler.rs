//! The autoscaler's part of an explanation for programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::{Choice, Increase, PodView, ScaleUp};
use model::{Key, NamespacedName};
use query::autoscaler_setup::{GroupsBy, SettingsBy, Setup};
use serde_json::{Value, json};

use crate::Scaling;
use crate::played::{Outcome, Played, Search, Triggered};

/// Which autoscaler it is, and what was played.
pub(crate) fn autoscaler(setup: &Setup, played: &Played) -> Value {
    let mut shown = json!({
        "version": setup.settings.version.to_string(),
        "verified": setup.is_verified(),
        "settings": {"from": match setup.settings_by {
            SettingsBy::Nobody => "defaults",
            SettingsBy::File => "file",
            SettingsBy::History => "history",
            SettingsBy::Replay => "replay",
        }},
        "groupsFrom": match &setup.groups_by {
            GroupsBy::Nobody => json!({"from": "nothing"}),
            GroupsBy::File(name) => json!({"from": "file", "name": name}),
            GroupsBy::History(told_by) => json!({"from": "history", "name": told_by.to_string()}),
            GroupsBy::Replay => json!({"from": "replay"}),
        },
        "groups": setup.groups.iter()
            .map(|group| json!({"name": &*group.name, "min": group.min, "max": group.max}))
            .collect::<Vec<_>>(),
        "assumed": setup.assumed,
        "leftOut": setup.settings.left_out,
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

/// What it makes of a pod.
pub(crate) fn of_pod(scaling: &Scaling, key: &Key) -> Value {
    let Scaling { setup, played, seen } = scaling;
    let pod = NamespacedName { namespace: key.namespace.clone(), name: key.name.clone() };
    let mut shown = autoscaler(setup, played);
    if let Some(outcome) = &seen.outcome {
        shown["outcome"] = word(outcome).into();
        match outcome {
            Outcome::Triggers(increases) => shown["increases"] = self::increases(increases),
            Outcome::Failed(why) | Outcome::NotTried(why) => shown["why"] = why.as_str().into(),
            Outcome::Stands(PodView::FindsRoom { node, upcoming }) => {
                shown["room"] = json!({"node": &**node, "upcoming": upcoming});
            }
            Outcome::Stands(PodView::Young { until }) => shown["until"] = until.to_string().into(),
            _ => {}
        }
    }
    if let Some(search) = &seen.search {
        shown["search"] = self::search(search, &pod);
    }
    shown["triggered"] = seen.triggered.iter().map(triggered).collect();
    if let Some(said) = seen.last_said() {
        shown["event"] = json!({"reason": said.reason, "message": said.message});
    }
    shown
}

fn triggered(triggered: &Triggered) -> Value {
    let Triggered { first, last, times, increases } = triggered;
    json!({
        "at": first.to_string(),
        "lastAt": last.to_string(),
        "times": times,
        "increases": self::increases(increases),
    })
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Unknown => "unknown",
        Outcome::Scheduled => "scheduled",
        Outcome::AllYoung => "allYoung",
        Outcome::MaxNodesTotal => "maxNodesTotal",
        Outcome::NotTried(_) => "notTried",
        Outcome::Triggers(_) => "triggers",
        Outcome::Failed(_) => "failed",
        Outcome::Awaits => "awaits",
        Outcome::Refused => "refused",
        Outcome::Stands(view) => match view {
            PodView::Placed => "placed",
            PodView::Deleted => "deleted",
            PodView::NotRefused => "notRefused",
            PodView::Expendable => "expendable",
            PodView::FindsRoom { .. } => "findsRoom",
            PodView::OfDaemonSet => "ofDaemonSet",
            PodView::Young { .. } => "young",
            PodView::Waits => "waits",
        },
    }
}

fn search(search: &Search, pod: &NamespacedName) -> Value {
    let ScaleUp { result, looked_at, options, best, choice, skipped, increases, .. } = &search.found;
    let same = looked_at.iter().find(|same| same.pods.iter().any(|other| other == pod));
    let options = options.iter().map(|option| {
        json!({
            "group": &*option.group,
            "nodes": option.nodes,
            "pods": option.pods.len(),
            "helps": option.pods.iter().any(|other| other == pod),
            "similar": option.similar.iter().map(|group| &**group).collect::<Vec<_>>(),
        })
    });
    json!({
        "at": search.at.to_string(),
        "result": result.to_string(),
        "best": best.as_deref(),
        "expanders": choice.iter().map(expander).collect::<Vec<_>>(),
        "options": options.collect::<Vec<_>>(),
        "increases": self::increases(increases),
        "rejected": same.map(|same| reasons(&same.rejected)),
        "skipped": reasons(skipped),
    })
}

fn expander(choice: &Choice) -> Value {
    let score = |(group, score): &(Arc<str>, f64)| (group.to_string(), Value::from(*score));
    json!({
        "name": choice.expander.to_string(),
        "scores": choice.scores.iter().map(score).collect::<serde_json::Map<_, _>>(),
        "left": choice.left.iter().map(|group| &**group).collect::<Vec<_>>(),
        "tie": choice.tie,
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
