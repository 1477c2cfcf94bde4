//! Conversion of our autoscaler's loop results into the records that cases have.

use std::collections::BTreeMap;

use autoscaler::{DeleteResult, Event, LoopResult, ScaleUpResult, ScaleUpStatus};
use model::NamespacedName;

use super::case::second;
use super::loop_record::{self, LoopRecord, count_names};

/// The reasons of the Events that cases record.
const EVENTS: [&str; 9] = [
    "ScaleUpTimedOut",
    "ScaleUpFailed",
    "FailedToRevertScaleUp",
    "DeleteUnregistered",
    "DeleteUnregisteredFailed",
    "FailedToScaleUpGroup",
    "MaxNodesTotalReached",
    "ClusterUnhealthy",
    "ScaleDownFailed",
];

/// Names pods by their controller, or by themselves if they have none.
pub(super) type PodNames<'a> = &'a dyn Fn(&NamespacedName) -> String;

/// The record of a loop, without the events around it, which the caller adds.
pub(super) fn record_loop(result: &LoopResult, names: PodNames<'_>) -> LoopRecord {
    // A scale-up that was not attempted is not recorded along with that of groups below their minimum size.
    let is_recorded =
        |round: &&ScaleUpStatus| result.min_size_scale_up.is_none() || was_attempted(round.result);
    let mut rounds = result.scale_ups.iter().filter(is_recorded).map(|round| scale_up(round, names));
    let mut unhealthy: Vec<String> = Vec::new();
    if !result.healthy {
        unhealthy.push("cluster".to_owned());
    }
    let groups = || result.groups.iter();
    unhealthy.extend(groups().filter(|group| !group.healthy).map(|group| group.name.to_string()));
    LoopRecord {
        at: second(result.at),
        error: result.error.clone(),
        scale_up: rounds.next(),
        salvo: rounds.collect(),
        min_size_scale_up: result.min_size_scale_up.as_ref().map(|round| scale_up(round, names)),
        scale_down: scale_down(result),
        targets: groups().map(|group| (group.name.to_string(), group.target)).collect(),
        upcoming: groups().map(|group| (group.name.to_string(), group.upcoming)).collect(),
        backoff: groups().filter(|group| group.backed_off).map(|group| group.name.to_string()).collect(),
        unhealthy,
        events: result.events.iter().filter_map(event_text).collect(),
        ..LoopRecord::default()
    }
}

fn was_attempted(result: ScaleUpResult) -> bool {
    use ScaleUpResult::{Error, NoOptionsAvailable, Successful};
    matches!(result, Successful | Error | NoOptionsAvailable)
}

/// The text of an Event, if cases record its reason.
pub(super) fn event_text(event: &Event) -> Option<String> {
    let is_recorded = EVENTS.contains(&event.reason) || event.reason.starts_with("PriorityConfigMap");
    is_recorded.then(|| format!("{}: {}", event.reason, event.message))
}

fn scale_up(round: &ScaleUpStatus, names: PodNames<'_>) -> loop_record::ScaleUpRecord {
    let texts = |names: &[std::sync::Arc<str>]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
    let pods = |pods: &[NamespacedName]| count_names(pods.iter().map(names));
    let options = round.options.iter().map(|option| loop_record::ExpansionOption {
        group: option.group.to_string(),
        nodes: option.nodes,
        pods: count_names(option.pods.iter().map(names)),
        similar: texts(&option.similar_groups),
    });
    let increases = round.increases.iter().map(|one| loop_record::GroupIncrease {
        group: one.group.to_string(),
        from: one.from,
        to: one.to,
    });
    loop_record::ScaleUpRecord {
        result: round.result.to_string(),
        error: round.error.clone(),
        options: options.collect(),
        best: best(round),
        increases: increases.collect(),
        triggered: pods(&round.pods_triggered_scale_up),
        remaining: remaining(round, names),
        awaiting: pods(&round.pods_await_evaluation),
        failed_groups: texts(&round.failed_groups),
    }
}

/// The chosen group, or the first by name of it and its similar groups: which of those is chosen is random.
fn best(round: &ScaleUpStatus) -> Option<String> {
    let best = round.best_group.as_ref()?;
    let option = round.options.iter().find(|option| option.group == *best);
    let similar = option.map(|option| &option.similar_groups[..]).unwrap_or_default();
    similar.iter().chain([best]).min().map(|name| name.to_string())
}

fn remaining(round: &ScaleUpStatus, names: PodNames<'_>) -> Vec<loop_record::RemainingPods> {
    type Reasons = BTreeMap<String, Vec<String>>;
    let reasons = |all: &BTreeMap<std::sync::Arc<str>, Vec<String>>| -> Reasons {
        let sorted = |reasons: &Vec<String>| {
            let mut reasons = reasons.clone();
            reasons.sort();
            reasons
        };
        all.iter().map(|(group, reasons)| (group.to_string(), sorted(reasons))).collect()
    };
    let mut counts: BTreeMap<(String, Reasons, Reasons), i64> = BTreeMap::new();
    for one in &round.pods_remain_unschedulable {
        *counts
            .entry((names(&one.pod), reasons(&one.rejected_groups), reasons(&one.skipped_groups)))
            .or_default() += 1;
    }
    let remaining =
        |((pod, rejected, skipped), count)| loop_record::RemainingPods { pod, count, rejected, skipped };
    counts.into_iter().map(remaining).collect()
}

fn scale_down(result: &LoopResult) -> loop_record::ScaleDownRecord {
    let down = &result.scale_down;
    let text = |pod: &NamespacedName| format!("{}/{}", pod.namespace, pod.name);
    let removed = |one: &autoscaler::RemovedNode| loop_record::RemovedNode {
        node: one.node.to_string(),
        drain: one.evicted_pods.iter().map(text).collect(),
    };
    let unremovable = |one: &autoscaler::UnremovableNode| {
        let (pod, pod_reason) = one
            .blocking_pod
            .as_ref()
            .map(|(pod, reason)| (text(pod), reason.to_string()))
            .unwrap_or_default();
        loop_record::UnremovableNode {
            node: one.node.to_string(),
            reason: one.reason.to_string(),
            pod,
            pod_reason,
        }
    };
    let delete_result = |result: &DeleteResult| match result {
        DeleteResult::NodeDeleteOk => "Ok".to_owned(),
        other => other.to_string(),
    };
    loop_record::ScaleDownRecord {
        result: down.result.to_string(),
        nodes: down.removed_nodes.iter().map(removed).collect(),
        unneeded: down
            .unneeded
            .iter()
            .map(|(node, since)| loop_record::UnneededNode { node: node.to_string(), since: second(*since) })
            .collect(),
        unremovable: down.unremovable.iter().map(unremovable).collect(),
        utilization: down.utilization.iter().map(|(node, used)| (node.to_string(), *used)).collect(),
        delete_results: down
            .delete_results
            .iter()
            .map(|(node, result)| (node.to_string(), delete_result(result)))
            .collect(),
    }
}
